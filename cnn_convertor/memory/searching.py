"""A complete search for offsets within a given capacity.

It follows MiniMalloc (Moffitt, ASPLOS 2023): it visits only canonical solutions, in which each buffer lies at the bottom or
on another buffer; it prunes when a section of time cannot hold its remaining buffers; and it skips dominated choices. In
addition, it may branch in any section whose lowest buffers nothing else can slip below, each floor records the choices that
raised it, and a failure backtracks to the last choice that contributed to it (conflict-directed backjumping).

Pieces of one block move together: the first one placed pins the others, which need not rest on anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.budget import Budget
from cnn_convertor.memory.search_state import PLACED, Choices, Crowd, Flags, Numbers, Piece, SearchState, Table

NOTHING = -1  # the choice to leave the floor of a section empty

# What parts of the search cost, in steps of the budget.
_PAIRS = 4  # pairs of pieces, whose relations are stored
_NODE = 2_000
_CELLS = 10  # cells of a crowd
_TIGHT = 50  # buffers that cannot lie on their floors


class _SpentError(Exception):
    """The budget is spent."""


class SearchStatus(Enum):
    FOUND = "found"
    IMPOSSIBLE = "impossible"
    GAVE_UP = "gave up"


class Result(NamedTuple):
    """offsets: of each block, empty if none were found. nodes: the number of choices tried."""

    status: SearchStatus
    offsets: tuple[int, ...]
    nodes: int


def search_blocks(
    blocks: Sequence[Sequence[Piece]], capacity: int, *, limit: int, budget: Budget | None = None
) -> Result:
    """Offsets for which all pieces end within `capacity`, or a proof that there are none.

    Sizes are positive, and no block is empty. Gives up after `limit` nodes, or when the budget is spent; at once if there are
    more pieces than nodes. Deterministic on all machines.
    """
    budget = budget or Budget(PLACED)  # without one: no end but that of nodes
    count = sum(map(len, blocks))
    if count > limit:
        return Result(SearchStatus.GAVE_UP, (), 0)
    budget.spend(count**2 // _PAIRS)
    if budget.is_spent:
        return Result(SearchStatus.GAVE_UP, (), 0)
    table = Table(blocks)
    nodes = 0
    undone = max(count * 5 // 9, 250)  # choices that an attempt may take back; doubles each round
    while True:
        for prefer, rank in _STRATEGIES:
            attempt = _Attempt(table, capacity, table.ranks[rank], prefer, budget)
            status = attempt.run(undone, limit - nodes)
            nodes += attempt.nodes
            if status is SearchStatus.FOUND:
                return Result(status, attempt.offsets, nodes)
            if status is SearchStatus.IMPOSSIBLE or nodes >= limit or budget.is_spent:
                return Result(status, (), nodes)
        undone *= 2


@dataclass(slots=True)
class _Frame:
    """A branching point: which buffer lies at `height`, the floor of `section`.

    choices: in reverse order. dominates: the single choice is at least as good as any other. conflict: the earlier choices
    that contributed to the failures so far.
    """

    state: SearchState
    section: int
    choices: list[int]
    dominates: bool = False
    chosen: int = NOTHING
    conflict: Choices = 0

    @property
    def height(self) -> int:
        return int(self.state.bottoms[self.section])


# The order of sections to branch in, from (branches, slack, floor); ties go to the earliest.
_Preference: TypeAlias = Callable[[Numbers, Numbers, Numbers], Numbers]


def _fewest_branches(branches: Numbers, slack: Numbers, floor: Numbers) -> Numbers:
    return np.lexsort((floor, slack, branches))


def _lowest(_: Numbers, slack: Numbers, floor: Numbers) -> Numbers:
    return np.lexsort((slack, floor))


# Orders of sections and of buffers; the first ones solve most of MiniMalloc's instances with few choices taken back.
_STRATEGIES: tuple[tuple[_Preference, str], ...] = (
    (_lowest, "fullest"),
    (_fewest_branches, "largest"),
    (_lowest, "largest"),
    (_fewest_branches, "fullest"),
)


@dataclass
class _Attempt:
    """One traversal of the search tree, with its orders of sections and buffers."""

    table: Table
    capacity: int
    rank: Sequence[int]
    prefer: _Preference
    budget: Budget
    nodes: int = 0
    frames: list[_Frame] = field(default_factory=list)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Of each block."""
        offsets = [0] * len(self.table.heights)
        for frame in self.frames:
            if frame.chosen != NOTHING:
                offsets[self.table.block[frame.chosen]] = frame.height - int(self.table.at[frame.chosen])
        return tuple(offsets)

    def run(self, undone: int, limit: int) -> SearchStatus:
        """undone: limit of choices taken back. limit: of nodes."""
        try:
            return self._run(undone, limit)
        except _SpentError:
            return SearchStatus.GAVE_UP

    def _run(self, undone: int, limit: int) -> SearchStatus:
        state = self._begin()
        while state is not None:
            frame = self._open(state)
            if frame is None:
                return SearchStatus.FOUND
            self.frames.append(frame)
            state = None
            while state is None and self.frames:
                frame = self.frames[-1]
                if not frame.choices:
                    self._go_back()
                    continue
                if self.nodes >= limit or self.nodes - len(self.frames) >= undone:
                    return SearchStatus.GAVE_UP
                self.nodes += 1
                self.budget.spend(_NODE)
                frame.chosen = frame.choices.pop()
                state, conflict = self._tried(frame)
                frame.conflict |= conflict
        return SearchStatus.IMPOSSIBLE

    def _begin(self) -> SearchState | None:
        """The state before any choice; None if a section is overfull."""
        table = self.table
        ceilings = self.capacity - np.array(table.heights, np.int64)[table.block] + table.at
        if (ceilings < table.at).any():
            return None
        sections = (np.zeros(len(table.load), np.int64) for _ in range(3))
        state = SearchState(table.at.copy(), ceilings, [0] * len(table.at), {}, table.load.copy(), *sections)
        return state if self._settle(state, np.ones(len(table.load), np.bool_)) is None else None

    def _go_back(self) -> None:
        """Backjump to the last choice that contributed to the failure of the last frame."""
        frame = self.frames[-1]
        state = self.frames[-1].state
        conflict = frame.conflict | state.reasons(self.table.members[frame.section].tolist())
        if frame.dominates:
            conflict |= state.reasons(self.table.around(frame.chosen).tolist())
        conflict &= (1 << len(self.frames) - 1) - 1
        del self.frames[conflict.bit_length() :]
        if self.frames:
            self.frames[-1].conflict |= conflict

    # --- choices ---------------------------------------------------------------------------------------------------------

    def _open(self, state: SearchState) -> _Frame | None:
        """The next branching point; None if all buffers are placed."""
        section = self._section(state)
        if section is None:
            return None
        table = self.table
        height = int(state.bottoms[section])
        members = table.members[section]
        lowest = members[state.floors[members] == height].tolist()
        for b in lowest:
            if b in state.pins:
                return _Frame(state, section, [b])
        # One of several identical buffers is enough.
        alike = {
            (table.start[b], table.stop[b], table.sizes[b], table.block[b] if b in table.family else -1): b
            for b in reversed(lowest)
        }
        choices = sorted(alike.values(), key=self.rank.__getitem__, reverse=True)
        # A buffer that fits below all it meets cannot be placed better.
        for b in reversed(choices):
            if self._fits_below(state, b):
                return _Frame(state, section, [b], dominates=True)
        if height + int(state.rest[section]) < self.capacity:
            choices.insert(0, NOTHING)
        return _Frame(state, section, choices)

    def _fits_below(self, state: SearchState, piece: int) -> bool:
        """Whether the block can lie on its floor wherever its neighbors end up."""
        table, floors = self.table, state.floors
        return all(
            int(floors[table.meets[b]].min(initial=PLACED)) >= int(floors[b] + table.sizes[b])
            for b in table.family.get(piece, (piece,))
        )

    def _section(self, state: SearchState) -> int | None:
        """The preferred section whose lowest buffers nothing else can slip below."""
        still = np.flatnonzero(state.rest)
        floor = state.bottoms[still]
        slack = self.capacity - floor - state.rest[still]
        branches = state.lowest[still] + (slack > 0)
        for section in still[self.prefer(branches, slack, floor)].tolist():
            height = state.bottoms[section]
            members = self.table.members[section]
            members = members[state.floors[members] == height]
            start = self.table.start[members].min()
            stop = self.table.stop[members].max()
            if (state.tops[start:stop] > height).all():
                return int(section)
        assert not len(still), "there is always a lowest section"
        return None

    def _tried(self, frame: _Frame) -> tuple[SearchState | None, Choices]:
        """The state after the frame's choice, or None and the choices it conflicts with."""
        state = frame.state.copy()
        choice = 1 << len(self.frames) - 1
        conflict = self._leave(state, frame, choice) if frame.chosen == NOTHING else self._place(state, frame, choice)
        return (state, 0) if conflict is None else (None, conflict)

    def _place(self, state: SearchState, frame: _Frame, choice: Choices) -> Choices | None:
        """Place the chosen buffer on its floor, and all unplaced buffers that it meets above it."""
        table = self.table
        b = frame.chosen
        floors = state.floors
        top = frame.height + int(table.sizes[b])
        for c in table.family.get(b, ()):
            if floors[c] < PLACED and c not in state.pins:
                state.ceilings[c] = floors[c]
                state.why[c] = choice
                state.pins[c] = choice
        floors[b] = PLACED
        state.why[b] = choice
        here = table.inside[b]
        state.rest[here] -= table.sizes[b]
        raised = np.flatnonzero(table.meets[b] & (floors < top)).tolist()
        for c in raised:
            if floors[c] < top and (conflict := self._raise(state, c, top, state.why[c] | choice)) is not None:
                return conflict
        return self._settle(state, here | table.lives(self._families(raised)))

    def _leave(self, state: SearchState, frame: _Frame, choice: Choices) -> Choices | None:
        """Leave the section's floor empty.

        Its lowest buffer then rests on a higher placed one, or on an unplaced one outside the section.
        """
        table, floors = self.table, state.floors
        members = table.members[frame.section]
        because = choice | state.reasons(members.tolist())
        members = members[floors[members] < PLACED]
        lowest = PLACED
        for b in members.tolist():
            floor = int(floors[b])
            if floor == frame.height:
                floor = self._next_rest(state, b, frame.section)
                because |= state.reasons(table.around(b).tolist())
            lowest = min(lowest, floor)
        if lowest + int(state.rest[frame.section]) > self.capacity:
            return because
        raised = members[floors[members] < lowest].tolist()
        for b in raised:
            if floors[b] < lowest and (conflict := self._raise(state, b, lowest, because)) is not None:
                return conflict
        return self._settle(state, table.lives(self._families(raised)))

    def _next_rest(self, state: SearchState, piece: int, section: int) -> int:
        """The lowest offset above its floor at which a piece of the block rests, for the lowest piece of a section.

        All placed pieces that meet the block are already below it.
        """
        table, floors = self.table, state.floors
        ends = np.where(floors == PLACED, PLACED, floors + table.sizes)
        lowest = PLACED
        for b in table.family.get(piece, (piece,)):
            under = table.meets[b] & ~table.inside[:, section] if b == piece else table.meets[b]
            shift = int(table.at[b] - table.at[piece])
            for end in np.unique(ends[under]).tolist():
                if end < PLACED:  # a piece that may end below the floor may end anywhere above it
                    lowest = min(lowest, max(end - shift, int(floors[piece]) + table.unit))
        return lowest

    # --- conclusions -----------------------------------------------------------------------------------------------------

    def _raise(self, state: SearchState, piece: int, floor: int, because: Choices) -> Choices | None:
        """Raise the floor of a piece and its block. Returns the conflicting choices if that is too high."""
        table = self.table
        if floor > state.ceilings[piece]:
            return because | state.pins.get(piece, 0)
        state.floors[piece] = floor
        state.why[piece] = because
        for b in table.family.get(piece, ()):
            state.floors[b] = floor + int(table.at[b] - table.at[piece])
            state.why[b] = because
        return None

    def _families(self, pieces: Sequence[int]) -> list[int]:
        """All pieces of the pieces' blocks."""
        return [b for piece in pieces for b in self.table.family.get(piece, (piece,))]

    def _settle(self, state: SearchState, changed: Flags) -> Choices | None:
        """Raise floors as far as implied. Returns the conflicting choices if a section has too little room."""
        while changed.any():
            crowd = Crowd(self.table, state, np.flatnonzero(changed), self.capacity)
            self.budget.spend(crowd.here.size // _CELLS)
            if self.budget.is_spent:
                raise _SpentError
            if (conflict := crowd.overflow(state)) is not None:
                return conflict
            crowd.note(state)
            self.budget.spend(_TIGHT * len(crowd.tight))
            raised: list[int] = []
            for b, floor, because in crowd.raised(state):
                if floor > state.floors[b]:
                    if (conflict := self._raise(state, b, floor, because)) is not None:
                        return conflict
                    raised.append(b)
            changed = self.table.lives(self._families(raised))
        return None
