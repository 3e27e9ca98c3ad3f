"""Layers that multiply by a matrix, or have a factor for each channel."""

import math

import numpy as np

from cnn_convertor.frontends.arithmetic import filled, scale_and_shift
from cnn_convertor.frontends.caffe.reading import CaffeBlob, CaffeReading, caffe
from cnn_convertor.frontends.nchw import Dims, axis_of, text_of
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, Axis, BinaryOp, Op, Window


@caffe.reads(
    "InnerProduct", group="inner_product_param", settings="axis num_output bias_term transpose",
    makes=[ops.Dense, ops.Conv2d],
)  # fmt: skip
def read_inner_product(reading: CaffeReading) -> CaffeBlob:
    x = reading.input
    axis = reading.axis()
    rows = math.prod(x.dims[:axis])
    inputs = math.prod(x.dims[axis:])
    outputs = reading.number_of_outputs()
    weight, bias = _matrix(reading, inputs, outputs)
    dims = (*x.dims[:axis], outputs)
    if rows == 1:
        height, width, channels = reading.shape(x)
        shape = (channels, height, width)
        return reading.add(ops.Dense(weight.map_rows(lambda w: w.reshape(-1, *shape), shape), bias), x, dims=dims)
    # One product for each row: the rows become pixels, and the product a convolution of 1x1.
    kernels = weight.map_rows(lambda w: w.reshape(-1, inputs, 1, 1), (inputs, 1, 1))
    pixels = reading.permute(x, (rows, inputs), (1, 0), (1, inputs, rows), part="rows")
    product = reading.add(ops.Conv2d(kernels, bias, Window(ONE)), pixels, part="product")
    return reading.permute(product, (outputs, rows), (1, 0), dims)


def _matrix(reading: CaffeReading, inputs: int, outputs: int) -> tuple[Constant, Constant | None]:
    """Weights (outputs, inputs), and a bias."""
    if not reading.take("transpose"):
        return reading.weight_and_bias((outputs, inputs), outputs)
    matrix, bias = reading.weight_and_bias((inputs, outputs), outputs)
    return matrix.swap_axes(), bias


# --- a number for each channel ---------------------------------------------------------------------------------------


def over_channels(reading: CaffeReading, x: CaffeBlob, axes: range, op: Op) -> CaffeBlob:
    """Add an operator that treats each channel by itself, with these neighboring axes as the channels."""
    if len(axes) == 1 and axis_of(x.dims, axes[0]) is Axis.CHANNELS:
        return reading.add(op, x)
    before = x.dims[: axes.start]
    along = x.dims[axes.start : axes.stop]
    after = x.dims[axes.stop :]
    outer, count, inner = (math.prod(dims) for dims in (before, along, after))
    turned = reading.permute(x, (outer, count, inner), (1, 0, 2), (1, count, outer * inner), part="channels")
    result = reading.add(op, turned, part="result")
    return reading.permute(result, (count, outer, inner), (1, 0, 2), x.dims)


def _channel_axis(x: CaffeBlob) -> range:
    """Axis 1; a blob without it is one channel."""
    return range(1, 2) if x.rank > 1 else range(1, 1)


def _channels(x: CaffeBlob) -> int:
    return x.dims[1] if x.rank > 1 else 1


@caffe.reads(
    "BatchNorm", group="batch_norm_param", settings="scale_bias scale_filler bias_filler eps use_global_stats",
    makes=[ops.MeanVarianceNorm, ops.BatchNorm], limits="scale_bias: with use_global_stats",
)  # fmt: skip
def read_batch_norm(reading: CaffeReading) -> CaffeBlob:
    x = reading.input
    has_scale = _has_scale(reading)
    if not reading.take("use_global_stats", True):
        if has_scale:
            raise reading.unsupported("statistics of the input itself together with scale_bias cannot be converted")
        return reading.add(ops.MeanVarianceNorm((Axis.HEIGHT, Axis.WIDTH), reading.take("eps")), reading.as_plain(x))
    shape = (_channels(x),)
    further = [shape, shape] if has_scale else []
    mean, variance, factor, *rest = reading.constants(shape, shape, (1,), *further)
    total = float(factor.load()[0])
    factors = np.full(shape, 1 / total if total else 0.0)
    gamma, beta = rest or (None, None)
    op = ops.BatchNorm(mean.scale_rows(factors), variance.scale_rows(factors), gamma, beta, reading.take("eps"))
    return over_channels(reading, x, _channel_axis(x), op)


def _has_scale(reading: CaffeReading) -> bool:
    """Whether the layer, as in NVIDIA's fork, holds the weights of the Scale layer that usually follows.

    That fork takes the fillers of these weights for scale_bias.
    """
    scale_bias = reading.take("scale_bias")
    reading.take_each("scale_filler", "bias_filler")
    return bool(scale_bias or reading.gives("scale_filler") or reading.gives("bias_filler"))


