"""Divides tasks between two sides at the least cost: a minimum cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from cnn_convertor.budget import Budget

Residual: TypeAlias = dict[int, dict[int, int]]  # node -> node -> what the edge has left

_READER: Final = 3  # steps of the budget for a reader of a value, each time that changes are counted


class SideCosts(NamedTuple):
    """What a task costs on either side; None where it cannot run."""

    first: int | None
    second: int | None


class Alternative(NamedTuple):
    """One way to do a task, all of it on one side."""

    cost: int
    is_second: bool


class Exchange(NamedTuple):
    """A value that one task writes and others read: its price counts once if some of these are not on the writer's side."""

    writer: int
    readers: tuple[int, ...]
    price: int


def costs_of(alternatives: Sequence[Alternative]) -> SideCosts:
    """The costs of a task that has several alternatives on a side.

    A choice among alternatives is as cheap as its sides, with the cheapest alternative on each: what is exchanged depends on sides
    alone, so that another alternative on the same side changes the cost of its own task only. So the cheapest choice of sides with
    these costs, and of the cheapest alternative there, is the cheapest choice of all, and a minimum cut finds it.
    """
    first = min((each.cost for each in alternatives if not each.is_second), default=None)
    second = min((each.cost for each in alternatives if each.is_second), default=None)
    return SideCosts(first, second)


def chosen_of(alternatives: Sequence[Alternative], is_second: bool) -> int:
    """The position of the cheapest alternative on a side, the first one of equals."""
    positions = [number for number, each in enumerate(alternatives) if each.is_second is is_second]
    return min(positions, key=lambda number: alternatives[number].cost)


def cheapest_sides(tasks: Sequence[SideCosts], exchanges: Iterable[Exchange]) -> list[bool]:
    """For each task, whether it runs on the second side; of equal costs, as few as can be do. Each task can run somewhere."""
    for task in tasks:
        assert task.first is not None or task.second is not None, "a task can run nowhere"
    first, second = len(tasks), len(tasks) + 1
    exchanges = tuple(exchanges)
    drawn = _drawn(tasks, exchanges)
    pinned = {number: first for number, task in enumerate(tasks) if task.second is None or number not in drawn}
    pinned |= {number: second for number, task in enumerate(tasks) if task.first is None}
    graph: Residual = {}

    def connect(a: int, b: int, capacity: int) -> None:
        if a != b and capacity:
            graph.setdefault(a, {}).setdefault(b, 0)
            graph.setdefault(b, {}).setdefault(a, 0)
            graph[a][b] += capacity

    endless = 1 + sum((task.first or 0) + (task.second or 0) for task in tasks)
    wanted = [each for each in exchanges if any(node not in pinned for node in (each.writer, *each.readers))]
    endless += 2 * sum(each.price for each in wanted)
    for number, task in enumerate(tasks):
        if number not in pinned:
            connect(first, number, task.second or 0)
            connect(number, second, task.first or 0)
    for position, (writer, readers, price) in enumerate(wanted):
        outward, inward = second + 1 + 2 * position, second + 2 + 2 * position
        connect(pinned.get(writer, writer), outward, price)
        connect(inward, pinned.get(writer, writer), price)
        for reader in readers:
            connect(outward, pinned.get(reader, reader), endless)
            connect(pinned.get(reader, reader), inward, endless)
    _fill(graph, first, second)
    reaching = set(_reaching(graph, second))
    return [pinned.get(number, number) in reaching for number in range(len(tasks))]


def grouped_sides(tasks: Sequence[SideCosts], exchanges: Sequence[Exchange]) -> list[bool]:
    """As `cheapest_sides`, but without those tasks on a side that save no change where values are exchanged together.

    Of all exchanges that depend on each other, in any order of the tasks, at least those changes are left that are on the dearest
    path. The tasks are in an order in which each reads what earlier ones write. Tasks on the second side that can leave it do,
    then those on the first that cost less on the second. When the budget is spent, the others stay where they are.
    """
    sides = cheapest_sides(tasks, exchanges)
    changes = _changes(sides, exchanges)
    readers = sum(len(each.readers) for each in exchanges)
    budget = Budget.of("sides")
    for here in (True, False):
        for group in _groups(_for_changes(tasks, sides, here), exchanges):
            if budget.is_spent:
                return sides
            budget.spend(_READER * readers)
            without = [side is not (number in group) for number, side in enumerate(sides)]
            left = _changes(without, exchanges)
            if left - changes < sum((tasks[n][here] or 0) - (tasks[n][not here] or 0) for n in group):
                sides, changes = without, left
    return sides


