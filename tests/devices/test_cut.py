"""Tasks are divided between two sides as the best of all divisions has it."""

import random
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import pytest

from cnn_convertor.budget import SHARES
from cnn_convertor.devices.cut import (
    Alternative,
    Exchange,
    SideCosts,
    cheapest_sides,
    chosen_of,
    costs_of,
    grouped_sides,
)


def cost(tasks: Sequence[SideCosts], exchanges: Sequence[Exchange], sides: Sequence[bool]) -> float:
    """Counted by hand; infinite where a task cannot run."""
    total = 0.0
    for task, is_second in zip(tasks, sides, strict=True):
        own = task.second if is_second else task.first
        total += float("inf") if own is None else own
    return total + sum(e.price * any(sides[reader] != sides[e.writer] for reader in e.readers) for e in exchanges)


class Drawn(NamedTuple):
    """Tasks, and the exchanges between them."""

    tasks: list[SideCosts]
    exchanges: list[Exchange]


def drawn(seed: int) -> Drawn:
    draw = random.Random(seed)
    count = draw.randint(1, 12 if seed < 15 else 9)
    kinds = [(None, 0), (0, None), (0, 0), *[(1, 1)] * 4]
    tasks = [
        SideCosts(*(None if side is None else side * draw.randint(0, 20) for side in draw.choice(kinds)))
        for _ in range(count)
    ]
    exchanges = [
        Exchange(writer, tuple(sorted(readers)), draw.randint(0, 15))
        for writer in range(count - 1)
        if (readers := draw.sample(range(writer + 1, count), draw.randint(0, min(3, count - 1 - writer))))
    ]
    return Drawn(tasks, exchanges)


@pytest.mark.parametrize("seed", range(150))
def test_the_choice_is_the_best_of_all(seed: int) -> None:
    """Of equal costs, the one with the fewest tasks on the second side."""
    tasks, exchanges = drawn(seed)
    chosen = cheapest_sides(tasks, exchanges)
    best = min(
        ((cost(tasks, exchanges, sides), sum(sides)) for sides in product([False, True], repeat=len(tasks))),
    )
    assert (cost(tasks, exchanges, chosen), sum(chosen)) == best


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_among_alternatives_is_the_best_of_all(seed: int) -> None:
    """Of up to 10 tasks with three alternatives each, on any sides."""
    draw = random.Random(seed)
    exchanges = drawn(seed).exchanges
    count = 10 if seed == 0 else draw.randint(1, 8)
    exchanges = [Exchange(0, tuple(range(1, count)), 7)] if seed == 0 else exchanges
    exchanges = [e._replace(readers=tuple(r for r in e.readers if r < count)) for e in exchanges if e.writer < count]
    tasks = [[Alternative(draw.randint(0, 20), draw.random() < 0.5) for _ in range(3)] for _ in range(count)]
    sides = cheapest_sides([costs_of(task) for task in tasks], exchanges)
    chosen = [task[chosen_of(task, side)] for task, side in zip(tasks, sides, strict=True)]

    def total(choice: Sequence[Alternative]) -> float:
        own = [SideCosts(each.cost, each.cost) for each in choice]
        return cost(own, exchanges, [each.is_second for each in choice])

    assert total(chosen) == min(map(total, product(*tasks)))


def test_of_equal_alternatives_the_first_is_chosen() -> None:
    task = [Alternative(5, True), Alternative(3, False), Alternative(3, False), Alternative(2, True)]
    assert costs_of(task) == SideCosts(3, 2)
    assert (chosen_of(task, False), chosen_of(task, True)) == (1, 3)
    assert costs_of(task[:1]) == SideCosts(None, 5)


def paths(exchanges: Sequence[Exchange], start: int) -> Iterator[list[int]]:
    """Each way along the exchanges from a task on."""
    yield [start]
    for exchange in exchanges:
        if exchange.writer == start:
            for reader in exchange.readers:
                yield from ([start, *rest] for rest in paths(exchanges, reader))


