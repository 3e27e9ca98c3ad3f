"""Functions of one number."""

from collections.abc import Callable, Mapping

from cnn_convertor.frontends.keras.activations import (
    NAMED,
    RELU_LIMITS,
    RELUS,
    SELU,
    Named,
    add_function,
    celu,
    elu,
    relu,
    softmax,
)
from cnn_convertor.frontends.keras.axes import Value
from cnn_convertor.frontends.keras.normalizations import scale_and_shift
from cnn_convertor.frontends.keras.operations.arguments import argument, function_of, tensor
from cnn_convertor.frontends.keras.reading import KerasReading, operations
from cnn_convertor.ir import ops

FUNCTIONS: Mapping[str, Named] = {
    **dict.fromkeys(("Identity", "identity", "StopGradient", "stop_gradient", "Copy"), None),
    **dict.fromkeys(("Relu", "nn.relu"), ops.Relu()),
    **dict.fromkeys(("Relu6", "nn.relu6"), ops.Relu6()),
    **dict.fromkeys(("Sigmoid", "nn.sigmoid", "math.sigmoid", "sigmoid"), ops.Sigmoid()),
    **dict.fromkeys(("Tanh", "nn.tanh", "math.tanh", "tanh"), ops.Tanh()),
    **dict.fromkeys(("Silu", "nn.silu", "nn.swish"), ops.Swish()),
    **dict.fromkeys(("nn.elu",), ops.Elu()),
    **dict.fromkeys(("Selu", "nn.selu"), SELU),
    **dict.fromkeys(("Softplus", "nn.softplus", "math.softplus"), ops.Softplus()),
    **dict.fromkeys(("Softsign", "nn.softsign", "math.softsign"), ops.Softsign()),
    **dict.fromkeys(("Exp", "exp", "math.exp"), ops.Exponential()),
    **dict.fromkeys(("Log", "math.log"), ops.Logarithm()),
    **dict.fromkeys(("Absolute", "Abs", "abs", "math.abs"), ops.Absolute()),
    **dict.fromkeys(("Square", "square", "math.square"), ops.Power(2.0)),
    **dict.fromkeys(("Sqrt", "sqrt", "math.sqrt"), ops.Power(0.5)),
    **dict.fromkeys(("Rsqrt", "math.rsqrt"), ops.Power(-0.5)),
    **dict.fromkeys(("Reciprocal", "math.reciprocal"), ops.Power(-1.0)),
    **{name: NAMED[function] for name, function in {
        "HardSigmoid": "hard_sigmoid", "HardSilu": "hard_silu", "HardTanh": "hard_tanh", "LogSigmoid": "log_sigmoid",
        "math.log_sigmoid": "log_sigmoid", "Mish": "mish", "TanhShrink": "tanh_shrink", "SparsePlus": "sparse_plus",
        "SparseSigmoid": "sparse_sigmoid",
    }.items()},
}  # fmt: skip


@operations.reads(
    *FUNCTIONS,
    makes=[ops.Identity, ops.Relu, ops.Relu6, ops.Elu, ops.ScaledElu, ops.Sigmoid, ops.Tanh, ops.Swish, ops.HardSigmoid,
           ops.HardSwish, ops.Clip, ops.Mish, ops.Softplus, ops.Softsign, ops.Exponential, ops.Logarithm, ops.Absolute, ops.Power,
           ops.Scale, ops.Binary, ops.Add],
)  # fmt: skip
def function(reading: KerasReading) -> Value:
    return add_function(reading, tensor(reading), FUNCTIONS[function_of(reading)])


@operations.reads("Negative", "math.negative", "negative", makes=[ops.Scale])
def negative(reading: KerasReading) -> Value:
    return scale_and_shift(reading, tensor(reading).node, -1.0, None)


@operations.reads("Cast", "cast", settings="dtype", makes=[ops.Identity], limits="to floating-point numbers")
def cast(reading: KerasReading) -> Value:
    value = tensor(reading)
    dtype = str(argument(reading, 1, "dtype"))
    if not dtype.removeprefix("<dtype: '").startswith(("float", "bfloat")):
        reading.refuse(f"a cast to {dtype} is not supported", "leave it out")
    return add_function(reading, value, None)


