"""Clusterings are optimal for any values."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cnn_convertor.quantize import FREE, fit, histogram, measure
from cnn_convertor.quantize.clustering import divide

Half = NDArray[np.float16]
Real = NDArray[np.float64]

UNIT = 2.0**-24  # FP16's least step
halves = st.floats(width=16, allow_nan=False, allow_infinity=False).filter(bool)


def squared_error(centers: Real, values: Real, weights: Real) -> float:
    return float((weights * np.abs(values[:, None] - centers).min(axis=1) ** 2).sum())


def best_of_all_centers(values: Real, weights: Real, clusters: int, allowed: Real) -> float:
    """The least squared error with 0.0 and any other allowed centers, by exhaustive search."""
    return min(
        squared_error(np.array([0.0, *others]), values, weights)
        for others in itertools.combinations(allowed, clusters - 1)
    )


def neighbors(value: float) -> Real:
    """FP16 numbers around a value, as numpy rounds."""
    middle = np.float16(value)
    largest = np.finfo(np.float16).max
    return np.array([np.nextafter(middle, -largest), middle, np.nextafter(middle, largest)], np.float64)


def best_of_all_borders(values: Real, weights: Real, clusters: int) -> float:
    """The least squared error of a division into ranges, by dynamic programming over all borders."""
    zero = int(np.searchsorted(values, 0.0))
    points, counts = np.insert(values, zero, 0.0), np.insert(weights, zero, 0.0)
    size = points.size
    costs = np.full((size, size + 1), np.inf)
    for start, stop in itertools.combinations(range(size + 1), 2):
        part, n = points[start:stop], counts[start:stop]
        if start <= zero < stop:
            costs[start, stop] = (n * part**2).sum()
        else:
            centers = neighbors(float((n * part).sum() / n.sum()))
            costs[start, stop] = min(float((n * (part - center) ** 2).sum()) for center in centers)
    least = np.full(size + 1, np.inf)
    least[0] = 0
    for _ in range(clusters):
        least = np.append(np.inf, (least[:size, None] + costs).min(axis=0)[1:])
    return float(least[-1])


@given(
    st.dictionaries(st.integers(-10, 10).filter(bool), st.integers(1, 9), min_size=4, max_size=9),
    st.integers(2, 4),
)
def test_no_other_centers_are_better(counts: dict[int, int], clusters: int) -> None:
    values = np.array(sorted(counts)) * UNIT
    weights = np.array([counts[value] for value in sorted(counts)], np.float64)
    centers = divide(values, weights, clusters)
    assert centers.size <= clusters
    assert 0.0 in centers
    best = best_of_all_centers(values, weights, clusters, np.arange(-10.0, 11) * UNIT)
    assert squared_error(centers, values, weights) == pytest.approx(best, rel=1e-12, abs=1e-6 * UNIT**2)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@given(
    st.sets(st.one_of(halves, st.floats(0.5, 1, width=16)), min_size=12, max_size=40),
    st.integers(2, 12),
    st.randoms(use_true_random=False),
)
def test_no_other_borders_are_better(chosen: set[float], clusters: int, random: np.random.Generator) -> None:
    values = np.array(sorted(chosen), np.float64)
    weights = np.array([random.choice([1, 2, 1000]) for _ in values], np.float64)
    centers = divide(values, weights, clusters)
    assert 0.0 in centers
    assert (centers == centers.astype(np.float16)).all()
    best = best_of_all_borders(values, weights, clusters)
    assert squared_error(centers, values, weights) <= best * (1 + 1e-9) + 1e-15 * float((weights * values**2).sum())


@pytest.mark.parametrize("clusters", range(2, 40))
def test_equal_gaps_have_many_optima_and_one_is_found(clusters: int) -> None:
    """The number of clusters jumps as the price falls, so the result is spliced from two paths."""
    values = np.arange(1, 41) / 64
    weights = np.ones(40)
    centers = divide(values, weights, clusters)
    best = best_of_all_borders(values, weights, clusters)
    assert squared_error(centers, values, weights) == pytest.approx(best, rel=1e-9, abs=1e-15)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("scale", [1e-6, 0.02, 100])
@pytest.mark.parametrize("size", [1000, 20_000])
def test_k_means_with_restarts_is_never_better(size: int, scale: float) -> None:
    half = (np.random.default_rng(size).standard_t(4, size) * scale).astype(np.float16)
    counts = histogram(half)
    ours = measure(fit(counts), counts).noise
    values = half.astype(np.float32).reshape(-1, 1)
    ending = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 20, 0.0)
    start = np.zeros((size, 1), np.int32)
    centers = np.asarray(cv2.kmeans(values, FREE, start, ending, 2, cv2.KMEANS_PP_CENTERS)[2], np.float64)
    rounded = np.append(centers.astype(np.float16).astype(np.float64).reshape(-1), 0.0)
    ends = np.unique(rounded)
    nearest = ends[np.searchsorted((ends[:-1] + ends[1:]) / 2, half.astype(np.float64))]
    assert ours <= float(((half.astype(np.float64) - nearest) ** 2).sum())


def test_an_outlier_does_not_affect_precision() -> None:
    near = (np.random.default_rng(0).normal(size=50_000) * 1e-3).astype(np.float16)
    alone, beside = histogram(near), histogram(np.append(near, np.float16(-65504)))
    error, with_outlier = measure(fit(alone), alone).noise, measure(fit(beside), beside).noise
    assert error < with_outlier < 1.03 * error


@pytest.mark.parametrize("scale", [1e-16, 1e-8, 1e8])
def test_the_unit_of_weights_does_not_matter(scale: float) -> None:
    random = np.random.default_rng(0)
    values = np.sort(random.normal(size=400))
    weights = random.uniform(0.1, 1, size=400)
    np.testing.assert_allclose(divide(values, weights * scale, 30), divide(values, weights, 30), rtol=1e-9)


def test_larger_counts_are_kept_more_exactly() -> None:
    half = np.linspace(0.25, 1, 1024).astype(np.float16)
    counts = histogram(half).astype(np.float64)
    counts[half[:512].view(np.uint16)] *= 1000.5
    centers = fit(counts).centers
    assert np.count_nonzero((centers > 0) & (centers < half[512])) > 200


@pytest.mark.slow
def test_more_magnitudes_than_a_layer_ever_has() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    counts = histogram(every[np.isfinite(every)])
    quality = measure(fit(counts), counts)
    assert quality.distinct == 63_487
    assert quality.weights == 63_488
    assert quality.zeros == 2
    assert quality.sqnr > 40


@pytest.mark.parametrize("magnitudes", [15, 40, 300])
def test_counts_of_any_magnitudes_are_clustered(magnitudes: int) -> None:
    random = np.random.default_rng(magnitudes)
    values = np.unique(random.normal(size=5000).astype(np.float16)).astype(np.float64)
    values = values[values != 0]
    centers = divide(values, 10.0 ** random.uniform(0, magnitudes, values.size), 255)
    assert np.isfinite(centers).all() and (np.diff(centers) > 0).all() and len(centers) == 255


def test_quality_counts_weights() -> None:
    half = np.array([0.0, -0.0, 1.5, 1.5, -2.0], np.float16)
    counts = histogram(half)
    quality = measure(fit(counts), counts)
    assert quality == (5, 2, 3, 8.5, 0.0)
    assert quality.sqnr == np.inf


def test_palettes_are_bit_exact() -> None:
    """The same bytes on every machine, for integers from a formula."""
    patterns = (np.arange(200_000, dtype=np.uint64) * 2654435761 >> 7) % 12_345
    half = ((patterns.astype(np.int64) - 5000) * (patterns.astype(np.int64) % 97) / 2**19).astype(np.float16)
    centers = fit(histogram(half)).centers
    assert int(np.bitwise_xor.reduce(centers.view(np.uint16) * np.arange(1, 257, dtype=np.uint16))) == EXPECTED


EXPECTED = 1343


@pytest.mark.slow
@given(
    st.sets(st.floats(0.5, 1, width=16), min_size=12, max_size=40),
    st.integers(2, 12),
    st.randoms(use_true_random=False),
)
def test_values_beyond_fp16_precision_are_clustered_optimally(
    chosen: set[float], clusters: int, random: np.random.Generator
) -> None:
    values = np.sort(np.array([value + random.uniform(-1, 1) * 2.0**-13 for value in chosen]))
    weights = np.array([random.choice([1, 2, 1000]) for _ in values], np.float64)
    centers = divide(values, weights, clusters)
    assert (centers == centers.astype(np.float16)).all()
    best = best_of_all_borders(values, weights, clusters)
    assert squared_error(centers, values, weights) <= best * (1 + 1e-9) + 1e-15 * float((weights * values**2).sum())


def test_means_recover_fp16_rounding() -> None:
    """FP32 weights, few more than a palette has entries: rounding matters as much as the palette."""
    weights = np.random.default_rng(0).normal(size=290).astype(np.float32)
    half = weights.astype(np.float16)
    counts, patterns = histogram(half), half.view(np.uint16)
    means = np.divide(np.bincount(patterns, weights, 1 << 16), counts, out=np.zeros(1 << 16), where=counts > 0)

    def error(centers: NDArray[np.float16]) -> float:
        return squared_error(centers.astype(np.float64), weights.astype(np.float64), np.ones(weights.size))

    assert error(fit(counts, means).centers) < error(fit(counts).centers)
