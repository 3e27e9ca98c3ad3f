"""Layers that apply a function of one number to every element."""

import math

from cnn_convertor.frontends.arithmetic import applied, scale_and_shift
from cnn_convertor.frontends.caffe.reading import CaffeBlob, CaffeReading, caffe
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Activation, Unary


@caffe.reads("ReLU", group="relu_param", settings="negative_slope", makes=[ops.Relu])
@caffe.reads("Sigmoid", group="sigmoid_param", makes=[ops.Sigmoid])
@caffe.reads("TanH", group="tanh_param", makes=[ops.Tanh])
@caffe.reads("Swish", group="swish_param", settings="beta", makes=[ops.Swish])
@caffe.reads("AbsVal", makes=[ops.Absolute])
@caffe.reads("BNLL", makes=[ops.Softplus])
@caffe.reads("Threshold", group="threshold_param", settings="threshold", makes=[ops.Threshold])
def read_function(reading: CaffeReading) -> CaffeBlob:
    declared = caffe[reading.layer.type]
    (function,) = declared.makes
    return reading.add(applied(function(*reading.take_each(*declared.settings))), reading.input)


@caffe.reads("ReLU6", group="relu_param", settings="negative_slope", makes=[ops.Relu6], limits="negative_slope: 0")
def read_relu6(reading: CaffeReading) -> CaffeBlob:
    if reading.take("negative_slope"):
        raise reading.unsupported("a ReLU6 with a negative slope cannot be converted")
    return reading.add(Activation(ops.Relu6()), reading.input)


@caffe.reads("ELU", group="elu_param", settings="alpha", makes=[ops.Elu, ops.ScaledElu])
def read_elu(reading: CaffeReading) -> CaffeBlob:
    alpha = reading.take("alpha")
    return reading.add(Activation(ops.Elu()) if alpha == 1 else Unary(ops.ScaledElu(alpha)), reading.input)


@caffe.reads("Clip", group="clip_param", settings="min max", makes=[ops.Clip])
def read_clip(reading: CaffeReading) -> CaffeBlob:
    if not (reading.gives("min") and reading.gives("max")):
        raise reading.wrong('"min" and "max" must both be given')
    low, high = reading.take_each("min", "max")
    if low > high:
        raise reading.wrong(f"min is {low:g}, above max, which is {high:g}")
    return reading.add(Unary(ops.Clip(low, high)), reading.input)


@caffe.reads("Power", group="power_param", settings="power scale shift", makes=[ops.Power, ops.Identity, ops.Scale])
def read_power(reading: CaffeReading) -> CaffeBlob:
    x = reading.input
    power, scale, shift = reading.take_each("power", "scale", "shift")
    if power != 1:
        return reading.add(Unary(ops.Power(power, scale, shift)), x)
    if (scale, shift) == (1, 0):
        return reading.add(ops.Identity(), x)
    return reading.add(scale_and_shift(reading.shape(x).channels, scale, shift or None), x)


@caffe.reads("Exp", group="exp_param", settings="base scale shift", makes=[ops.Exponential])
def read_exp(reading: CaffeReading) -> CaffeBlob:
    """base ** (scale * x + shift)"""
    factor = _log_of_base(reading)
    scale, shift = (factor * number for number in reading.take_each("scale", "shift"))
    return reading.add(Unary(ops.Exponential(scale, shift)), reading.input)


@caffe.reads("Log", group="log_param", settings="base scale shift", makes=[ops.Logarithm])
def read_log(reading: CaffeReading) -> CaffeBlob:
    """The logarithm of scale * x + shift."""
    factor = _log_of_base(reading)
    if factor == 0:
        raise reading.wrong("there is no logarithm for the base 1")
    return reading.add(Unary(ops.Logarithm(1 / factor, *reading.take_each("scale", "shift"))), reading.input)


def _log_of_base(reading: CaffeReading) -> float:
    """The natural logarithm of the layer's base; -1 stands for e."""
    base = reading.take("base")
    if base != -1 and not 0 < base < math.inf:
        raise reading.wrong(f"the base is {base:g}; it must be above 0, or -1 for e")
    return 1.0 if base == -1 else math.log(base)
