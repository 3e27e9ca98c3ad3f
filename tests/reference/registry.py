"""Registers what computes each operator with examples of it, runs graphs with them, and has what references share.

Values are maps (height, width, channels), one per node. Nothing here uses the package's own arithmetic or shape rules:
windows are gathered by slicing, and sums are BLAS products (a SqueezeNet takes half a second in float32).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Axis, Padding, Pair, Shape, Window

Array: TypeAlias = NDArray[np.floating[Any]]
CustomLayer: TypeAlias = Callable[..., Array]

LOWEST = float(np.finfo(np.float32).min)  # the maximum over padding alone


def from_nchw(values: NDArray[Any]) -> Array:
    """A framework's (1, C, H, W) or (1, C) array as a map."""
    batch, channels, *size = values.shape
    assert batch == 1
    return np.ascontiguousarray(values.reshape(channels, *(size or (1, 1))).transpose(1, 2, 0))


def to_chw(values: Array) -> Array:
    """A map as (C, H, W)."""
    return values.transpose(2, 0, 1)


def counted(x: Array, order: ops.Order) -> Array:
    """A map's elements in the given order."""
    assert order is not ops.Order.MEMORY
    return (x if order is ops.Order.HWC else to_chw(x)).reshape(-1)


def uncounted(values: Array, shape: ops.Shape, order: ops.Order) -> Array:
    """The inverse of `counted`."""
    height, width, channels = shape
    if order is ops.Order.HWC:
        return values.reshape(height, width, channels)
    return values.reshape(channels, height, width).transpose(1, 2, 0)


class Example(NamedTuple):
    """An operator and its inputs: maps of random numbers, of these shapes, or values."""

    op: ops.Op
    inputs: tuple[Shape | Array, ...]

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(x if isinstance(x, Shape) else Shape(*x.shape) for x in self.inputs)


EXAMPLES: dict[str, Example] = {}
_REFERENCES: dict[type, Callable[..., Array]] = {}
_Reference: TypeAlias = Callable[..., Array]


def reference(kind: type, examples: Mapping[str, tuple[Any, ...]]) -> Callable[[_Reference], _Reference]:
    """Register what computes an operator from (op, *inputs), without its activation. examples: name -> (op, *inputs)."""

    def enter(function: _Reference) -> _Reference:
        _REFERENCES[kind] = function
        for name, row in examples.items():
            assert name not in EXAMPLES and type(row[0]) is kind, name
            op: Any = row[0]
            EXAMPLES[name] = Example(op, row[1:])
        return function

    return enter


def examples_of(kind: type) -> Iterator[tuple[str, Example]]:
    return ((name, example) for name, example in EXAMPLES.items() if type(example.op) is kind)


def execute(op: ops.Op, *xs: Array) -> Array:
    """One operator's result, its activation included."""
    result = _REFERENCES[type(op)](op, *xs)
    function: ops.Function | None = getattr(op, "activation", None)
    return result if function is None else activation(function, result)


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


# --- examples ------------------------------------------------------------------------------------------------------------

NARROW = Shape(6, 5, 11)  # a narrow last chunk of channels
MAP = Shape(9, 12, 4)
SAME = Padding(1, 1, 1, 1)
ALL = (Axis.HEIGHT, Axis.WIDTH, Axis.CHANNELS)


def ones(*shape: int) -> Constant:
    return Constant.of(np.ones(shape))


def some(*shape: int) -> Constant:
    return Constant.of(np.random.default_rng(0).uniform(0.1, 1, shape))


def conv(out: int, channels: int, *kernel: int, groups: int = 1, **window: Any) -> ops.Conv2d:
    return ops.Conv2d(some(out, channels, *kernel), None, Window(Pair(*kernel))._replace(**window), groups)


def deconv(out: int, channels: int, *kernel: int, more: Pair = ops.NO_MORE, **window: Any) -> ops.ConvTranspose2d:
    return ops.ConvTranspose2d(some(out, channels, *kernel), None, Window(Pair(*kernel))._replace(**window), more)


def padded(x: Array, padding: ops.Padding, fill: float = 0.0) -> Array:
    return np.pad(x, ((padding.top, padding.bottom), (padding.left, padding.right), (0, 0)), constant_values=fill)


def windows(x: Array, window: ops.Window, *, fill: float = 0.0) -> Array:
    """The contents of every window: (out height, out width, kernel height, kernel width, C)."""
    x = padded(x, window.padding, fill)
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.stride, window.dilation
    height, width = (x.shape[0] - (kh - 1) * dh - 1) // sh + 1, (x.shape[1] - (kw - 1) * dw - 1) // sw + 1
    columns = np.empty((height, width, kh, kw, x.shape[2]), x.dtype)
    for i in range(kh):
        for j in range(kw):
            top, left = i * dh, j * dw
            columns[:, :, i, j] = x[top : top + (height - 1) * sh + 1 : sh, left : left + (width - 1) * sw + 1 : sw]
    return columns
