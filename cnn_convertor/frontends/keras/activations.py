"""Activation functions, as layers or as the `activation` of another layer."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, get_args

import numpy as np

from cnn_convertor.frontends.arithmetic import applied, crop, scale_and_shift
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.model import is_foreign
from cnn_convertor.frontends.keras.reading import HARMLESS, KerasReading, keras
from cnn_convertor.frontends.readers import Settings
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Axis, BinaryOp, Op, Reduction

INFINITE = math.inf
SELU = ops.ScaledElu(alpha=1.6732632423543772, scale=1.0507009873554805)
KERAS_3_HARD_SIGMOID = ops.HardSigmoid(1 / 6, 0.5)
KERAS_2_HARD_SIGMOID = ops.HardSigmoid(0.2, 0.5)


@dataclass(frozen=True, slots=True)
class Composed:
    """A function that takes several nodes. add: appends them all; returns the last, which has the layer's name."""

    add: Callable[[KerasReading, Value], str]


# None is the identity. A softmax is not a function of single values, and becomes a node of its own.
Named: TypeAlias = ops.Function | ops.ScalarFunction | ops.Softmax | Composed | None


# --- functions that are made of others -----------------------------------------------------------------------------------


def scaled(reading: KerasReading, value: Value, factor: float, shift: float = 0.0) -> Op:
    """factor * x + shift"""
    return scale_and_shift(reading.builder.shape(value.node).channels, factor, shift or None)


def _log_softmax(reading: KerasReading, value: Value) -> str:
    """x - max - log(sum(exp(x - max))), which never overflows."""
    axis = softmax_axis(reading, value.axes)
    largest = reading.add(ops.Reduce(Reduction.MAXIMUM, (axis,)), value.node, part="largest")
    below = reading.add(ops.Binary(BinaryOp.SUBTRACT), value.node, largest, part="below")
    powers = reading.add(ops.Unary(ops.Exponential()), below, part="powers")
    total = reading.add(ops.Reduce(Reduction.SUM, (axis,)), powers, part="sum")
    log = reading.add(ops.Unary(ops.Logarithm()), total, part="log")
    return reading.add(ops.Binary(BinaryOp.SUBTRACT), below, log)


def _log_sigmoid(reading: KerasReading, value: Value) -> str:
    """-softplus(-x)"""
    negative = reading.add(scaled(reading, value, -1), value.node, part="negative")
    soft = reading.add(ops.Unary(ops.Softplus()), negative, part="softplus")
    return reading.add(scaled(reading, value, -1), soft)


def _minus(function: ops.Function | ops.ScalarFunction) -> Composed:
    """x - function(x)"""

    def add(reading: KerasReading, value: Value) -> str:
        taken = reading.add(applied(function), value.node, part="taken")
        return reading.add(ops.Binary(BinaryOp.SUBTRACT), value.node, taken)

    return Composed(add)


def _hard_shrink(reading: KerasReading, value: Value) -> str:
    """x where |x| > 0.5, else 0"""
    magnitude = reading.add(ops.Unary(ops.Absolute()), value.node, part="magnitude")
    large = reading.add(ops.Unary(ops.Threshold(0.5)), magnitude, part="large")
    return reading.add(ops.Binary(BinaryOp.MULTIPLY), value.node, large)


def _square_plus(reading: KerasReading, value: Value) -> str:
    """(x + sqrt(x * x + 4)) / 2"""
    square = reading.add(ops.Unary(ops.Power(2.0)), value.node, part="square")
    root = reading.add(ops.Unary(ops.Power(0.5, shift=4.0)), square, part="root")
    total = reading.add(ops.Add(), value.node, root, part="sum")
    return reading.add(scaled(reading, value, 0.5), total)