def _for_changes(tasks: Sequence[SideCosts], sides: Sequence[bool], here: bool) -> set[int]:
    """The tasks on a side that may be there for the changes that this saves."""
    found = set()
    for number, (first, second) in enumerate(tasks):
        is_free = first is not None and second is not None and sides[number] is here
        if is_free and (here or (second or 0) < (first or 0)):
            found.add(number)
    return found


def _groups(tasks: Collection[int], exchanges: Iterable[Exchange]) -> list[set[int]]:
    """The tasks in groups that exchange values, directly or through others of the group."""
    group_of = {task: {task} for task in tasks}
    for writer, readers, _ in exchanges:
        met = [node for node in (writer, *readers) if node in group_of]
        for node in met[1:]:
            if group_of[node] is not group_of[met[0]]:
                group_of[met[0]] |= group_of[node]
                for other in group_of[node]:
                    group_of[other] = group_of[met[0]]
    return [group for task, group in sorted(group_of.items()) if task == min(group)]


def _changes(sides: Sequence[bool], exchanges: Iterable[Exchange]) -> int:
    """The price of the changes of side on the dearest path."""
    before = [0] * len(sides)
    for writer, readers, price in exchanges:
        for reader in readers:
            before[reader] = max(before[reader], before[writer] + price * (sides[reader] != sides[writer]))
    return max(before, default=0)


def _drawn(tasks: Sequence[SideCosts], exchanges: Sequence[Exchange]) -> set[int]:
    """The tasks that may be on the second side: it costs less there, or another one may be there that it exchanges values with."""
    exchanges_of: dict[int, list[int]] = {}
    for number, (writer, readers, _) in enumerate(exchanges):
        for node in (writer, *readers):
            exchanges_of.setdefault(node, []).append(number)
    left = dict(enumerate(exchanges))  # those that no drawn task has met
    stack = [n for n, (first, second) in enumerate(tasks) if first is None or (second is not None and second < first)]
    drawn = set(stack)
    while stack:
        for writer, readers, _ in [left.pop(n) for n in exchanges_of.get(stack.pop(), ()) if n in left]:
            more = {node for node in (writer, *readers) if tasks[node].second is not None} - drawn
            drawn |= more
            stack += more
    return drawn


def _fill(graph: Residual, start: int, end: int) -> None:
    """Take from the edges what can flow from the start to the end: of all shortest paths, then of longer ones (Dinic)."""
    while end in (distances := _distances(graph, start)):
        untried = {node: list(edges) for node, edges in graph.items()}
        path = [start]
        while path:
            node = path[-1]
            if node == end:
                edges = list(pairwise(path))
                amount = min(graph[a][b] for a, b in edges)
                for a, b in edges:
                    graph[a][b] -= amount
                    graph[b][a] += amount
                path = [start]
            elif untried[node]:
                other = untried[node][-1]
                if graph[node][other] and distances.get(other) == distances[node] + 1:
                    path.append(other)
                else:
                    untried[node].pop()
            else:  # a dead end
                path.pop()
                if path:
                    untried[path[-1]].pop()


def _distances(graph: Residual, start: int) -> dict[int, int]:
    """The fewest edges to each node along which something is left."""
    distances = {start: 0}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other, left in graph.get(node, {}).items():
            if left and other not in distances:
                distances[other] = distances[node] + 1
                queue.append(other)
    return distances


def _reaching(graph: Residual, end: int) -> Iterator[int]:
    """The nodes from which the end can be reached."""
    known, stack = {end}, [end]
    while stack:
        node = stack.pop()
        yield node
        for other in graph.get(node, {}):
            if graph[other][node] and other not in known:
                known.add(other)
                stack.append(other)
