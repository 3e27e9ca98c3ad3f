"""A complete search for offsets within a given capacity.

It follows MiniMalloc (Moffitt, ASPLOS 2023): it visits only canonical solutions, in which each buffer lies at the bottom or
on another buffer; it prunes when a section of time cannot hold its remaining buffers; and it skips dominated choices. In
addition, it may branch in any section whose lowest buffers nothing else can slip below, each floor records the choices that
raised it, and a failure backtracks to the last choice that contributed to it (conflict-directed backjumping).

Pieces of one block move together: the first one placed pins the others, which need not rest on anything.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.memory.budget import Budget

Numbers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Choices: TypeAlias = int  # a set of choices: bit i for the one at depth i of the search
PLACED = 1 << 60  # the "floor" of a placed buffer
NOTHING = -1  # the choice to leave the floor of a section empty
FIRST_ROUND = 250  # nodes per attempt; doubles each round


# What parts of the search cost, in steps of the budget.
_PAIRS = 4  # pairs of pieces, whose relations are stored
_NODE = 2_000
_CELLS = 10  # cells of a crowd
_TIGHT = 200


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


class Piece(NamedTuple):
    """at: bytes from the start of its block. Live from step `first` to step `last`, inclusive."""

    at: int
    size: int
    first: int
    last: int


def search_blocks(
    blocks: Sequence[Sequence[Piece]], capacity: int, *, limit: int, budget: Budget | None = None
) -> Result:
    """Offsets for which all pieces end within `capacity`, or a proof that there are none.

    Sizes are positive, and no block is empty. Gives up after `limit` nodes, or when the budget is spent. Deterministic on all
    machines.
    """
    budget = budget or Budget(PLACED)  # without one: no end but that of nodes
    budget.spend(sum(map(len, blocks)) ** 2 // _PAIRS)
    if budget.is_spent:
        return Result(SearchStatus.GAVE_UP, (), 0)
    table = _Table(blocks)
    nodes, share = 0, FIRST_ROUND
    while True:
        for rank, prefer in product(table.ranks, _PREFERENCES):
            attempt = _Attempt(table, capacity, rank, prefer, budget)
            status = attempt.run(min(share, limit - nodes))
            nodes += attempt.nodes
            if status is SearchStatus.FOUND:
                return Result(status, attempt.offsets, nodes)
            if status is SearchStatus.IMPOSSIBLE or nodes >= limit or budget.is_spent:
                return Result(status, (), nodes)
        share *= 2


class _Table:
    """The pieces in order of time, and the sections: steps with a maximal set of live pieces.

    inside: (piece, section), whether it is live there. meets: (piece, piece), whether both are live at some step and belong
    to different blocks. load: bytes per section. block: per piece. family: piece -> all pieces of its block, for blocks of
    several pieces. unit: divides all offsets.
    """

    def __init__(self, blocks: Sequence[Sequence[Piece]]) -> None:
        pieces = [piece for block in blocks for piece in block]
        steps = np.array(_sections(pieces), np.int64)
        at, sizes, first, last = np.array(pieces, np.int64).reshape(-1, 4).T
        start, stop = np.searchsorted(steps, first), np.searchsorted(steps, last, "right")
        order = np.lexsort((at, sizes, stop, start))
        self.block: Numbers = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])[order]
        self.at: Numbers = at[order]
        self.sizes: Numbers = sizes[order]
        self.start, self.stop = start[order], stop[order]
        sections = np.arange(len(steps))
        self.inside: Flags = (self.start[:, None] <= sections) & (sections < self.stop[:, None])
        self.members = [np.flatnonzero(column) for column in self.inside.T]
        together = (self.start[:, None] < self.stop) & (self.start < self.stop[:, None])
        self.meets: Flags = together & (self.block[:, None] != self.block)
        self.load: Numbers = self.inside.T.astype(np.int64) @ self.sizes
        self.family: dict[int, list[int]] = {}
        for block in (i for i, those in enumerate(blocks) if len(those) > 1):
            family = np.flatnonzero(self.block == block).tolist()
            self.family |= dict.fromkeys(family, family)
        self.heights = [max(piece.at + piece.size for piece in block) for block in blocks]
        self.unit = math.gcd(*(n for piece in pieces for n in (piece.at, piece.size)))
        self.ranks = self._ranks()

    def around(self, piece: int) -> Numbers:
        """All pieces that meet the piece's block."""
        return np.flatnonzero(np.logical_or.reduce(self.meets[self.family.get(piece, [piece])], axis=0))

    def _ranks(self) -> tuple[list[int], ...]:
        """Orders of trying buffers: the rank of each buffer, from 0."""
        length, size = self.stop - self.start, self.sizes
        fullest = np.where(self.inside, self.load, 0).max(axis=1, initial=0)
        orders = (
            np.lexsort((-size, -length, -fullest)),
            np.lexsort((-length, -length * size)),
            np.lexsort((-size, -length)),
            np.lexsort((-length, -size)),
        )
        return tuple(np.argsort(order).tolist() for order in orders)

    def lives(self, buffers: Sequence[int] | Numbers) -> Flags:
        """The sections in which any of them is live."""
        live: Flags = np.logical_or.reduce(self.inside[buffers], axis=0)
        return live


