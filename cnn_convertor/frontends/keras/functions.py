"""Activation functions: layers of their own, or the `activation` of another layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from cnn_convertor.frontends.keras.reading import Reading, keras
from cnn_convertor.frontends.keras.tensors import Axes, Value
from cnn_convertor.frontends.registry import Settings
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant

# None is the identity; Softmax is no function of single values, and becomes a node of its own.
Named: TypeAlias = ops.Function | ops.Softmax | None

_NAMED: Mapping[str, Named] = {
    "linear": None,
    "relu": ops.Relu(),
    "relu6": ops.Relu6(),
    "leaky_relu": ops.Relu(slope=0.2),  # the default of keras.activations.leaky_relu
    "elu": ops.Elu(),
    "sigmoid": ops.Sigmoid(),
    "tanh": ops.Tanh(),
    "softmax": ops.Softmax(),
}


def take_activation(reading: Reading) -> Named:
    """The layer's `activation`: a name, a function or a layer in written form."""
    return _named(reading, reading.settings.take("activation"))


def _named(reading: Reading, given: Any) -> Named:
    match given:
        case None:
            return None
        case str(name) if name in _NAMED:
            return _NAMED[name]
        case {"class_name": "function", "config": str(name)} | {"class_name": str(name), "config": None} if (
            name in _NAMED
        ):
            return _NAMED[name]
        case {"class_name": str(name), "config": dict(config)} if name in _LAYERS:
            return _LAYERS[name](replace(reading, settings=Settings(config)))
        case {"class_name": "Activation", "config": {"activation": inner}}:
            return _named(reading, inner)
        case {"class_name": str(name)} | str(name):
            reading.refuse(f"the activation {name!r} is not supported", f"use one of {', '.join(_NAMED)}")
        case _:
            reading.refuse(f"the activation {given!r} is not supported", f"use one of {', '.join(_NAMED)}")


# --- activation layers ---------------------------------------------------------------------------------------------------


def relu(reading: Reading) -> ops.Function:
    slope = reading.number("negative_slope", 0.0)
    limit = reading.settings.take("max_value")
    if reading.settings.take("threshold", 0) not in (0, None):
        reading.refuse("a ReLU with a threshold other than 0 is not supported", "use threshold=0")
    if limit is None:
        return ops.Relu(slope)
    if reading.number("max_value", 6) != 6 or slope != 0:
        reading.refuse(
            f"a ReLU with max_value={limit} and negative_slope={slope:g} is not supported", "use max_value=6 or None"
        )
    return ops.Relu6()


def leaky_relu(reading: Reading) -> ops.Function:
    if "negative_slope" in reading.settings:  # Keras 3's name
        return ops.Relu(reading.number("negative_slope", 0.3))
    return ops.Relu(reading.number("alpha", 0.3))


def elu(reading: Reading) -> ops.Function:
    if (alpha := reading.number("alpha", 1.0)) != 1:
        reading.refuse(f"an ELU with alpha={alpha:g} is not supported", "use alpha=1")
    return ops.Elu()


def softmax(reading: Reading) -> ops.Softmax:
    axis = reading.settings.take("axis", -1)
    if not reading.input.axes.is_channels(axis):
        reading.misfit(
            f"a softmax over axis {axis} of a tensor {reading.input.axes.value} is not one over the channels"
        )
    return ops.Softmax()


_LAYERS: Mapping[str, Callable[[Reading], Named]] = {
    "ReLU": relu,
    "LeakyReLU": leaky_relu,
    "ELU": elu,
    "Softmax": softmax,
}


@keras.reads("ReLU", "LeakyReLU", "ELU", "Softmax")
def function_layer(reading: Reading) -> Value:
    return Value(add_function(reading, reading.input, _LAYERS[reading.layer.type](reading)), reading.input.axes)


@keras.reads("Activation")
def activation(reading: Reading) -> Value:
    return Value(add_function(reading, reading.input, take_activation(reading)), reading.input.axes)


@keras.reads("PReLU")
def prelu(reading: Reading) -> Value:
    """Its array has the input's axes, with 1 for the shared ones: here all but the channels must be shared, or 1 long."""
    axes, shape = reading.input.axes, reading.shape
    shared = reading.settings.take("shared_axes") or []
    sizes = dict(zip("HWC", shape, strict=True))
    if not isinstance(shared, list):
        shared = [shared]
    full = [1 if at in shared else sizes[axis] for at, axis in enumerate(axes.value, start=1)]
    channels = 1 if axes.channel_axis is None else full[axes.channel_axis - 1]
    if max(full) > 1 and full.count(1) < len(full) - (channels > 1):
        reading.misfit("PReLU slopes that differ from pixel to pixel are not supported", "use shared_axes=[1, 2]")
    variable = reading.variable("alpha", full)
    everything = (slice(None),) * len(full)
    if channels == shape.channels:
        index = tuple(slice(None) for _ in full)
        at = (axes.channel_axis or 1) - 1
        slopes = Constant(
            (channels,),
            lambda rows: variable.read((*index[:at], rows, *index[at + 1 :])).reshape(rows.stop - rows.start),
        )
    else:
        slopes = Constant(
            (shape.channels,), lambda rows: variable.read(everything).reshape(1).repeat(rows.stop - rows.start)
        )
    return Value(reading.add(ops.Activation(ops.PRelu(slopes))), axes)


def add_function(reading: Reading, value: Value, function: Named) -> str:
    """A node that applies the function to a value."""
    match function:
        case None:
            return reading.add(ops.Identity(), value.node)
        case ops.Softmax():
            check_softmax(reading, value.axes)
            return reading.add(function, value.node)
        case _:
            return reading.add(ops.Activation(function), value.node)


def add_activated(
    reading: Reading, op: ops.Conv2d | ops.ConvTranspose2d | ops.Dense, source: str, axes: Axes, function: Named
) -> Value:
    """The node of a layer with an activation; a softmax stands behind it, on its own."""
    if isinstance(function, ops.Softmax):
        check_softmax(reading, axes)
        return Value(reading.add(function, reading.add(op, source, part="linear")), axes)
    return Value(reading.add(replace(op, activation=function), source), axes)


def check_softmax(reading: Reading, axes: Axes) -> None:
    """As an activation, a softmax runs over the last axis (a Softmax layer's own axis is checked when it is read)."""
    if reading.layer.type != "Softmax" and not axes.is_channels(-1):
        reading.misfit(f"a softmax over the last axis of a tensor {axes.value} is not one over the channels")
