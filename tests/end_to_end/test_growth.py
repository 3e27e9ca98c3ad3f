"""Work grows with the count of anything in an input no faster than N log N: lines of Python are counted, not seconds."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from cnn_convertor.budget import SHARES
from development.growth.growing import READERS, network_rows
from development.growth.measuring import COMPILER, MOST, growth_of

pytestmark = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no C compiler {COMPILER}")
NETWORKS = dict(network_rows())


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_readers_and_planners(name: str) -> None:
    """Regular expressions have no lines, so their time is measured too: of three times, as load only adds to one."""
    for _ in range(3):
        growth = growth_of(READERS[name], 64, with_memory=True)
        assert max(growth.of_lines, growth.of_peak) <= MOST, growth
        if growth.of_seconds <= MOST:
            return
    pytest.fail(f"the time grows too fast: {growth}")


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_commands(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHARES, "picture", 100_000)  # a picture has as many bends as the arrows' lengths
    growth = growth_of(NETWORKS[name], 24)  # with fewer, it shows where a search begins
    assert growth.of_lines <= MOST, growth


def _pairs(count: int) -> int:
    total = 0
    for i in range(count):
        for j in range(i):
            total += i ^ j
    return total


def _halves(count: int) -> None:
    numbers = list(range(count))
    while len(numbers) > 1:
        for _ in numbers:
            pass
        numbers = numbers[::2]
    for size in (count, count // 2, count // 4):
        for _ in range(size):
            pass


@pytest.mark.parametrize(("work", "is_too_much"), [(_pairs, True), (_halves, False)])
def test_the_measure_tells_squares_from_sums(work: Callable[[int], object], is_too_much: bool) -> None:
    assert (growth_of(work, 64).of_lines > MOST) == is_too_much