def _sections(pieces: Sequence[Piece]) -> list[int]:
    """Steps whose live set is not part of another step's: the last births before each death."""
    births = sorted({piece.first for piece in pieces})
    deaths = sorted({piece.last for piece in pieces})
    return sorted({max(b for b in births if b <= death) for death in deaths})


@dataclass(slots=True)
class _State:
    """The state after some choices.

    Per buffer: floors, the lowest possible offset; why, the choices behind its floor, or the choice that placed it; ceilings,
    the highest possible offset; pins, the choice behind the ceiling, if any. Per section: rest, the bytes still to be
    placed; bottoms, the lowest floor; lowest, the number of buffers on it; tops, the lowest possible end of a buffer.
    """

    floors: Numbers
    ceilings: Numbers
    why: list[Choices]
    pins: dict[int, Choices]
    rest: Numbers
    bottoms: Numbers
    lowest: Numbers
    tops: Numbers

    def copy(self) -> _State:
        return _State(*(getattr(self, name).copy() for name in self.__slots__))

    def reasons(self, buffers: Iterable[int]) -> Choices:
        """The choices behind the floors or offsets of the buffers."""
        return reduce(operator.or_, (self.why[b] for b in buffers), 0)


@dataclass(slots=True)
class _Frame:
    """A branching point: which buffer lies at `height`, the floor of `section`.

    choices: in reverse order. dominates: the single choice is at least as good as any other. conflict: the earlier choices
    that contributed to the failures so far.
    """

    state: _State
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
_PREFERENCES: tuple[_Preference, ...] = (
    lambda branches, slack, floor: np.lexsort((floor, slack, branches)),
    lambda _, slack, floor: np.lexsort((slack, floor)),
)


