"""Nested buffers: no live bytes are overwritten, and plans are the smallest."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn_convertor.memory import Buffer, Peak, plan
from cnn_convertor.memory.search_state import Piece
from cnn_convertor.memory.searching import SearchStatus, search_blocks
from cnn_convertor.memory.validity import check
from reference.planning_reference import Part, clashes, needed, smallest_nested

LIMIT = 100_000  # nodes


@dataclass
class Maker:
    """Random containers with parts; containers are live themselves, or only through their parts."""

    rng: random.Random
    steps: int = 6

    def life(self) -> tuple[int, int]:
        first = self.rng.randrange(self.steps)
        return first, min(self.steps - 1, first + self.rng.randrange(3))

    def family(self, name: str, *, depth: int = 2) -> list[Buffer]:
        made: list[Buffer] = []
        at = 0
        for i in range(self.rng.choice([0, 0, 2, 2, 3]) if depth else 0):
            part = self.family(f"{name}.{i}", depth=self.rng.randrange(depth))
            made += [part[0]._replace(inside=name, at=at), *part[1:]]
            at += part[0].size + (self.rng.random() < 0.1)
        alone = not made or self.rng.random() < 0.3
        first, last = self.life() if alone else (0, -1)
        return [Buffer(name, at or self.rng.randint(1, 3), first, last), *made]

    def buffers(self, most: int) -> list[Buffer]:
        return [b for i in range(self.rng.randint(1, most)) for b in self.family(f"b{i}")]


def parts(buffers: list[Buffer]) -> list[Part]:
    return [Part(*b) for b in buffers]


def assert_smallest(rng: random.Random, count: int) -> None:
    """The plans are the smallest; nearly all are proven, and no bound is too high."""
    proven = 0
    for _ in range(count):
        buffers = Maker(rng).buffers(3)
        best = smallest_nested(parts(buffers))
        made = plan(buffers, alignment=1)
        assert made.lower_bound <= best == made.size, buffers
        assert not clashes(parts(buffers), made.offsets)
        proven += made.proven
    assert proven > 0.97 * count


def test_plans_are_the_smallest() -> None:
    assert_smallest(random.Random(0), 150)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_many_plans_are_the_smallest() -> None:
    assert_smallest(random.Random(1), 400)


def pieces_of(buffers: list[Buffer]) -> list[list[Piece]]:
    """Each byte as a piece of its own."""
    found = []
    for cells in needed(parts(buffers)).values():
        steps = {byte: [step for step, b in cells if b == byte] for _, byte in cells}
        found.append([Piece(byte, 1, min(when), max(when)) for byte, when in sorted(steps.items())])
    return [block for block in found if block]


def test_the_search_finds_the_smallest_plan_and_proves_it() -> None:
    rng = random.Random(2)
    for _ in range(100):
        buffers = Maker(rng).buffers(2)
        best = smallest_nested(parts(buffers))
        blocks = pieces_of(buffers)
        if not blocks:
            continue
        found = search_blocks(blocks, best, limit=LIMIT)
        assert found.status is SearchStatus.FOUND, buffers
        cells = [(step, offset + p.at) for block, offset in zip(blocks, found.offsets, strict=True)
                 for p in block for step in range(p.first, p.last + 1)]  # fmt: skip
        assert len(cells) == len(set(cells)), buffers
        assert all(0 <= byte < best for _, byte in cells), buffers
        assert search_blocks(blocks, best - 1, limit=LIMIT).status is SearchStatus.IMPOSSIBLE, buffers


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@settings(max_examples=60)
@given(st.integers(0, 1 << 32), st.sampled_from([1, 4, 16]))
def test_no_live_bytes_are_overwritten(seed: int, alignment: int) -> None:
    buffers = Maker(random.Random(seed), steps=12).buffers(12)
    scaled = [b._replace(size=b.size * alignment, at=b.at * alignment) for b in buffers]
    made = plan(scaled, alignment=alignment, nodes=200)
    assert not clashes(parts(scaled), made.offsets)
    assert made.peak.size <= made.lower_bound <= made.size
    for b in scaled:
        assert made.offsets[b.name] % alignment == 0
        if b.inside:
            assert made.offsets[b.name] == made.offsets[b.inside] + b.at


PARTS = [Buffer("whole", 8, 0, -1), Buffer("low", 4, 0, 9, "whole"), Buffer("high", 4, 5, 9, "whole", 4)]


def test_bytes_of_a_part_that_is_not_live_are_free() -> None:
    made = plan([*PARTS, Buffer("before", 4, 0, 4)], alignment=1)
    assert (made.size, made.offsets["before"]) == (8, 4)
    assert made.proven


def test_a_live_container_needs_all_its_bytes() -> None:
    whole = Buffer("whole", 8, 0, 9)
    assert plan([whole, *PARTS[1:], Buffer("before", 4, 0, 4)], alignment=1).size == 12


def test_bytes_of_a_part_stay_until_the_container_is_read() -> None:
    buffers = [Buffer("whole", 4, 8, 9), Buffer("part", 4, 0, 1, "whole"), Buffer("between", 4, 4, 5)]
    assert plan(buffers, alignment=1).size == 8


def test_the_peak_names_the_parts_that_make_it() -> None:
    assert plan(PARTS, alignment=1).peak == Peak(5, 8, ("low", "high"))


def test_a_bound_that_nesting_makes_unreachable_is_raised() -> None:
    """Four bytes are live at each step, but the neighbors keep the two parts apart."""
    buffers = [
        Buffer("w", 2, 0, -1), Buffer("w0", 1, 0, 1, "w"), Buffer("w1", 1, 1, 1, "w", 1),
        Buffer("v", 2, 0, -1), Buffer("v0", 1, 1, 1, "v"), Buffer("v1", 1, 0, 1, "v", 1),
        Buffer("x", 2, 0, 0),
    ]  # fmt: skip
    made = plan(buffers, alignment=1)
    assert made.size == made.lower_bound == smallest_nested(parts(buffers))


WRONG_NESTING = [
    ([Buffer("w", 8, 0, 1), Buffer("p", 4, 0, 1, "w", 5)], "p does not lie inside w"),
    ([Buffer("w", 8, 0, 1), Buffer("p", 5, 0, 1, "w"), Buffer("q", 4, 0, 1, "w", 4)], "shares bytes with"),
]


@pytest.mark.parametrize(("buffers", "message"), WRONG_NESTING, ids=[w[1] for w in WRONG_NESTING])
def test_invalid_parts_are_errors(buffers: list[Buffer], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(buffers, alignment=1)


def test_places_of_parts_must_be_aligned() -> None:
    with pytest.raises(ValueError, match="not a multiple of 16"):
        plan([Buffer("w", 64, 0, 1), Buffer("p", 16, 0, 1, "w", 8)], alignment=16)


W, P = Buffer("w", 8, 4, 5), Buffer("p", 4, 0, 1, "w", 4)
WRONG = [
    ([(W, 0), (P, 0)], "p at 0 is not 4 bytes inside w at 0"),
    ([(W, 0), (P._replace(size=5), 4)], "p is larger than its place in w"),
    ([(W, 0), (P, 4), (Buffer("q", 4, 0, 1, "w", 2), 2)], "q and p share bytes of w"),
    ([(W, 0), (P, 4), (Buffer("x", 4, 2, 3), 4)], "p and x share bytes at step 2"),
    ([(W, 0), (P, 4), (Buffer("x", 4, 0, 0), 6)], "p and x share bytes at step 0"),
    ([(W, 0), (P, 4), (Buffer("x", 4, 5, 6), 0)], "x and w share bytes at step 5"),
]


@pytest.mark.parametrize(("placed", "message"), WRONG, ids=[w[1] for w in WRONG])
def test_the_checker_sees_wrong_nesting(placed: list[tuple[Buffer, int]], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check(placed, size=32, alignment=1)


def test_the_checker_accepts_reuse_of_free_bytes() -> None:
    check([(W, 0), (P, 4), (Buffer("x", 4, 0, 3), 0), (Buffer("y", 8, 6, 7), 0)], size=8, alignment=1)


def test_the_checker_agrees_with_a_comparison_of_all_pairs() -> None:
    accepted = 0
    for seed in range(600):
        chosen = random.Random(seed)

        def life() -> tuple[int, int]:
            first, last = sorted((chosen.randrange(5), chosen.randrange(5)))  # noqa: B023 - called at once
            return first, last

        whole = Buffer("w", 8, *life())
        inner = [Buffer(f"p{at}", 4, *life(), "w", at) for at in (0, 4)]
        others = [Buffer(f"x{n}", chosen.randint(1, 8), *life()) for n in range(3)]
        start = chosen.randrange(56)
        placed = [
            (whole, start),
            *((part, start + part.at) for part in inner),
            *((x, chosen.randrange(56)) for x in others),
        ]
        wrong = clashes(parts([buffer for buffer, _ in placed]), {buffer.name: offset for buffer, offset in placed})
        try:
            check(placed, size=64, alignment=1)
        except AssertionError:
            assert wrong
        else:
            accepted += 1
            assert not wrong
    assert 100 < accepted < 500
