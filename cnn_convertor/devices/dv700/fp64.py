"""Computes commands slowly and plainly in FP64, independent of the emulated device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.runs import Convolution, Pooling, PoolingKind, Run
from cnn_convertor.errors import assert_never
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, Elu, Function, Padding, Pair, PRelu, Relu, Relu6, Sigmoid, Tanh

Map: TypeAlias = NDArray[np.float64]  # (height, width, channels), in `compute` with any axes before these
CHUNK = 8


def compute(values: Map, runs: Sequence[Run], operand: Map | None = None, factors: Map | None = None) -> list[Map]:
    """The result of each run of a command, before it is rounded.

    operand: of an addition. factors: packed, of channels, (C,), or of a matrix, (kernels, C).
    """
    results: list[Map] = []
    current = values
    for run in runs:
        if run.factors is not None and factors is not None:
            current = current * factors if factors.ndim == 1 else current @ factors.T
        results.append(_run(current, run, operand))
        current = values if run.external else rounded(results[-1])
    return results


def operand_of(values: Map, run: Run) -> Map:
    """A map of zeros with the shape that an addition in the run needs."""
    before = convolved(values, run.convolution) if run.convolution is not None else _pooled(values, run)
    return np.zeros_like(before)


def rounded(values: Map) -> Map:
    """The values as FP16 holds them."""
    return values.astype(np.float16).astype(np.float64)


def to_memory(values: Map, *, transposed: bool) -> Map:
    """The elements in the order of the device's memory: chunks of 8 channels, each W, H, C, or H, W, C if transposed."""
    order = (0, 1, 2) if transposed else (1, 0, 2)
    chunks = (values[:, :, start : start + CHUNK] for start in range(0, values.shape[2], CHUNK))
    return np.concatenate([chunk.transpose(order).reshape(-1) for chunk in chunks])


def from_memory(elements: Map, shape: tuple[int, ...], *, transposed: bool) -> Map:
    """The inverse of to_memory."""
    indices = to_memory(np.arange(elements.size, dtype=np.float64).reshape(shape), transposed=transposed)
    values = np.empty(elements.size)
    values[indices.astype(np.intp)] = elements
    return values.reshape(shape)


# --- one run -------------------------------------------------------------------------------------------------------------


def _run(values: Map, run: Run, operand: Map | None) -> Map:
    """Convolution, addition, max pool, activation; or average pool, addition, activation."""
    if run.convolution is None:
        return _activated(_added(_pooled(values, run), operand), run.activation)
    return _activated(_pooled(_added(convolved(values, run.convolution), operand), run), run.activation)


def _added(values: Map, operand: Map | None) -> Map:
    return values if operand is None else values + operand


def convolved(values: Map, convolution: Convolution) -> Map:
    """What a convolution makes of maps, before it is rounded: (..., H, W, C)."""
    kernels = halves(convolution.weights.kernels)
    stride = convolution.stride
    if convolution.kind.is_transposed:
        values, stride = _spread(values, stride), ONE
    padded = _padded(values, convolution.padding, 0.0)
    total: Map = np.zeros(())
    for (y, x), part in _windows(padded, convolution.kernel, stride, convolution.dilation):
        taps = kernels[:, :, y, x]
        total = total + (part * taps[:, 0] if convolution.kind.is_depthwise else part @ taps.T)
    bias = convolution.weights.bias
    return total if bias is None else total + halves(bias)


def _pooled(values: Map, run: Run) -> Map:
    pooling = run.pooling
    if pooling is None:
        return values
    match pooling.kind:
        case PoolingKind.UPSAMPLE:
            return values.repeat(2, axis=-3).repeat(2, axis=-2)
        case PoolingKind.MAX:
            return np.asarray(np.max([part for _, part in _pool_windows(values, pooling, -np.inf)], axis=0), np.float64)
        case PoolingKind.AVERAGE:
            total = np.sum([part for _, part in _pool_windows(values, pooling, 0.0)], axis=0)
            return np.asarray(total * float(np.float16(pooling.factor)), np.float64)
    assert_never(pooling.kind)


def _pool_windows(values: Map, pooling: Pooling, fill: float) -> Iterator[tuple[tuple[int, int], Map]]:
    return _windows(_padded(values, pooling.padding, fill), pooling.kernel, pooling.stride, ONE)


def _windows(padded: Map, kernel: Pair, stride: Pair, dilation: Pair) -> Iterator[tuple[tuple[int, int], Map]]:
    """For each position of the kernel, the element of every window that it meets."""
    height, width = padded.shape[-3:-1]
    rows = (height - (kernel.height - 1) * dilation.height - 1) // stride.height + 1
    columns = (width - (kernel.width - 1) * dilation.width - 1) // stride.width + 1
    for y, x in np.ndindex(*kernel):
        part = padded[..., y * dilation.height :: stride.height, x * dilation.width :: stride.width, :]
        yield (y, x), part[..., :rows, :columns, :]


def _spread(values: Map, stride: Pair) -> Map:
    """The map with stride - 1 zeros between its pixels."""
    *before, height, width, channels = values.shape
    result = np.zeros((*before, (height - 1) * stride.height + 1, (width - 1) * stride.width + 1, channels))
    result[..., :: stride.height, :: stride.width, :] = values
    return result


def _padded(values: Map, padding: Padding, fill: float) -> Map:
    sides = ((padding.top, padding.bottom), (padding.left, padding.right), (0, 0))
    return np.pad(values, (*((0, 0),) * (values.ndim - 3), *sides), constant_values=fill)


def _activated(values: Map, function: Function | None) -> Map:
    match function:
        case None:
            return values
        case Relu(slope):
            return np.where(values < 0, values * float(np.float16(slope)), values)
        case Relu6():
            return np.clip(values, 0, 6)
        case PRelu(slopes):
            return np.where(values < 0, values * halves(slopes), values)
        case Elu():
            return np.where(values < 0, np.expm1(np.minimum(values, 0)), values)
        case Sigmoid():
            return np.asarray(1 / (1 + np.exp(-values)), np.float64)
        case Tanh():
            return np.tanh(values)
    assert_never(function)


def halves(constant: Constant) -> Map:
    """Weights as the device reads them."""
    return constant.load().astype(np.float16).astype(np.float64)