def grouped_cost(drawing: Drawn, sides: Sequence[bool]) -> float:
    """The cost when all exchanges that do not depend on each other are made at once: those of the dearest way count."""
    prices = {exchange.writer: exchange.price for exchange in drawing.exchanges}
    ways = (way for start in range(len(sides)) for way in paths(drawing.exchanges, start))
    changes = max(sum(prices[one] * (sides[one] != sides[other]) for one, other in pairwise(way)) for way in ways)
    return cost(drawing.tasks, [], sides) + changes


def connected(tasks: set[int], exchanges: Sequence[Exchange]) -> set[frozenset[int]]:
    """The tasks in parts between which no value is exchanged. Readers of one value are in one part."""
    links = [set(tasks) & {exchange.writer, *exchange.readers} for exchange in exchanges]
    parts = {frozenset([task]) for task in tasks}
    for link in links:
        met = {part for part in parts if part & link}
        parts = (parts - met) | ({frozenset().union(*met)} if met else set())
    return parts


@pytest.mark.parametrize("seed", range(150))
def test_no_part_is_on_a_side_without_saving_grouped_changes(seed: int) -> None:
    """Part after part, first of the second side, then of the tasks on the first that cost less on the second."""
    drawing = drawn(seed)
    sides = cheapest_sides(*drawing)
    for here in (True, False):
        free = set()
        for number, (first, second) in enumerate(drawing.tasks):
            if sides[number] is here and first is not None and second is not None and (here or second < first):
                free.add(number)
        for part in sorted(connected(free, drawing.exchanges), key=min):
            without = [side is not (number in part) for number, side in enumerate(sides)]
            if grouped_cost(drawing, without) < grouped_cost(drawing, sides):
                sides = without
    assert grouped_sides(*drawing) == sides


def test_a_task_between_two_others_follows_them_if_that_is_cheaper() -> None:
    between = [SideCosts(None, 0), SideCosts(1, 8), SideCosts(None, 0)]
    assert cheapest_sides(between, [Exchange(0, (1,), 3), Exchange(1, (2,), 3)]) == [
        True,
        False,
        True,
    ]  # 1 + 3 + 3 against 8
    assert cheapest_sides(between, [Exchange(0, (1,), 3), Exchange(1, (2,), 5)]) == [True, True, True]


def test_a_value_with_several_readers_costs_once() -> None:
    tasks = [SideCosts(0, None), SideCosts(9, 0), SideCosts(9, 0)]
    assert cheapest_sides(tasks, [Exchange(0, (1, 2), 10)]) == [False, True, True]
    assert cheapest_sides(tasks, [Exchange(0, (1,), 10), Exchange(0, (2,), 10)]) == [False, False, False]


@pytest.mark.slow
def test_memory_grows_no_faster_than_the_readers_of_a_value() -> None:
    """Pairs of 1,500 readers took 175 MB."""
    tasks = [SideCosts(None, 0), *[SideCosts(1, 2)] * 1_500]
    tracemalloc.start()
    chosen = cheapest_sides(tasks, [Exchange(0, tuple(range(1, 1_501)), 0)])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert chosen == [True, *[False] * 1_500] and most < 50 << 20


def test_a_spent_budget_leaves_the_cheapest_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the first side, the third task reads two values of the other; on the way from them to the last one, sides change once."""
    tasks = [SideCosts(None, 0), SideCosts(None, 0), SideCosts(1, 2), SideCosts(0, None)]
    exchanges = [Exchange(0, (2,), 3), Exchange(1, (2,), 3), Exchange(2, (3,), 3)]
    assert grouped_sides(tasks, exchanges) == [True, True, False, False]
    monkeypatch.setitem(SHARES, "sides", 0)
    assert grouped_sides(tasks, exchanges) == [True, True, True, False]
