"""A complete search for offsets within a given capacity.

The idea is that of MiniMalloc (Moffitt, ASPLOS 2023): only canonical solutions are looked at, in which each buffer lies on
the bottom or on another one; each section of time tells early that it cannot hold what is left; and dominated choices are
left out. Here the search goes up from the lowest section, which also allows to solve independent times apart and to
remember what has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]
PLACED = np.int64(1) << 60  # stands for the floor of a buffer that has its place
NOTHING = -1  # the choice to put nothing on the floor of a section
FIRST_ROUND = 250  # nodes for each order; each round has three times as many as the one before


class Outcome(Enum):
    FOUND = "found"
    IMPOSSIBLE = "impossible"
    GAVE_UP = "gave up"


class Result(NamedTuple):
    """offsets: of each buffer, empty when none were found. nodes: how many states were looked at."""

    outcome: Outcome
    offsets: tuple[int, ...]
    nodes: int


def search(lives: Sequence[tuple[int, int, int]], capacity: int, *, limit: int) -> Result:
    """Offsets below `capacity` for buffers of (size, first step, last step), or the proof that there are none.

    Gives up after about `limit` nodes. The same arguments give the same result on every machine.
    """
    table = _Table(lives)
    failed: set[tuple[int, bytes]] = set()
    nodes, share = 0, FIRST_ROUND
    while True:
        for rank in table.ranks:
            attempt = _Attempt(table, capacity, rank, failed)
            outcome = attempt.run(min(share, limit - nodes))
            nodes += attempt.nodes
            if outcome is Outcome.FOUND:
                return Result(outcome, table.in_given_order(attempt.offsets), nodes)
            if outcome is Outcome.IMPOSSIBLE or nodes >= limit:
                return Result(outcome, (), nodes)
        share *= 3


class _Table:
    """The buffers in order of time, and the sections: the times at which a set of buffers lives that is part of no other.

    spans: of each buffer, its sections from start to stop. members: the buffers of all sections, one section after the
    other, each from its start. meets: who lives at the same time as whom. begins: the first buffer of each section.
    """

    def __init__(self, lives: Sequence[tuple[int, int, int]]) -> None:
        steps = _sections(lives)
        spans = [
            (sum(t < first for t in steps), sum(t <= last for t in steps)) for _, first, last in lives
        ]  # fmt: skip
        self.order = sorted(range(len(lives)), key=lambda i: (*spans[i], lives[i][0]))
        self.sizes: Numbers = np.array([lives[i][0] for i in self.order], np.int64)
        self.spans = [spans[i] for i in self.order]
        start, stop = np.array(self.spans, np.int64).T
        inside = (start[:, None] <= np.arange(len(steps))) & (np.arange(len(steps)) < stop[:, None])
        self.members = [np.flatnonzero(inside[:, t]) for t in range(len(steps))]
        self.joined = np.concatenate(self.members)
        self.starts = np.cumsum([0, *(len(m) for m in self.members)])
        self.meets = (start[:, None] < stop) & (start < stop[:, None]) & ~np.eye(len(lives), dtype=bool)
        self.begins = np.searchsorted(start, np.arange(len(steps) + 1))
        self.rest: Numbers = inside.T.astype(np.int64) @ self.sizes
        self.crossing = np.array([np.count_nonzero(inside[:, t] & inside[:, t + 1]) for t in range(len(steps) - 1)])
        self.ranks = self._ranks()

    def _ranks(self) -> tuple[list[int], ...]:
        """Orders in which buffers are tried: for each its keys, of which the smallest comes first."""
        lengths = [stop - start for start, stop in self.spans]
        sizes = self.sizes.tolist()
        fullest = [int(self.rest[start:stop].max()) for start, stop in self.spans]
        everyone = range(len(sizes))
        keys = (
            lambda i: (-fullest[i], -lengths[i], -sizes[i]),
            lambda i: (-lengths[i] * sizes[i], -lengths[i]),
            lambda i: (-lengths[i], -sizes[i]),
            lambda i: (-sizes[i], -lengths[i]),
        )
        ranks = []
        for key in keys:
            place = [0] * len(sizes)
            for position, buffer in enumerate(sorted(everyone, key=key)):
                place[buffer] = position
            ranks.append(place)
        return tuple(ranks)

    def in_given_order(self, offsets: dict[int, int]) -> tuple[int, ...]:
        given = [0] * len(self.order)
        for mine, theirs in enumerate(self.order):
            given[theirs] = offsets[mine]
        return tuple(given)


def _sections(lives: Sequence[tuple[int, int, int]]) -> list[int]:
    """Steps at which those who live are not all alive at another step too.

    Births only add to the living and deaths only take away: so these are the last births before a death.
    """
    births = sorted({first for _, first, _ in lives})
    deaths = sorted({last for _, _, last in lives})
    return sorted({max(b for b in births if b <= death) for death in deaths})


@dataclass(slots=True)
class _State:
    """floors: of each buffer, the lowest place that it may still have. rest: of each section, the bytes to be placed.

    crossing: of each border between two sections, how many buffers without a place live on both sides.
    """

    floors: Numbers
    rest: Numbers
    crossing: NDArray[np.int64]


class _Part(NamedTuple):
    """Sections from start to stop, to be solved on their own. parent: the frame that cannot stay when they have no solution."""

    start: int
    stop: int
    parent: int
    others: _Part | None  # still to be solved after this


@dataclass(slots=True)
class _Frame:
    """A choice: which buffer lies at `height`, the floor of `section`."""

    part: _Part
    state: _State
    key: tuple[int, bytes]
    section: int
    height: int
    slack: int  # how much of the section may stay empty
    choices: list[int]  # the next one last
    chosen: int = NOTHING


class _Attempt:
    """One walk through the search tree, with a limit and an order of choices."""

    def __init__(self, table: _Table, capacity: int, rank: Sequence[int], failed: set[tuple[int, bytes]]) -> None:
        self.table = table
        self.capacity = capacity
        self.rank = rank
        self.failed = failed
        self.nodes = 0
        self.frames: list[_Frame] = []
        self.ceilings: Numbers = capacity - table.sizes

    @property
    def offsets(self) -> dict[int, int]:
        return {f.chosen: f.height for f in self.frames if f.chosen != NOTHING}

    def run(self, limit: int) -> Outcome:
        table = self.table
        state = _State(np.zeros(len(table.sizes), np.int64), table.rest, table.crossing)
        if (table.rest > self.capacity).any():
            return Outcome.IMPOSSIBLE
        pending = self._split(state, 0, len(table.rest), -1, None)
        while pending is not None:
            frame = self._open(state, pending)
            if frame is not None:
                self.frames.append(frame)
                at = len(self.frames) - 1
            else:
                at = pending.parent
            # Take the next choice of the frame, or, when it has none, of the frame that its part comes from.
            while True:
                if at < 0:
                    return Outcome.IMPOSSIBLE
                del self.frames[at + 1 :]
                frame = self.frames[at]
                if not frame.choices:
                    self.failed.add(frame.key)
                    at = frame.part.parent
                    continue
                if self.nodes >= limit:
                    return Outcome.GAVE_UP
                self.nodes += 1
                frame.chosen = frame.choices.pop()
                after = self._nothing_at(frame) if frame.chosen == NOTHING else self._placed(frame)
                if after is not None:
                    state = after
                    pending = self._split(state, frame.part.start, frame.part.stop, at, frame.part.others)
                    break
        return Outcome.FOUND

    def _split(self, state: _State, start: int, stop: int, parent: int, others: _Part | None) -> _Part | None:
        """The times that share no buffer any more."""
        cuts = [start, *(start + 1 + np.flatnonzero(state.crossing[start : stop - 1] == 0)).tolist(), stop]
        for i in range(len(cuts) - 1, 0, -1):
            if state.rest[cuts[i - 1]]:  # sections of a part that is one all have something to be placed
                others = _Part(cuts[i - 1], cuts[i], parent, others)
        return others

    def _open(self, state: _State, part: _Part) -> _Frame | None:
        """The choices for the lowest section of a part; of several the fullest. None if the part is known to have failed."""
        table = self.table
        begin, end = table.begins[part.start], table.begins[part.stop]
        key = (part.start, state.floors[begin:end].tobytes())
        if key in self.failed:
            return None
        bottoms = self._bottoms(state, part.start, part.stop)
        height = int(bottoms.min())
        slacks = np.where(bottoms == height, -state.rest[part.start : part.stop], PLACED)
        section = part.start + int(slacks.argmin())
        slack = self.capacity - height - int(state.rest[section])
        members = table.members[section]
        members = members[state.floors[members] == height]
        choices = sorted(members.tolist(), key=self.rank.__getitem__, reverse=True)
        # Of buffers that are alike one is enough.
        seen: dict[tuple[int, int, int], int] = {}
        for b in choices:
            seen[(*table.spans[b], int(table.sizes[b]))] = b
        choices = [b for b in choices if seen[(*table.spans[b], int(table.sizes[b]))] == b]
        # Who fits below all that it meets cannot lie better.
        for b in reversed(choices):
            over = state.floors[begin:end][table.meets[b, begin:end]]
            if over.size == 0 or int(over.min()) >= height + int(table.sizes[b]):
                return _Frame(part, state, key, section, height, slack, [b])
        if slack > 0:
            choices.insert(0, NOTHING)
        return _Frame(part, state, key, section, height, slack, choices)

    def _bottoms(self, state: _State, start: int, stop: int) -> Numbers:
        """Of each section, the lowest floor of those that have no place yet."""
        first, last = self.table.starts[start], self.table.starts[stop]
        found: Numbers = np.minimum.reduceat(
            state.floors[self.table.joined[first:last]], self.table.starts[start:stop] - first
        )
        return found

    def _placed(self, frame: _Frame) -> _State | None:
        """The state after the chosen buffer is placed."""
        table, b = self.table, frame.chosen
        start, stop = table.spans[b]
        size = table.sizes[b]
        floors, rest, crossing = frame.state.floors.copy(), frame.state.rest.copy(), frame.state.crossing.copy()
        floors[b] = PLACED
        np.maximum(floors, frame.height + size, out=floors, where=table.meets[b])
        rest[start:stop] -= size
        crossing[start : stop - 1] -= 1
        return self._checked(_State(floors, rest, crossing), frame.part)

    def _nothing_at(self, frame: _Frame) -> _State | None:
        """The state when nothing lies on the section's floor.

        Its lowest buffer then lies on a placed one that is higher, or on one that is still to come and not of this section.
        """
        table, floors = self.table, frame.state.floors
        begin, end = table.begins[frame.part.start], table.begins[frame.part.stop]
        members = table.members[frame.section]
        tops = floors[begin:end] + table.sizes[begin:end]
        start = np.array([s for s, _ in table.spans[begin:end]])
        stop = np.array([s for _, s in table.spans[begin:end]])
        tops[(start <= frame.section) & (frame.section < stop)] = PLACED
        lowest = int(PLACED)
        for b in members[floors[members] < PLACED].tolist():
            floor = int(floors[b])
            if floor == frame.height:
                under = tops[table.meets[b, begin:end]]
                floor = int(under.min()) if under.size else int(PLACED)
            lowest = min(lowest, floor)
        if lowest > frame.height + frame.slack:
            return None
        floors = floors.copy()
        floors[members] = np.maximum(floors[members], lowest)
        return self._checked(_State(floors, frame.state.rest, frame.state.crossing), frame.part)

    def _checked(self, state: _State, part: _Part) -> _State | None:
        """The state, unless a buffer or a section of the part has too little room left."""
        begin, end = self.table.begins[part.start], self.table.begins[part.stop]
        floors = state.floors[begin:end]
        if ((floors > self.ceilings[begin:end]) & (floors < PLACED)).any():
            return None
        rest = state.rest[part.start : part.stop]
        full = self._bottoms(state, part.start, part.stop) + rest > self.capacity
        return None if (full & (rest > 0)).any() else state
