"""In which order to do things so that the memory they need at once is least."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Tasks: TypeAlias = int  # a set of tasks: bit i for the one that is given at position i
NODES = 5_000  # what one schedule may take of the exact search: sets of done tasks
BEAM = 32  # sets of done tasks that are followed at once where the exact search gives up


class Task(NamedTuple):
    """What is done at one step. reads, writes: names of pieces of memory, which are all needed while it is done."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


class Schedule(NamedTuple):
    """order: positions of the given tasks. peak: the most bytes that are needed at a step. proven: no order needs less."""

    order: tuple[int, ...]
    peak: int
    proven: bool


def schedule(
    tasks: Sequence[Task],
    sizes: Mapping[str, int],
    *,
    given: Collection[str] = (),
    kept: Collection[str] = (),
    before: Collection[tuple[int, int]] = (),
    nodes: int = NODES,
) -> Schedule:
    """The order of least peak; never worse than the given one, and the given one if none is better.

    A piece needs its `sizes` bytes from the first task that has to do with it to the last; those `given` from the start, those
    `kept` to the end. Who writes comes before who reads; `before` holds further pairs of tasks in their order. The exact search
    looks at no more than `nodes` sets of tasks, so that the result does not depend on the machine; behind that limit a beam
    search looks for something better.
    """
    needs = _Needs(tasks, sizes, given, kept, before)
    same = tuple(range(len(tasks)))
    peak = needs.peak(same)
    if peak == needs.least:
        return Schedule(same, peak, proven=True)
    order, proven = _exactly(needs, peak, nodes)
    if not proven:
        order = _by_beam(needs, peak)
    if order is None:
        return Schedule(same, peak, proven)
    order = _nearest(needs, order, nodes)
    return Schedule(order, needs.peak(order), proven)


class _Needs:
    """Which tasks may follow on which, and what they need."""

    def __init__(
        self,
        tasks: Sequence[Task],
        sizes: Mapping[str, int],
        given: Collection[str],
        kept: Collection[str],
        before: Collection[tuple[int, int]],
    ) -> None:
        self.all: Tasks = (1 << len(tasks)) - 1
        users: dict[str, Tasks] = dict.fromkeys(given, 0)
        writers: dict[str, Tasks] = {}
        for i, task in enumerate(tasks):
            for name in {*task.reads, *task.writes}:
                users[name] = users.get(name, 0) | 1 << i
            for name in task.writes:
                writers[name] = writers.get(name, 0) | 1 << i
        self.earlier: list[Tasks] = [0] * len(tasks)
        for i, task in enumerate(tasks):
            for name in task.reads:
                self.earlier[i] |= writers.get(name, 0) & ~(1 << i)
        for first, second in before:
            self.earlier[second] |= 1 << first
        assert all(earlier < 1 << i for i, earlier in enumerate(self.earlier)), "the given order must be possible"
        self.start = sum(sizes[name] for name in set(given) if users[name] or name in kept)
        pieces = [{*task.reads, *task.writes} for task in tasks]
        always = set(given) & set(kept)
        own = (sum(sizes[name] for name in those | always) for those in pieces)
        self.least = max(self.start, sum(sizes[name] for name in set(kept)), *own)
        # Of each task: the bytes that are there from it on unless one of those tasks was earlier, and until it unless one is
        # later. Which are earlier in any case need no mention, so that the parts of a concatenation count as one.
        self._begins: list[list[tuple[Tasks, int]]] = []
        self._ends: list[list[tuple[Tasks, int]]] = []
        for i, those in enumerate(pieces):
            begins: dict[Tasks, int] = {}
            ends: dict[Tasks, int] = {}
            for name in those:
                if not (name in given or users[name] & self.earlier[i]):
                    begins[users[name]] = begins.get(users[name], 0) + sizes[name]
                if name not in kept:
                    others = users[name] & ~(self.earlier[i] | 1 << i)
                    ends[others] = ends.get(others, 0) + sizes[name]
            self._begins.append(list(begins.items()))
            self._ends.append(list(ends.items()))

    def does(self, task: int, done: Tasks, live: int) -> tuple[int, int]:
        """Bytes needed while a task is done that may be next, and after it, if `live` bytes are needed before."""
        left = ~done
        during = live + sum(size for users, size in self._begins[task] if not users & done)
        return during, during - sum(size for users, size in self._ends[task] if not users & left)

    def ready(self, done: Tasks) -> Iterator[int]:
        """Tasks that may be next, in the given order."""
        left = self.all & ~done
        while left:
            task = (left & -left).bit_length() - 1
            left &= left - 1
            if not self.earlier[task] & ~done:
                yield task

    def next(self, done: Tasks, live: int, limit: int) -> list[tuple[int, int, int]]:
        """Tasks worth doing next, with the bytes needed while and after.

        One that needs no more than `limit` and leaves no more behind than before is not worth waiting with: whatever is done
        in between needs no more after it.
        """
        found = []
        for task in self.ready(done):
            during, after = self.does(task, done, live)
            if during <= limit and after <= live:
                return [(task, during, after)]
            found.append((task, during, after))
        return found

    def peak(self, order: Sequence[int]) -> int:
        done, live, peak = 0, self.start, self.start
        for task in order:
            during, live = self.does(task, done, live)
            done |= 1 << task
            peak = max(peak, during)
        return peak


