"""Schedules: writers precede readers, and no order needs less memory."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn_convertor.memory.scheduling import Schedule, Task, grouped, schedule
from reference.scheduling_reference import orders, peak


def random_tasks(
    rng: random.Random, most: int, *, shared: float = 0.1
) -> tuple[list[Task], dict[str, int], set[str], set[str]]:
    """Random tasks, sizes, given and kept buffers; some buffers have several writers."""
    sizes = {f"x{i}": rng.randint(0, 20) for i in range(rng.randint(1, 2))}
    inputs = set(sizes)
    written: list[set[str]] = []
    tasks: list[Task] = []
    for i in range(rng.randint(1, most)):
        known = sorted(sizes)
        reads = {rng.choice(known[-4:] if rng.random() < 0.5 else known) for _ in range(rng.choice([1, 1, 1, 2, 3]))}
        writes = {f"y{i}{j}" for j in range(rng.choice([0, 1, 1, 1, 1, 2]))}
        if written and rng.random() < shared:
            writes |= rng.choice(written)
        writes -= {name for task in tasks for name in task.reads} | reads
        sizes |= {name: sizes.get(name, rng.choice([0, 1, 5, 10, 20, 40])) for name in sorted(writes)}
        written.append(writes)
        tasks.append(Task(tuple(sorted(reads)), tuple(sorted(writes))))
    ends = {name for name in sizes if not any(name in task.reads for task in tasks)}
    kept = ends | set(rng.sample(sorted(sizes), rng.randint(0, 1)))
    return [with_taken(task, tasks, sizes, kept) for task in tasks], sizes, inputs, kept


def with_taken(task: Task, tasks: list[Task], sizes: dict[str, int], kept: set[str]) -> Task:
    """The task; one of two that can writes in the bytes of what it alone reads."""
    own = [sizes[name] for name in task.writes if sum(name in other.writes for other in tasks) == 1]
    alone = (name for name in task.reads if sum(name in other.reads for other in tasks) == 1 and name not in kept)
    fitting = [name for name in alone if sizes[name] <= max(own, default=-1)]
    return task._replace(takes=fitting[0]) if fitting and tasks.index(task) % 2 else task


def assert_best(rng: random.Random, most: int) -> None:
    tasks, sizes, given, kept = random_tasks(rng, most)
    made = schedule(tasks, sizes, inputs=given, kept=kept)
    every = [(peak(tasks, sizes, order, given=given, kept=kept), order) for order in orders(tasks)]
    same = tuple(range(len(tasks)))
    least = min(every)[0]
    assert made.proven
    assert made.peak == least
    if peak(tasks, sizes, same, given=given, kept=kept) == least:
        assert made.order == same
    else:
        assert made.order == min(order for size, order in every if size == least)


def test_schedules_are_the_best_of_all_orders() -> None:
    rng = random.Random(0)
    for _ in range(300):
        assert_best(rng, 7)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_many_schedules_are_the_best_of_all_orders() -> None:
    rng = random.Random(1)
    for _ in range(400):
        assert_best(rng, 8)


@given(st.integers(0, 1 << 32), st.integers(0, 20))
def test_schedules_are_valid_and_not_worse_at_any_limit(seed: int, nodes: int) -> None:
    tasks, sizes, given_, kept = random_tasks(random.Random(seed), 30)
    made = schedule(tasks, sizes, inputs=given_, kept=kept, nodes=nodes)
    assert sorted(made.order) == list(range(len(tasks)))
    for step, task in enumerate(made.order):
        later = {name for other in made.order[step + 1 :] for name in tasks[other].writes}
        assert not later & set(tasks[task].reads)
    needed = peak(tasks, sizes, made.order, given=given_, kept=kept)
    assert needed == made.peak <= peak(tasks, sizes, range(len(tasks)), given=given_, kept=kept)


def branches(count: int, length: int) -> tuple[list[Task], dict[str, int]]:
    """One input; interleaved branches that are large in the middle and small at the end; one task that reads all ends."""
    sizes = {"x": 1, "y": 1} | {
        f"{b}.{i}": 10 if i < length - 1 else 1 for b in range(count) for i in range(length)
    }  # fmt: skip
    tasks = [
        Task((f"{b}.{i - 1}" if i else "x",), (f"{b}.{i}",)) for i in range(length) for b in range(count)
    ]  # fmt: skip
    return [*tasks, Task(tuple(f"{b}.{length - 1}" for b in range(count)), ("y",))], sizes


def test_branches_are_done_one_after_the_other() -> None:
    tasks, sizes = branches(3, 3)
    made = schedule(tasks, sizes, inputs=["x"], kept=["y"])
    assert (
        made.peak == 1 + 10 + 10 + 1
    )  # one branch at a time is large, while the input or the ends of earlier branches wait
    assert made.proven
    assert peak(tasks, sizes, made.order, given=["x"], kept=["y"]) == made.peak
    assert peak(tasks, sizes, range(10), given=["x"], kept=["y"]) == 3 * 10 + 10


def test_a_beam_search_improves_the_order_if_the_exact_search_gives_up() -> None:
    tasks, sizes = branches(12, 8)
    made = schedule(tasks, sizes, inputs=["x"], kept=["y"], nodes=50)
    assert not made.proven
    assert made.peak < peak(tasks, sizes, range(len(tasks)), given=["x"], kept=["y"])


def test_orders_within_the_bound_are_found_in_few_steps() -> None:
    """Where the search goes on with the longest way of those that stay within the bound; 73 with the least peak first."""
    rng = random.Random(2)
    networks = (random_tasks(rng, 30) for _ in range(150))
    made = [schedule(tasks, sizes, inputs=inputs, kept=kept, nodes=60) for tasks, sizes, inputs, kept in networks]
    assert sum(one.proven for one in made) >= 110


def test_an_optimal_order_is_kept() -> None:
    tasks = [Task(("x",), ("a",)), Task(("x",), ("b",)), Task(("a", "b"), ("c",))]
    assert schedule(tasks, dict.fromkeys("xabc", 4), inputs=["x"], kept=["c"]) == Schedule((0, 1, 2), 12, proven=True)


def test_outputs_of_one_map_need_no_search() -> None:
    """All but the last are live while it reads the map."""
    sizes = {"x": 5} | {f"y{i}": 1 + i % 7 for i in range(200)}
    outputs = [name for name in sizes if name != "x"]
    made = schedule([Task(("x",), (name,)) for name in outputs], sizes, inputs=["x"], kept=outputs, nodes=0)
    assert (made.peak, made.proven) == (sum(sizes.values()), True)


def test_required_orders_are_respected() -> None:
    tasks, sizes = branches(2, 3)
    free = schedule(tasks, sizes, inputs=["x"], kept=["y"])
    held = schedule(tasks, sizes, inputs=["x"], kept=["y"], before=[(1, 2), (0, 3)])
    assert free.order == (0, 2, 1, 4, 3, 5, 6)
    assert held.order.index(1) < held.order.index(2)
    assert held.order.index(0) < held.order.index(3)
    assert held.peak > free.peak


def test_an_empty_schedule_needs_the_given_buffers() -> None:
    assert schedule([], {"x": 4}, inputs=["x"], kept=["x"]) == Schedule((), 4, proven=True)


def test_hundreds_of_tiles_keep_their_order() -> None:
    count = 150
    tiles = [task for i in range(count) for task in (Task(("x",), (f"in{i}",)), Task((f"in{i}",), (f"out{i}",)))]
    sizes = {"x": 3000, "y": 1, **{f"in{i}": 1 + i % 3 for i in range(count)}, **{f"out{i}": 4 for i in range(count)}}
    joined = Task(tuple(f"out{i}" for i in range(count)), ("y",))
    start = time.process_time()
    result = schedule([*tiles, joined], sizes, inputs=["x"], kept=["y"])
    assert (result.order, result.proven) == (tuple(range(2 * count + 1)), False)
    assert time.process_time() - start < 5


def changes(sides: list[str], order: tuple[int, ...]) -> int:
    kept = [sides[i] for i in order if sides[i]]
    return sum(one != other for one, other in pairwise(kept))


def test_tasks_of_one_side_follow_each_other_within_the_limit() -> None:
    """With room for all, no order that begins on the same side changes less often; with less, each order is possible."""
    rng = random.Random(5)
    for _ in range(200):
        tasks, sizes, given, kept = random_tasks(rng, 7)
        sides = [rng.choice(["", "cpu", "device", "device"]) for _ in tasks]
        order = grouped(tasks, sizes, sides, 10**6, inputs=given, kept=kept)
        assert order is not None
        possible = list(orders(tasks))
        first = next((sides[i] for i in order if sides[i]), "")
        alike = [o for o in possible if next((sides[i] for i in o if sides[i]), "") == first]
        assert order in possible and changes(sides, order) == min(changes(sides, o) for o in alike)
        limit = peak(tasks, sizes, tuple(range(len(tasks))), given=given, kept=kept)
        within = grouped(tasks, sizes, sides, limit, inputs=given, kept=kept)
        assert within is None or (within in possible and peak(tasks, sizes, within, given=given, kept=kept) <= limit)


def test_no_order_is_grouped_within_less_than_any_needs() -> None:
    assert grouped([Task(("x",), ("y",))], {"x": 4, "y": 4}, ["cpu"], 7, inputs={"x"}, kept={"y"}) is None
