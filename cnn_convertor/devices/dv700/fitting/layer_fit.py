"""Fits the palette of one layer to what the layer reads, and rounds its weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fitting.grouped import GroupedInputs, Grouping
from cnn_convertor.devices.dv700.fitting.layer_inputs import KeptFiles, read_files
from cnn_convertor.devices.dv700.weights.palettes import count_importance
from cnn_convertor.ir.constant import Constant
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

_REFITS = 2
SWEEPS = 2


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
    """entries: of the palette, uint8 (M, C, ky, kx). shifts: the mean error of each output, (M,), which its bias takes up.

    SQNR of the network's outputs in dB if only this layer has a palette, as their gradients predict it, on the samples that judge,
    without the mean error:

    before: with its own palette, after: with this one. What a layer makes up for of other palettes is no error of its own.
    limit: an estimate of what the best rounding would keep, if weights lay evenly between the palette's values.
    """

    palette: Palette
    entries: NDArray[np.uint8]
    shifts: Real
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
    grouping = Grouping(kernels.shape, task.is_depthwise)
    samples = read_files(task.fitted)
    middle = samples.means.mean(axis=0)
    weights = grouping.columns(kernels)
    inputs = GroupedInputs.of(grouping, samples, middle)
    hessians = damped(inputs.hessians, inputs.positions)
    counts = inputs.rows
    judge = GroupedInputs.of(grouping, read_files(task.judged), middle)
    values = values_of(task.own)
    best = Rounded(values, nearest(values, weights))
    first = noise = judge.power(weights - best.weights)
    for rounded in _roundings(grouping, kernels, weights, hessians, counts):
        if (its := judge.power(weights - rounded.weights)) < noise:
            best, noise = rounded, its
    palette, entries = stored_as(best.values, grouping.kernels(best.weights))
    shifts = grouping.means(grouping.kernels(best.weights - weights), middle)
    limit = noise * limit_share(weights, hessians, best, counts)
    return FittedLayer(palette, entries, shifts, *(decibels(1, each * judge.unit) for each in (first, noise, limit)))


def stored_as(values: Real, kernels: Real) -> tuple[Palette, NDArray[np.uint8]]:
    """A palette of values, and the entries of kernels that consist of them."""
    palette = palette_of(values)
    return palette, palette.index[kernels.astype(np.float16).view(np.uint16)]


def _roundings(
    grouping: Grouping, kernels: NDArray[np.float32], weights: Real, hessians: Real, counts: Real
) -> Iterator[Rounded]:
    """To the nearest value of a palette, by second order, and with a palette refitted to that.

    counts: what the square of an error of each row counts, (G or 1, 1, R).
    """

    def fitted(columns: Real) -> Real:
        importance = np.broadcast_to(columns[:, :, np.newaxis] * counts, weights.shape)
        return values_of(fit(*count_importance(Constant.of(kernels), grouping.kernels(importance))))

    values = fitted(np.diagonal(hessians, axis1=1, axis2=2))
    yield Rounded(values, nearest(values, weights))
    factored = factors(hessians)
    values = fitted(factored.importance)
    rounded = nearest_plane(weights, factored, values)
    yield rounded
    for _ in range(_REFITS):
        rounded = refit(weights, hessians, descend(weights, hessians, rounded, sweeps=SWEEPS), counts)
        yield rounded


def values_of(palette: Palette) -> Real:
    """All values of a palette, ascending, with 0.0."""
    return np.unique(palette.centers.astype(np.float64))


def limit_share(weights: Real, hessians: Real, rounded: Rounded, counts: Real) -> float:
    """About what share of its noise the best rounding would leave, if weights lay evenly between the values; at most 1.

    The errors of nearest plane fill boxes. No other shape that fills space has less noise than a sphere of the same volume.
    """
    errors = weights - rounded.weights
    noise = float((errors * (hessians @ errors) * counts).sum())
    errors = weights - rounded.values[nearest(rounded.values, weights)]
    boxes = float((np.square(errors) * factors(hessians).importance[:, :, np.newaxis] * counts).sum())
    return min(1.0, 12 * _sphere(weights.shape[1]) * boxes / noise) if noise > 0 else 1.0


def _sphere(dimensions: int) -> float:
    """The mean square of each coordinate in a sphere of volume 1; it is 1 / 12 in a cube."""
    radius = math.exp(math.lgamma(dimensions / 2 + 1) / dimensions) / math.sqrt(math.pi)
    return radius**2 / (dimensions + 2)
