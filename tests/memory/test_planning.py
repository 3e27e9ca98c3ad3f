"""Memory plans: no two live buffers share bytes, and sizes are close to the lower bound."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn_convertor.budget import SHARES, Budget
from cnn_convertor.memory import Buffer, Peak, Plan, plan
from cnn_convertor.memory.validity import check


@st.composite
def buffer_lists(draw: st.DrawFn) -> list[Buffer]:
    lives = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 200)), max_size=14))
    return [Buffer(f"b{i}", size, first, first + length) for i, (first, length, size) in enumerate(lives)]


def written_bytes(buffers: Sequence[Buffer], made: Plan) -> None:
    """Simulate all steps: each new buffer writes its bytes; no live buffer's bytes may change."""
    memory = [""] * made.size
    for step in range(max((b.last for b in buffers), default=-1) + 1):
        for b in buffers:
            if b.first == step:
                memory[made.offsets[b.name] : made.offsets[b.name] + b.size] = [b.name] * b.size
        assert len(memory) == made.size, "a buffer lies outside"
        for b in buffers:
            if b.first <= step <= b.last:
                assert set(memory[made.offsets[b.name] : made.offsets[b.name] + b.size]) <= {b.name}


@given(buffer_lists(), st.sampled_from([1, 2, 16, 64]))
def test_live_buffers_never_share_bytes(buffers: list[Buffer], alignment: int) -> None:
    made = plan(buffers, alignment=alignment)
    written_bytes(buffers, made)
    assert set(made.offsets) == {b.name for b in buffers}
    assert all(offset % alignment == 0 for offset in made.offsets.values())


@given(buffer_lists())
def test_no_plan_is_below_the_lower_bound(buffers: list[Buffer]) -> None:
    made = plan(buffers, alignment=1)
    live = [sum(b.size for b in buffers if b.first <= step <= b.last) for step in range(20)]
    assert made.peak.size == max(live)
    assert made.size >= made.lower_bound >= made.peak.size
    assert made.size <= sum(b.size for b in buffers)


def chain(sizes: Sequence[int]) -> list[Buffer]:
    """Each buffer is written at one step and read at the next."""
    return [Buffer(f"b{i}", size, i, i + 1) for i, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_chains_need_the_bytes_of_two_neighbors(sizes: list[int]) -> None:
    made = plan(chain(sizes), alignment=1)
    assert made.size == made.lower_bound == max(a + b for a, b in zip(sizes, [*sizes[1:], 0], strict=True))


class Step(int):
    """A step that counts comparisons."""

    comparisons = 0

    def __le__(self, other: int) -> bool:
        Step.comparisons += 1
        return int(self) <= int(other)


def test_the_work_for_a_long_chain_is_proportional_to_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Step, "comparisons", 0)
    length = 2000
    made = plan([Buffer(f"b{i}", 100, Step(i), Step(i + 1)) for i in range(length)], alignment=1)
    assert made.size == 200
    assert length < Step.comparisons < 200 * length


def test_the_work_for_distant_steps_is_that_for_near_ones() -> None:
    """Tables may have steps up to 2^53, so the planner must not visit each one."""
    far = 1 << 52
    near = plan([Buffer("a", 16, 0, 2), Buffer("b", 32, 1, 1), Buffer("c", 8, 2, 3)], alignment=16)
    made = plan([Buffer("a", 16, 0, far), Buffer("b", 32, 1, far - 1), Buffer("c", 8, far, far + 1)], alignment=16)
    assert made.offsets == near.offsets
    assert (made.size, made.lower_bound) == (near.size, near.lower_bound)


def test_the_work_for_long_lives_is_at_most_that_for_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Step, "comparisons", 0)
    count = 400
    made = plan([Buffer(f"b{i}", 1, Step(i), Step(2 * count - i)) for i in range(count)], alignment=1)
    assert made.size == count
    assert Step.comparisons < 4 * count**2