@dataclass
class _Attempt:
    """One traversal of the search tree, with its orders of sections and buffers."""

    table: _Table
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

    def run(self, limit: int) -> SearchStatus:
        try:
            return self._run(limit)
        except _SpentError:
            return SearchStatus.GAVE_UP

    def _run(self, limit: int) -> SearchStatus:
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
                if self.nodes >= limit:
                    return SearchStatus.GAVE_UP
                self.nodes += 1
                self.budget.spend(_NODE)
                frame.chosen = frame.choices.pop()
                state, conflict = self._tried(frame)
                frame.conflict |= conflict
        return SearchStatus.IMPOSSIBLE

    def _begin(self) -> _State | None:
        """The state before any choice; None if a section is overfull."""
        table = self.table
        ceilings = self.capacity - np.array(table.heights, np.int64)[table.block] + table.at
        if (ceilings < table.at).any():
            return None
        sections = (np.zeros(len(table.load), np.int64) for _ in range(3))
        state = _State(table.at.copy(), ceilings, [0] * len(table.at), {}, table.load.copy(), *sections)
        return state if self._settle(state, np.ones(len(table.load), np.bool_)) is None else None

    def _go_back(self) -> None:
        """Backjump to the last choice that contributed to the failure of the last frame."""
        frame, state = self.frames[-1], self.frames[-1].state
        conflict = frame.conflict | state.reasons(self.table.members[frame.section].tolist())
        if frame.dominates:
            conflict |= state.reasons(self.table.around(frame.chosen).tolist())
        conflict &= (1 << len(self.frames) - 1) - 1
        del self.frames[conflict.bit_length() :]
        if self.frames:
            self.frames[-1].conflict |= conflict

    # --- choices ---------------------------------------------------------------------------------------------------------

    def _open(self, state: _State) -> _Frame | None:
        """The next branching point; None if all buffers are placed."""
        section = self._section(state)
        if section is None:
            return None
        table, height = self.table, int(state.bottoms[section])
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

    def _fits_below(self, state: _State, piece: int) -> bool:
        """Whether the block can lie on its floor wherever its neighbors end up."""
        table, floors = self.table, state.floors
        return all(
            int(floors[table.meets[b]].min(initial=PLACED)) >= int(floors[b] + table.sizes[b])
            for b in table.family.get(piece, (piece,))
        )

    def _section(self, state: _State) -> int | None:
        """The preferred section whose lowest buffers nothing else can slip below."""
        still = np.flatnonzero(state.rest)
        floor = state.bottoms[still]
        slack = self.capacity - floor - state.rest[still]
        branches = state.lowest[still] + (slack > 0)
        for section in still[self.prefer(branches, slack, floor)].tolist():
            height = state.bottoms[section]
            members = self.table.members[section]
            members = members[state.floors[members] == height]
            start, stop = self.table.start[members].min(), self.table.stop[members].max()
            if (state.tops[start:stop] > height).all():
                return int(section)
        assert not len(still), "there is always a lowest section"
        return None

    def _tried(self, frame: _Frame) -> tuple[_State | None, Choices]:
        """The state after the frame's choice, or None and the choices it conflicts with."""
        state = frame.state.copy()
        choice = 1 << len(self.frames) - 1
        conflict = self._leave(state, frame, choice) if frame.chosen == NOTHING else self._place(state, frame, choice)
        return (state, 0) if conflict is None else (None, conflict)

    def _place(self, state: _State, frame: _Frame, choice: Choices) -> Choices | None:
        """Place the chosen buffer on its floor, and all unplaced buffers that it meets above it."""
        table, b, floors = self.table, frame.chosen, state.floors
        top = frame.height + int(table.sizes[b])
        for c in table.family.get(b, ()):
            if floors[c] < PLACED and c not in state.pins:
                state.ceilings[c], state.why[c], state.pins[c] = floors[c], choice, choice
        floors[b], state.why[b] = PLACED, choice
        here = table.inside[b]
        state.rest[here] -= table.sizes[b]
        raised = np.flatnonzero(table.meets[b] & (floors < top)).tolist()
        for c in raised:
            if floors[c] < top and (conflict := self._raise(state, c, top, state.why[c] | choice)) is not None:
                return conflict
        return self._settle(state, here | table.lives(self._families(raised)))

    def _leave(self, state: _State, frame: _Frame, choice: Choices) -> Choices | None:
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

    def _next_rest(self, state: _State, piece: int, section: int) -> int:
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

    def _raise(self, state: _State, piece: int, floor: int, because: Choices) -> Choices | None:
        """Raise the floor of a piece and its block. Returns the conflicting choices if that is too high."""
        table = self.table
        if floor > state.ceilings[piece]:
            return because | state.pins.get(piece, 0)
        state.floors[piece], state.why[piece] = floor, because
        for b in table.family.get(piece, ()):
            state.floors[b], state.why[b] = floor + int(table.at[b] - table.at[piece]), because
        return None

    def _families(self, pieces: Sequence[int]) -> list[int]:
        """All pieces of the pieces' blocks."""
        return [b for piece in pieces for b in self.table.family.get(piece, (piece,))]

    def _settle(self, state: _State, changed: Flags) -> Choices | None:
        """Raise floors as far as implied. Returns the conflicting choices if a section has too little room."""
        while changed.any():
            crowd = _Crowd(self.table, state, np.flatnonzero(changed))
            self.budget.spend(crowd.here.size // _CELLS)
            if self.budget.is_spent:
                raise _SpentError
            if (conflict := crowd.overflow(state, self.capacity)) is not None:
                return conflict
            raised: list[int] = []
            for b, floor, because in crowd.raised(state, self.capacity, self.budget):
                if floor > state.floors[b]:
                    if (conflict := self._raise(state, b, floor, because)) is not None:
                        return conflict
                    raised.append(b)
            if not raised:
                crowd.note(state)
                return None
            changed = changed | self.table.lives(self._families(raised))
        return None


class _Crowd:
    """The unplaced buffers of some sections, sorted by floor.

    floors, ends: their lowest possible offsets and ends. here: (buffer, section), whether it is live there.
    """

    def __init__(self, table: _Table, state: _State, sections: Numbers) -> None:
        self.sections = sections
        inside = table.inside[:, sections]
        buffers = np.flatnonzero(inside.any(axis=1) & (state.floors < PLACED))
        self.buffers = buffers[np.argsort(state.floors[buffers], kind="stable")]
        self.floors = state.floors[self.buffers]
        self.here = inside[self.buffers]
        sizes = table.sizes[self.buffers]
        self.bytes = np.where(self.here, sizes[:, None], 0)
        self.ends = self.floors + sizes
        self.by_end = np.argsort(self.ends, kind="stable")

    def overflow(self, state: _State, capacity: int) -> Choices | None:
        """The choices behind a section whose buffers above some floor do not fit; None if all fit."""
        above = self.bytes[::-1].cumsum(axis=0)[::-1]
        over = (self.floors[:, None] + above > capacity) & self.here
        rows = np.flatnonzero(over.any(axis=1))
        if not len(rows):
            return None
        row = rows[-1]
        section = over[row].argmax()
        return state.reasons(self.buffers[row:][self.here[row:, section]].tolist())

    def raised(self, state: _State, capacity: int, budget: Budget) -> list[tuple[int, int, Choices]]:
        """Higher floors for buffers that cannot lie on theirs, as too many others would have to lie above."""
        ends = self.ends[self.by_end]
        later = np.zeros((len(ends) + 1, len(self.sections)), np.int64)  # bytes of those from the nth end on
        later[:-1] = self.bytes[self.by_end][::-1].cumsum(axis=0)[::-1]
        tight = (self.floors[:, None] + later[np.searchsorted(ends, self.floors, "right")] > capacity) & self.here
        raised = []
        budget.spend(_TIGHT * int(tight.sum()))
        if budget.is_spent:
            raise _SpentError
        for row in np.flatnonzero(tight.any(axis=1)).tolist():
            best = 0
            for section in np.flatnonzero(tight[row]).tolist():
                others = ends[self.here[self.by_end, section]]
                others = others[others > self.floors[row]]
                fits = others + later[np.searchsorted(ends, others, "right"), section] <= capacity
                # Above the last end there are no others; that is too high.
                floor = int(others[fits.argmax()]) if fits.any() else capacity
                if floor > best:
                    best, where = floor, section
            those = self.buffers[self.here[:, where] & (self.ends > self.floors[row])]
            raised.append((int(self.buffers[row]), best, state.reasons(those.tolist())))
        return raised

    def note(self, state: _State) -> None:
        """Store the summary of the sections."""
        if not len(self.buffers):
            state.bottoms[self.sections] = state.tops[self.sections] = PLACED
            return
        some = self.here.any(axis=0)
        bottoms = self.floors[self.here.argmax(axis=0)]
        state.bottoms[self.sections] = np.where(some, bottoms, PLACED)
        state.lowest[self.sections] = (self.here & (self.floors[:, None] == bottoms)).sum(axis=0)
        ends = self.ends[self.by_end][self.here[self.by_end].argmax(axis=0)]
        state.tops[self.sections] = np.where(some, ends, PLACED)
