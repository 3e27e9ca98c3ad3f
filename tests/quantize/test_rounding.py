"""Rounding by second order is what its formulas say, and loses less than the nearest values do."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.quantize.rounding import (
    Rounded,
    damped,
    descend,
    factors,
    nearest,
    nearest_plane,
    refit,
)

Real = NDArray[np.float64]
GROUPS, COLUMNS, ROWS = 3, 70, 5  # more columns than a block


def problem(seed: int = 0) -> tuple[Real, Real, Real]:
    """Weights, Hessians of correlated inputs, and values."""
    random = np.random.default_rng(seed)
    mixed = random.normal(size=(GROUPS, 200, 12)) @ random.normal(size=(GROUPS, 12, COLUMNS))
    inputs = mixed + 0.3 * random.normal(size=(GROUPS, 200, COLUMNS))
    values = np.unique(np.append(random.normal(size=14), 0.0).astype(np.float16).astype(np.float64))
    return random.normal(size=(GROUPS, COLUMNS, ROWS)), damped(inputs.swapaxes(1, 2) @ inputs / 200, 20000), values


def noise(weights: Real, hessians: Real, rounded: Rounded) -> float:
    errors = weights - rounded.weights
    return float(np.einsum("gir,gij,gjr->", errors, hessians, errors))


def plainly_rounded(weights: Real, hessian: Real, values: Real) -> Real:
    """One row, (C,), as the literature has it: each error goes to the weights that follow, by the inverse Hessian."""
    order = sorted(range(len(weights)), key=lambda i: (-hessian[i, i], i))
    inverse = np.linalg.inv(hessian[np.ix_(order, order)])
    left, result = weights[order], np.empty(len(weights))
    for place, column in enumerate(order):
        result[column] = values[np.argmin(np.abs(values - left[place]))]
        rest = np.linalg.inv(np.linalg.inv(inverse)[place:, place:])
        left[place:] -= (left[place] - result[column]) / rest[0, 0] * rest[0]
    return result


def test_the_factors_give_the_hessian() -> None:
    _, hessians, _ = problem()
    order, lower, powers = factors(hessians)
    for g in range(GROUPS):
        assert np.allclose(np.triu(lower[g], 1), 0) and np.allclose(np.diagonal(lower[g]), 1)
        assert list(order[g]) == sorted(range(COLUMNS), key=lambda i, g=g: -hessians[g, i, i])  # type: ignore[misc]
        np.testing.assert_allclose(lower[g].T @ np.diag(powers[g]) @ lower[g], hessians[g][np.ix_(order[g], order[g])])


def test_an_importance_is_the_variance_that_later_columns_leave() -> None:
    _, hessians, _ = problem()
    factored = factors(hessians)
    for g in range(GROUPS):
        for place in (0, 30, COLUMNS - 1):
            later = factored.order[g, place:]
            left = 1 / np.linalg.inv(hessians[g][np.ix_(later, later)])[0, 0]
            assert factored.importance[g, later[0]] == pytest.approx(left)


def test_the_nearest_plane_is_what_passing_errors_on_gives() -> None:
    weights, hessians, values = problem()
    rounded = nearest_plane(weights, factors(hessians), values)
    for g, r in np.ndindex(GROUPS, ROWS):
        np.testing.assert_array_equal(rounded.weights[g, :, r], plainly_rounded(weights[g, :, r], hessians[g], values))


def test_no_other_value_of_a_single_weight_is_better_in_the_end() -> None:
    weights, hessians, values = problem()
    rounded = descend(weights, hessians, nearest_plane(weights, factors(hessians), values), sweeps=100)
    for g, c, r in [(0, 0, 0), (1, 33, 2), (2, 69, 4), (0, 64, 1)]:
        found = []
        for code in range(values.size):
            codes = rounded.codes.copy()
            codes[g, c, r] = code
            found.append(noise(weights, hessians, Rounded(values, codes)))
        assert found[rounded.codes[g, c, r]] == pytest.approx(min(found), rel=1e-12)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, ROWS), (GROUPS, 1, 1)], ids=["equal", "rows", "groups"])
def test_refitted_values_solve_the_normal_equations(shape: tuple[int, int, int]) -> None:
    weights, hessians, values = problem()
    rounded = nearest_plane(weights, factors(hessians), values)
    counts = np.random.default_rng(5).uniform(0.1, 10, shape)
    made = refit(weights, hessians, rounded, counts)
    rows, targets = [], []
    for g, r in np.ndindex(GROUPS, ROWS):
        root = np.linalg.cholesky(hessians[g] * np.broadcast_to(counts, (GROUPS, 1, ROWS))[g, 0, r]).T
        rows.append(root @ (rounded.codes[g, :, r, None] == np.flatnonzero(values)))
        targets.append(root @ weights[g, :, r])
    best = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets), rcond=None)[0]
    exact = np.zeros(values.size)
    exact[np.flatnonzero(values)] = best
    np.testing.assert_allclose(made.weights, exact[rounded.codes], atol=2e-3)
    assert 0.0 in made.values and np.array_equal(made.values, made.values.astype(np.float16))


@pytest.mark.parametrize("seed", range(5))
def test_each_step_loses_less(seed: int) -> None:
    weights, hessians, values = problem(seed)
    plain = Rounded(values, nearest(values, weights))
    steps = [plain, nearest_plane(weights, factors(hessians), values)]
    steps.append(descend(weights, hessians, steps[-1], sweeps=3))
    steps.append(refit(weights, hessians, steps[-1], np.ones((1, 1, 1))))
    steps.append(descend(weights, hessians, steps[-1], sweeps=3))
    lost = [noise(weights, hessians, each) for each in steps]
    assert lost == sorted(lost, reverse=True) and lost[-1] < 0.4 * lost[0]


def test_inputs_that_never_vary_do_no_harm() -> None:
    hessians = np.zeros((2, 4, 4))
    hessians[1, 0, 0] = 1.0
    values, weights = np.array([-1.0, 0.0, 1.0]), np.full((2, 4, 3), 0.8)
    positive = damped(hessians, 1000)
    rounded = descend(weights, positive, nearest_plane(weights, factors(positive), values), sweeps=2)
    made = refit(weights, positive, rounded, np.ones((1, 1, 1)))
    assert np.array_equal(made.weights, np.full((2, 4, 3), np.float16(0.8)))
    np.testing.assert_array_equal(damped(np.zeros((2, 3, 3)), 1000), [np.eye(3)] * 2)


def test_covariances_of_few_places_count_less() -> None:
    hessian = np.array([[[1.0, 0.5], [0.5, 1.0]]])
    correlations = [each[0, 0, 1] / each[0, 0, 0] for each in (damped(hessian, places) for places in (1, 4, 40, 4000))]
    assert correlations == sorted(correlations) and correlations[0] < 0.26 and correlations[-1] > 0.48