@caffe.reads(
    "BN", group="bn_param", settings="eps bn_mode", ignores="frozen", makes=[ops.Scale, ops.BatchNorm],
    limits="bn_mode: INFERENCE",
)  # fmt: skip
def read_bn(reading: CaffeReading) -> CaffeBlob:
    """The layer of two forks: PSPNet's with statistics, and SegNet's, whose scale already contains them."""
    x = reading.input
    channels = _channels(x)
    epsilon = reading.take("eps")
    if reading.gives("bn_mode"):
        if reading.take("bn_mode") != "INFERENCE":
            hint = "fold the statistics with SegNet's compute_bn_statistics.py, and set bn_mode: INFERENCE"
            raise reading.unsupported("statistics of the input itself (bn_mode: LEARN) cannot be converted", hint)
        factor, shift = reading.constants((channels,), (channels,))
        return over_channels(reading, x, _channel_axis(x), ops.Scale(factor, shift))
    gamma, beta, mean, variance = reading.constants(*[(channels,)] * 4)
    return over_channels(reading, x, _channel_axis(x), ops.BatchNorm(mean, variance, gamma, beta, epsilon))


@caffe.reads("PReLU", group="prelu_param", settings="channel_shared", makes=[ops.PRelu])
def read_prelu(reading: CaffeReading) -> CaffeBlob:
    x = reading.input
    if reading.take("channel_shared"):
        (slope,) = reading.constants((1,))
        return reading.add(ops.Activation(ops.PRelu(filled(float(slope.load()[0]), reading.shape(x).channels))), x)
    (slopes,) = reading.constants((_channels(x),))
    return over_channels(reading, x, _channel_axis(x), ops.Activation(ops.PRelu(slopes)))


@caffe.reads("Scale", group="scale_param", settings="bias_term num_axes axis", makes=[ops.Binary, ops.Scale])
def read_scale(reading: CaffeReading) -> CaffeBlob:
    has_bias = reading.take("bias_term")
    if len(reading.inputs) == 2:
        x, axes = _two_blobs(reading, BinaryOp.MULTIPLY, "product" if has_bias else "")
        if not has_bias:
            return x
        (shift,) = _flat(reading, x.dims[axes.start : axes.stop], 1)
        return _scaled(reading, x, axes, None, shift)
    x = reading.input
    axes = _covered(reading)
    factor, *shifts = _flat(reading, x.dims[axes.start : axes.stop], 2 if has_bias else 1)
    return _scaled(reading, x, axes, factor, shifts[0] if shifts else None)


@caffe.reads("Bias", group="bias_param", settings="num_axes axis", makes=[ops.Binary, ops.Scale])
def read_bias(reading: CaffeReading) -> CaffeBlob:
    if len(reading.inputs) == 2:
        return _two_blobs(reading, BinaryOp.ADD, "")[0]
    x = reading.input
    axes = _covered(reading)
    (shift,) = _flat(reading, x.dims[axes.start : axes.stop], 1)
    return _scaled(reading, x, axes, None, shift)


def _covered(reading: CaffeReading) -> range:
    """The axes that the layer has numbers for."""
    rank = reading.input.rank
    count = reading.take("num_axes")
    axis = reading.axis() if rank else 0
    end = rank if count == -1 else axis + count
    if not axis <= end <= rank:
        raise reading.wrong(f"axis {axis} and num_axes {count} do not fit an input of {rank} axes")
    return range(axis, end)


def _flat(reading: CaffeReading, shape: Dims, count: int) -> list[Constant]:
    """Blobs of this shape, as columns of numbers."""
    return [_column(constant) for constant in reading.constants(*[shape or (1,)] * count)]


def _column(constant: Constant) -> Constant:
    return Constant((constant.size,), lambda rows: constant.load().reshape(-1)[rows])


def _scaled(
    reading: CaffeReading, x: CaffeBlob, axes: range, factor: Constant | None, shift: Constant | None
) -> CaffeBlob:
    """x * factor + shift, with a number for each element of the axes."""
    size = math.prod(x.dims[axes.start : axes.stop])
    channels = reading.shape(x).channels if size == 1 else size
    op = scale_and_shift(channels, 1.0 if factor is None else factor, shift)
    return reading.add(op, x) if size == 1 else over_channels(reading, x, axes, op)


def _two_blobs(reading: CaffeReading, operation: BinaryOp, part: str) -> tuple[CaffeBlob, range]:
    """The first blob combined with the second, which has some of its axes; and these axes."""
    reading.take("num_axes")  # applies to layers with weights
    x, y = reading.inputs
    axis = reading.axis() if x.rank else 0
    axes = range(axis, axis + y.rank)
    if axes.stop > x.rank or x.dims[axes.start : axes.stop] != y.dims:
        raise reading.wrong(f"{text_of(y.dims)} from axis {axis} on does not fit an input of {text_of(x.dims)}")
    dims = tuple(n if i in axes else 1 for i, n in enumerate(x.dims))
    if dims != y.dims and reading.shape(reading.as_plain(x)) != reading.shape(y):
        y = reading.reshape(y, dims, part="factors")
    return reading.add(ops.Binary(operation), x, y, part=part), axes