@operations.reads(
    "Clip", "clip_by_value", settings="x_min clip_value_min x_max clip_value_max", makes=[ops.Relu6, ops.Clip],
    limits="two numbers as limits",
)  # fmt: skip
def clip(reading: KerasReading) -> Value:
    value = tensor(reading)
    low = argument(reading, 1, "x_min", "clip_value_min")
    high = argument(reading, 2, "x_max", "clip_value_max")
    limits = [reading.numbers("a limit", limit) for limit in (low, high)]
    if any(limit.size != 1 for limit in limits):
        reading.refuse("limits that differ from element to element are not supported", "use two numbers")
    low, high = (limit.item() for limit in limits)
    return add_function(reading, value, ops.Relu6() if (low, high) == (0, 6) else ops.Clip(low, high))


def _of_last_axis(reading: KerasReading) -> Named:
    name = {"LogSoftmax": "log_softmax", "nn.log_softmax": "log_softmax", "Glu": "glu"}[function_of(reading)]
    axis = reading.take("axis", -1)
    rank = len(reading.sizes(reading.input)) + 1
    if axis not in (None, -1, rank - 1):
        reading.refuse(f"{name} over axis {axis} is not supported", "use the last axis")
    return NAMED[name]


def _shrink(reading: KerasReading) -> Named:
    name = {"SoftShrink": "soft_shrink", "HardShrink": "hard_shrink"}[function_of(reading)]
    if (threshold := reading.number("threshold", 0.5)) != 0.5:
        reading.refuse(f"{name} with threshold={threshold:g} is not supported", "use threshold=0.5")
    return NAMED[name]


def _square_plus(reading: KerasReading) -> Named:
    if (b := reading.number("b", 4.0)) != 4:
        reading.refuse(f"squareplus with b={b:g} is not supported", "use b=4")
    return NAMED["squareplus"]


# Functions that have settings.
SET: Mapping[str, Callable[[KerasReading], Named]] = {
    "ReLU": relu,
    "LeakyRelu": lambda reading: ops.Relu(reading.number("negative_slope", 0.2)),
    "nn.leaky_relu": lambda reading: ops.Relu(reading.number("alpha", 0.2)),
    "Elu": elu,
    "Celu": lambda reading: celu(reading.number("alpha", 1.0)),
    "Gelu": lambda reading: ops.Gelu(by_tanh=reading.flag("approximate", True)),
    "nn.gelu": lambda reading: ops.Gelu(by_tanh=reading.flag("approximate", False)),
    **dict.fromkeys(("Softmax", "nn.softmax"), softmax),
    **dict.fromkeys(("LogSoftmax", "nn.log_softmax", "Glu"), _of_last_axis),
    **dict.fromkeys(("SoftShrink", "HardShrink"), _shrink),
    "Squareplus": _square_plus,
}


@operations.reads("ReLU", settings="max_value negative_slope threshold", makes=RELUS, limits=RELU_LIMITS)
@operations.reads("LeakyRelu", "nn.leaky_relu", settings="alpha negative_slope", makes=[ops.Relu])
@operations.reads("Elu", settings="alpha", makes=[ops.Elu, ops.ScaledElu])
@operations.reads("Celu", settings="alpha", makes=[ops.Elu, ops.Scale])
@operations.reads("Gelu", "nn.gelu", settings="approximate", makes=[ops.Gelu])
@operations.reads("Softmax", "nn.softmax", settings="axis", makes=[ops.Softmax], limits="one axis")
@operations.reads(
    "LogSoftmax", "nn.log_softmax", settings="axis", limits="axis: the last one",
    makes=[ops.Reduce, ops.Binary, ops.Exponential, ops.Logarithm],
)  # fmt: skip
@operations.reads(
    "Glu", settings="axis", makes=[ops.Crop, ops.Sigmoid, ops.Binary], limits="axis: the last one, of an even length",
)  # fmt: skip
@operations.reads(
    "SoftShrink", "HardShrink", settings="threshold", limits="threshold: 0.5",
    makes=[ops.Clip, ops.Absolute, ops.Threshold, ops.Binary],
)  # fmt: skip
@operations.reads("Squareplus", settings="b", makes=[ops.Power, ops.Add, ops.Scale], limits="b: 4")
def set_function(reading: KerasReading) -> Value:
    return add_function(reading, tensor(reading), SET[function_of(reading)](reading))
