"""Chains of pools, on each axis, against the pool that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.split_pools import split_average, split_max
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window

LIMITS = Limits()
Real = NDArray[np.float64]
Step = tuple[int, int, int, int]  # kernel, stride, padding before, padding after


def pool(values: Real, step: Step, *, fill: float) -> tuple[Real, bool]:
    """Windows on one axis as rows, and whether none of them lies in the padding as a whole."""
    kernel, stride, before, after = step
    wide = np.pad(values, (before, after), constant_values=fill)
    real = np.pad(np.ones(len(values), bool), (before, after))
    starts = np.arange(0, len(wide) - kernel + 1, stride)
    windows = starts[:, None] + np.arange(kernel)
    return wide[windows], bool(real[windows].any(axis=1).all())


def axes(window: Window) -> tuple[Step, Step]:
    """Vertical, horizontal."""
    pad = window.padding
    return (window.kernel.height, window.stride.height, pad.top, pad.bottom), (
        window.kernel.width,
        window.stride.width,
        pad.left,
        pad.right,
    )


def cases() -> Iterator[tuple[Step, int]]:
    """Every kernel, stride, padding and size that a framework may ask for."""
    for kernel in range(1, 17):
        for stride in range(1, 6):
            pads = {
                (0, 0),
                (0, 1),
                (1, 0),
                (0, kernel - 1),
                (kernel // 2, kernel // 2),
                ((kernel - 1) // 2, kernel // 2),
            }
            for before, after in sorted(pads):
                if max(before, after) >= kernel:
                    continue
                for size in (*range(1, 9), 11, 12, 16, 17, 20):
                    if (
                        before + size + after >= kernel
                        and pool(np.zeros(size), (kernel, stride, before, after), fill=0)[1]
                    ):
                        yield (kernel, stride, before, after), size


def is_within_limits(step: Step, kernels: Sequence[int]) -> bool:
    kernel, stride, before, after = step
    return (
        kernel in kernels
        and 1 <= stride <= LIMITS.max_stride
        and 0 <= before <= LIMITS.max_padding_left_top
        and 0 <= after <= LIMITS.max_padding_right_bottom
    )


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("vertical", [False, True])
def test_every_chain_of_max_pools_equals_the_pool(vertical: bool) -> None:
    kernels = LIMITS.max_pool_heights if vertical else LIMITS.max_pool_widths
    random, found = np.random.default_rng(0), 0
    for step, size in cases():
        chain = split_max(windows_of(step, vertical), *shapes_of(size, vertical))
        if chain is None:
            continue
        found += 1
        values = random.permutation(size).astype(float) - size
        expected = pool(values, step, fill=-np.inf)[0].max(axis=1)
        for part in chain:
            mine, _ = axes(part) if vertical else axes(part)[::-1]
            assert is_within_limits(mine, kernels), (step, size, chain)
            windows, real = pool(values, mine, fill=-np.inf)
            assert real, f"a window of padding alone: {step} on {size}: {chain}"
            values = windows.max(axis=1)
        np.testing.assert_array_equal(values, expected, err_msg=f"{step} on {size}: {chain}")
    assert found > 1000


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("vertical", [False, True])
def test_every_chain_of_sums_equals_the_pool(vertical: bool) -> None:
    random, found = np.random.default_rng(0), 0
    for step, size in cases():
        chain = split_average(windows_of(step, vertical), *shapes_of(size, vertical))
        if chain is None:
            continue
        found += 1
        values = random.normal(size=size)
        expected = pool(values, step, fill=0)[0].sum(axis=1)
        for part in chain:
            mine, _ = axes(part) if vertical else axes(part)[::-1]
            assert is_within_limits(mine, range(1, LIMITS.max_average_pool + 1)), (step, size, chain)
            values = pool(values, mine, fill=0)[0].sum(axis=1)
        np.testing.assert_allclose(values, expected, atol=1e-12, err_msg=f"{step} on {size}: {chain}")
    assert found > 1000


def windows_of(step: Step, vertical: bool) -> Window:
    """A window that is `step` on one axis and takes in all of the other, which chains of any length do."""
    kernel, stride, before, after = step
    if vertical:
        return Window(Pair(kernel, 3), Pair(stride, 1), padding=Padding(before, after, 0, 0))
    return Window(Pair(3, kernel), Pair(1, stride), padding=Padding(0, 0, before, after))


def shapes_of(size: int, vertical: bool) -> tuple[Shape, Limits]:
    return (Shape(size, 3, 4) if vertical else Shape(3, size, 4)), LIMITS


def maximum(values: Real, window: Window) -> Real:
    """A max pool of (H, W) values, axis by axis."""
    rows, columns = axes(window)
    values = np.stack([pool(column, rows, fill=-np.inf)[0].max(axis=1) for column in values.T], axis=1)
    return np.stack([pool(row, columns, fill=-np.inf)[0].max(axis=1) for row in values])


@pytest.mark.parametrize("height", [*range(1, 20), 28, 49])
@pytest.mark.parametrize("width", [1, 2, 5, 7, 11, 14, 49])
def test_global_max_pools_are_chains(height: int, width: int) -> None:
    window = Window(Pair(height, width))
    chain = split_max(window, Shape(height, width, 8), LIMITS)
    assert chain is not None
    values = -np.random.default_rng(0).random((height, width))
    for part in chain:
        assert part.kernel.height in LIMITS.max_pool_heights and part.kernel.width in LIMITS.max_pool_widths
        values = maximum(values, part)
    assert values.shape == (1, 1)
    assert values.item() == (-np.random.default_rng(0).random((height, width))).max()


@pytest.mark.parametrize("height", range(1, 50))
@pytest.mark.parametrize("width", [1, 7, 8, 11, 14, 49])
def test_global_average_pools_are_chains(height: int, width: int) -> None:
    chain = split_average(Window(Pair(height, width)), Shape(height, width, 8), LIMITS)
    assert chain is not None
    shape = Shape(height, width, 8)
    for part in chain:
        assert max(part.kernel) <= LIMITS.max_average_pool
        shape = part.slide(shape, channels=8)
    assert shape == (1, 1, 8)


@pytest.mark.parametrize("kernel", [4, 5, 7, 9, 13])
def test_spatial_pyramids_of_max_pools_are_chains(kernel: int) -> None:
    """Stride 1, 'same': YOLO's 5, 9 and 13."""
    half = (kernel - 1) // 2
    window = Window(Pair(kernel, kernel), padding=Padding(half, kernel - 1 - half, half, kernel - 1 - half))
    chain = split_max(window, Shape(13, 13, 8), LIMITS)
    assert chain is not None
    assert len(chain) == -(-(kernel - 1) // 2)
    values = -np.random.default_rng(0).random((13, 13))
    expected, result = maximum(values, window), values
    for part in chain:
        result = maximum(result, part)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("kernel", "stride", "count"), [((4, 4), (4, 4), 2), ((6, 6), (6, 6), 2), ((9, 9), (9, 9), 2), ((8, 8), (8, 8), 3)]
)
def test_side_by_side_max_pools_are_short_chains(kernel: tuple[int, int], stride: tuple[int, int], count: int) -> None:
    chain = split_max(Window(Pair(*kernel), Pair(*stride)), Shape(72, 72, 8), LIMITS)
    assert chain is not None and len(chain) == count


