"""References of the operators of a graph, with examples: those of the device here, the others in the files imported below.

The tests of shapes (tests/ir), of operators at the device, and of the functions of the CPU take their cases from the examples.
"""

from __future__ import annotations

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import ONE, Axis, Order, Padding, Pair, Shape, Window
from reference import detection_reference  # noqa: F401  # it registers its operators
from reference.cpu_reference import SCALARS, matrices_of
from reference.registry import (
    EXAMPLES,
    LOWEST,
    MAP,
    NARROW,
    SAME,
    Array,
    Example,
    activation,
    conv,
    counted,
    deconv,
    examples_of,
    execute,
    from_nchw,
    ones,
    padded,
    reference,
    run,
    some,
    to_chw,
    uncounted,
    windows,
)

__all__ = [
    "EXAMPLES",
    "SCALARS",
    "Array",
    "Example",
    "activation",
    "conv",
    "convolution",
    "examples_of",
    "execute",
    "from_nchw",
    "results_of_steps",
    "run",
    "some",
    "to_chw",
    "transposed_convolution",
    "windows",
]


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


_RUNS, _TURNED = (
    ops.Matrices(2, Axis.CHANNELS, Axis.WIDTH, Axis.CHANNELS),
    ops.Matrices(2, Axis.CHANNELS, Axis.CHANNELS, Axis.WIDTH),
)


@reference(
    ops.PackedMatrices,
    {
        "packed rows": (ops.PackedMatrices(ops.Matrices(1, Axis.HEIGHT, Axis.WIDTH, Axis.CHANNELS)), Shape(1, 11, 70)),
        "packed runs of channels": (ops.PackedMatrices(_RUNS, 0.125), Shape(1, 9, 48)),
        "packed columns": (ops.PackedMatrices(_TURNED, 3.0), Shape(1, 130, 22)),
        "packed planes": (ops.PackedMatrices(ops.Matrices(11, Axis.CHANNELS, Axis.WIDTH, Axis.HEIGHT)), NARROW),
    },
)
def packed_matrices(op: ops.PackedMatrices, x: Array) -> Array:
    streams: list[Array] = []
    for matrix in op.factor * matrices_of(op.matrices, x):
        for first in range(0, len(matrix), 8):
            kernels = matrix[first : first + 8]
            streams.append(np.zeros(8))
            for start in range(0, matrix.shape[1], 64):
                tiles = np.zeros((len(kernels), 12, 6))
                for channel, values in enumerate(kernels[:, start : start + 64].T):
                    tiles[(slice(None), *_PLACES[channel])] = values
                streams.append(tiles.reshape(-1))
    return np.concatenate(streams).reshape(1, 1, -1)


# Channel of a tile of 1x1 kernels -> its row and column: pairs of channels of 8 stand beside each other, 3 rows for 9 such groups.
_PLACES = [(11 - pair * 3 - three, side * 3 + group) for three in range(3) for group in range(3) for pair in range(4) for side in range(2)]  # fmt: skip


@reference(
    ops.TimesPacked, {"a product with a packed matrix": (ops.TimesPacked(9), Shape(1, 7, 66), Shape(1, 1, 1312))}
)
def times_packed(op: ops.TimesPacked, x: Array, packed: Array) -> Array:
    channels, kernels, at = x.shape[2], [], 0
    for kernel in range(op.kernels):
        if kernel % 8 == 0:
            together = min(8, op.kernels - kernel)
            tiles = -(-channels // 64)
            block = packed[0, 0, at + 8 : at + 8 + 72 * tiles * together].reshape(tiles, together, 12, 6)
            at += 8 + block.size
        kernels.append([block[c // 64, kernel % 8][_PLACES[c % 64]] for c in range(channels)])
    return x @ np.asarray(kernels).T


@reference(ops.ScaledBy, {"a scale by packed factors": (ops.ScaledBy(), NARROW, Shape(1, 1, 808))})
def scaled_by(_: ops.ScaledBy, x: Array, packed: Array) -> Array:
    places = [8 * (c // 8 + 1) + 72 * c + 66 for c in range(x.shape[2])]
    return x * packed[0, 0, places]
