"""Layers that multiply by weights, or have a factor for each channel."""

from __future__ import annotations

import math

import numpy as np

from cnn_convertor.frontends.caffe.blobs import Dims, axis_of, text_of
from cnn_convertor.frontends.caffe.reading import (
    Parameters,
    Reading,
    Value,
    caffe,
    filled,
    for_all,
    number_of_outputs,
    weight_and_bias,
)
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, Axis, BinaryOp, Op, Window


@caffe.reads("InnerProduct")
def read_inner_product(reading: Reading) -> Value:
    x = reading.input
    parameters = reading.parameters("inner_product_param")
    axis = reading.axis(parameters)
    rows, inputs = math.prod(x.dims[:axis]), math.prod(x.dims[axis:])
    outputs = number_of_outputs(reading, parameters)
    weight, bias = _matrix(reading, parameters, inputs, outputs)
    dims = (*x.dims[:axis], outputs)
    if rows == 1:
        height, width, channels = reading.shape(x)
        shape = (channels, height, width)
        return reading.add(ops.Dense(weight.map_rows(lambda w: w.reshape(-1, *shape), shape), bias), x, dims=dims)
    # One product for each row: the rows are pixels, and the product a convolution of 1x1.
    kernels = weight.map_rows(lambda w: w.reshape(-1, inputs, 1, 1), (inputs, 1, 1))
    name = reading.layer.name
    pixels = reading.permute(x, (rows, inputs), (1, 0), (1, inputs, rows), name=f"{name}/rows")
    product = reading.add(ops.Conv2d(kernels, bias, Window(ONE)), pixels, name=f"{name}/product")
    return reading.permute(product, (outputs, rows), (1, 0), dims)


def _matrix(reading: Reading, parameters: Parameters, inputs: int, outputs: int) -> tuple[Constant, Constant | None]:
    """Weights (outputs, inputs), and a bias."""
    if not parameters.take("transpose"):
        return weight_and_bias(reading, parameters, (outputs, inputs), outputs)
    matrix, bias = weight_and_bias(reading, parameters, (inputs, outputs), outputs)
    return Constant((outputs, inputs), lambda rows: matrix.load().T[rows]), bias


# --- a number for each channel ---------------------------------------------------------------------------------------


def over_channels(reading: Reading, x: Value, axes: range, op: Op, *, name: str = "") -> Value:
    """Adds an operator that treats each channel by itself, with these axes (neighbors) as the channels."""
    if len(axes) == 1 and axis_of(x.dims, axes[0]) is Axis.CHANNELS:
        return reading.add(op, x, name=name)
    name = name or reading.layer.name
    outer, count, inner = _split(x.dims, axes)
    turned = reading.permute(x, (outer, count, inner), (1, 0, 2), (1, count, outer * inner), name=f"{name}/channels")
    result = reading.add(op, turned, name=f"{name}/result")
    return reading.permute(result, (count, outer, inner), (1, 0, 2), x.dims, name=name)


def _split(dims: Dims, axes: range) -> tuple[int, int, int]:
    """The number of elements before the axes, along them, and behind them."""
    return math.prod(dims[: axes.start]), math.prod(dims[axes.start : axes.stop]), math.prod(dims[axes.stop :])


def _channel_axis(x: Value) -> range:
    """Axis 1; a blob without it is one channel."""
    return range(1, 2) if x.rank > 1 else range(1, 1)


def _channels(x: Value) -> int:
    return x.dims[1] if x.rank > 1 else 1


@caffe.reads("BatchNorm")
def read_batch_norm(reading: Reading) -> Value:
    x = reading.input
    parameters = reading.parameters("batch_norm_param")
    if not parameters.take("use_global_stats", True):
        if parameters.take("scale_bias"):
            raise reading.unsupported("statistics of the input itself together with scale_bias cannot be converted")
        x, epsilon = reading.as_plain(x), parameters.take("eps")
        return reading.add(ops.MeanVarianceNorm((Axis.HEIGHT, Axis.WIDTH), epsilon), x)
    shape = (_channels(x),)
    # With scale_bias, as NVIDIA's fork has it, the layer holds what else a Scale layer behind it does.
    further = [shape, shape] if parameters.take("scale_bias") else []
    mean, variance, factor, *rest = reading.constants(shape, shape, (1,), *further)
    total = float(factor.load()[0])
    factors = np.full(shape, 1 / total if total else 0.0)
    gamma, beta = rest or (None, None)
    op = ops.BatchNorm(mean.scale_rows(factors), variance.scale_rows(factors), gamma, beta, parameters.take("eps"))
    return over_channels(reading, x, _channel_axis(x), op)