def _sparse_plus(reading: KerasReading, value: Value) -> str:
    """(x + 1) ** 2 / 4 between -1 and 1, x above, 0 below"""
    held = reading.add(ops.Unary(ops.Clip(-1.0, 1.0)), value.node, part="held")
    bow = reading.add(ops.Unary(ops.Power(2.0, 0.5, 0.5)), held, part="bow")
    above = reading.add(scaled(reading, value, 1, -1), value.node, part="above")
    line = reading.add(ops.Activation(ops.Relu()), above, part="line")
    return reading.add(ops.Add(), bow, line)


def _gated_linear(reading: KerasReading, value: Value) -> str:
    """The first half of the last axis, times the sigmoid of the second."""
    shape = reading.builder.shape(value.node)
    axis = softmax_axis(reading, value.axes)
    if shape[axis] % 2:
        reading.misfit(f"glu halves {shape[axis]} values")
    size = shape[axis] // 2
    first = reading.add(crop(shape, {axis: (0, size)}), value.node, part="first")
    second = reading.add(crop(shape, {axis: (size, 2 * size)}), value.node, part="second")
    gate = reading.add(ops.Activation(ops.Sigmoid()), second, part="gate")
    return reading.add(ops.Binary(BinaryOp.MULTIPLY), first, gate)


def celu(alpha: float) -> Named:
    """alpha * elu(x / alpha)"""

    def add(reading: KerasReading, value: Value) -> str:
        small = reading.add(scaled(reading, value, 1 / alpha), value.node, part="scaled")
        curved = reading.add(ops.Activation(ops.Elu()), small, part="elu")
        return reading.add(scaled(reading, value, alpha), curved)

    return ops.Elu() if alpha == 1 else Composed(add)


def bounded_relu(reading: KerasReading, *, slope: float, limit: float | None, threshold: float) -> Named:
    """Keras's relu in all its settings."""
    if threshold == 0 and limit is None:
        return ops.Relu(slope)
    if (threshold, limit, slope) == (0, 6, 0):
        return ops.Relu6()
    if limit is not None and limit < max(threshold, 0):
        reading.refuse(f"a ReLU with max_value={limit:g} below its threshold is not supported", "leave one of them out")
    if threshold < 0:
        reading.refuse(f"a ReLU with the threshold {threshold:g} is not supported", "use a threshold of 0 or more")
    return ops.BoundedRelu(slope, threshold, INFINITE if limit is None else limit)


# --- names ---------------------------------------------------------------------------------------------------------------

NAMED: Mapping[str, Named] = {
    "linear": None,
    "relu": ops.Relu(),
    "relu6": ops.Relu6(),
    "leaky_relu": ops.Relu(slope=0.2),  # the default of keras.activations.leaky_relu
    "elu": ops.Elu(),
    "selu": SELU,
    "celu": ops.Elu(),
    "sigmoid": ops.Sigmoid(),
    "tanh": ops.Tanh(),
    "softmax": ops.Softmax(),
    "log_softmax": Composed(_log_softmax),
    "swish": ops.Swish(),
    "silu": ops.Swish(),
    "hard_swish": ops.HardSwish(),
    "hard_silu": ops.HardSwish(),
    "hard_sigmoid": KERAS_3_HARD_SIGMOID,  # Keras 2 has another one
    "hard_tanh": ops.Clip(-1.0, 1.0),
    "gelu": ops.Gelu(),
    "mish": ops.Mish(),
    "softplus": ops.Softplus(),
    "softsign": ops.Softsign(),
    "exponential": ops.Exponential(),
    "log_sigmoid": Composed(_log_sigmoid),
    "tanh_shrink": _minus(ops.Tanh()),
    "soft_shrink": _minus(ops.Clip(-0.5, 0.5)),
    "hard_shrink": Composed(_hard_shrink),
    "squareplus": Composed(_square_plus),
    "sparse_plus": Composed(_sparse_plus),
    "sparse_sigmoid": ops.HardSigmoid(0.5, 0.5),
    "glu": Composed(_gated_linear),
}
RELUS = (ops.Relu, ops.Relu6, ops.BoundedRelu)
RELU_LIMITS = "threshold: 0 or more; max_value: not below the threshold"
# What a name or a layer as `activation` may become.
FUNCTIONS = (
    ops.Identity, *RELUS, ops.Elu, ops.ScaledElu, ops.Sigmoid, ops.Tanh, ops.Softmax, ops.Swish, ops.HardSwish, ops.HardSigmoid,
    ops.Clip, ops.Gelu, ops.Mish, ops.Softplus, ops.Softsign, ops.Exponential, ops.Logarithm, ops.Absolute, ops.Threshold,
    ops.Power, ops.Scale, ops.Binary, ops.Add, ops.Reduce, ops.Crop,
)  # fmt: skip
USE = "use one of " + ", ".join(name for name in NAMED if name != "linear")


