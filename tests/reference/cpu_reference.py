"""References of the operators that the CPU alone computes, with examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Order, Padding, Pair, Shape
from reference.registry import (
    ALL,
    MAP,
    NARROW,
    Array,
    activation,
    counted,
    padded,
    reference,
    to_chw,
    uncounted,
    windows,
)


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
    ops.Arctangent: ScalarReference(lambda _, x: np.arctan(x), {"arctangent": ops.Arctangent()}),
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
    products = op.factor * (matrices_of(op.left, x) @ matrices_of(op.right, y))
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


def matrices_of(view: ops.Matrices, x: Array) -> Array:
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


def places(count: int, images: int = 1) -> Array:
    """A grid of 4 x count places around a map, some of them far outside."""
    grid = np.random.default_rng(3).uniform(-1.6, 1.6, (4, count, 2 * images))
    grid[0, 0, :2], grid[2, 0, :2] = (-1, 1), (300, -7)
    return grid.astype(np.float16).astype(np.float64)


@reference(
    ops.GridSample,
    {
        **{
            f"places, {how.value}, outside {where.name}{', from corners' * corners}":
                (ops.GridSample(how, where, corners), NARROW, places(7))
            for how in ops.Interpolation for where in ops.Outside for corners in (False, True)
        },
        "places of two images": (ops.GridSample(ops.Interpolation.BILINEAR, images=2), MAP, places(3, 2)),
    },
)  # fmt: skip
def grid_sampled(op: ops.GridSample, x: Array, grid: Array) -> Array:
    """Every image by itself: the shares of its pixels, times the pixels."""
    parts = zip(np.split(x, op.images, -1), np.split(grid, op.images, -1), strict=True)
    return np.concatenate([_at_places(op, part, at) for part, at in parts], -1)


def _at_places(op: ops.GridSample, x: Array, at: Array) -> Array:
    rows, columns = (_shares(op, at[..., 1 - axis], x.shape[axis]) for axis in (0, 1))
    shares = (rows[..., :, None] * columns[..., None, :])[..., None]  # of (H, W, rows, columns, 1)
    sums: Array = np.where(shares == 0, 0.0, shares * x).sum((2, 3))
    return sums


def _shares(op: ops.GridSample, at: Array, size: int) -> Array:
    """How much of each of `size` pixels along an axis the places take: (H, W, size)."""
    edge = 0.0 if op.corners else 0.5
    at = (at + 1) / 2 * (size - 1 + 2 * edge) - edge
    if op.interpolation is ops.Interpolation.NEAREST:
        at = np.rint(at)
    if op.outside is ops.Outside.REFLECTED:
        period = 2 * (size - 1 + 2 * edge)
        at = np.abs((at + edge + period / 2) % period - period / 2) - edge
    at = np.where(np.isnan(at), np.inf, at)
    if op.outside is not ops.Outside.ZEROS:
        at = np.clip(at, 0, size - 1)
    shares: Array = np.maximum(0, 1 - np.abs(at[..., None] - np.arange(size)))
    return shares


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
        "channels of a pixel": (ops.Gather(channels=(9, 1, -1, 4), filling=0.5), Shape(1, 1, 11)),
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
