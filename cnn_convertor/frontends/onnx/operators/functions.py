"""Functions of each number, and nodes that pass their input on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.frontends.arithmetic import range_of, scale_and_shift
from cnn_convertor.frontends.onnx.operators.logic import differ
from cnn_convertor.frontends.onnx.reading import Gated, OnnxReading, OnnxTensor, onnx
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.frontends.onnx.tensors import BOOL, FLOATS, TYPES
from cnn_convertor.frontends.onnx.versions import is_known
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Function, Op, ScalarFunction

Ends: TypeAlias = NDArray[np.float64]

PLAIN: Mapping[str, Function | ScalarFunction] = {
    "Relu": ops.Relu(),
    "Sigmoid": ops.Sigmoid(),
    "Tanh": ops.Tanh(),
    "HardSwish": ops.HardSwish(),
    "Mish": ops.Mish(),
    "Softplus": ops.Softplus(),
    "Softsign": ops.Softsign(),
    "Abs": ops.Absolute(),
    "Exp": ops.Exponential(),
    "Log": ops.Logarithm(),
    "Sin": ops.Sine(),
    "Cos": ops.Cosine(),
    "Atan": ops.Arctangent(),
    "Erf": ops.ErrorFunction(),
    "Floor": ops.Floor(),
    "Round": ops.Round(),
    "Sqrt": ops.Power(0.5),
    "Reciprocal": ops.Power(-1.0),
}


def _add(reading: OnnxReading, function: Function | ScalarFunction) -> OnnxTensor:
    x = reading.input
    op: Op = ops.Activation(function) if isinstance(function, Function) else ops.Unary(function)
    return reading.add(op, x, dims=x.dims)


@onnx.reads(*PLAIN, makes=sorted({type(function) for function in PLAIN.values()}, key=lambda op: op.__name__))
def read_function(reading: OnnxReading) -> OnnxTensor:
    result = _add(reading, PLAIN[reading.node.type])
    if reading.node.type != "Sigmoid":
        return result
    return _with_product(result, reading.input, lambda x: 1 / (1 + np.exp(np.clip(-x, -500, 500))), -1.2784645)


def _with_product(x_gate: OnnxTensor, x: OnnxTensor, gate: Callable[[Ends], Ends], least_at: float) -> OnnxTensor:
    """x_gate, the gate of x, with the bounds of x * gate(x), which falls until x is least_at, and then rises."""
    if x.bounds is None:
        return x_gate
    low, high = x.bounds
    ends = np.array([low, np.clip(least_at, low, high), high])
    products = ends * gate(ends)
    return x_gate._replace(gated=Gated(x.node, (float(products.min()), float(products.max()))))


@onnx.reads("Neg", makes=[ops.Scale])
def read_neg(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    return reading.add(scale_and_shift(reading.shape(x).channels, -1.0), x, dims=x.dims)


@onnx.reads("Ceil", makes=[ops.Scale, ops.Floor])
def read_ceil(reading: OnnxReading) -> OnnxTensor:
    """-floor(-x)"""
    x = reading.input
    negated = scale_and_shift(reading.shape(x).channels, -1.0)
    below = reading.add(negated, x, part="negated", dims=x.dims)
    floor = reading.add(ops.Unary(ops.Floor()), below, part="floor", dims=x.dims)
    return reading.add(negated, floor, dims=x.dims)


@onnx.reads("Sign", makes=[ops.Threshold, ops.Scale, ops.Binary])
def read_sign(reading: OnnxReading) -> OnnxTensor:
    """Whether x is above 0, minus whether -x is."""
    x = reading.input
    above = reading.add(ops.Unary(ops.Threshold()), x, part="above", dims=x.dims)
    negated = reading.add(scale_and_shift(reading.shape(x).channels, -1.0), x, part="negated", dims=x.dims)
    below = reading.add(ops.Unary(ops.Threshold()), negated, part="below", dims=x.dims)
    return reading.add(ops.Binary(ops.BinaryOp.SUBTRACT), above, below, dims=x.dims)


@onnx.reads("LeakyRelu", settings="alpha", makes=[ops.Relu])
def read_leaky_relu(reading: OnnxReading) -> OnnxTensor:
    return _add(reading, ops.Relu(reading.number("alpha", 0.01)))


SELU = (1.6732632423543772, 1.0507009873554805)


@onnx.reads("Elu", settings="alpha", makes=[ops.Elu, ops.ScaledElu])
def read_elu(reading: OnnxReading) -> OnnxTensor:
    return _elu(reading, reading.number("alpha", 1.0), 1.0)


@onnx.reads("Selu", settings="alpha gamma", makes=[ops.Elu, ops.ScaledElu])
def read_selu(reading: OnnxReading) -> OnnxTensor:
    return _elu(reading, reading.number("alpha", SELU[0]), reading.number("gamma", SELU[1]))


def _elu(reading: OnnxReading, alpha: float, scale: float) -> OnnxTensor:
    return _add(reading, ops.Elu() if (alpha, scale) == (1, 1) else ops.ScaledElu(alpha, scale))


@onnx.reads("Celu", settings="alpha", makes=[ops.Elu, ops.ScaledElu, ops.Scale])
def read_celu(reading: OnnxReading) -> OnnxTensor:
    """alpha * ELU(x / alpha) for x < 0, x otherwise."""
    x = reading.input
    alpha = reading.number("alpha", 1.0)
    if alpha == 1:
        return _add(reading, ops.Elu())
    if alpha <= 0:
        raise reading.contradiction(f"alpha is {alpha:g}; it must be above 0")
    channels = reading.shape(x).channels
    divided = reading.add(scale_and_shift(channels, 1 / alpha), x, part="divided", dims=x.dims)
    elu = reading.add(ops.Activation(ops.Elu()), divided, part="elu", dims=x.dims)
    return reading.add(scale_and_shift(channels, alpha), elu, dims=x.dims)


@onnx.reads("HardSigmoid", settings="alpha beta", makes=[ops.Scale, ops.Relu6])
def read_hard_sigmoid(reading: OnnxReading) -> OnnxTensor:
    """As a ReLU6 of six times the sum, divided by 6: commands have a ReLU6, and scales fold into their neighbors."""
    x = reading.input
    alpha = reading.number("alpha", 0.2)
    beta = reading.number("beta", 0.5)
    channels = reading.shape(x).channels
    sum = reading.add(scale_and_shift(channels, 6 * alpha, 6 * beta), x, part="sixfold", dims=x.dims)
    clipped = reading.add(ops.Activation(ops.Relu6()), sum, part="clipped", dims=x.dims)
    result = reading.add(scale_and_shift(channels, 1 / 6), clipped, dims=x.dims)
    if x.bounds is None:
        return result._replace(bounds=(0.0, 1.0))
    ends = sorted(min(max(alpha * end + beta, 0.0), 1.0) for end in x.bounds)
    result = result._replace(bounds=(ends[0], ends[1]))
    if alpha <= 0 or not 0 <= beta <= 1:
        return result
    return _with_product(result, x, lambda x: np.clip(alpha * x + beta, 0, 1), -beta / (2 * alpha))


@onnx.reads("Swish", settings="alpha", makes=[ops.Swish])
def read_swish(reading: OnnxReading) -> OnnxTensor:
    return _add(reading, ops.Swish(reading.number("alpha", 1.0)))


@onnx.reads("Gelu", settings="approximate", makes=[ops.Gelu])
def read_gelu(reading: OnnxReading) -> OnnxTensor:
    kinds: Mapping[str, Callable[[], ScalarFunction]] = {"none": ops.Gelu, "tanh": lambda: ops.Gelu(by_tanh=True)}
    kind = reading.text("approximate", "none")
    if kind not in kinds:
        raise reading.contradiction(f"the approximation {kind} does not exist")
    return _add(reading, kinds[kind]())


@onnx.reads("Clip", settings="min max", makes=[ops.Clip, ops.Relu, ops.Relu6], limits="constant limits")
def read_clip(reading: OnnxReading) -> OnnxTensor:
    low = _limit(reading, "min", 1, -math.inf)
    high = _limit(reading, "max", 2, math.inf)
    match low, high:
        case 0.0, math.inf:
            return _add(reading, ops.Relu())
        case 0.0, 6.0:
            return _add(reading, ops.Relu6())
        case _ if low > high:
            raise reading.unsupported(f"min is {low:g}, above max, which is {high:g}")
        case _ if (low, high) == (-math.inf, math.inf):
            return _passed(reading)
        case _:
            return _add(reading, ops.Clip(low, high))


LARGEST = 3.4e38  # exporters write the largest FP32 number for no limit


def _limit(reading: OnnxReading, name: str, position: int, default: float) -> float:
    if is_known(f"{reading.node.type}.{name}", reading.opset):
        return _or_infinite(reading, reading.number(name, default))
    limits = reading.numbers(position, name)
    if limits is None:
        return default
    if limits.size != 1:
        raise reading.wrong(f"{name} is {limits.size} numbers")
    return _or_infinite(reading, float(limits.reshape(-1)[0]))


def _or_infinite(reading: OnnxReading, limit: float) -> float:
    if math.isnan(limit):
        raise reading.wrong("a limit is not a number")
    return math.copysign(math.inf, limit) if abs(limit) >= LARGEST else limit


@onnx.reads("ThresholdedRelu", settings="alpha", makes=[ops.BoundedRelu])
def read_thresholded_relu(reading: OnnxReading) -> OnnxTensor:
    """x for x > alpha, 0 otherwise."""
    return _add(reading, ops.BoundedRelu(0.0, reading.number("alpha", 1.0), math.inf))


# --- nodes that pass their input on --------------------------------------------------------------------------------------


def _passed(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    return reading.add(ops.Identity(), x, dims=x.dims, integers=x.integers)


@onnx.reads("Identity", makes=[ops.Identity])
def read_identity(reading: OnnxReading) -> OnnxTensor:
    return _passed(reading)


@onnx.reads("Dropout", ignores="ratio seed is_test", makes=[ops.Identity], limits="training_mode: false")
def read_dropout(reading: OnnxReading) -> OnnxTensor:
    reading.at(1)  # the ratio
    training = reading.numbers(2, "training_mode")
    if training is not None and training.any():
        raise reading.in_training()
    return _passed(reading)


LARGEST_FP16 = 65504


@onnx.reads(
    "Cast", settings="to", ignores="saturate round_mode", makes=[ops.Identity, ops.Binary, ops.Scale, ops.Threshold],
    limits="between types of floating point, to truth values, or from integers; no cast that cuts integers",
)  # fmt: skip
def read_cast(reading: OnnxReading) -> OnnxTensor:
    to = reading.integer("to", 1)
    integers = reading.input.integers
    quantized = reading.input.quantized
    if quantized is not None and (to not in TYPES or TYPES[to].kind not in "iu"):
        hint = "convert the model from before its quantization, in FP32"
        raise reading.unsupported("arithmetic of quantized numbers cannot be converted", hint)
    if to in FLOATS:
        return _passed(reading)._replace(integers=None)
    if to == BOOL:
        return differ(reading, reading.input, Stored.of(np.zeros((), np.float32)))
    if to not in TYPES or integers is None:
        raise reading.unsupported("a cast of numbers to integers cannot be converted")
    lowest, largest = range_of(TYPES[to])
    if lowest > max(integers[0], -LARGEST_FP16) or min(integers[1], LARGEST_FP16) > largest:
        low, high = integers
        raise reading.unsupported(f"a cast of integers of {low:,} to {high:,} to {TYPES[to]} cannot be converted")
    if quantized is not None:
        quantized = replace(quantized, type=TYPES[to])
    return _passed(reading)._replace(quantized=quantized)