@caffe.reads("BN")
def read_bn(reading: Reading) -> Value:
    """Two forks' layer: PSPNet's with statistics, and SegNet's, whose statistics are in its scale already."""
    x = reading.input
    parameters = reading.parameters("bn_param")
    channels = _channels(x)
    parameters.take("frozen")  # in training alone
    epsilon = parameters.take("eps")
    if "bn_mode" in parameters:
        if parameters.take("bn_mode") != "INFERENCE":
            hint = "fold the statistics with SegNet's compute_bn_statistics.py, and set bn_mode: INFERENCE"
            raise reading.unsupported("statistics of the input itself (bn_mode: LEARN) cannot be converted", hint)
        factor, shift = reading.constants((channels,), (channels,))
        return over_channels(reading, x, _channel_axis(x), ops.Scale(factor, shift))
    gamma, beta, mean, variance = reading.constants(*[(channels,)] * 4)
    op = ops.BatchNorm(mean, variance, gamma, beta, epsilon)
    return over_channels(reading, x, _channel_axis(x), op)


@caffe.reads("PReLU")
def read_prelu(reading: Reading) -> Value:
    x = reading.input
    if reading.parameters("prelu_param").take("channel_shared"):
        (slope,) = reading.constants((1,))
        return reading.add(ops.Activation(ops.PRelu(for_all(slope, reading.shape(x).channels))), x)
    (slopes,) = reading.constants((_channels(x),))
    return over_channels(reading, x, _channel_axis(x), ops.Activation(ops.PRelu(slopes)))


@caffe.reads("Scale")
def read_scale(reading: Reading) -> Value:
    parameters = reading.parameters("scale_param")
    has_bias = parameters.take("bias_term")
    if len(reading.inputs) == 2:
        parameters.take("num_axes")  # means something for a layer with weights alone
        x, axes = _two_blobs(reading, parameters, BinaryOp.MULTIPLY, "product" if has_bias else "")
        if not has_bias:
            return x
        (shift,) = _flat(reading, x.dims[axes.start : axes.stop], 1)
        return _affine(reading, x, axes, None, shift)
    x, axes = reading.input, _covered(reading, parameters)
    factor, *shifts = _flat(reading, x.dims[axes.start : axes.stop], 2 if has_bias else 1)
    return _affine(reading, x, axes, factor, shifts[0] if shifts else None)


@caffe.reads("Bias")
def read_bias(reading: Reading) -> Value:
    parameters = reading.parameters("bias_param")
    if len(reading.inputs) == 2:
        parameters.take("num_axes")
        return _two_blobs(reading, parameters, BinaryOp.ADD, "")[0]
    x, axes = reading.input, _covered(reading, parameters)
    (shift,) = _flat(reading, x.dims[axes.start : axes.stop], 1)
    return _affine(reading, x, axes, None, shift)


def _covered(reading: Reading, parameters: Parameters) -> range:
    """The axes that the layer has numbers for."""
    rank, count = reading.input.rank, parameters.take("num_axes")
    axis = reading.axis(parameters) if rank else 0
    end = rank if count == -1 else axis + count
    if not axis <= end <= rank:
        raise reading.wrong(f"axis {axis} and num_axes {count} do not fit an input of {rank} axes")
    return range(axis, end)


def _flat(reading: Reading, shape: Dims, count: int) -> list[Constant]:
    """Blobs of this shape, as columns of numbers."""
    return [_column(constant) for constant in reading.constants(*[shape or (1,)] * count)]


def _column(constant: Constant) -> Constant:
    return Constant((constant.size,), lambda rows: constant.load().reshape(-1)[rows])


def _affine(reading: Reading, x: Value, axes: range, factor: Constant | None, shift: Constant | None) -> Value:
    """x * factor + shift, with a number for each element of the axes."""
    size = math.prod(x.dims[axes.start : axes.stop])
    if size == 1:
        channels = reading.shape(x).channels
        factor, shift = (None if of is None else for_all(of, channels) for of in (factor, shift))
        return reading.add(ops.Scale(filled(1.0, channels) if factor is None else factor, shift), x)
    return over_channels(reading, x, axes, ops.Scale(filled(1.0, size) if factor is None else factor, shift))


def _two_blobs(reading: Reading, parameters: Parameters, operation: BinaryOp, part: str) -> tuple[Value, range]:
    """The first blob combined with the second, which has some of its axes; and these axes."""
    x, y = reading.inputs
    name = f"{reading.layer.name}/{part}" if part else ""
    axis = reading.axis(parameters) if x.rank else 0
    axes = range(axis, axis + y.rank)
    if axes.stop > x.rank or x.dims[axes.start : axes.stop] != y.dims:
        raise reading.wrong(f"{text_of(y.dims)} from axis {axis} on does not fit an input of {text_of(x.dims)}")
    dims = tuple(n if i in axes else 1 for i, n in enumerate(x.dims))
    if dims != y.dims and reading.shape(reading.as_plain(x)) != reading.shape(y):
        y = reading.reshape(y, dims, name=f"{reading.layer.name}/factors")
    return reading.add(ops.Binary(operation), x, y, name=name), axes
