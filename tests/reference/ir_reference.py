"""Runs a graph with numpy: the independent reference of the tests, and examples of each operator.

Values are maps (height, width, channels), one per node. It does not use the package's own arithmetic or shape rules:
windows are gathered by slicing, and sums are BLAS products (a SqueezeNet takes half a second in float32).

The tests of shapes (tests/ir), of operators at the device, and of the functions of the CPU take their cases from the examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import ONE, Axis, Order, Padding, Pair, Shape, Window

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


# --- operators -----------------------------------------------------------------------------------------------------------


@reference(
    ops.Identity,
    {
        "identity": (ops.Identity(), MAP),
    },
)
def identity(op: ops.Identity, x: Array) -> Array:
    return x


@reference(
    ops.Conv2d,
    {
        "convolution": (conv(6, 4, 3, 3), MAP),
        "convolution, padded": (conv(6, 4, 3, 3, padding=SAME), MAP),
        "convolution with a stride": (conv(6, 4, 3, 3, stride=Pair(2, 2)), MAP),
        "convolution of all kinds": (conv(6, 4, 3, 5, stride=Pair(2, 3), padding=Padding(0, 1, 2, 3)), MAP),
        "convolution, dilated": (conv(6, 4, 3, 3, dilation=Pair(2, 3)), MAP),
        "convolution in groups": (conv(8, 1, 3, 3, groups=4), MAP),
        "convolution of the whole map": (conv(6, 4, 9, 12), MAP),
    },
)
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


@reference(
    ops.ConvTranspose2d,
    {
        "deconvolution": (deconv(6, 4, 3, 3), MAP),
        "deconvolution, doubling": (deconv(6, 4, 4, 4, stride=Pair(2, 2), padding=SAME), MAP),
        "deconvolution with more output": (deconv(6, 4, 3, 3, stride=Pair(2, 2), padding=SAME, more=ONE), MAP),
        "deconvolution, dilated": (deconv(6, 4, 3, 3, dilation=Pair(2, 2)), MAP),
    },
)
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


@reference(
    ops.Dense,
    {
        "fully connected": (ops.Dense(some(5, 4, 9, 12), None), MAP),
    },
)
def dense(op: ops.Dense, x: Array) -> Array:
    weight = op.weight.load().astype(x.dtype)
    result: Array = (weight.reshape(len(weight), -1) @ to_chw(x).reshape(-1))[None, None]
    return result if op.bias is None else result + op.bias.load()


@reference(
    ops.MaxPool2d,
    {
        "max pool": (ops.MaxPool2d(Window(Pair(2, 3), Pair(2, 3))), MAP),
        "max that no chain has": (ops.MaxPool2d(Window(Pair(2, 1), Pair(2, 2))), NARROW),
    },
)
def max_pool(op: ops.MaxPool2d, x: Array) -> Array:
    result: Array = windows(x, op.window, fill=LOWEST).max(axis=(2, 3))
    return result


@reference(
    ops.AveragePool2d,
    {
        "average that divides by what is inside": (
            ops.AveragePool2d(Window(Pair(3, 3), Pair(2, 2)), uncounted=Padding(0, 0, 0, 1)),
            MAP,
        ),
        "average, cut at the border": (
            ops.AveragePool2d(Window(Pair(3, 3), Pair(2, 2), padding=Padding(1, 0, 0, 0)), Padding(0, 1, 1, 1)),
            NARROW,
        ),
        "large average": (ops.AveragePool2d(Window(Pair(6, 5)), activation=ops.Relu()), NARROW),
        "large, strided average that no chain has": (
            ops.AveragePool2d(Window(Pair(1, 11), Pair(2, 2), padding=Padding(0, 1, 3, 4))),
            NARROW,
        ),
    },
)
def average_pool(op: ops.AveragePool2d, x: Array) -> Array:
    window = op.window._replace(padding=op.window.padding + op.uncounted)
    sums: Array = windows(x, window).sum(axis=(2, 3))
    if op.factor is not None:
        return sums * op.factor
    counted = padded(np.ones((*x.shape[:2], 1)), op.window.padding, fill=1.0)
    counts: Array = windows(padded(counted, op.uncounted), op.window._replace(padding=ops.NO_PADDING)).sum(axis=(2, 3))
    return sums / counts


@reference(
    ops.Upsample,
    {
        "upsampling": (ops.Upsample(Pair(2, 3)), MAP),
    },
)
def upsampled(op: ops.Upsample, x: Array) -> Array:
    return x.repeat(op.factor.height, axis=0).repeat(op.factor.width, axis=1)


@reference(
    ops.MaxUnpool,
    {
        "unpooling": (ops.MaxUnpool(Window(Pair(2, 3), Pair(2, 3))), Shape(4, 4, 4), MAP),
        "unpooling of a narrow chunk": (ops.MaxUnpool(Window(Pair(2, 2), Pair(2, 2))), Shape(3, 2, 11), NARROW),
    },
)
def unpooled(op: ops.MaxUnpool, values: Array, pooled: Array) -> Array:
    """Values where the first maxima of their windows are, window by window."""
    (kernel, stride, dilation, pad), result = op.window, np.zeros_like(pooled)
    around = padded(pooled, pad, -np.inf)
    for y, x, c in np.ndindex(values.shape):
        top, left = y * stride.height, x * stride.width
        seen = around[top :: dilation.height, left :: dilation.width, c][: kernel.height, : kernel.width]
        row, column = np.unravel_index(seen.argmax(), seen.shape)  # the first, row by row
        result[top + row * dilation.height - pad.top, left + column * dilation.width - pad.left, c] = values[y, x, c]
    return result


@reference(
    ops.BatchNorm,
    {
        "batch norm": (ops.BatchNorm(some(4), some(4), None, None, 0.001), MAP),
        "batch norm with gamma and beta": (ops.BatchNorm(some(4), some(4), ones(4), some(4), 0.1), MAP),
    },
)
def batch_norm(op: ops.BatchNorm, x: Array) -> Array:
    result = (x - op.mean.load()) / np.sqrt(op.variance.load().astype(np.float64) + op.epsilon)
    result = result if op.gamma is None else result * op.gamma.load()
    return result if op.beta is None else result + op.beta.load()


@reference(
    ops.Scale,
    {
        "scale": (ops.Scale(some(4)), MAP),
    },
)
def scale(op: ops.Scale, x: Array) -> Array:
    result = x * op.factor.load()
    return result if op.shift is None else result + op.shift.load()


@reference(
    ops.Activation,
    {
        "activation": (ops.Activation(ops.PRelu(some(4))), MAP),
    },
)
def activated(op: ops.Activation, x: Array) -> Array:
    return activation(op.function, x)


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


@reference(
    ops.Add,
    {
        "sum of maps": (ops.Add(), MAP, MAP),
    },
)
def added(op: ops.Add, x: Array, y: Array) -> Array:
    return x + y


@reference(
    ops.Concat,
    {
        "channels joined": (ops.Concat(), MAP, Shape(9, 12, 3), MAP),
        "channels joined off chunks": (ops.Concat(), NARROW, NARROW, NARROW),
        "rows joined": (ops.Concat(Axis.HEIGHT), NARROW, NARROW),
        "columns joined": (ops.Concat(Axis.WIDTH), NARROW, Shape(6, 2, 11), NARROW),
    },
)
def joined(op: ops.Concat, *xs: Array) -> Array:
    return np.concatenate(xs, axis=op.axis)


@reference(
    ops.Pad,
    {
        "padding": (ops.Pad(Padding(1, 2, 3, 4)), MAP),
    },
)
def with_padding(op: ops.Pad, x: Array) -> Array:
    return padded(x, op.padding)


@reference(
    ops.Reshape,
    {
        "flatten": (ops.Reshape(Shape(1, 1, 432), Order.HWC), MAP),
        "to another map": (ops.Reshape(Shape(10, 3, 11), Order.CHW), NARROW),
        "to a vector": (ops.Reshape(Shape(1, 1, 330), Order.CHW), NARROW),
    },
)
def reshaped(op: ops.Reshape, x: Array) -> Array:
    return uncounted(counted(x, op.order), op.shape, op.order)


@reference(
    ops.ChannelSlice,
    {
        "channels of a map": (ops.ChannelSlice(1, 2), Shape(4, 5, 6)),
    },
)
def channel_slice(op: ops.ChannelSlice, x: Array) -> Array:
    return x[:, :, op.first : op.first + op.count]


@reference(
    ops.OnCpu,
    {
        "an operator on the CPU": (ops.OnCpu(ops.Concat(Axis.HEIGHT)), MAP, MAP),
    },
)
def on_cpu(op: ops.OnCpu, *xs: Array) -> Array:
    return execute(op.op, *xs)


_MULTIPLY, _SWISH = ops.Binary(ops.BinaryOp.MULTIPLY), ops.Unary(ops.Swish(1.0))
_MEAN = ops.AveragePool2d(Window(Pair(6, 5)))


@reference(
    ops.InPieces,
    {
        "the mean of a function": (ops.InPieces((ops.PieceStep(_SWISH, (0,)), ops.PieceStep(_MEAN, (1,)))), NARROW),
        "the mean of a product of two functions, channels and pixels": (
            ops.InPieces(
                (
                    ops.PieceStep(ops.Unary(ops.Mish()), (0,)), ops.PieceStep(_SWISH, (1,)), ops.PieceStep(_MULTIPLY, (5, 4)),
                    ops.PieceStep(_MULTIPLY, (2, 6)), ops.PieceStep(_MULTIPLY, (7, 3)), ops.PieceStep(_MEAN, (8,)),
                )
            ),
            NARROW, NARROW, Shape(1, 1, 11), Shape(6, 5, 1),
        ),
    },
)  # fmt: skip
def in_pieces(op: ops.InPieces, *xs: Array) -> Array:
    return results_of_steps(op, *xs)[-1]


def results_of_steps(op: ops.InPieces, *xs: Array) -> list[Array]:
    values = [*xs]
    for step, reads in op.steps:
        values.append(execute(step, *(values[number] for number in reads)))
    return values


@reference(
    ops.PackedFactors,
    {f"{count} packed factors": (ops.PackedFactors(), Shape(1, 1, count)) for count in (1, 8, 11)},
)
def packed_factors(_: ops.PackedFactors, x: Array) -> Array:
    blocks: list[Array] = []
    for first in range(0, x.size, 8):
        factors = x[0, 0, first : first + 8]
        tiles = np.zeros((factors.size, 12, 6))
        tiles[:, 11, 0] = factors
        blocks += [np.zeros(8), tiles.reshape(-1)]
    return np.concatenate(blocks).reshape(1, 1, -1)


@reference(ops.ScaledBy, {"a scale by packed factors": (ops.ScaledBy(), NARROW, Shape(1, 1, 808))})
def scaled_by(_: ops.ScaledBy, x: Array, packed: Array) -> Array:
    places = [8 * (c // 8 + 1) + 72 * c + 66 for c in range(x.shape[2])]
    return x * packed[0, 0, places]


@reference(
    ops.ArraySoftmax,
    {
        "softmax of an array": (ops.ArraySoftmax((2, 3), 1), Shape(1, 1, 6)),
    },
)
def array_softmax(op: ops.ArraySoftmax, x: Array) -> Array:
    array = x.reshape(op.dims)
    e = np.exp(array - array.max(axis=op.axis, keepdims=True))
    result: Array = (e / e.sum(axis=op.axis, keepdims=True)).reshape(x.shape)
    return result


@reference(
    ops.Softmax,
    {
        "softmax of channels": (ops.Softmax(), NARROW),
        "softmax of rows": (ops.Softmax(Axis.HEIGHT), NARROW),
        "softmax of columns": (ops.Softmax(Axis.WIDTH), NARROW),
    },
)
def softmax(op: ops.Softmax, x: Array) -> Array:
    powers = np.exp(x - x.max(axis=op.axis, keepdims=True))
    result: Array = powers / powers.sum(axis=op.axis, keepdims=True)
    return result


def gelu(function: ops.Gelu, x: Array) -> Array:
    if function.by_tanh:
        gate: Array = 1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        gate = 1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2))
    return x / 2 * gate


class ScalarReference(NamedTuple):
    """A function of one number: what computes it from (function, x), and instances by name."""

    compute: Callable[[Any, Array], Array]
    examples: Mapping[str, ops.ElementFunction]


SCALARS: Mapping[type, ScalarReference] = {
    ops.Swish: ScalarReference(
        lambda f, x: x / (1 + np.exp(-f.beta * x)), {"swish": ops.Swish(), "swish with a beta": ops.Swish(1.5)}
    ),
    ops.HardSigmoid: ScalarReference(
        lambda f, x: np.clip(f.slope * x + f.shift, 0, 1), {"hard sigmoid": ops.HardSigmoid(0.2, 0.5)}
    ),
    ops.Sigmoid: ScalarReference(activation, {"sigmoid": ops.Sigmoid()}),
    ops.Tanh: ScalarReference(activation, {"tanh": ops.Tanh()}),
    ops.HardSwish: ScalarReference(lambda _, x: x * np.clip(x + 3, 0, 6) / 6, {"hard swish": ops.HardSwish()}),
    ops.Gelu: ScalarReference(gelu, {"gelu": ops.Gelu(), "gelu by tanh": ops.Gelu(by_tanh=True)}),
    ops.Mish: ScalarReference(lambda _, x: x * np.tanh(np.logaddexp(0, x)), {"mish": ops.Mish()}),
    ops.Softplus: ScalarReference(lambda _, x: np.logaddexp(0, x), {"softplus": ops.Softplus()}),
    ops.Softsign: ScalarReference(lambda _, x: x / (1 + np.abs(x)), {"softsign": ops.Softsign()}),
    ops.ScaledElu: ScalarReference(
        lambda f, x: f.scale * (np.maximum(x, 0) + f.alpha * np.expm1(np.minimum(x, 0))),
        {"elu with an alpha": ops.ScaledElu(0.7), "selu": ops.ScaledElu(1.6732632, 1.0507010)},
    ),
    ops.Exponential: ScalarReference(
        lambda f, x: np.exp(f.scale * x + f.shift),
        {"exp": ops.Exponential(), "exp, scaled": ops.Exponential(0.5, -1.0)},
    ),
    ops.Logarithm: ScalarReference(
        lambda f, x: f.factor * np.log(f.scale * x + f.shift), {"log": ops.Logarithm(0.4342945, 0.25, 3.0)}
    ),
    ops.Power: ScalarReference(
        lambda f, x: (f.scale * x + f.shift) ** f.power,
        {"square": ops.Power(2.0), "root": ops.Power(0.5, 0.25, 3.0), "inverse cube": ops.Power(-3.0, 0.25, 3.0)},
    ),
    ops.Absolute: ScalarReference(lambda _, x: np.abs(x), {"abs": ops.Absolute()}),
    ops.Sine: ScalarReference(lambda _, x: np.sin(x), {"sine": ops.Sine()}),
    ops.Cosine: ScalarReference(lambda _, x: np.cos(x), {"cosine": ops.Cosine()}),
    ops.ErrorFunction: ScalarReference(
        lambda _, x: np.vectorize(math.erf, otypes=[np.float64])(x), {"error function": ops.ErrorFunction()}
    ),
    ops.Floor: ScalarReference(lambda _, x: np.floor(x), {"floor": ops.Floor()}),
    ops.Round: ScalarReference(lambda _, x: np.round(x), {"round": ops.Round()}),
    ops.Threshold: ScalarReference(lambda f, x: (x > f.threshold).astype(x.dtype), {"threshold": ops.Threshold(0.3)}),
    ops.Clip: ScalarReference(
        lambda f, x: np.clip(x, f.low, f.high),
        {"clip": ops.Clip(-0.5, 0.75), "clip below": ops.Clip(-0.5, float("inf"))},
    ),
    ops.BoundedRelu: ScalarReference(
        lambda f, x: np.where(x > f.threshold, np.minimum(x, f.high), f.slope * (x - f.threshold)),
        {"bounded relu": ops.BoundedRelu(0.1, 0.5, 1.5)},
    ),
}


@reference(
    ops.Unary, {name: (ops.Unary(f), NARROW) for scalar in SCALARS.values() for name, f in scalar.examples.items()}
)
def unary(op: ops.Unary, x: Array) -> Array:
    return SCALARS[type(op.function)].compute(op.function, x)


BINARY_OPS: Mapping[ops.BinaryOp, Callable[[Array, Array], Array]] = {
    ops.BinaryOp.ADD: np.add,
    ops.BinaryOp.SUBTRACT: np.subtract,
    ops.BinaryOp.MULTIPLY: np.multiply,
    ops.BinaryOp.DIVIDE: np.divide,
    ops.BinaryOp.MAXIMUM: np.maximum,
    ops.BinaryOp.MINIMUM: np.minimum,
    ops.BinaryOp.MASK: lambda x, y: np.where(y != 0, x, 0.0),
}


@reference(
    ops.Binary,
    {
        **{f"{kind.name.lower()} of both": (ops.Binary(kind), NARROW, NARROW) for kind in ops.BinaryOp},
        "channels times a map": (ops.Binary(ops.BinaryOp.MULTIPLY), Shape(1, 1, 11), NARROW),
        "a map less channels": (ops.Binary(ops.BinaryOp.SUBTRACT), NARROW, Shape(1, 1, 11)),
        "a row divided by a column": (ops.Binary(ops.BinaryOp.DIVIDE), Shape(1, 5, 11), Shape(6, 1, 11)),
        "many channels divided by a number": (ops.Binary(ops.BinaryOp.DIVIDE), Shape(2, 3, 300), Shape(1, 1, 1)),
    },
)
def binary(op: ops.Binary, x: Array, y: Array) -> Array:
    return BINARY_OPS[op.operation](x, y)


HEIGHT, WIDTH, CHANNELS = Axis
PLANES = ops.Matrices(11, CHANNELS, HEIGHT, WIDTH)  # of NARROW
TURNED = ops.Matrices(11, CHANNELS, WIDTH, HEIGHT)
TWO = ops.Matrices(2, CHANNELS, HEIGHT, CHANNELS)  # two runs of channels


@reference(
    ops.MatMul,
    {
        "products of planes": (ops.MatMul(PLANES, TURNED, PLANES), NARROW, NARROW),
        "products of columns and rows": (ops.MatMul(TURNED, PLANES, TURNED, 0.25), NARROW, NARROW),
        "a matrix times planes": (
            ops.MatMul(ops.Matrices(1, WIDTH, CHANNELS, HEIGHT), PLANES, ops.Matrices(11, HEIGHT, WIDTH, CHANNELS)),
            Shape(6, 1, 9), NARROW,
        ),
        "channels times channels": (
            ops.MatMul(
                ops.Matrices(1, HEIGHT, WIDTH, CHANNELS), ops.Matrices(1, HEIGHT, CHANNELS, WIDTH),
                ops.Matrices(1, CHANNELS, HEIGHT, WIDTH),
            ),
            Shape(1, 6, 12), Shape(1, 5, 12),
        ),
        "products of runs of channels": (
            ops.MatMul(TWO, ops.Matrices(2, CHANNELS, CHANNELS, HEIGHT), ops.Matrices(2, CHANNELS, HEIGHT, WIDTH), 0.5),
            Shape(30, 1, 18), Shape(17, 1, 18),
        ),
        "products into runs of channels": (
            ops.MatMul(ops.Matrices(2, CHANNELS, HEIGHT, WIDTH), TWO, TWO), Shape(6, 9, 2), Shape(9, 1, 22),
        ),
    },
)  # fmt: skip
def matrix_product(op: ops.MatMul, x: Array, y: Array) -> Array:
    products = op.factor * (_matrices(op.left, x) @ _matrices(op.right, y))
    count, rows, columns = products.shape
    lengths = {op.result.rows: rows, op.result.columns: columns}
    if op.result.batch in lengths:  # the batch, and then the run of each matrix
        split = [(count, rows), (columns,)] if op.result.batch is op.result.rows else [(rows,), (count, columns)]
        numbers = products.transpose((0, 1, 2) if op.result.batch is op.result.rows else (1, 0, 2))
        numbers = numbers.reshape([math.prod(lengths) for lengths in split])
        names = [op.result.rows, op.result.columns]
    else:
        numbers, names = products, [op.result.batch, op.result.rows, op.result.columns]
    names += [axis for axis in Axis if axis not in names]
    numbers = numbers.reshape(numbers.shape + (1,) * (3 - numbers.ndim))
    return numbers.transpose([names.index(axis) for axis in Axis])


def _matrices(view: ops.Matrices, x: Array) -> Array:
    """The matrices (count, rows, columns) of a map."""
    pieces = np.split(x, view.number, axis=view.batch)
    others = [next(axis for axis in Axis if axis not in (view.rows, view.columns))]
    return np.stack([np.squeeze(piece.transpose(*others, view.rows, view.columns), 0) for piece in pieces])


@reference(
    ops.LocalResponseNorm,
    {
        "lrn across": (ops.LocalResponseNorm(5, 0.8, 0.75, 1.0), NARROW),
        "lrn within": (ops.LocalResponseNorm(3, 0.8, 0.75, 2.0, across_channels=False), NARROW),
    },
)
def local_response_norm(op: ops.LocalResponseNorm, x: Array) -> Array:
    reach, squares = op.size // 2, np.square(x)
    if op.across_channels:
        wide = np.pad(squares, ((0, 0), (0, 0), (reach, reach)))
        sums = sum(wide[:, :, i : i + x.shape[2]] for i in range(op.size))
        count = op.size
    else:
        around = ops.Padding(reach, reach, reach, reach)
        sums = windows(squares, ops.Window(ops.Pair(op.size, op.size), padding=around)).sum(axis=(2, 3))
        count = op.size**2
    result: Array = x / (op.bias + op.alpha / count * sums) ** op.beta
    return result


@reference(
    ops.MeanVarianceNorm,
    {
        "layer normalization": (ops.MeanVarianceNorm((Axis.CHANNELS,), 1e-3), NARROW),
        "instance normalization": (ops.MeanVarianceNorm((Axis.HEIGHT, Axis.WIDTH), 1e-3, epsilon_outside=True), NARROW),
        "mean alone": (ops.MeanVarianceNorm(ALL, 1e-3, divides=False), NARROW),
        "group normalization": (ops.MeanVarianceNorm(ALL, 1e-3, groups=11), NARROW),
        "rows and channels in groups": (ops.MeanVarianceNorm((Axis.HEIGHT, Axis.CHANNELS), 0.1, groups=2), MAP),
    },
)
def standardized(op: ops.MeanVarianceNorm, x: Array) -> Array:
    height, width, channels = x.shape
    grouped = x.reshape(height, width, op.groups, channels // op.groups)
    # Without the channels among the axes there is one group, and a channel stays alone.
    axes = tuple({ops.Axis.HEIGHT: 0, ops.Axis.WIDTH: 1, ops.Axis.CHANNELS: 3}[axis] for axis in op.axes)
    result: Array = grouped - grouped.mean(axes, keepdims=True)
    if op.divides:
        variance = np.square(result).mean(axes, keepdims=True)
        result = result / (np.sqrt(variance) + op.epsilon if op.epsilon_outside else np.sqrt(variance + op.epsilon))
    return result.reshape(height, width, channels)


@reference(
    ops.L2Normalize,
    {
        "length": (ops.L2Normalize((Axis.CHANNELS,), 1e-3), NARROW),
        "length, at least": (ops.L2Normalize(ALL, 1e3, at_least=True), NARROW),
    },
)
def l2_normalized(op: ops.L2Normalize, x: Array) -> Array:
    total = np.square(x).sum(axis=op.axes, keepdims=True)
    result: Array = x / np.sqrt(np.maximum(total, op.epsilon) if op.at_least else total + op.epsilon)
    return result


REDUCTIONS: Mapping[ops.Reduction, Callable[[Array, tuple[int, ...]], Array]] = {
    ops.Reduction.SUM: lambda x, axes: x.sum(axes, keepdims=True),
    ops.Reduction.MEAN: lambda x, axes: x.mean(axes, keepdims=True),
    ops.Reduction.MAXIMUM: lambda x, axes: x.max(axes, keepdims=True),
    ops.Reduction.MINIMUM: lambda x, axes: x.min(axes, keepdims=True),
    ops.Reduction.SUM_OF_MAGNITUDES: lambda x, axes: np.abs(x).sum(axes, keepdims=True),
    ops.Reduction.SUM_OF_SQUARES: lambda x, axes: np.square(x).sum(axes, keepdims=True),
}


@reference(
    ops.Reduce,
    {
        **{kind.value: (ops.Reduce(kind, (Axis.HEIGHT, Axis.WIDTH), 0.5), NARROW) for kind in ops.Reduction},
        "sum of channels": (ops.Reduce(ops.Reduction.SUM, (Axis.CHANNELS,)), NARROW),
        "maximum of all": (ops.Reduce(ops.Reduction.MAXIMUM, ALL), NARROW),
        "sum of rows and channels": (ops.Reduce(ops.Reduction.SUM, (Axis.HEIGHT, Axis.CHANNELS)), MAP),
    },
)
def reduced(op: ops.Reduce, x: Array) -> Array:
    return REDUCTIONS[op.reduction](x, op.axes) * op.factor


@reference(
    ops.ArgMax,
    {
        "largest channel": (ops.ArgMax(Axis.CHANNELS), NARROW),
        "three largest columns": (ops.ArgMax(Axis.WIDTH, 3), MAP),
        "three largest rows' values": (ops.ArgMax(Axis.HEIGHT, 3, values=True), NARROW),
        "largest of all": (ops.ArgMax(None, 4), NARROW),
        "largest of all, with values": (ops.ArgMax(None, 4, values=True, last_of_equals=True), NARROW),
    },
)
def largest(op: ops.ArgMax, x: Array) -> Array:
    lines = (
        to_chw(x).reshape(-1)[:, None] if op.axis is None else np.moveaxis(x, op.axis, 0).reshape(x.shape[op.axis], -1)
    )
    places, values = np.empty((op.count, lines.shape[1])), np.empty((op.count, lines.shape[1]))
    for column, line in enumerate(lines.T.tolist()):
        best = sorted(range(len(line)), key=lambda i: (-line[i], -i if op.last_of_equals else i))[: op.count]
        places[:, column], values[:, column] = best, [line[i] for i in best]
    if op.axis is None:
        return np.stack([places, values][: 2 if op.values else 1], axis=2)
    rest = [n for axis, n in enumerate(x.shape) if axis != op.axis]
    return np.moveaxis((values if op.values else places).reshape(op.count, *rest), 0, op.axis)


@reference(
    ops.Resize,
    {
        **{
            f"{how.value} to {size.height}x{size.width}, {where.name}": (ops.Resize(size, how, where), NARROW)
            for how in ops.Interpolation
            for where in ops.Sampling
            for size in (Pair(9, 13), Pair(4, 1))
        },
    },
)
def resized(op: ops.Resize, x: Array) -> Array:
    for axis, size in enumerate(op.size):
        old, i = x.shape[axis], np.arange(size)
        match op.sampling:
            case ops.Sampling.HALF_PIXEL:
                places = (i + 0.5) * old / size - 0.5
            case ops.Sampling.CORNERS:
                places = i * (old - 1) / (size - 1) if size > 1 else i * 0.0
            case ops.Sampling.ASYMMETRIC:
                places = i * old / size
        if op.interpolation is ops.Interpolation.NEAREST:
            rounds = op.sampling is not ops.Sampling.ASYMMETRIC
            x = x.take(np.clip(np.floor(places + 0.5 if rounds else places), 0, old - 1).astype(int), axis)
        else:
            places = np.clip(places, 0, old - 1)
            below = np.floor(places).astype(int)
            part = (places - below).reshape([-1 if a == axis else 1 for a in range(3)])
            x = x.take(below, axis) * (1 - part) + x.take(np.minimum(below + 1, old - 1), axis) * part
    return x


@reference(
    ops.Crop,
    {
        "a part": (ops.Crop(Shape(1, 2, 3), Shape(6, 4, 10), Shape(2, 1, 3)), NARROW),
        "a slice on chunks": (ops.Crop(Shape(0, 0, 8), Shape(6, 5, 11)), NARROW),
        "a slice off chunks": (ops.Crop(Shape(0, 0, 3), Shape(6, 5, 9)), NARROW),
        "a part with steps": (ops.Crop(Shape(1, 2, 0), Shape(9, 8, 3), Shape(3, 5, 2)), MAP),
    },
)
def cropped(op: ops.Crop, x: Array) -> Array:
    rows, columns, channels = map(slice, op.start, op.stop, op.stride)
    return x[rows, columns, channels]


@reference(
    ops.Gather,
    {
        "rows backward": (ops.Gather(rows=(5, 4, 3, 2, 1, 0)), NARROW),
        "places on all axes": (ops.Gather((2, -1, 2), (0, 3), (10, 1, 8, -1), 0.5), NARROW),
        "channels": (ops.Gather(channels=(3, 0, 0, 2, 1, 3, 3, 0, 1)), MAP),
    },
)
def gathered(op: ops.Gather, x: Array) -> Array:
    for axis, places in enumerate((op.rows, op.columns, op.channels)):
        if places:
            padded = np.insert(x, x.shape[axis], op.filling, axis)  # index -1 is the filling number
            x = padded.take(places, axis)
    return x


@reference(
    ops.TransposeReshape,
    {
        "a permutation": (ops.TransposeReshape((11, 6, 5), (1, 2, 0), Shape(5, 11, 6), Order.CHW), NARROW),
        "a channel shuffle": (ops.TransposeReshape((3, 2, 5, 11), (1, 3, 0, 2), Shape(2, 11, 15), Order.HWC), NARROW),
        "a matrix, transposed": (ops.TransposeReshape((9, 48), (1, 0), Shape(6, 6, 12), Order.HWC), MAP),
    },
)
def transposed(op: ops.TransposeReshape, x: Array) -> Array:
    return uncounted(counted(x, op.order).reshape(op.dims).transpose(op.axes), op.shape, op.order)


@reference(
    ops.SpaceToDepth,
    {
        "blocks": (ops.SpaceToDepth(Pair(2, 3), Padding(1, 1, 0, 1)), NARROW),
        "fewer blocks": (ops.SpaceToDepth(Pair(2, 2), Padding(1, -1, 0, -1)), NARROW),
        "large blocks": (ops.SpaceToDepth(Pair(5, 2), Padding(1, 0, 2, 0)), MAP),
    },
)
def in_blocks(op: ops.SpaceToDepth, x: Array) -> Array:
    (rows, columns), pad = op.block, op.padding
    whole = padded(x, Padding(*(max(0, side) for side in pad)))
    whole = whole[: x.shape[0] + pad.top + pad.bottom, : x.shape[1] + pad.left + pad.right]  # the rest is cropped
    return np.concatenate([whole[i::rows, j::columns] for i in range(rows) for j in range(columns)], axis=2)


def ssd_boxes(min_sizes: tuple[float, ...], max_sizes: tuple[float, ...], ratios: tuple[float, ...]) -> ops.PriorBox:
    """Boxes around 2 x 3 pixels."""
    variance = (0.1, 0.1, 0.2, 0.2)
    return ops.PriorBox(Pair(2, 3), Pair(40, 60), min_sizes, max_sizes, ratios, True, variance, 20.0, 20.0, 0.5)


BOXES = ssd_boxes((12.0, 20.0), (18.0, 30.0), (2.0,))  # 6 for each pixel


@reference(
    ops.PriorBox,
    {
        "boxes of two sizes and shapes": (ssd_boxes((12.0, 20.0), (), (2.0, 0.5)),),
        "boxes with sizes between": (BOXES,),
    },
)
def prior_boxes(op: ops.PriorBox) -> Array:
    sizes: list[tuple[float, float]] = []
    for index, size in enumerate(op.min_sizes):
        sizes.append((size, size))
        if op.max_sizes:
            sizes.append((math.sqrt(size * op.max_sizes[index]),) * 2)
        sizes += [(size / math.sqrt(ratio), size * math.sqrt(ratio)) for ratio in op.aspect_ratios]
    boxes = []
    for row in range(op.map_size.height):
        for column in range(op.map_size.width):
            y, x = (row + op.offset) * op.step_height, (column + op.offset) * op.step_width
            for height, width in sizes:
                boxes += [(x - width / 2) / op.image_size.width, (y - height / 2) / op.image_size.height,
                          (x + width / 2) / op.image_size.width, (y + height / 2) / op.image_size.height]  # fmt: skip
    coordinates = np.clip(boxes, 0, 1) if op.clip else np.array(boxes)
    return np.stack([coordinates, np.tile(op.variance, len(boxes) // 4)], axis=1)[:, None]


def detecting(code: ops.BoxCode, *, share: bool = True, keep: int = 12, eta: float = 1.0) -> tuple[Any, ...]:
    """Detections of 3 classes in 36 boxes, and their inputs, in FP16."""
    op = ops.DetectionOutput(3, 0, share, code, False, 0.6, 20, eta, 0.2, keep)
    random, priors = np.random.default_rng(1), prior_boxes(BOXES)
    locations = 2 * random.normal(size=(1, 1, len(priors) * (1 if share else 3)))
    scores = np.exp(2 * random.normal(size=(1, 36, 3)))
    confidences = (scores / scores.sum(axis=2, keepdims=True)).reshape(1, 1, -1)
    return op, *(x.astype(np.float16).astype(np.float64) for x in (locations, confidences, priors))


@reference(
    ops.DetectionOutput,
    {
        "detections": detecting(ops.BoxCode.CENTER_SIZE),
        "detections of each class": detecting(ops.BoxCode.CORNER, share=False, keep=40, eta=0.9),
        "all detections": detecting(ops.BoxCode.CORNER_SIZE, keep=-1),
    },
)
def detections(op: ops.DetectionOutput, locations: Array, confidences: Array, priors: Array) -> Array:
    variances = priors[:, 0, 1].reshape(-1, 4)
    corners = priors[:, 0, 0].reshape(-1, 4)
    scores = to_chw(confidences).reshape(len(corners), op.classes)
    moves = to_chw(locations).reshape(len(corners), -1, 4)
    found = []
    for label in set(range(op.classes)) - {op.background}:
        boxes = [
            decoded_box(op, corner, move[0 if op.share_location else label], variance)
            for corner, move, variance in zip(corners, moves, variances, strict=True)
        ]
        found += [(float(scores[i, label]), label, boxes[i]) for i in suppressed(op, boxes, scores[:, label])]
    if op.keep_top_k >= 0:
        found = sorted(found, key=lambda detection: -detection[0])[: op.keep_top_k]
    result = np.zeros((op.output_shape(*(ops.Shape(*x.shape) for x in (locations, confidences, priors))).height, 7, 1))
    result[len(found) :, 0] = -1
    if not found:
        result[0, :, 0] = (0, *[-1] * 6)
    for row, (score, label, box) in enumerate(sorted(found, key=lambda detection: detection[1])):
        result[row, :, 0] = (0, label, score, *box)
    return result


def in_boxes(op: ops.DetectionOutput, locations: Array, confidences: Array, priors: Array) -> tuple[Any, ...]:
    return ops.DetectionInBoxes(op, Constant.of(priors)), locations, confidences


@reference(
    ops.DetectionInBoxes,
    {
        "detections in known boxes": in_boxes(*detecting(ops.BoxCode.CENTER_SIZE)),
        "detections of each class in known boxes": in_boxes(*detecting(ops.BoxCode.CORNER, share=False)),
    },
)
def detections_in_boxes(op: ops.DetectionInBoxes, locations: Array, confidences: Array) -> Array:
    return detections(op.detection, locations, confidences, op.boxes.load().astype(locations.dtype))


def decoded_box(op: ops.DetectionOutput, corner: Array, move: Array, variance: Array) -> Array:
    """left, top, right, bottom of the box encoded by a location and a prior box."""
    if not op.variance_encoded:
        move = move * variance
    size = corner[2:] - corner[:2]
    match op.code:
        case ops.BoxCode.CORNER:
            return corner + move
        case ops.BoxCode.CORNER_SIZE:
            moved: Array = corner + move * np.concatenate([size, size])
            return moved
        case ops.BoxCode.CENTER_SIZE:
            middle, new = (corner[:2] + corner[2:]) / 2 + move[:2] * size, np.exp(move[2:]) * size
            box: Array = np.concatenate([middle - new / 2, middle + new / 2])
            return box


def suppressed(op: ops.DetectionOutput, boxes: list[Array], scores: Array) -> list[int]:
    """The indices of the remaining boxes of a class, by descending confidence."""
    candidates = sorted(np.flatnonzero(scores > op.confidence_threshold).tolist(), key=lambda i: -float(scores[i]))
    kept: list[int] = []
    threshold = op.nms_threshold
    for i in candidates if op.top_k < 0 else candidates[: op.top_k]:
        if all(overlap(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(i)
            threshold *= op.eta if op.eta < 1 and threshold > 0.5 else 1
    return kept


def overlap(a: Array, b: Array) -> float:
    """Intersection over union."""
    common = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if min(common) <= 0:
        return 0.0
    areas = [float(np.prod(box[2:] - box[:2])) if (box[2:] >= box[:2]).all() else 0.0 for box in (a, b)]
    return float(np.prod(common)) / (sum(areas) - float(np.prod(common)))
