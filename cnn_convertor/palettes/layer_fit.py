"""Fits the palette of one layer to what the layer reads, and rounds its weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.weights.palettes import count_importance
from cnn_convertor.ir.constant import Constant
from cnn_convertor.palettes.layer_inputs import Kept, KeptFiles, read_files
from cnn_convertor.quantize import Palette, decibels, fit, palette_of
from cnn_convertor.quantize.rounding import (
    Rounded,
    damped,
    descend,
    factors,
    nearest,
    nearest_plane,
    refit,
)
from cnn_convertor.workers.outcomes import Outcome, attempted

Real: TypeAlias = NDArray[np.float64]
Single: TypeAlias = NDArray[np.float32]
Values = TypeVar("Values", NDArray[np.float32], NDArray[np.float64])

_COLUMNS = 1152  # of a Hessian: a kernel with more inputs has several, as if those of different ones were independent
_AT_A_TIME = 1 << 20  # inputs in FP64
_LEAST = 1e-4  # of the mean: what an error of a row counts at least, since samples are few
_REFITS = 2
_SWEEPS = 2
_SPHERES = 1 / (
    2 * math.pi * math.e
)  # of a cell's squared width: the mean squared error of the best lattice, in many dimensions


class LayerTask(NamedTuple):
    """A layer, as a value for any process.

    kernels: a file of (M, C, ky, kx). own: its palette. fitted, judged: its inputs, of the samples that the palette is fitted to
    and of others, which judge.
    """

    kernels: Path
    own: Palette
    is_depthwise: bool
    fitted: KeptFiles
    judged: KeptFiles


class FittedLayer(NamedTuple):
    """entries: of the palette, uint8 (M, C, ky, kx). SQNR of the network's outputs in dB if only this layer has a palette, as their
    gradients predict it, on the samples that judge, without the mean error:

    before: with its own palette, after: with this one.
    limit: an estimate of what the best rounding would keep, if weights lay evenly between the palette's values.
    """

    palette: Palette
    entries: NDArray[np.uint8]
    before: float
    after: float
    limit: float

    @property
    def kernels(self) -> Constant:
        """The values that the device multiplies with."""
        centers, entries = self.palette.centers.astype(np.float32), self.entries
        return Constant(entries.shape, lambda rows: centers[entries[rows]])


def fit_layer(task: LayerTask) -> Outcome[FittedLayer]:
    """The palette and the rounding that keep most of the layer's output on the samples that judge."""
    return attempted(lambda: _fitted(task))


def _fitted(task: LayerTask) -> FittedLayer:
    kernels = np.load(task.kernels)
    shape = _Shape(kernels.shape, task.is_depthwise)
    samples = read_files(task.fitted)
    middle = samples.means.mean(axis=0)
    weights = shape.columns(kernels)
    inputs = _Inputs.of(shape, samples, middle)
    hessians, counts = damped(inputs.hessians, inputs.positions), inputs.rows
    judge = _Inputs.of(shape, read_files(task.judged), middle)
    values = _values(task.own)
    best = Rounded(values, nearest(values, weights))
    first = noise = judge.power(weights - best.weights)
    for rounded in _roundings(shape, kernels, weights, hessians, counts):
        if (its := judge.power(weights - rounded.weights)) < noise:
            best, noise = rounded, its
    palette = palette_of(best.values)
    entries = palette.index[shape.kernels(best.weights).astype(np.float16).view(np.uint16)]
    lost = first * judge.unit, noise * judge.unit, _limit(weights, hessians, best, counts) * inputs.unit
    return FittedLayer(palette, entries, *(decibels(1, each) for each in lost))


def _roundings(
    shape: _Shape, kernels: NDArray[np.float32], weights: Real, hessians: Real, counts: Real
) -> Iterator[Rounded]:
    """To the nearest value of a palette, by second order, and with a palette refitted to that.

    counts: what the square of an error of each row counts, (G or 1, 1, R).
    """

    def fitted(columns: Real) -> Real:
        importance = np.broadcast_to(columns[:, :, np.newaxis] * counts, weights.shape)
        return _values(fit(*count_importance(Constant.of(kernels), shape.kernels(importance))))

    values = fitted(np.diagonal(hessians, axis1=1, axis2=2))
    yield Rounded(values, nearest(values, weights))
    factored = factors(hessians)
    values = fitted(factored.importance)
    rounded = nearest_plane(weights, factored, values)
    yield rounded
    for _ in range(_REFITS):
        rounded = refit(weights, hessians, descend(weights, hessians, rounded, sweeps=_SWEEPS), counts)
        yield rounded


def _values(palette: Palette) -> Real:
    """All values of a palette, ascending, with 0.0."""
    return np.unique(palette.centers.astype(np.float64))


def _limit(weights: Real, hessians: Real, rounded: Rounded, counts: Real) -> float:
    """About the noise of the best rounding of weights that lie evenly: that of cells that are spheres, as large as the palette's.

    Their volume is the product of the widths of the values' ranges and of the factors' roots.
    """
    values = rounded.values
    middles = (values[1:] + values[:-1]) / 2
    widths = np.diff(middles, prepend=middles[0], append=middles[-1])
    widths[0], widths[-1] = values[1] - values[0], values[-1] - values[-2]
    powers = np.linalg.slogdet(hessians)[1].sum() * weights.shape[2]
    powers += np.log(np.broadcast_to(counts, weights.shape)).sum()
    logarithm = powers + 2 * np.log(widths[rounded.codes]).sum()
    return float(weights.size * _SPHERES * np.exp(logarithm / weights.size))


