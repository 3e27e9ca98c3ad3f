"""Rounds the weights of a layer once more, so that it makes up for what the palettes before it change in its inputs.

Part of the change is a linear function of the inputs, and other weights can undo that part. Damped least squares find the weights
whose outputs are nearest to those of FP16 weights. They are rounded with the layer's palette, whose values are then fitted once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fitting.grouped import GroupedInputs, Grouping
from cnn_convertor.devices.dv700.fitting.layer_fit import SWEEPS, FittedLayer, limit_share, stored_as, values_of
from cnn_convertor.devices.dv700.fitting.layer_inputs import Kept
from cnn_convertor.quantize import decibels
from cnn_convertor.quantize.rounding import damped, descend, factors, nearest_plane, refit

Real: TypeAlias = NDArray[np.float64]

_RIDGES = (0.003, 0.1, 3.0)  # of the mean of the Hessian's diagonal
_LEAST = 1e-4  # of the mean of all diagonals, likewise: some inputs never vary
_POSITIONS = 4  # for each input of a kernel: on fewer, weights would fit what only these samples have in common
_WORTH = 2e-3  # of the error that judges: what other weights must take away


class InputPair(NamedTuple):
    """The inputs of a layer at the same positions: with FP16 weights in the layers before, and with their palettes."""

    exact: Kept
    changed: Kept


def compensate(
    kernels: NDArray[np.float32], layer: FittedLayer, is_depthwise: bool, fitted: InputPair, judged: InputPair
) -> FittedLayer:
    """The layer with other entries and another shift, or as it is where these are not better.

    kernels: (M, C, ky, kx), or (M, 1, ky, kx) of a depthwise layer. fitted: of the samples that they are fitted to; judged: of others.
    """
    grouping = Grouping(kernels.shape, is_depthwise)
    samples, positions = fitted.exact.kept.shape[:2]
    if samples * positions < _POSITIONS * grouping.groups[1]:
        return layer
    middles = [each.means.mean(axis=0) for each in fitted]
    fitting, judge = (
        _Errors(*(GroupedInputs.of(grouping, *each) for each in zip(pair, middles, strict=True)))
        for pair in (fitted, judged)
    )
    weights = grouping.columns(kernels)
    hessians = fitting.changed.hessians
    target = _target(weights, hessians, fitting, judge)
    if target is None:
        return layer
    damped_ = damped(hessians, fitting.changed.positions)
    counts = fitting.changed.rows
    rounded = nearest_plane(target, factors(damped_), values_of(layer.palette))
    rounded = refit(target, damped_, descend(target, damped_, rounded, sweeps=SWEEPS), counts)
    if judge.power(weights, rounded.weights) >= judge.power(weights, grouping.columns(layer.kernels.load())):
        return layer
    stored = grouping.kernels(rounded.weights)
    palette, entries = stored_as(rounded.values, stored)
    shifts = grouping.means(stored - kernels, middles[0])
    noise = judge.changed.power(target - rounded.weights) * judge.changed.unit
    limit = noise * limit_share(target, damped_, rounded, counts)
    after, limit = (decibels(1, each) for each in (noise, limit))
    return layer._replace(palette=palette, entries=entries, shifts=shifts, after=after, limit=limit)


class _Errors(NamedTuple):
    exact: GroupedInputs
    changed: GroupedInputs

    def errors(self, weights: Real, others: Real) -> Iterator[tuple[Real, Real, Real]]:
        """Of some positions at a time, the changed inputs, the errors that other weights leave there, and what these count.

        (groups, positions, columns), (groups, positions, rows), (groups or 1, positions, rows)
        """
        for (exact, counts), (changed, _) in zip(self.exact.some(), self.changed.some(), strict=True):
            yield changed, exact @ weights - changed @ others, counts

    def power(self, weights: Real, others: Real) -> float:
        """Of the errors, over all groups: the mean over all positions."""
        powers = (np.square(_whole(errors, counts)) * counts for _, errors, counts in self.errors(weights, others))
        return sum(float(each.sum()) for each in powers) / self.exact.positions


def _whole(outputs: Real, counts: Real) -> Real:
    """Outputs of groups, added up where these are parts of the same kernels."""
    return outputs if len(counts) > 1 else outputs.sum(axis=0, keepdims=True)


def _target(weights: Real, hessians: Real, fitting: _Errors, judge: _Errors) -> Real | None:
    """The weights that are nearest to the outputs of FP16 weights on the samples that judge. None: none are much nearer.

    The change of weights fits the other samples, with several dampings, and is taken as far as it helps.
    """
    slopes = np.zeros_like(weights)
    for changed, errors, counts in fitting.errors(weights, weights):
        slopes += (changed * counts.mean(axis=2, keepdims=True)).swapaxes(1, 2) @ errors
    slopes = (slopes / fitting.exact.positions).astype(np.float32).astype(np.float64)
    if not slopes.any():
        return None
    sizes = np.diagonal(hessians, axis1=1, axis2=2).mean(axis=1)
    sizes = sizes + _LEAST * sizes.mean()
    damping = sizes[:, np.newaxis, np.newaxis] * np.eye(hessians.shape[1])
    changes = [np.linalg.solve(hessians + ridge * damping, slopes) for ridge in _RIDGES]
    before = 0.0
    along = np.zeros(len(changes))
    powers = np.zeros(len(changes))
    for changed, errors, counts in judge.errors(weights, weights):
        error = _whole(errors, counts)
        before += float((np.square(error) * counts).sum())
        for i, change in enumerate(changes):
            output = _whole(changed @ change, counts)
            along[i] += (error * output * counts).sum()
            powers[i] += (np.square(output) * counts).sum()
    shares = np.clip(np.divide(along, powers, out=np.zeros_like(along), where=powers > 0), 0, 1)
    gains = (2 * along - shares * powers) * shares
    most = int(np.argmax(gains))
    return weights + shares[most] * changes[most] if gains[most] > _WORTH * before else None
