"""A complete search for offsets within a given capacity.

The idea is that of MiniMalloc (Moffitt, ASPLOS 2023): only canonical solutions are looked at, in which each buffer lies on
the bottom or on another one; each section of time tells early that it cannot hold what is left; and dominated choices are
left out. Here a choice is made in any section above which nothing can come to lie lower, each floor knows the choices that
have raised it, and what fails sends the search back to the last choice that had a part in it.

Pieces may belong together and move as one block: the first that is placed pins the others, which may hang in the air.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Choices: TypeAlias = int  # a set of choices: bit i for the one at depth i of the search
PLACED = 1 << 60  # stands for the floor of a buffer that has its place
NOTHING = -1  # the choice to put nothing on the floor of a section
FIRST_ROUND = 250  # nodes for each attempt; each round has twice as many as the one before


class Outcome(Enum):
    FOUND = "found"
    IMPOSSIBLE = "impossible"
    GAVE_UP = "gave up"


class Result(NamedTuple):
    """offsets: of each buffer, empty when none were found. nodes: how many choices were tried."""

    outcome: Outcome
    offsets: tuple[int, ...]
    nodes: int


class Piece(NamedTuple):
    """at: bytes from the start of its block. Live from step `first` to step `last`, both included."""

    at: int
    size: int
    first: int
    last: int


def search(lives: Sequence[tuple[int, int, int]], capacity: int, *, limit: int) -> Result:
    """As `search_blocks`, for buffers of (size, first step, last step)."""
    return search_blocks([(Piece(0, *life),) for life in lives], capacity, limit=limit)


def search_blocks(blocks: Sequence[Sequence[Piece]], capacity: int, *, limit: int) -> Result:
    """Offsets for blocks so that all ends of pieces are at most at `capacity`, or the proof that there are none.

    Sizes are positive, and no block is empty. Gives up after `limit` nodes. The same arguments give the same result on every
    machine.
    """
    table = _Table(blocks)
    nodes, share = 0, FIRST_ROUND
    while True:
        for rank, prefer in product(table.ranks, _PREFERENCES):
            attempt = _Attempt(table, capacity, rank, prefer)
            outcome = attempt.run(min(share, limit - nodes))
            nodes += attempt.nodes
            if outcome is Outcome.FOUND:
                return Result(outcome, attempt.offsets, nodes)
            if outcome is Outcome.IMPOSSIBLE or nodes >= limit:
                return Result(outcome, (), nodes)
        share *= 2


class _Table:
    """The pieces in order of time, and the sections: the times at which a set of pieces lives that is part of no other.

    inside: which piece lives in which section. meets: who lives at the same time as whom, except for pieces of one block. load:
    the bytes of each section. block: of each piece. family: of each piece that is not a block alone, all pieces of its block,
    itself among them. unit: all offsets are multiples of it.
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
        """All pieces that meet the piece or another one of its block."""
        return np.flatnonzero(np.logical_or.reduce(self.meets[self.family.get(piece, [piece])], axis=0))

    def _ranks(self) -> tuple[list[int], ...]:
        """Orders in which buffers are tried: for each its position, the first is 0."""
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
        """The sections in which any of them lives."""
        found: Flags = np.logical_or.reduce(self.inside[buffers], axis=0)
        return found


def _sections(pieces: Sequence[Piece]) -> list[int]:
    """Steps at which those who live are not all alive at another step too.

    Births only add to the living and deaths only take away: so these are the last births before a death.
    """
    births = sorted({piece.first for piece in pieces})
    deaths = sorted({piece.last for piece in pieces})
    return sorted({max(b for b in births if b <= death) for death in deaths})


class _State:
    """What is known after some choices.

    floors: of each buffer, the lowest place that it may still have. why: of each buffer, the choices that its floor comes
    from; of a placed one, the choice that placed it. ceilings: the highest place; pins: the choice that it comes from, if it
    does. Of each section: rest, the bytes to be placed; bottoms, the lowest floor; lowest, how many buffers have it; tops,
    the lowest end that a buffer may have.
    """

    __slots__ = ("bottoms", "ceilings", "floors", "lowest", "pins", "rest", "tops", "why")

    def __init__(
        self, floors: Numbers, ceilings: Numbers, why: list[Choices], pins: dict[int, Choices], *sections: Numbers
    ) -> None:
        self.floors, self.ceilings = floors, ceilings
        self.why, self.pins = why, pins
        self.rest, self.bottoms, self.lowest, self.tops = sections

    def copy(self) -> _State:
        sections = (self.rest, self.bottoms, self.lowest, self.tops)
        return _State(
            self.floors.copy(), self.ceilings.copy(), self.why.copy(), self.pins.copy(), *(s.copy() for s in sections)
        )

    def reasons(self, buffers: Iterable[int]) -> Choices:
        """The choices without which the buffers might lie lower, or not yet have a place."""
        found = 0
        for b in buffers:
            found |= self.why[b]
        return found


