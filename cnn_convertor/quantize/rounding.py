"""Rounds weights to the values of a palette by second order: each error is made up for by the weights that follow.

A layer's output is off by error times input, so its power is error' H error with the second moments H of the inputs: the Hessian,
up to a factor. With H = T' D T, T lower triangular with ones on its diagonal, that is the sum of D (T error)**2. So the weights
are rounded in turn, each together with what the errors before it added to it. This is Babai's nearest plane algorithm for
the closest vector of a lattice (Chen and others, "The geometry of LLM quantization: GPTQ as Babai's nearest plane algorithm",
2025). Afterwards each weight in turn takes the best value for the others (coordinate descent), and all values of the palette
together take the best numbers for the weights that have them (least squares).

Arrays have three axes: groups, which have a Hessian each; columns, one for each input of a kernel; rows, the kernels of a group.
Weights and errors are (G, C, R), Hessians (G, C, C). All rows of all groups are rounded at the same time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Codes = NDArray[np.intp]

_BLOCK = 64  # columns whose errors reach the ones after them as one product of matrices
_DAMPING = 0.03  # of the mean of a group's diagonal, that H gets at least on its diagonal
_LEAST = 1e-4  # of the mean of all diagonals, likewise: some inputs never vary
_STEPS = 20  # of conjugate gradients
_CONVERGED = 1e-6  # of the squared gradient at first


class Rounded(NamedTuple):
    """values: of a palette, ascending, among them 0.0. codes: the value of each weight, (G, C, R)."""

    values: Real
    codes: Codes

    @property
    def weights(self) -> Real:
        weights: Real = self.values[self.codes]
        return weights


class Factors(NamedTuple):
    """A Hessian as T' D T, in the order in which its columns are rounded: those with the largest diagonal first.

    order: (G, C). lower: T, (G, C, C). powers: D, (G, C).
    """

    order: NDArray[np.intp]
    lower: Real
    powers: Real

    @property
    def importance(self) -> Real:
        """What the square of a column's error costs once all columns after it have made up for it: (G, C)."""
        importance = np.empty_like(self.powers)
        np.put_along_axis(importance, self.order, self.powers, axis=1)
        return importance


def damped(hessians: Real, positions: int) -> Real:
    """The Hessians, made positive definite.

    positions: the number of inputs that they are measured on. The fewer there are for each column, the less their covariances say of
    other inputs.
    """
    diagonal = np.diagonal(hessians, axis1=1, axis2=2).mean(axis=1)
    added = min(1.0, _DAMPING + hessians.shape[1] / positions) * diagonal + _LEAST * diagonal.mean()
    added[added == 0] = 1.0
    result: Real = hessians + added[:, np.newaxis, np.newaxis] * np.eye(hessians.shape[1])
    return result


def factors(hessians: Real) -> Factors:
    """hessians: positive definite."""
    order = np.argsort(-np.diagonal(hessians, axis1=1, axis2=2), axis=1, kind="stable")
    sorted_ = np.take_along_axis(hessians, order[:, :, np.newaxis], axis=1)
    sorted_ = np.take_along_axis(sorted_, order[:, np.newaxis, :], axis=2)
    upper = np.linalg.cholesky(sorted_[:, ::-1, ::-1])[:, ::-1, ::-1]
    diagonal = np.diagonal(upper, axis1=1, axis2=2)
    lower = np.ascontiguousarray((upper / diagonal[:, np.newaxis, :]).swapaxes(1, 2))
    return Factors(order, lower, diagonal**2)


def nearest(values: Real, weights: Real) -> Codes:
    """The nearest value of each weight; of two, the lower one."""
    return np.searchsorted((values[1:] + values[:-1]) / 2, weights)


def nearest_plane(weights: Real, factors: Factors, values: Real) -> Rounded:
    """Round one column after the other, with what the errors of the columns before it added to it."""
    order, lower, _ = factors
    wanted = np.take_along_axis(weights, order[:, :, np.newaxis], axis=1)
    errors = np.zeros_like(wanted)
    codes = np.empty(wanted.shape, np.intp)
    for start, stop in _blocks(wanted.shape[1]):
        before = lower[:, start:stop, :start] @ errors[:, :start]
        for i in range(start, stop):
            within = (lower[:, i : i + 1, start:i] @ errors[:, start:i])[:, 0]
            codes[:, i] = nearest(values, wanted[:, i] + before[:, i - start] + within)
            errors[:, i] = wanted[:, i] - values[codes[:, i]]
    result = np.empty_like(codes)
    np.put_along_axis(result, order[:, :, np.newaxis], codes, axis=1)
    return Rounded(values, result)


def descend(weights: Real, hessians: Real, rounded: Rounded, *, sweeps: int) -> Rounded:
    """Let each column in turn have the best values for the others, several times."""
    values = rounded.values
    codes = rounded.codes.copy()
    gradient = hessians @ (weights - values[codes])
    diagonal = np.diagonal(hessians, axis1=1, axis2=2)[:, :, np.newaxis]
    for _ in range(sweeps):
        before = codes.copy()
        for start, stop in _blocks(weights.shape[1]):
            changes = np.zeros((len(weights), stop - start, weights.shape[2]))
            for i in range(start, stop):
                slope = gradient[:, i] + (hessians[:, i : i + 1, start:i] @ changes[:, : i - start])[:, 0]
                old = values[codes[:, i]]
                codes[:, i] = nearest(values, old + slope / diagonal[:, i])
                changes[:, i - start] = old - values[codes[:, i]]
            gradient += hessians[:, :, start:stop] @ changes
        if np.array_equal(codes, before):
            break
    return Rounded(values, codes)


def refit(weights: Real, hessians: Real, rounded: Rounded, counts: Real) -> Rounded:
    """Move all values but 0.0 to the best numbers for the weights that have them, as FP16 numbers.

    counts: what an error of each row counts, (G or 1, 1, R). By conjugate gradients with a diagonal preconditioner.
    """
    values, codes = rounded
    free = values != 0
    diagonal = np.diagonal(hessians, axis1=1, axis2=2)[:, :, np.newaxis] * counts
    scale = _sums(codes, np.broadcast_to(diagonal, codes.shape), values.size)
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=free & (scale > 0))
    residual = _sums(codes, hessians @ (weights - values[codes]) * counts, values.size)
    moves = np.zeros_like(values)
    direction = inverse * residual
    power = first = float(residual @ direction)
    for _ in range(_STEPS):
        if power <= _CONVERGED * first:
            break
        curve = _sums(codes, hessians @ direction[codes] * counts, values.size)
        step = power / float(direction @ curve)
        moves += step * direction
        residual -= step * curve
        ahead = inverse * residual
        power, last = float(residual @ ahead), power
        direction = ahead + power / last * direction
    with np.errstate(over="ignore"):
        moved = (values + moves).astype(np.float16).astype(np.float64)
    moved = np.where(np.isfinite(moved), moved, values)
    distinct, indices = np.unique(moved, return_inverse=True)
    return Rounded(distinct, indices.reshape(-1)[codes])


def _sums(codes: Codes, terms: Real, count: int) -> Real:
    """The sum of the terms that belong to each value."""
    sums: Real = np.bincount(codes.reshape(-1), terms.reshape(-1), count).astype(np.float64, copy=False)
    return sums


def _blocks(columns: int) -> list[tuple[int, int]]:
    return [(start, min(start + _BLOCK, columns)) for start in range(0, columns, _BLOCK)]