# --- columns -------------------------------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """The kernels (M, C, ky, kx) of a layer as rows of groups, and back."""

    shape: tuple[int, ...]
    is_depthwise: bool

    @property
    def size(self) -> int:
        """Of a kernel."""
        return math.prod(self.shape[1:])

    @property
    def groups(self) -> tuple[int, int]:
        """The number of groups and of columns. Those of a kernel with many inputs are filled up with zeros."""
        if self.is_depthwise:
            return self.shape[0], self.size
        count = -(-self.size // _COLUMNS)
        return count, -(-self.size // count)

    def columns(self, kernels: NDArray[np.floating]) -> Real:
        """(groups, columns, rows)"""
        rows = kernels.reshape(self.shape[0], -1).astype(np.float64)
        if self.is_depthwise:
            return rows[:, :, np.newaxis]
        return self._filled(rows).reshape(self.shape[0], *self.groups).transpose(1, 2, 0).copy()

    def kernels(self, columns: Real) -> Real:
        """The inverse of `columns`."""
        rows = columns.transpose(2, 0, 1).reshape(1 if self.is_depthwise else self.shape[0], -1)
        kernels: Real = rows[:, : self.shape[0] * self.size if self.is_depthwise else self.size].reshape(self.shape)
        return kernels

    def inputs(self, values: Single) -> Single:
        """Inputs (positions, C, ky * kx) as (groups, positions, columns)."""
        if self.is_depthwise:
            return np.ascontiguousarray(values.swapaxes(0, 1))
        rows = self._filled(values.reshape(len(values), -1))
        return np.ascontiguousarray(rows.reshape(len(values), *self.groups).swapaxes(0, 1))

    def _filled(self, rows: Values) -> Values:
        if self.size == math.prod(self.groups):
            return rows
        return np.pad(rows, ((0, 0), (0, math.prod(self.groups) - self.size)))


# --- errors --------------------------------------------------------------------------------------------------------------


class _Inputs(NamedTuple):
    """What a layer reads, less its mean, and what its errors count there.

    columns: (groups, positions of all samples, columns). counts: of the square of an error of each row, (groups or 1, positions, rows),
    1 in the mean. unit: the share of the outputs' power that an error of 1 at all positions of a sample becomes.
    """

    columns: Single
    counts: Single
    unit: float

    @classmethod
    def of(cls, shape: _Shape, inputs: Kept, middle: Real) -> _Inputs:
        values = inputs.kept.reshape(-1, *inputs.kept.shape[2:]).astype(np.float32)
        values -= middle.astype(np.float32)
        counts = inputs.counts.reshape(len(values), -1)
        counts = counts.T[:, :, np.newaxis] if shape.is_depthwise else counts[np.newaxis]
        mean = float(counts.mean(dtype=np.float64))
        is_known = mean >= np.finfo(np.float32).tiny and math.isfinite(mean)
        unit = mean * inputs.kept.shape[1] if is_known else 0.0
        return cls(shape.inputs(values), counts / np.float32(mean) if is_known else np.ones_like(counts), unit)

    @property
    def positions(self) -> int:
        positions: int = self.columns.shape[1]
        return positions

    def some(self) -> Iterator[tuple[Real, Real]]:
        """Columns and counts in FP64, of some positions at a time."""
        step = max(1, _AT_A_TIME * self.positions // self.columns.size)
        for start in range(0, self.positions, step):
            positions = slice(start, start + step)
            yield self.columns[:, positions].astype(np.float64), self.counts[:, positions].astype(np.float64)

    @property
    def hessians(self) -> Real:
        """(groups, columns, columns), rounded to FP32 so that they do not depend on the order of the sums."""
        groups, _, columns = self.columns.shape
        hessians = np.zeros((groups, columns, columns))
        for values, counts in self.some():
            hessians += (values * counts.mean(axis=2, keepdims=True)).swapaxes(1, 2) @ values
        return (hessians / self.positions).astype(np.float32).astype(np.float64)

    @property
    def rows(self) -> Real:
        """What an error of each row counts where the inputs are large, (1, 1, R), 1 in the mean. Depthwise: the Hessians have it."""
        if len(self.counts) > 1 or self.counts.shape[2] == 1:
            return np.ones((1, 1, 1))
        powers = np.zeros(self.counts.shape[2])
        for values, counts in self.some():
            powers += np.square(values).sum(axis=(0, 2)) @ counts[0]
        mean = float(powers.mean())
        counted: Real = np.maximum(powers / mean, _LEAST) if mean > 0 else np.ones_like(powers)
        return counted.astype(np.float32).astype(np.float64)[np.newaxis, np.newaxis]

    def power(self, weights: Real) -> float:
        """Of what kernels (groups, columns, rows) make of the inputs: the mean over all positions."""
        power = 0.0
        for values, counts in self.some():
            outputs = values @ weights
            if len(counts) == 1:
                outputs = outputs.sum(axis=0, keepdims=True)
            power += float((np.square(outputs) * counts).sum())
        return power / self.positions
