"""Runs a graph with numpy, plainly: the independent second opinion that the tests compare everything with.

Values are maps of (height, width, channels), one for each node. Nothing here uses the package's own arithmetic:
windows are gathered by slicing, and sums are BLAS products (a SqueezeNet takes half a second in float32).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph

Array: TypeAlias = NDArray[np.floating[Any]]
CustomLayer: TypeAlias = Callable[..., Array]

LOWEST = float(np.finfo(np.float32).min)  # what a maximum over padding alone gives


def from_nchw(values: NDArray[Any]) -> Array:
    """A framework's (1, C, H, W) or (1, C) array as a map."""
    batch, channels, *size = values.shape
    assert batch == 1
    return np.ascontiguousarray(values.reshape(channels, *(size or (1, 1))).transpose(1, 2, 0))


def to_chw(values: Array) -> Array:
    """A map as (C, H, W)."""
    return values.transpose(2, 0, 1)


def run(
    graph: Graph,
    inputs: Mapping[str, NDArray[Any]],
    *,
    dtype: DTypeLike = np.float64,
    custom: Mapping[str, CustomLayer] = {},
) -> dict[str, Array]:
    """Every node's value.

    inputs: input name -> (H, W, C). custom: layer type -> function of (*inputs, **parameters).
    """
    values: dict[str, Array] = {}
    for node in graph.nodes:
        if isinstance(node.op, ops.Input):
            value = np.asarray(inputs[node.name])
        elif isinstance(node.op, ops.Custom):
            value = custom[node.op.type](*(values[i] for i in node.inputs), **dict(node.op.parameters))
        else:
            value = execute(node.op, *(values[i] for i in node.inputs))
        assert value.shape == tuple(graph.shape(node.name)), f"{node.name}: {value.shape}, not {graph.shape(node.name)}"
        values[node.name] = value.astype(dtype, copy=False)
    return values


def execute(op: ops.Op, *xs: Array) -> Array:
    """One operator's result, its activation included."""
    match op:
        case ops.Identity():
            result = xs[0]
        case ops.Conv2d():
            result = convolution(op, xs[0])
        case ops.ConvTranspose2d():
            result = transposed_convolution(op, xs[0])
        case ops.Dense():
            weight = op.weight.load().astype(xs[0].dtype)
            result = (weight.reshape(len(weight), -1) @ to_chw(xs[0]).reshape(-1))[None, None]
            result = result if op.bias is None else result + op.bias.load()
        case ops.MaxPool2d():
            result = windows(xs[0], op.window, fill=LOWEST).max(axis=(2, 3))
        case ops.AveragePool2d():
            result = average_pool(op, xs[0])
        case ops.Upsample():
            result = xs[0].repeat(op.factor.height, axis=0).repeat(op.factor.width, axis=1)
        case ops.BatchNorm():
            result = (xs[0] - op.mean.load()) / np.sqrt(op.variance.load().astype(np.float64) + op.epsilon)
            result = result if op.gamma is None else result * op.gamma.load()
            result = result if op.beta is None else result + op.beta.load()
        case ops.Scale():
            result = xs[0] * op.factor.load()
            result = result if op.shift is None else result + op.shift.load()
        case ops.Activation():
            return activation(op.function, xs[0])
        case ops.Add():
            result = xs[0] + xs[1]
        case ops.Concat():
            result = np.concatenate(xs, axis=2)
        case ops.Pad():
            result = padded(xs[0], op.padding)
        case ops.Reshape(shape=(height, width, channels), order=ops.Order.HWC):
            result = xs[0].reshape(height, width, channels)
        case ops.Reshape(shape=(height, width, channels), order=ops.Order.CHW):
            result = to_chw(xs[0]).reshape(channels, height, width).transpose(1, 2, 0)
        case ops.Softmax():
            powers = np.exp(xs[0] - xs[0].max(axis=2, keepdims=True))
            result = powers / powers.sum(axis=2, keepdims=True)
        case _:
            raise NotImplementedError(type(op).__name__)
    function: ops.Function | None = getattr(op, "activation", None)
    return result if function is None else activation(function, result)