def take_activation(reading: KerasReading) -> Named:
    """The layer's `activation`: the name of a function, or the configuration of a function or layer."""
    return named(reading, reading.take("activation"))


def named(reading: KerasReading, activation: Any) -> Named:
    match activation:
        case None:
            return None
        case str(name) if name in NAMED:
            return _of_version(reading, name)
        case {"class_name": "function", "config": str(name)} | {"class_name": str(name), "config": None} if (
            name in NAMED
        ):
            return _of_version(reading, name)
        case {"class_name": str(name), "config": dict(config)} if name in LAYERS and not is_foreign(activation):
            return _layer(reading, name, config)
        case {"class_name": str(name)} if is_foreign(activation):
            reading.refuse(f"an activation of a class {name} that is not Keras's own is not supported", USE)
        case {"class_name": "Activation", "config": {"activation": inner}}:
            return named(reading, inner)
        case {"class_name": "function", "config": str(name)} | {"class_name": str(name)} | str(name):
            reading.refuse(f"the activation {name!r} is not supported", USE)
        case _:
            reading.refuse(f"the activation {activation!r} is not supported", USE)


def _layer(reading: KerasReading, name: str, config: Mapping[str, Any]) -> Named:
    """A layer that is another one's activation."""
    inner = replace(reading, settings=Settings(config, keras[name].settings, HARMLESS))
    function = LAYERS[name](inner)
    if left := [f"{setting} = {value!r}" for setting, value in inner.settings.left().items() if value is not None]:
        problem = f"the setting {', '.join(left)} of the activation {name} is not supported"
        reading.refuse(problem, "set it to its default")
    return function


def _of_version(reading: KerasReading, name: str) -> Named:
    return KERAS_2_HARD_SIGMOID if name == "hard_sigmoid" and reading.version < 3 else NAMED[name]


# --- activation layers ---------------------------------------------------------------------------------------------------


def relu(reading: KerasReading) -> Named:
    slope = reading.number("negative_slope", 0.0)
    limit = None if reading.take("max_value") is None else reading.number("max_value", 6)
    threshold = 0.0 if reading.take("threshold") is None else reading.number("threshold", 0)
    return bounded_relu(reading, slope=slope, limit=limit, threshold=threshold)


def leaky_relu(reading: KerasReading) -> Named:
    if "negative_slope" in reading.settings:  # Keras 3's name
        return ops.Relu(reading.number("negative_slope", 0.3))
    return ops.Relu(reading.number("alpha", 0.3))


def thresholded_relu(reading: KerasReading) -> Named:
    return bounded_relu(reading, slope=0.0, limit=None, threshold=reading.number("theta", 1.0))


def elu(reading: KerasReading) -> Named:
    alpha = reading.number("alpha", 1.0)
    return ops.Elu() if alpha == 1 else ops.ScaledElu(alpha)


def softmax(reading: KerasReading) -> Named:
    """Along an axis of the tensor that it is applied to, which may not be the layer's input."""
    axis = reading.take("axis", -1)
    if isinstance(axis, list) and len(axis) != 1:
        reading.refuse(f"a softmax over the axes {axis} together is not supported", "use one axis")

    def add(reading: KerasReading, value: Value) -> str:
        if (map_axis := value.axes.at(axis)) is None:
            reading.misfit(f"a tensor {value.axes.value} has no axis {axis} for a softmax")
        return reading.add(ops.Softmax(map_axis), value.node)

    return Composed(add)