@given(st.integers(1, 10), st.integers(1, 1000))
def test_residual_networks_need_three_maps(blocks: int, size: int) -> None:
    # step 3n reads x and writes a, 3n+1 reads a and writes b, 3n+2 adds x and b into the next x
    buffers = [Buffer("x0", size, 0, 2)]
    for n in range(blocks):
        t = 3 * n
        buffers += [
            Buffer(f"a{n}", size, t, t + 1),
            Buffer(f"b{n}", size, t + 1, t + 2),
            Buffer(f"x{n + 1}", size, t + 2, t + 5),
        ]
    made = plan(buffers, alignment=16)
    assert made.size == made.lower_bound == 3 * -(-size // 16) * 16


def test_the_same_buffers_give_the_same_plan() -> None:
    buffers = [Buffer(f"b{i}", 10 * (i % 3), i // 2, i) for i in range(20)]
    assert plan(buffers, alignment=16) == plan(list(buffers), alignment=16)


def test_an_empty_plan_has_size_0() -> None:
    assert plan([], alignment=16) == Plan({}, 0, 0)


def test_a_plan_names_the_buffers_at_its_peak() -> None:
    made = plan(
        [Buffer("a", 10, 0, 3), Buffer("b", 20, 2, 4), Buffer("c", 7, 4, 9), Buffer("n", 0, 2, 3)], alignment=16
    )
    assert made.peak == Peak(2, 48, ("b", "a"))
    assert str(made) == "48 bytes, proven smallest"
    assert str(made.peak) == 'most at step 2: "b", "a"'


def test_a_peak_of_many_names_the_largest() -> None:
    assert str(Peak(3, 60, tuple("abcdef"))) == 'most at step 3: "a", "b", "c", "d" and 2 more'


def test_an_unproven_plan_says_so() -> None:
    assert str(Plan({}, 2048, 1024)) == "2,048 bytes, not proven smallest: the lower bound is 1,024"


def convolutions(rng: random.Random, layers: int) -> list[Buffer]:
    """Typical maps of networks: chains with occasional skips and branches, and falling sizes."""
    sizes, lasts = [1 << 16], [1]
    for step in range(1, layers):
        sizes.append(max(64, int(sizes[-1] * rng.choice([0.25, 0.5, 1, 1, 1, 1, 2]))))
        lasts.append(step + 1)
        if rng.random() < 0.3:
            source = max(0, step - rng.randint(2, 4))
            lasts[source] = max(lasts[source], step)
    return [Buffer(f"b{i}", size, i, last) for i, (size, last) in enumerate(zip(sizes, lasts, strict=True))]


@pytest.mark.parametrize("seed", range(50))
def test_plans_of_networks_have_the_size_of_the_peak(seed: int) -> None:
    rng = random.Random(seed)
    made = plan(convolutions(rng, rng.randint(10, 120)), alignment=16)
    assert made.size == made.lower_bound == made.peak.size


def test_live_ranges_are_inclusive() -> None:
    buffers = [Buffer("a", 10, 0, 3), Buffer("b", 5, 3, 4), Buffer("c", 7, 4, 9)]
    assert plan(buffers, alignment=1).lower_bound == 15


WRONG = [
    ([(Buffer("a", 8, 0, 1), 0), (Buffer("b", 8, 1, 2), 4)], 16, 4, "a and b share bytes at step 1"),
    ([(Buffer("a", 8, 0, 5), 0), (Buffer("b", 8, 3, 3), 0)], 16, 4, "share bytes at step 3"),
    ([(Buffer("a", 8, 0, 1), 2)], 16, 4, "a at 2 is not aligned to 4"),
    ([(Buffer("a", 8, 0, 1), 12)], 16, 4, "a at 12 is outside of 16 bytes"),
    ([(Buffer("a", 8, 0, 1), -4)], 16, 4, "a at -4 is outside of 16 bytes"),
]


@pytest.mark.parametrize(("placed", "size", "alignment", "message"), WRONG, ids=[w[3] for w in WRONG])
def test_the_checker_sees_wrong_plans(
    placed: list[tuple[Buffer, int]], size: int, alignment: int, message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        check(placed, size=size, alignment=alignment)


def test_the_checker_accepts_adjacent_buffers() -> None:
    check([(Buffer("a", 8, 0, 1), 0), (Buffer("b", 8, 1, 2), 8), (Buffer("c", 8, 2, 3), 0)], size=16, alignment=8)


def test_the_search_ends_with_a_plan_that_is_small_enough() -> None:
    buffers = convolutions(random.Random(5), 40)
    least = plan(buffers, alignment=16)
    easy = plan(buffers, alignment=16, nodes=0, enough=2 * least.size)
    assert least.size <= easy.size <= 2 * least.size
    assert plan(buffers, alignment=16, enough=least.size).size == least.size


def test_a_spent_budget_ends_the_improvements_and_not_the_plan() -> None:
    buffers = [Buffer(str(i), 16 + 16 * (i * 7 % 5), i % 30, i % 30 + 1 + i % 7) for i in range(200)]
    spent = Budget(0)
    made = plan(buffers, alignment=16, budget=spent)
    assert made.size >= plan(buffers, alignment=16).size
    assert spent.left < 0


@pytest.mark.parametrize("count", [100, 400])
def test_the_work_grows_with_the_budget_and_not_with_the_table(count: int) -> None:
    """Four times the buffers of random lives, which no greedy order packs: not one order more than the budget has."""
    numbers = random.Random(count)
    lives = [(numbers.randrange(count), numbers.randrange(1, 20), numbers.randrange(1, 100)) for _ in range(count)]
    budget = Budget(3_000_000)
    plan(
        [Buffer(str(i), size, first, first + more) for i, (first, more, size) in enumerate(lives)],
        alignment=1,
        budget=budget,
    )
    assert budget.left > -1_000_000


@pytest.mark.parametrize("nested", [False, True])
def test_a_budget_that_ends_within_an_order_ends_its_work_and_not_the_plan(
    monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    """Random lives, some with a part that lives longer, and one buffer that never lives."""
    monkeypatch.setitem(SHARES, "memory", 20_000)
    numbers = random.Random(1)
    buffers = [Buffer("never", 16, 3, 2)]
    for i in range(300):
        first = numbers.randrange(300)
        buffers.append(Buffer(str(i), 32, first, first + numbers.randrange(90)))
        if nested and i % 3 == 0:
            buffers.append(Buffer(f"part {i}", 16, first, first + 100, inside=str(i), at=16))
    spent = Budget(10_000)
    made = plan(buffers, alignment=16, budget=spent)  # checks that it is right
    assert -30_000 < spent.left < 0
    assert plan(buffers, alignment=16, budget=Budget(10_000_000)).size < made.size < sum(b.size for b in buffers)


def test_the_checker_finds_one_overlap_among_many_buffers() -> None:
    """Whether few others are live at the same time, or few others lie at the same bytes."""
    for turned in (False, True):
        for wrong in (0, 57, 99):
            lives = [(8 * i, i) for i in range(100)]
            lives[wrong] = lives[wrong - 1] if wrong else lives[1]
            placed = [
                (Buffer(str(n), 8, 0, 200) if turned else Buffer(str(n), 8, step, step), offset if turned else 0)
                for n, (offset, step) in enumerate(lives)
            ]
            with pytest.raises(AssertionError, match="share bytes"):
                check(placed, size=800, alignment=8)
