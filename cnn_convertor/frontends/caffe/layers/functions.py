"""Layers that apply a function of one number to every element."""

from __future__ import annotations

import math

from cnn_convertor.frontends.caffe.reading import Parameters, Reading, Value, caffe, filled
from cnn_convertor.ir import ops


@caffe.reads("ReLU")
def read_relu(reading: Reading) -> Value:
    return reading.add(ops.Activation(ops.Relu(reading.parameters("relu_param").take("negative_slope"))), reading.input)


@caffe.reads("ReLU6")
def read_relu6(reading: Reading) -> Value:
    if reading.parameters("relu_param").take("negative_slope"):
        raise reading.unsupported("a ReLU6 with a negative slope cannot be converted")
    return reading.add(ops.Activation(ops.Relu6()), reading.input)


@caffe.reads("ELU")
def read_elu(reading: Reading) -> Value:
    alpha = reading.parameters("elu_param").take("alpha")
    return reading.add(ops.Activation(ops.Elu()) if alpha == 1 else ops.Unary(ops.ScaledElu(alpha)), reading.input)


@caffe.reads("Sigmoid")
def read_sigmoid(reading: Reading) -> Value:
    reading.parameters("sigmoid_param")
    return reading.add(ops.Activation(ops.Sigmoid()), reading.input)


@caffe.reads("TanH")
def read_tanh(reading: Reading) -> Value:
    reading.parameters("tanh_param")
    return reading.add(ops.Activation(ops.Tanh()), reading.input)


@caffe.reads("Swish")
def read_swish(reading: Reading) -> Value:
    return reading.add(ops.Unary(ops.Swish(reading.parameters("swish_param").take("beta"))), reading.input)


@caffe.reads("AbsVal")
def read_abs_val(reading: Reading) -> Value:
    return reading.add(ops.Unary(ops.Absolute()), reading.input)


@caffe.reads("BNLL")
def read_bnll(reading: Reading) -> Value:
    return reading.add(ops.Unary(ops.Softplus()), reading.input)


@caffe.reads("Threshold")
def read_threshold(reading: Reading) -> Value:
    threshold = reading.parameters("threshold_param").take("threshold")
    return reading.add(ops.Unary(ops.Threshold(threshold)), reading.input)


@caffe.reads("Clip")
def read_clip(reading: Reading) -> Value:
    parameters = reading.parameters("clip_param")
    if not ("min" in parameters and "max" in parameters):
        raise reading.wrong('"min" and "max" must both be given')
    low, high = parameters.take("min"), parameters.take("max")
    if low > high:
        raise reading.wrong(f"min is {low:g}, above max, which is {high:g}")
    return reading.add(ops.Unary(ops.Clip(low, high)), reading.input)


@caffe.reads("Power")
def read_power(reading: Reading) -> Value:
    x = reading.input
    parameters = reading.parameters("power_param")
    power, scale, shift = (parameters.take(name) for name in ("power", "scale", "shift"))
    channels = reading.shape(x).channels
    if power != 1:
        return reading.add(ops.Unary(ops.Power(power, scale, shift)), x)
    if (scale, shift) == (1, 0):
        return reading.add(ops.Identity(), x)
    return reading.add(ops.Scale(filled(scale, channels), filled(shift, channels) if shift else None), x)


@caffe.reads("Exp")
def read_exp(reading: Reading) -> Value:
    """base ** (scale * x + shift)"""
    parameters = reading.parameters("exp_param")
    factor = _log_of_base(reading, parameters)
    scale, shift = factor * parameters.take("scale"), factor * parameters.take("shift")
    return reading.add(ops.Unary(ops.Exponential(scale, shift)), reading.input)


@caffe.reads("Log")
def read_log(reading: Reading) -> Value:
    """The logarithm of scale * x + shift."""
    parameters = reading.parameters("log_param")
    factor = _log_of_base(reading, parameters)
    if factor == 0:
        raise reading.wrong("there is no logarithm for the base 1")
    scale, shift = parameters.take("scale"), parameters.take("shift")
    return reading.add(ops.Unary(ops.Logarithm(1 / factor, scale, shift)), reading.input)


def _log_of_base(reading: Reading, parameters: Parameters) -> float:
    """The natural logarithm of the layer's base; -1 stands for e."""
    base = parameters.take("base")
    if base != -1 and not 0 < base < math.inf:
        raise reading.wrong(f"the base is {base:g}; it must be above 0, or -1 for e")
    return 1.0 if base == -1 else math.log(base)