def _exactly(needs: _Needs, peak: int, nodes: int) -> tuple[tuple[int, ...] | None, bool]:
    """An order of the least peak, or None if none is below `peak`; and whether the limit of nodes was enough to know that.

    Of all sets of done tasks the one is gone on from that has needed least so far.
    """
    best = {0: needs.start}
    last: dict[Tasks, int] = {}  # the task that leads to a set
    queue = [(needs.start, 0, 0, needs.start)]  # peak so far, how many are left, done, live
    while queue:
        so_far, _, done, live = heapq.heappop(queue)
        if so_far > best[done]:
            continue
        if done == needs.all:
            return _way_to(done, last), True
        nodes -= 1
        if nodes < 0:
            return None, False
        for task, during, after in needs.next(done, live, max(so_far, needs.least)):
            now, reached = max(so_far, during), done | 1 << task
            if now < min(peak, best.get(reached, peak)):
                best[reached], last[reached] = now, task
                heapq.heappush(queue, (now, (needs.all & ~reached).bit_count(), reached, after))
    return None, True


def _way_to(done: Tasks, last: Mapping[Tasks, int]) -> tuple[int, ...]:
    way = []
    while done:
        way.append(last[done])
        done ^= 1 << last[done]
    return tuple(reversed(way))


def _nearest(needs: _Needs, order: tuple[int, ...], nodes: int) -> tuple[int, ...]:
    """Of the orders that need no more than this one, the first when the given order is the alphabet.

    This one, if the limit of nodes comes first.
    """
    ways = _Ways(needs, needs.peak(order), nodes)
    nearest: list[int] = []
    done, live = 0, needs.start
    while done != needs.all:
        for task in needs.ready(done):
            during, after = needs.does(task, done, live)
            if during <= ways.limit and ways.exists(done | 1 << task, after):
                nearest.append(task)
                done, live = done | 1 << task, after
                break
        else:
            return order
    return tuple(nearest)


class _Ways:
    """Whether there is a way from a set of done tasks to the end that needs no more than `limit`."""

    def __init__(self, needs: _Needs, limit: int, nodes: int) -> None:
        self.needs = needs
        self.limit = limit
        self.nodes = nodes
        self.known = {needs.all: True}

    def exists(self, done: Tasks, live: int) -> bool:
        """False also when the limit of nodes has come."""
        stack = [(done, iter(self.needs.next(done, live, self.limit)))]
        while stack and self.nodes > 0:
            here, choices = stack[-1]
            if here in self.known:
                stack.pop()
                if self.known[here]:
                    self.known.update(dict.fromkeys((state[0] for state in stack), True))
                continue
            self.nodes -= 1
            for task, during, after in choices:
                there = here | 1 << task
                if during <= self.limit and self.known.get(there, True):
                    stack.append((there, iter(self.needs.next(there, after, self.limit))))
                    break
            else:
                self.known[here] = False
        return self.known.get(done, False)


def _by_beam(needs: _Needs, peak: int) -> tuple[int, ...] | None:
    """An order that needs less than `peak`, if one is found among the most promising."""
    beam: list[tuple[int, int, Tasks, tuple[int, ...]]] = [(needs.start, needs.start, 0, ())]
    for _ in range(needs.all.bit_count()):
        reached: dict[Tasks, tuple[int, int, Tasks, tuple[int, ...]]] = {}
        for so_far, live, done, order in beam:
            for task, during, after in needs.next(done, live, max(so_far, needs.least)):
                state = (max(so_far, during), after, done | 1 << task, (*order, task))
                if state[0] < peak and (state[2] not in reached or state < reached[state[2]]):
                    reached[state[2]] = state
        beam = sorted(reached.values(), key=lambda state: (state[0], state[1], state[3]))[:BEAM]
    return beam[0][3] if beam else None
