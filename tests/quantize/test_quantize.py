"""Palettes: lossless where possible, otherwise near each weight, and the same every time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cnn_convertor.quantize import Counted, Palette, fit, fit_all, histogram

Half = NDArray[np.float16]
Real = NDArray[np.float64]


def decoded(palette: Palette, half: Half) -> Half:
    centers: Half = palette.centers[palette.index[half.view(np.uint16)]]
    return centers


def squared_error(palette: Palette, half: Half) -> float:
    return float(((half.astype(np.float64) - decoded(palette, half)) ** 2).sum())


DRAWS: dict[str, Callable[[np.random.Generator, int], Real]] = {
    "normal": lambda random, size: random.normal(size=size) * 0.02,
    "heavy tails": lambda random, size: random.standard_t(3, size=size) * 0.02,
    "even": lambda random, size: random.uniform(-1, 1, size),
    "positive": lambda random, size: random.exponential(size=size),
    "negative": lambda random, size: -random.exponential(size=size),
    "one spike": lambda random, size: np.append(np.full(size, 0.5), random.normal(size=1000)),
    "all magnitudes": lambda random, size: np.exp(random.uniform(-16, 11, size)) * random.choice([-1, 1], size),
}
DISTRIBUTIONS = list(DRAWS)


def drawn(distribution: str, size: int = 200_000) -> Half:
    return DRAWS[distribution](np.random.default_rng(0), size).astype(np.float16)


def test_counts_of_parts_add_up() -> None:
    half = drawn("normal").reshape(100, 10, 10, 20)
    whole = histogram(half)
    assert whole.shape == (65536,)
    assert whole.dtype == np.int64
    assert whole.sum() == half.size
    np.testing.assert_array_equal(histogram(half[:30]) + histogram(half[30:, :, ::-1]), whole)


@given(st.sets(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=0, max_size=254))
def test_up_to_255_values_and_zero_are_kept(values: set[float]) -> None:
    half = np.array([*values, 0.0, -0.0], np.float16)
    palette = fit(histogram(half))
    np.testing.assert_array_equal(decoded(palette, half), half)
    assert palette.centers[0] == 0
    assert not np.signbit(palette.centers[0])


def test_exactly_255_values_are_kept_and_256_are_not() -> None:
    half = np.arange(1, 257).astype(np.float16)
    assert squared_error(fit(histogram(half[:255])), half[:255]) == 0
    assert squared_error(fit(histogram(half)), half) > 0


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_each_number_has_the_nearest_center(distribution: str) -> None:
    palette = fit(histogram(drawn(distribution)))
    finite = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = finite[np.isfinite(finite)]
    centers = palette.centers.astype(np.float64)
    distance = np.abs(finite[:, None].astype(np.float64) - centers).min(axis=1)
    np.testing.assert_array_equal(np.abs(finite.astype(np.float64) - decoded(palette, finite)), distance)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_no_entry_is_unused(distribution: str) -> None:
    half = drawn(distribution)
    palette = fit(histogram(half))
    assert np.unique(palette.centers).size == 256
    assert np.unique(palette.index[half.view(np.uint16)]).size >= 255
    assert (np.diff(palette.centers[1:]) > 0).all()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_error_is_less_than_that_of_an_even_spacing(distribution: str) -> None:
    half = drawn(distribution)
    even = np.linspace(float(half.min()), float(half.max()), 255)
    nearest = even[np.searchsorted((even[:-1] + even[1:]) / 2, half.astype(np.float64))]
    assert squared_error(fit(histogram(half)), half) <= 1.1 * float(((half.astype(np.float64) - nearest) ** 2).sum())


def test_zeros_and_nans_have_entry_zero() -> None:
    palette = fit(histogram(drawn("normal")))
    assert not palette.index[np.array([0.0, -0.0, np.nan, -np.nan], np.float16).view(np.uint16)].any()


def test_all_weights_zero() -> None:
    palette = fit(histogram(np.zeros(10, np.float16)))
    assert not palette.centers.any()
    assert not palette.index.any()


def test_same_counts_in_any_order_give_the_same_palette() -> None:
    half = drawn("heavy tails")
    one, other = fit(histogram(half)), fit(histogram(half[::-1]))
    assert one.centers.tobytes() == other.centers.tobytes()
    assert one.index.tobytes() == other.index.tobytes()


def test_palettes_are_immutable() -> None:
    palette = fit(histogram(drawn("even", 1000)))
    with pytest.raises(ValueError, match="read-only"):
        palette.centers[1] = 1
    with pytest.raises(ValueError, match="read-only"):
        palette.index[1] = 1


def test_layers_of_few_values_are_taken_one_at_a_time() -> None:
    """Their histograms have half a megabyte each."""
    taken = 0

    def layers() -> Iterator[Counted]:
        nonlocal taken
        for taken in range(1, 4):
            yield Counted(histogram(np.full(5, taken, np.float16)), None)

    for number, palette in enumerate(fit_all(layers()), start=1):
        assert taken == number in palette.centers
    assert taken == 3
