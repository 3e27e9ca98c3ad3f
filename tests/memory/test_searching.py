"""The complete search: its plans are the smallest, and its proofs of impossibility are right."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from cnn_convertor.memory import Buffer, plan
from cnn_convertor.memory.search_state import Piece
from cnn_convertor.memory.searching import Result, SearchStatus, search_blocks
from cnn_convertor.memory.validity import check
from reference.planning_reference import Life, smallest

LIMIT = 100_000  # nodes
# Six bytes are live at nearly every step, but six bytes are not enough.
GAP = [
    (2, 0, 0), (2, 1, 1), (4, 0, 2), (1, 2, 3), (1, 3, 3), (1, 2, 4), (3, 3, 4), (1, 4, 5), (1, 4, 5), (4, 5, 6), (2, 6, 6)
]  # fmt: skip


def search(lives: Sequence[Life], capacity: int, *, limit: int) -> Result:
    """A search for buffers of (size, first step, last step), each a block."""
    return search_blocks([(Piece(0, *life),) for life in lives], capacity, limit=limit)


def loose(rng: random.Random) -> list[Life]:
    """Sparse live ranges."""
    steps, most = rng.choice([4, 8, 12]), rng.choice([3, 8, 40])
    starts = [rng.randrange(steps) for _ in range(rng.randint(1, 12))]
    return [(rng.randint(1, most), first, first + rng.randrange(1 + steps // 2)) for first in starts]


def tight(rng: random.Random) -> list[Life]:
    """The same number of live bytes at each step; some cases need gaps."""
    height = rng.choice([6, 8, 12])
    done: list[Life] = []
    live: list[tuple[int, int]] = []
    for step in range(12):
        new: list[tuple[int, int]] = []
        while free := height - sum(size for size, _ in live + new):
            new.append((rng.randint(1, free), step))
        if len(done) + len(live) + len(new) > 12:
            return done + [(size, first, step - 1) for size, first in live]
        live = rng.sample(live + new, len(live) + len(new))
        last = rng.randint(1, max(1, len(live) - 1))
        done += [(size, first, step) for size, first in live[:last]]
        live = live[last:]
    return done


def planted(rng: random.Random, buffers: int, *, height: int, steps: int) -> list[Life]:
    """Pieces cut from a full memory, which fit it again."""
    pieces = [(0, steps, 0, height)]
    while len(pieces) < buffers:
        pieces.sort(key=lambda p: (p[1] - p[0]) * (p[3] - p[2]))
        first, end, low, high = pieces.pop(-rng.randint(1, min(5, len(pieces))))
        if end - first > 1 and (rng.random() < 0.5 or high - low < 2):
            cut = rng.randrange(first + 1, end)
            pieces += [(first, cut, low, high), (cut, end, low, high)]
        elif high - low > 1:
            cut = rng.randrange(low + 1, high)
            pieces += [(first, end, low, cut), (first, end, cut, high)]
        else:
            pieces.append((first, end, low, high))
            break
    rng.shuffle(pieces)
    return [(high - low, first, end - 1) for first, end, low, high in pieces]


def buffers_of(lives: Sequence[Life]) -> list[Buffer]:
    return [Buffer(str(i), *life) for i, life in enumerate(lives)]


def assert_smallest(lives: Sequence[Life]) -> None:
    best = smallest(lives)
    made = plan(buffers_of(lives), alignment=1)
    assert (made.size, made.lower_bound) == (best, best), lives
    found = search(lives, best, limit=LIMIT)
    assert found.status is SearchStatus.FOUND, lives
    check(list(zip(buffers_of(lives), found.offsets, strict=True)), size=best, alignment=1)
    assert search(lives, best - 1, limit=LIMIT).status is SearchStatus.IMPOSSIBLE, lives


MAKERS = [loose, tight]


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS)
def test_plans_are_the_smallest(make: Callable[[random.Random], list[Life]]) -> None:
    rng = random.Random(0)
    for _ in range(150):
        assert_smallest(make(rng))


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("make", MAKERS)
def test_a_thousand_plans_are_the_smallest(make: Callable[[random.Random], list[Life]]) -> None:
    rng = random.Random(1)
    for _ in range(500):
        assert_smallest(make(rng))


def test_a_bound_that_cannot_be_reached_is_raised() -> None:
    made = plan(buffers_of(GAP), alignment=1)
    assert made.peak.size < made.size == made.lower_bound == smallest(GAP)
    assert made.proven


@pytest.mark.parametrize("seed", range(10))
def test_cut_memory_is_reassembled(seed: int) -> None:
    lives = planted(random.Random(seed), 60, height=1024, steps=64)
    made = plan(buffers_of(lives), alignment=1)
    assert made.size == made.lower_bound == 1024


@pytest.mark.parametrize("seed", range(3))
def test_two_hundred_buffers_are_reassembled_within_the_limit_of_a_conversion(seed: int) -> None:
    lives = planted(random.Random(seed), 200, height=1 << 20, steps=256)
    assert plan(buffers_of(lives), alignment=1).proven


def test_the_search_does_not_begin_with_fewer_nodes_than_buffers() -> None:
    lives = planted(random.Random(0), 60, height=1024, steps=64)
    assert search(lives, 1024, limit=len(lives) - 1) == Result(SearchStatus.GAVE_UP, (), 0)
    assert search(lives, 1024, limit=len(lives)).nodes > 0


@pytest.mark.slow
def test_the_search_gives_up_at_its_limit_of_nodes() -> None:
    lives = planted(random.Random(0), 300, height=1024, steps=256)
    result = search(lives, 1024, limit=300)
    assert result.status is SearchStatus.GAVE_UP and result.nodes == 300 and result.offsets == ()
    made = plan(buffers_of(lives), alignment=1, nodes=300)
    assert not made.proven and made.size > made.lower_bound == 1024


def test_offsets_are_deterministic() -> None:
    lives = planted(random.Random(3), 50, height=256, steps=40)
    assert search(lives, 256, limit=LIMIT) == search(list(lives), 256, limit=LIMIT)


def test_excess_capacity_is_harmless() -> None:
    lives = planted(random.Random(4), 40, height=256, steps=40)
    found = search(lives, 400, limit=LIMIT)
    assert found.status is SearchStatus.FOUND
    check(list(zip(buffers_of(lives), found.offsets, strict=True)), size=400, alignment=1)
