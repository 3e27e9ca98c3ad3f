"""Estimates what errors of a layer's channels make of the network's outputs: from the weights behind the layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.program import Convolution, Layer, LayerType, Program
from cnn_convertor.devices.dv700.weights.palettes import convolutions_of, ranges

Real: TypeAlias = NDArray[np.float64]

_LEAST = 1e-4  # of the mean: estimates of less are not to be trusted


def sensitivities(program: Program, active: Mapping[int, Real]) -> dict[int, Real]:
    """For each convolution, by its index: what the square of an error of each channel counts, (M,), 1 in the mean.

    It is the power that the errors have at the outputs, if they are independent of each other. All channels count the same where
    a layer of the CPU, or one that takes apart a map, reads them. active: for convolutions, the share of each channel's values
    that an error changes, (M,): a ReLU hides the others.
    """
    index = sum(len(convolutions_of(layer)) for layer in program.layers)
    powers: dict[int, Real] = {}
    unknown: set[int] = set()
    result: dict[int, Real] = {}
    for number, layer in reversed([*enumerate(program.layers)]):
        power = powers.get(number)
        if power is None or number in unknown:
            power = np.ones(layer.output.shape.channels)
        for convolution in reversed(convolutions_of(layer)):
            index -= 1
            power = power * active.get(index, 1.0)
            result[index] = _normalized(power)
            power = _read(convolution, power)
        for source, part in _sources(layer, power):
            if part is None or len(part) != program.layers[source].output.shape.channels:
                unknown.add(source)
            else:
                powers[source] = powers.get(source, 0.0) + part
    return result


def _normalized(power: Real) -> Real:
    """Rounded to FP32 so that it does not depend on the order of sums."""
    mean = float(power.mean())
    if mean == 0 or not math.isfinite(mean):
        return np.ones(len(power))
    return np.maximum(power / mean, _LEAST).astype(np.float32).astype(np.float64)


def _read(convolution: Convolution, power: Real) -> Real:
    """What errors of the channels that a convolution reads count, from what those of its output do."""
    kernels, is_depthwise = convolution.weights.kernels, convolution.kind.is_depthwise
    result = np.zeros(kernels.shape[0 if is_depthwise else 1])
    for rows in ranges(kernels):
        squares = np.square(kernels.load(rows), dtype=np.float64).sum(axis=(2, 3))
        if is_depthwise:
            result[rows] = power[rows] * squares[:, 0]
        else:
            result += power[rows] @ squares
    return result if convolution.kind.is_transposed else result / math.prod(convolution.stride)


def _sources(layer: Layer, power: Real) -> Iterator[tuple[int, Real | None]]:
    """The layers that a layer reads, with what errors of their channels count, if that is known."""
    channels = [tensor.shape.channels for tensor in layer.inputs]
    parts: list[Real | None] = [power if layer.runs or layer.is_softmax else None] * len(layer.sources)
    if layer.type in {LayerType.CONCAT, LayerType.COPY_CONCAT} and sum(channels) == len(power):
        parts = [*np.split(power, np.cumsum(channels)[:-1])]
    yield from ((source, part) for source, part in zip(layer.sources, parts, strict=True) if source is not None)
