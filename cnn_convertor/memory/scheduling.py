"""Orders tasks so that the peak of live bytes is least."""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from cnn_convertor.budget import Budget

Tasks: TypeAlias = int  # a set of tasks: bit i is the task at position i
_Share: TypeAlias = tuple[Tasks, int]  # tasks, and the bytes of the buffers that they decide about
NODES = 5_000  # limit of the exact search, in sets of done tasks
BEAM = 32  # width of the beam search, used if the exact search gives up
_TRY = 30  # steps of the budget for a task that could run next
READY = 64  # tasks that can run next, on average; with more, both searches take long


class Task(NamedTuple):
    """One step. reads, writes: names of buffers, all live while it runs.

    takes: a buffer that this task alone reads, in whose bytes it writes; empty where it writes elsewhere.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    takes: str = ""


class Schedule(NamedTuple):
    """order: positions of the given tasks. peak: the most live bytes at any step. proven: no order needs less."""

    order: tuple[int, ...]
    peak: int
    proven: bool


def schedule(
    tasks: Sequence[Task],
    sizes: Mapping[str, int],
    *,
    inputs: Collection[str] = (),
    kept: Collection[str] = (),
    before: Collection[tuple[int, int]] = (),
    nodes: int = NODES,
    budget: Budget | None = None,
) -> Schedule:
    """The order with the least peak; the given order if none is better.

    A buffer is live from its first task to its last; `inputs` from the start, `kept` buffers to the end. Writers precede
    readers; `before` lists further ordered pairs of tasks. The exact search visits at most `nodes` sets of tasks, so the
    result does not depend on the machine; beyond that, a beam search tries to improve the order. Both end when the budget is
    spent. Where more than READY tasks can run next, as in a map of hundreds of tiles, the given order is kept.
    """
    needs = _Needs(tasks, sizes, inputs, kept, before, budget or Budget.of("memory"))
    same = tuple(range(len(tasks)))
    peak = needs.peak(same)
    if peak == needs.least:
        return Schedule(same, peak, proven=True)
    if needs.choices(same) > READY * len(tasks):
        return Schedule(same, peak, proven=False)
    order, proven = _exactly(needs, peak, nodes)
    if not proven:
        order = _by_beam(needs, peak)
    if order is None:
        return Schedule(same, peak, proven)
    order = _nearest(needs, order, nodes)
    return Schedule(order, needs.peak(order), proven)


def grouped(
    tasks: Sequence[Task],
    sizes: Mapping[str, int],
    sides: Sequence[str],
    limit: int,
    *,
    inputs: Collection[str] = (),
    kept: Collection[str] = (),
    before: Collection[tuple[int, int]] = (),
    budget: Budget | None = None,
) -> tuple[int, ...] | None:
    """An order in which tasks of one side follow each other: whenever one is ready that keeps the live bytes within `limit`.

    sides: of each task; empty for one that is on both. The others are as for `schedule`. None where no task keeps the limit, or
    where the budget is spent.
    """
    needs = _Needs(tasks, sizes, inputs, kept, before, budget or Budget.of("memory"))
    state = _State(0, needs.first, needs.start)
    side = ""
    order = list[int]()
    while state.done != needs.all:
        needs.budget.spend(_TRY * state.ready.bit_count())
        if needs.budget.is_spent:
            return None
        fitting = {}  # task -> the bytes that are live after it
        for task in _members(state.ready):
            during, after = needs.does(task, state.done, state.live)
            if during <= limit:
                fitting[task] = after
        if not fitting:
            return None
        task = next((task for task in fitting if sides[task] in ("", side)), next(iter(fitting)))
        side = sides[task] or side
        order.append(task)
        state = needs.reached(state, task, fitting[task])
    return tuple(order)


class _State(NamedTuple):
    """Tasks that are done, those that can run next, and the bytes that are live."""

    done: Tasks
    ready: Tasks
    live: int


class _Change(NamedTuple):
    """Bytes that a task adds to the live ones: while it runs, and after it. begins, ends: what other tasks decide."""

    during: int
    after: int
    begins: Sequence[_Share]
    ends: Sequence[_Share]


def _set_of(tasks: Iterable[int]) -> Tasks:
    return reduce(operator.or_, (1 << task for task in tasks), 0)


def _members(tasks: Tasks) -> Iterator[int]:
    """The tasks of a set, in the given order."""
    while tasks:
        yield (tasks & -tasks).bit_length() - 1
        tasks &= tasks - 1


class _Needs:
    """The order constraints and live bytes of tasks."""

    def __init__(
        self,
        tasks: Sequence[Task],
        sizes: Mapping[str, int],
        inputs: Collection[str],
        kept: Collection[str],
        before: Collection[tuple[int, int]],
        budget: Budget,
    ) -> None:
        self.budget = budget
        self.all: Tasks = (1 << len(tasks)) - 1
        self._sizes = sizes
        self._taken = [sizes[task.takes] if task.takes else 0 for task in tasks]
        buffers = [set(task.reads + task.writes) for task in tasks]
        users = _by_name(buffers)
        for name in inputs:
            users.setdefault(name, 0)
        self.earlier = _earlier(tasks, before)
        kinds = {name: (sizes[name], name in inputs, name in kept) for name in users}
        for first, second in _interchangeable(tasks, users, kinds, self.earlier):
            self.earlier[second] |= 1 << first
        self._later = _turned(self.earlier)
        assert all(earlier < 1 << i for i, earlier in enumerate(self.earlier)), "the given order must be possible"
        self.start = self._bytes(name for name in inputs if users[name] or name in kept)
        self.least = self._least(buffers, inputs, kept)
        self._changes = []
        for task, names in enumerate(buffers):
            # Tasks that always are earlier are left out, so that the parts of a concatenation count as one.
            earlier = self.earlier[task]
            begins = {name: users[name] for name in names if not users[name] & earlier}
            ends = {name: users[name] & ~(earlier | 1 << task) for name in names}
            self._changes.append(self._change(task, self._grouped(begins, inputs), self._grouped(ends, kept)))

    def _least(self, buffers: Sequence[set[str]], inputs: Collection[str], kept: Collection[str]) -> int:
        """Live bytes that no order can avoid. buffers: of each task."""
        least = self.start
        always = set(inputs) & set(kept)
        last = []  # for each task that may be the last one: its buffers, and all that are kept
        for names, taken, later in zip(buffers, self._taken, self._later, strict=True):
            least = max(least, self._bytes(names | always) - taken)
            if not later:
                last.append(self._bytes(names.union(kept)) - taken)
        return max(least, min(last, default=self._bytes(kept)))

    def _bytes(self, names: Iterable[str]) -> int:
        return sum(self._sizes[name] for name in set(names))

    def _grouped(self, tasks: Mapping[str, Tasks], without: Collection[str]) -> list[_Share]:
        """Sets of tasks, and the bytes of the buffers that have them."""
        sums: Counter[Tasks] = Counter()
        for name, users in tasks.items():
            if name not in without:
                sums[users] += self._sizes[name]
        return list(sums.items())

    def _change(self, task: int, begins: Sequence[_Share], ends: Sequence[_Share]) -> _Change:
        """What a task changes, split into what the tasks before it decide and what is always so."""
        later = _set_of(self._later[task])  # not done while it is ready
        begins = [(users & ~(later | 1 << task), size) for users, size in begins]
        ends = [(users, size) for users, size in ends if not users & later]
        always_begins = sum(size for users, size in begins if not users)
        always_ends = sum(size for users, size in ends if not users)
        return _Change(
            during=always_begins - self._taken[task],
            after=always_begins - always_ends,
            begins=[share for share in begins if share[0]],
            ends=[share for share in ends if share[0]],
        )

    def does(self, task: int, done: Tasks, live: int) -> tuple[int, int]:
        """Bytes live during and after a ready task, given `live` bytes before it."""
        during, after, begins, ends = self._changes[task]
        for users, size in begins:
            if not users & done:
                during += size
                after += size
        for users, size in ends:
            if users & done == users:
                after -= size
        return live + during, live + after

    @property
    def first(self) -> Tasks:
        """The tasks that can run first."""
        return _set_of(task for task, earlier in enumerate(self.earlier) if not earlier)

    def reached(self, state: _State, task: int, live: int) -> _State:
        """The state after one of the ready tasks. live: the bytes live after it."""
        done = state.done | 1 << task
        ready = state.ready & ~(1 << task)
        for later in self._later[task]:
            earlier = self.earlier[later]
            if earlier & done == earlier:
                ready |= 1 << later
        return _State(done, ready, live)

    def choices(self, order: Sequence[int]) -> int:
        """How many tasks can run next before each task of an order, in total."""
        state = _State(0, self.first, 0)
        total = 0
        for task in order:
            total += state.ready.bit_count()
            state = self.reached(state, task, 0)
        return total

    def next(self, state: _State, limit: int) -> list[tuple[int, int, int]]:
        """Tasks worth running next, with the bytes live during and after.

        A task that stays within `limit` and does not add live bytes runs at once: delaying it cannot lower the peak.
        """
        candidates = []
        done, ready, live = state
        self.budget.spend(_TRY * ready.bit_count())
        for task in _members(ready):
            during, after = self.does(task, done, live)
            if during <= limit and after <= live:
                return [(task, during, after)]
            candidates.append((task, during, after))
        return candidates

    def peak(self, order: Sequence[int]) -> int:
        done = 0
        live = self.start
        peak = self.start
        for task in order:
            during, live = self.does(task, done, live)
            done |= 1 << task
            peak = max(peak, during)
        return peak


def _by_name(names_of: Sequence[Iterable[str]]) -> dict[str, Tasks]:
    """Name -> the tasks that have it."""
    tasks: dict[str, Tasks] = {}
    for i, names in enumerate(names_of):
        for name in names:
            tasks[name] = tasks.get(name, 0) | 1 << i
    return tasks


def _earlier(tasks: Sequence[Task], before: Collection[tuple[int, int]]) -> list[Tasks]:
    """Per task: those that must be done before it."""
    writers = _by_name([task.writes for task in tasks])
    earlier = [0] * len(tasks)
    for i, task in enumerate(tasks):
        for name in task.reads:
            earlier[i] |= writers.get(name, 0) & ~(1 << i)
    for first, second in before:
        earlier[second] |= 1 << first
    return earlier


def _turned(earlier: Sequence[Tasks]) -> list[list[int]]:
    """Per task: those that it must be done before."""
    later: list[list[int]] = [[] for _ in earlier]
    for task, before in enumerate(earlier):
        for first in _members(before):
            later[first].append(task)
    return later


def _interchangeable(
    tasks: Sequence[Task],
    users: Mapping[str, Tasks],
    kinds: Mapping[str, tuple[int, bool, bool]],
    earlier: Sequence[Tasks],
) -> list[tuple[int, int]]:
    """Pairs of tasks of which the first may run first in any case, as exchanging them changes nothing.

    They read the same, what each writes has the same other users, size and kind, and the same tasks come before and after them.
    """
    later = [_set_of(after) for after in _turned(earlier)]
    alike: dict[Hashable, list[int]] = {}
    for i, task in enumerate(tasks):
        writes = sorted((users[name] & ~(1 << i), kinds[name]) for name in task.writes)
        key = (frozenset(task.reads), tuple(writes), earlier[i], later[i])
        alike.setdefault(key, []).append(i)
    return [pair for same in alike.values() for pair in pairwise(same)]


def _exactly(needs: _Needs, peak: int, nodes: int) -> tuple[tuple[int, ...] | None, bool]:
    """The order with the least peak, or None if none is below `peak`; and whether that is proven within the node limit.

    Best-first search over sets of done tasks, by the peak that the whole order has at least; among equals, the longest way.
    """
    best = {0: needs.least}
    last: dict[Tasks, int] = {}  # the last task of the best way to a set
    queue = [(needs.least, 0, _State(0, needs.first, needs.start))]  # least peak, number of tasks left, state
    while queue:
        least, _, state = heapq.heappop(queue)
        if least > best[state.done]:
            continue
        if state.done == needs.all:
            return _way_to(state.done, last), True
        nodes -= 1
        if nodes < 0 or needs.budget.is_spent:
            return None, False
        for task, during, after in needs.next(state, least):
            now = max(least, during)
            done = state.done | 1 << task
            if now < min(peak, best.get(done, peak)):
                best[done] = now
                last[done] = task
                heapq.heappush(queue, (now, (needs.all & ~done).bit_count(), needs.reached(state, task, after)))
    return None, True


def _way_to(done: Tasks, last: Mapping[Tasks, int]) -> tuple[int, ...]:
    way = []
    while done:
        way.append(last[done])
        done ^= 1 << last[done]
    return tuple(reversed(way))


def _nearest(needs: _Needs, order: tuple[int, ...], nodes: int) -> tuple[int, ...]:
    """The lexicographically first order with the same peak, comparing positions; `order` itself beyond the node limit."""
    ways = _Ways(needs, needs.peak(order), nodes, {needs.all: True})
    nearest: list[int] = []
    state = _State(0, needs.first, needs.start)
    while state.done != needs.all:
        for task in _members(state.ready):
            during, after = needs.does(task, state.done, state.live)
            reached = needs.reached(state, task, after)
            if during <= ways.limit and ways.exists(reached):
                nearest.append(task)
                state = reached
                break
        else:
            return order
    return tuple(nearest)


@dataclass
class _Ways:
    """Whether the remaining tasks can run within `limit` bytes, for sets of done tasks."""

    needs: _Needs
    limit: int
    nodes: int
    outcomes: dict[Tasks, bool] = field(default_factory=dict)

    def exists(self, state: _State) -> bool:
        """Also False if the node limit is reached."""
        stack = [(state, iter(self.needs.next(state, self.limit)))]
        while stack and self.nodes > 0 and not self.needs.budget.is_spent:
            here, choices = stack[-1]
            if here.done in self.outcomes:
                stack.pop()
                if self.outcomes[here.done]:
                    self.outcomes.update(dict.fromkeys((before.done for before, _ in stack), True))
                continue
            self.nodes -= 1
            for task, during, after in choices:
                if during <= self.limit and self.outcomes.get(here.done | 1 << task, True):
                    there = self.needs.reached(here, task, after)
                    stack.append((there, iter(self.needs.next(there, self.limit))))
                    break
            else:
                self.outcomes[here.done] = False
        return self.outcomes.get(state.done, False)


class _Candidate(NamedTuple):
    """A way of the beam with one more task. The least is the best, by the fields in this order.

    parent: position of the way in the beam.
    """

    peak: int
    live: int
    parent: int
    task: int


def _by_beam(needs: _Needs, peak: int) -> tuple[int, ...] | None:
    """An order with a peak below `peak`, or None: beam search."""
    beam = [_Way(needs.start, _State(0, needs.first, needs.start))]
    for _ in range(needs.all.bit_count()):
        if needs.budget.is_spent:
            return None
        best: dict[Tasks, _Candidate] = {}
        for parent, way in enumerate(beam):
            for task, during, after in needs.next(way.state, max(way.peak, needs.least)):
                done = way.state.done | 1 << task
                candidate = _Candidate(max(way.peak, during), after, parent, task)
                if candidate.peak < peak and (done not in best or candidate < best[done]):
                    best[done] = candidate
        extended = []
        for candidate in sorted(best.values())[:BEAM]:
            way = beam[candidate.parent]
            state = needs.reached(way.state, candidate.task, candidate.live)
            extended.append(_Way(candidate.peak, state, candidate.task, way))
        beam = extended
    return beam[0].order() if beam else None


class _Way(NamedTuple):
    """How a state was reached: by a task after another way."""

    peak: int
    state: _State
    task: int = -1
    before: _Way | None = None

    def order(self) -> tuple[int, ...]:
        tasks = []
        way = self
        while way.before is not None:
            tasks.append(way.task)
            way = way.before
        return tuple(reversed(tasks))