def test_a_sum_over_all_may_have_padding_on_every_side() -> None:
    chain = split_average(Window(Pair(11, 10), padding=Padding(1, 2, 3, 0)), Shape(8, 7, 8), LIMITS)
    assert chain == [Window(Pair(4, 7), Pair(4, 1)), Window(Pair(2, 1))]


@pytest.mark.parametrize("size", [50, 300, 2000])
def test_the_search_for_a_chain_ends(size: int) -> None:
    """The maximum over time of a text: no pool is one wide."""
    assert split_max(Window(Pair(size, 1)), Shape(size, 4, 8), LIMITS) is None
    assert split_max(Window(Pair(1, size)), Shape(4, size, 8), LIMITS) is not None


def test_what_has_no_chain() -> None:
    split = partial(split_max, shape=Shape(20, 20, 8), limits=LIMITS)
    assert split(Window(Pair(2, 1))) is None, "a max pool 1 wide needs 1-wide pools, which the device has not"
    assert split(Window(Pair(8, 2), Pair(8, 2))) is None, "three pools high would be three pools wide"
    assert split_average(Window(Pair(8, 8)), Shape(20, 20, 8), LIMITS) is None, "stride 1 cuts no window in two"
    assert split_average(Window(Pair(11, 11), Pair(11, 11)), Shape(33, 33, 8), LIMITS) is None, "11 is prime"