def activation(function: ops.Function, x: Array) -> Array:
    match function:
        case ops.Relu(slope=slope):
            return np.maximum(x, 0) + slope * np.minimum(x, 0)
        case ops.Relu6():
            return np.clip(x, 0, 6)
        case ops.PRelu(slopes=slopes):
            return np.maximum(x, 0) + slopes.load() * np.minimum(x, 0)
        case ops.Elu():
            return np.maximum(x, 0) + np.expm1(np.minimum(x, 0))
        case ops.Sigmoid():
            sigmoid: Array = 1 / (1 + np.exp(-x))
            return sigmoid
        case ops.Tanh():
            tanh: Array = np.tanh(x)
            return tanh
        case _:
            raise NotImplementedError(type(function).__name__)


def padded(x: Array, padding: ops.Padding, fill: float = 0.0) -> Array:
    return np.pad(x, ((padding.top, padding.bottom), (padding.left, padding.right), (0, 0)), constant_values=fill)


def windows(x: Array, window: ops.Window, *, fill: float = 0.0) -> Array:
    """What every window sees: (out height, out width, kernel height, kernel width, C)."""
    x = padded(x, window.padding, fill)
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.stride, window.dilation
    height, width = (x.shape[0] - (kh - 1) * dh - 1) // sh + 1, (x.shape[1] - (kw - 1) * dw - 1) // sw + 1
    columns = np.empty((height, width, kh, kw, x.shape[2]), x.dtype)
    for i in range(kh):
        for j in range(kw):
            top, left = i * dh, j * dw
            columns[:, :, i, j] = x[top : top + (height - 1) * sh + 1 : sh, left : left + (width - 1) * sw + 1 : sw]
    return columns


def convolution(op: ops.Conv2d, x: Array) -> Array:
    weight = op.weight.load().astype(x.dtype)
    out, per_group, kh, kw = weight.shape
    columns = windows(x, op.window)
    height, width = columns.shape[:2]
    columns = columns.reshape(height * width, kh * kw, op.groups, per_group)
    kernels = weight.reshape(op.groups, out // op.groups, per_group, kh * kw)
    results = [
        columns[:, :, g].reshape(height * width, -1) @ kernels[g].transpose(2, 1, 0).reshape(-1, out // op.groups)
        for g in range(op.groups)
    ]
    result: Array = np.concatenate(results, axis=1).reshape(height, width, out)
    return result if op.bias is None else result + op.bias.load()


def transposed_convolution(op: ops.ConvTranspose2d, x: Array) -> Array:
    weight = op.weight.load().astype(x.dtype)
    out, per_group, kh, kw = weight.shape
    (sh, sw), (dh, dw), pad = op.window.stride, op.window.dilation, op.window.padding
    height, width, _ = x.shape
    full = np.zeros(
        ((height - 1) * sh + op.window.extent.height + op.output_padding.height,
         (width - 1) * sw + op.window.extent.width + op.output_padding.width, out), x.dtype)  # fmt: skip
    for g in range(op.groups):
        source = x[:, :, g * per_group : (g + 1) * per_group]
        rows = slice(g * out // op.groups, (g + 1) * out // op.groups)
        for i in range(kh):
            for j in range(kw):
                top, left = i * dh, j * dw
                target = full[top : top + (height - 1) * sh + 1 : sh, left : left + (width - 1) * sw + 1 : sw, rows]
                target += source @ weight[rows, :, i, j].T
    result = full[pad.top : full.shape[0] - pad.bottom, pad.left : full.shape[1] - pad.right]
    return result if op.bias is None else result + op.bias.load()


def average_pool(op: ops.AveragePool2d, x: Array) -> Array:
    window = op.window._replace(padding=op.window.padding + op.uncounted)
    sums: Array = windows(x, window).sum(axis=(2, 3))
    if op.factor is not None:
        return sums * op.factor
    counted = padded(np.ones((*x.shape[:2], 1)), op.window.padding, fill=1.0)
    counts: Array = windows(padded(counted, op.uncounted), op.window._replace(padding=ops.NO_PADDING)).sum(axis=(2, 3))
    return sums / counts