LAYERS: Mapping[str, Callable[[KerasReading], Named]] = {
    "ReLU": relu,
    "LeakyReLU": leaky_relu,
    "ThresholdedReLU": thresholded_relu,
    "ELU": elu,
    "Softmax": softmax,
}


@keras.reads("ReLU", settings="negative_slope max_value threshold", makes=RELUS, limits=RELU_LIMITS)
@keras.reads("LeakyReLU", settings="negative_slope alpha", makes=[ops.Relu])
@keras.reads("ThresholdedReLU", settings="theta", makes=RELUS, limits=RELU_LIMITS)
@keras.reads("ELU", settings="alpha", makes=[ops.Elu, ops.ScaledElu])
@keras.reads("Softmax", settings="axis", makes=[ops.Softmax], limits="one axis")
def function_layer(reading: KerasReading) -> Value:
    return add_function(reading, reading.input, LAYERS[reading.layer.type](reading))


@keras.reads("Activation", settings="activation", makes=FUNCTIONS, limits=USE.removeprefix("use "))
def activation(reading: KerasReading) -> Value:
    return add_function(reading, reading.input, take_activation(reading))


@keras.reads("PReLU", settings="shared_axes", makes=[ops.PRelu])
def prelu(reading: KerasReading) -> Value:
    """Its array has the input's axes, with 1 for the shared ones."""
    axes = reading.input.axes
    shape = reading.shape
    shared = reading.take("shared_axes") or []
    if not isinstance(shared, list):
        shared = [shared]
    sizes = reading.sizes(reading.input)
    full = tuple(1 if at in shared else size for at, size in enumerate(sizes, start=1))
    everything = (slice(None),) * len(full)
    longer = [axis for axis, size in enumerate(full) if size > 1]
    channel = axes.value.find("C")
    if longer in ([], [channel]) and axes is not Axes.MANY:
        variable = reading.variable("alpha", full)

        def read(rows: slice) -> Any:
            index = (*everything[:channel], rows, *everything[channel + 1 :]) if longer else everything
            return np.broadcast_to(variable.read(index).reshape(-1), (rows.stop - rows.start,)).copy()

        return reading.input.computed_by(reading.add(ops.Activation(ops.PRelu(Constant((shape.channels,), read)))))
    slopes = np.broadcast_to(reading.whole("alpha", full), sizes).reshape(-1)
    flat = reading.counted(reading.input)
    node = reading.add(ops.Activation(ops.PRelu(Constant.of(slopes))), flat, part="slopes")
    return reading.counted_back(node, reading.input)


def add_function(reading: KerasReading, value: Value, function: Named) -> Value:
    """A node that applies the function to a value."""
    match function:
        case None:
            return value._replace(node=reading.add(ops.Identity(), value.node))
        case Composed():
            return value.computed_by(function.add(reading, value))
        case ops.Softmax():
            return value.computed_by(reading.add(ops.Softmax(softmax_axis(reading, value.axes)), value.node))
        case _:
            return value.computed_by(reading.add(applied(function), value.node))


def add_activated(
    reading: KerasReading, op: ops.Conv2d | ops.ConvTranspose2d | ops.Dense, source: str, axes: Axes, function: Named
) -> Value:
    """A layer with an activation; a function that the operator cannot apply becomes a node after it."""
    if isinstance(function, get_args(ops.Function)):
        return Value(reading.add(replace(op, activation=function), source), axes)
    if function is None:
        return Value(reading.add(op, source), axes)
    return add_function(reading, Value(reading.add(op, source, part="linear"), axes), function)


def softmax_axis(reading: KerasReading, axes: Axes) -> Axis:
    """As an activation, a softmax runs over the last axis."""
    if (axis := axes.at(-1)) is None:
        reading.misfit("a softmax over the last of more than three axes is not supported", "reshape the tensor first")
    return axis
