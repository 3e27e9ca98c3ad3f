"""Layers that treat channel after channel alike: inner products, normalisation, scaling, activation functions."""

from __future__ import annotations

import numpy as np

from cnn_convertor.frontends.caffe.reading import Reading, Value, caffe, filled, number_of_outputs, weight_and_bias
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant


@caffe.reads("InnerProduct")
def read_inner_product(reading: Reading) -> Value:
    x = reading.input
    parameters = reading.parameters("inner_product_param")
    if reading.axis(parameters) != 1:
        raise reading.unsupported("an inner product over other axes than all but the batch cannot be converted")
    height, width, channels = reading.shape(x)
    inputs, outputs = height * width * channels, number_of_outputs(reading, parameters)
    if parameters.take("transpose"):
        matrix, bias = weight_and_bias(reading, parameters, (inputs, outputs), outputs)
        weight = Constant(
            (outputs, channels, height, width), lambda rows: matrix.load().T[rows].reshape(-1, channels, height, width)
        )
    else:
        weight, bias = weight_and_bias(reading, parameters, (outputs, inputs), outputs)
        weight = weight.map_rows(lambda rows: rows.reshape(-1, channels, height, width), (channels, height, width))
    return reading.add(ops.Dense(weight, bias), x, rank=2)


@caffe.reads("BatchNorm")
def read_batch_norm(reading: Reading) -> Value:
    x = reading.input
    parameters = reading.parameters("batch_norm_param")
    if not parameters.take("use_global_stats", True):
        hint = "if the network was trained with stored statistics, take use_global_stats: false out"
        raise reading.unsupported("statistics of the input itself (use_global_stats: false) cannot be converted", hint)
    channels = reading.shape(x).channels
    mean, variance, factor = reading.constants((channels,), (channels,), (1,))
    total = float(factor.load()[0])
    factors = np.full(channels, 1 / total if total else 0.0)
    op = ops.BatchNorm(mean.scale_rows(factors), variance.scale_rows(factors), None, None, parameters.take("eps"))
    return reading.add(op, x)


@caffe.reads("BN")
def read_bn(reading: Reading) -> Value:
    """Two forks' layer: PSPNet's with statistics, and SegNet's, whose statistics are in its scale already."""
    x = reading.input
    parameters = reading.parameters("bn_param")
    channels = reading.shape(x).channels
    parameters.take("frozen")  # in training alone
    epsilon = parameters.take("eps")
    if "bn_mode" in parameters:
        if parameters.take("bn_mode") != "INFERENCE":
            hint = "fold the statistics with SegNet's compute_bn_statistics.py, and set bn_mode: INFERENCE"
            raise reading.unsupported("statistics of the input itself (bn_mode: LEARN) cannot be converted", hint)
        factor, shift = reading.constants((channels,), (channels,))
        return reading.add(ops.Scale(factor, shift), x)
    gamma, beta, mean, variance = reading.constants(*[(channels,)] * 4)
    return reading.add(ops.BatchNorm(mean, variance, gamma, beta, epsilon), x)


@caffe.reads("Scale")
def read_scale(reading: Reading) -> Value:
    if len(reading.inputs) == 2:
        raise reading.unsupported("scaling by another blob cannot be converted")
    x = reading.input
    parameters = reading.parameters("scale_param")
    channels = reading.shape(x).channels
    number_of_axes, axis = parameters.take("num_axes"), reading.axis(parameters)
    covered = x.rank - axis if number_of_axes == -1 else number_of_axes
    if (covered, axis) != (1, 1) and covered != 0:
        raise reading.unsupported(
            "only one factor a channel (axis 1, num_axes 1) or one factor in all (num_axes 0) can be converted"
        )
    count = channels if covered else 1
    constants = reading.constants(*[(count,)] * (2 if parameters.take("bias_term") else 1))
    factor, *shift = [constant if covered else _for_all(constant, channels) for constant in constants]
    return reading.add(ops.Scale(factor, shift[0] if shift else None), x)


def _for_all(one: Constant, channels: int) -> Constant:
    """One number for all channels."""
    return filled(float(one.load()[0]), channels)


@caffe.reads("Power")
def read_power(reading: Reading) -> Value:
    x = reading.input
    parameters = reading.parameters("power_param")
    power, scale, shift = (parameters.take(name) for name in ("power", "scale", "shift"))
    channels = reading.shape(x).channels
    if power != 1:
        raise reading.unsupported(f"the power {power:g} cannot be converted; 1 can, with any scale and shift")
    if (scale, shift) == (1, 0):
        return reading.add(ops.Identity(), x)
    return reading.add(ops.Scale(filled(scale, channels), filled(shift, channels) if shift else None), x)


@caffe.reads("ReLU")
def read_relu(reading: Reading) -> Value:
    return reading.add(ops.Activation(ops.Relu(reading.parameters("relu_param").take("negative_slope"))), reading.input)


@caffe.reads("ReLU6")
def read_relu6(reading: Reading) -> Value:
    if reading.parameters("relu_param").take("negative_slope"):
        raise reading.unsupported("a ReLU6 with a negative slope cannot be converted")
    return reading.add(ops.Activation(ops.Relu6()), reading.input)


@caffe.reads("PReLU")
def read_prelu(reading: Reading) -> Value:
    x = reading.input
    channels = reading.shape(x).channels
    if reading.parameters("prelu_param").take("channel_shared"):
        slopes = _for_all(reading.constants((1,))[0], channels)
    else:
        (slopes,) = reading.constants((channels,))
    return reading.add(ops.Activation(ops.PRelu(slopes)), x)


@caffe.reads("ELU")
def read_elu(reading: Reading) -> Value:
    alpha = reading.parameters("elu_param").take("alpha")
    if alpha != 1:
        raise reading.unsupported(f"an ELU with the alpha {alpha:g} cannot be converted; 1 can")
    return reading.add(ops.Activation(ops.Elu()), reading.input)


@caffe.reads("Sigmoid")
def read_sigmoid(reading: Reading) -> Value:
    reading.parameters("sigmoid_param")
    return reading.add(ops.Activation(ops.Sigmoid()), reading.input)


@caffe.reads("TanH")
def read_tanh(reading: Reading) -> Value:
    reading.parameters("tanh_param")
    return reading.add(ops.Activation(ops.Tanh()), reading.input)


@caffe.reads("Softmax")
def read_softmax(reading: Reading) -> Value:
    if reading.axis(reading.parameters("softmax_param")) != 1:
        raise reading.unsupported("a softmax over another axis than the channels (axis 1) cannot be converted")
    return reading.add(ops.Softmax(), reading.input)