class _Frame:
    """A choice: which buffer lies at `height`, the floor of `section`.

    choices: the next one last. dominates: the only choice is as good as any other. conflict: earlier choices that had a part
    in the failures so far.
    """

    __slots__ = ("choices", "chosen", "conflict", "dominates", "height", "section", "state")

    def __init__(self, state: _State, section: int, choices: list[int], *, dominates: bool) -> None:
        self.state = state
        self.section = section
        self.height = int(state.bottoms[section])
        self.choices = choices
        self.dominates = dominates
        self.chosen = NOTHING
        self.conflict: Choices = 0


# Which section is chosen in first, by (branches, slack, floor), of several equal ones the earliest.
_Preference: TypeAlias = Callable[[Numbers, Numbers, Numbers], Numbers]
_PREFERENCES: tuple[_Preference, ...] = (
    lambda branches, slack, floor: np.lexsort((floor, slack, branches)),
    lambda _, slack, floor: np.lexsort((slack, floor)),
)


class _Attempt:
    """One walk through the search tree, with a limit and orders of choices."""

    def __init__(self, table: _Table, capacity: int, rank: Sequence[int], prefer: _Preference) -> None:
        self.table = table
        self.capacity = capacity
        self.rank = rank
        self.prefer = prefer
        self.nodes = 0
        self.frames: list[_Frame] = []

    @property
    def offsets(self) -> tuple[int, ...]:
        """Of each block."""
        offsets = [0] * len(self.table.heights)
        for frame in self.frames:
            if frame.chosen != NOTHING:
                offsets[self.table.block[frame.chosen]] = frame.height - int(self.table.at[frame.chosen])
        return tuple(offsets)

    def run(self, limit: int) -> Outcome:
        state = self._begin()
        while state is not None:
            frame = self._open(state)
            if frame is None:
                return Outcome.FOUND
            self.frames.append(frame)
            state = None
            while state is None and self.frames:
                frame = self.frames[-1]
                if not frame.choices:
                    self._go_back()
                    continue
                if self.nodes >= limit:
                    return Outcome.GAVE_UP
                self.nodes += 1
                frame.chosen = frame.choices.pop()
                state, conflict = self._tried(frame)
                frame.conflict |= conflict
        return Outcome.IMPOSSIBLE

    def _begin(self) -> _State | None:
        """The state before any choice; None when a section is overfull."""
        table = self.table
        ceilings = self.capacity - np.array(table.heights, np.int64)[table.block] + table.at
        if (ceilings < table.at).any():
            return None
        sections = (np.zeros(len(table.load), np.int64) for _ in range(3))
        state = _State(table.at.copy(), ceilings, [0] * len(table.at), {}, table.load.copy(), *sections)
        return state if self._settle(state, np.ones(len(table.load), np.bool_)) is None else None

    def _go_back(self) -> None:
        """To the last choice that had a part in the failure of all choices of the last frame."""
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
        """The choices of a section; None when everything is placed."""
        section = self._section(state)
        if section is None:
            return None
        table, height = self.table, int(state.bottoms[section])
        members = table.members[section]
        lowest = members[state.floors[members] == height].tolist()
        for b in lowest:
            if b in state.pins:
                return _Frame(state, section, [b], dominates=False)
        # Of buffers that are alike one is enough.
        alike = {
            (table.start[b], table.stop[b], table.sizes[b], table.block[b] if b in table.family else -1): b
            for b in reversed(lowest)
        }
        choices = sorted(alike.values(), key=self.rank.__getitem__, reverse=True)
        # Who fits below all that it meets cannot lie better.
        for b in reversed(choices):
            if self._fits_below(state, b):
                return _Frame(state, section, [b], dominates=True)
        if height + int(state.rest[section]) < self.capacity:
            choices.insert(0, NOTHING)
        return _Frame(state, section, choices, dominates=False)

    def _fits_below(self, state: _State, piece: int) -> bool:
        """Whether the whole block can lie on its floor, whatever becomes of those around it."""
        table, floors = self.table, state.floors
        return all(
            int(floors[table.meets[b]].min(initial=PLACED)) >= int(floors[b] + table.sizes[b])
            for b in table.family.get(piece, (piece,))
        )

    def _section(self, state: _State) -> int | None:
        """The preferred one of those below whose lowest buffers nothing else fits."""
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
        """The state after the frame's choice, or None and the choices that it cannot be made after."""
        state = frame.state.copy()
        choice = 1 << len(self.frames) - 1
        conflict = self._leave(state, frame, choice) if frame.chosen == NOTHING else self._place(state, frame, choice)
        return (state, 0) if conflict is None else (None, conflict)

    def _place(self, state: _State, frame: _Frame, choice: Choices) -> Choices | None:
        """The chosen buffer lies on its floor, and all that it meets and that is not placed yet above it."""
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
        """Nothing lies on the section's floor.

        Its lowest buffer then lies on a placed one that is higher, or on one that is still to come and not of this section.
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
        """The lowest place above its floor for a piece that is the lowest of a section: some piece of its block must rest there.

        All that has its place and meets the block lies below already.
        """
        table, floors = self.table, state.floors
        ends = np.where(floors == PLACED, PLACED, floors + table.sizes)
        lowest = PLACED
        for b in table.family.get(piece, (piece,)):
            under = table.meets[b] & ~table.inside[:, section] if b == piece else table.meets[b]
            shift = int(table.at[b] - table.at[piece])
            for end in np.unique(ends[under]).tolist():
                if end < PLACED:  # who may end below the floor can end anywhere above it
                    lowest = min(lowest, max(end - shift, int(floors[piece]) + table.unit))
        return lowest

    # --- conclusions -----------------------------------------------------------------------------------------------------

    def _raise(self, state: _State, piece: int, floor: int, because: Choices) -> Choices | None:
        """Give a piece, and so its block, a higher floor. The choices that cannot stand together, when that is too high."""
        table = self.table
        if floor > state.ceilings[piece]:
            return because | state.pins.get(piece, 0)
        state.floors[piece], state.why[piece] = floor, because
        for b in table.family.get(piece, ()):
            state.floors[b], state.why[b] = floor + int(table.at[b] - table.at[piece]), because
        return None

    def _families(self, pieces: Sequence[int]) -> list[int]:
        """The pieces and all that belong to them."""
        return [b for piece in pieces for b in self.table.family.get(piece, (piece,))]

    def _settle(self, state: _State, changed: Flags) -> Choices | None:
        """Raise floors as far as they must be. The choices that cannot stand together, when a section has too little room."""
        while changed.any():
            crowd = _Crowd(self.table, state, np.flatnonzero(changed))
            if (conflict := crowd.overflow(state, self.capacity)) is not None:
                return conflict
            raised: list[int] = []
            for b, floor, because in crowd.raised(state, self.capacity):
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
    """The buffers without a place of some sections, by their floors.

    floors, ends: lowest places and ends that they may have. here: which of them lives in which of the sections.
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
        """Whether those from some floor on are too many for a section, and which choices that comes from."""
        above = self.bytes[::-1].cumsum(axis=0)[::-1]
        over = (self.floors[:, None] + above > capacity) & self.here
        rows = np.flatnonzero(over.any(axis=1))
        if not len(rows):
            return None
        row = rows[-1]
        section = over[row].argmax()
        return state.reasons(self.buffers[row:][self.here[row:, section]].tolist())

    def raised(self, state: _State, capacity: int) -> list[tuple[int, int, Choices]]:
        """Buffers that cannot lie on their floors, since all that cannot end below must then lie above: with better floors."""
        ends = self.ends[self.by_end]
        later = np.zeros((len(ends) + 1, len(self.sections)), np.int64)  # bytes of those from the nth end on
        later[:-1] = self.bytes[self.by_end][::-1].cumsum(axis=0)[::-1]
        tight = (self.floors[:, None] + later[np.searchsorted(ends, self.floors, "right")] > capacity) & self.here
        found = []
        for row in np.flatnonzero(tight.any(axis=1)).tolist():
            best = 0
            for section in np.flatnonzero(tight[row]).tolist():
                others = ends[self.here[self.by_end, section]]
                others = others[others > self.floors[row]]
                fits = others + later[np.searchsorted(ends, others, "right"), section] <= capacity
                # Above the last end there is nobody else, and that is too high.
                floor = int(others[fits.argmax()]) if fits.any() else capacity
                if floor > best:
                    best, where = floor, section
            those = self.buffers[self.here[:, where] & (self.ends > self.floors[row])]
            found.append((int(self.buffers[row]), best, state.reasons(those.tolist())))
        return found

    def note(self, state: _State) -> None:
        """Write down what the sections are like."""
        if not len(self.buffers):
            state.bottoms[self.sections] = state.tops[self.sections] = PLACED
            return
        some = self.here.any(axis=0)
        bottoms = self.floors[self.here.argmax(axis=0)]
        state.bottoms[self.sections] = np.where(some, bottoms, PLACED)
        state.lowest[self.sections] = (self.here & (self.floors[:, None] == bottoms)).sum(axis=0)
        ends = self.ends[self.by_end][self.here[self.by_end].argmax(axis=0)]
        state.tops[self.sections] = np.where(some, ends, PLACED)
