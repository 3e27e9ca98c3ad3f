"""Readers of the layers that have no kernels: inputs, pooling, shapes, joins, batch normalisation, dropout."""

from __future__ import annotations

import math
from typing import Any

from cnn_convertor.errors import ModelError, Problem
from cnn_convertor.frontends.keras.convolutions import same_padding
from cnn_convertor.frontends.keras.reading import Reading, keras
from cnn_convertor.frontends.keras.tensors import Axes, Value
from cnn_convertor.frontends.keras.variables import BATCH_NORMALIZATIONS
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import NO_PADDING, Order, Padding, Pair, Shape, Window

# --- inputs --------------------------------------------------------------------------------------------------------------


@keras.reads("InputLayer")
def input_layer(reading: Reading) -> Value:
    given = next((s for name in ("batch_shape", "batch_input_shape") if (s := reading.settings.take(name))), None)
    for name in ("sparse", "ragged"):
        if reading.flag(name, False):
            reading.refuse(f"a {name} input is not supported", f"use {name}=False")
    reading.settings.take("optional")
    if not isinstance(given, list) or not all(n is None or isinstance(n, int) for n in given):
        raise ModelError(
            Problem(
                "DV206",
                "the input's size is not in the file",
                reading.origin,
                "put a keras.Input(shape=(height, width, channels)) before the first layer and save the model again",
            )
        )
    axes = {4: None, 3: Axes.HW, 2: Axes.C}.get(len(given), Axes.C)
    if len(given) not in (2, 3, 4):
        reading.refuse(
            f"an input of {len(given)} axes is not supported", "use an input of (batch, height, width, channels)"
        )
    axes = axes or reading.map_axes()
    shape = _input_shape(reading, given[1:], axes)
    return Value(reading.builder.add(reading.layer.name, ops.Input(shape), (), reading.origin), axes)


def _input_shape(reading: Reading, sizes: list[int | None], axes: Axes) -> Shape:
    found: dict[str, int | None] = {"H": 1, "W": 1, "C": 1, **dict(zip(axes.value, sizes, strict=True))}
    if reading.size is not None and axes in (Axes.HWC, Axes.CHW):
        found["H"], found["W"] = reading.size
    height, width, channels = (found[axis] for axis in "HWC")
    if channels is None:
        reading.refuse("the number of the input's channels is not defined", "give the input a shape with its channels")
    if height is None or width is None:
        raise ModelError(
            Problem(
                "DV206",
                "the input's height and width are not defined",
                reading.origin,
                "set width_override and height_override in the ini file",
            )
        )
    return Shape(height, width, channels)


# --- pooling -------------------------------------------------------------------------------------------------------------


@keras.reads("MaxPooling2D", "AveragePooling2D")
def pooling(reading: Reading) -> Value:
    source = reading.map_input()
    kernel = reading.pair("pool_size", 2)
    stride = kernel if reading.settings.take("strides") is None else reading.pair("strides")
    window = Window(kernel, stride)
    padding = same_padding(window, reading.shape) if reading.same() else NO_PADDING
    op: ops.Op
    if reading.layer.type == "MaxPooling2D":
        op = ops.MaxPool2d(window._replace(padding=padding))
    else:
        op = ops.AveragePool2d(window, uncounted=padding)
    return Value(reading.add(op), source.axes)


@keras.reads("GlobalMaxPooling2D", "GlobalAveragePooling2D")
def global_pooling(reading: Reading) -> Value:
    source, shape = reading.map_input(), reading.shape
    window = Window(Pair(shape.height, shape.width))
    op = ops.MaxPool2d(window) if reading.layer.type == "GlobalMaxPooling2D" else ops.AveragePool2d(window)
    return Value(reading.add(op), source.axes if reading.flag("keepdims", False) else Axes.C)


@keras.reads("UpSampling2D")
def upsampling(reading: Reading) -> Value:
    source = reading.map_input()
    interpolation = reading.settings.take("interpolation", "nearest")
    if interpolation != "nearest":
        reading.refuse(
            f"upsampling with {interpolation!r} interpolation is not supported", "use interpolation='nearest'"
        )
    return Value(reading.add(ops.Upsample(reading.pair("size", 2))), source.axes)


# --- shapes --------------------------------------------------------------------------------------------------------------


@keras.reads("ZeroPadding2D")
def zero_padding(reading: Reading) -> Value:
    source = reading.map_input()
    match reading.settings.take("padding", 1):
        case int(all_sides):
            padding = Padding(all_sides, all_sides, all_sides, all_sides)
        case [int(height), int(width)]:
            padding = Padding(height, height, width, width)
        case [[int(top), int(bottom)], [int(left), int(right)]]:
            padding = Padding(top, bottom, left, right)
        case other:
            reading.refuse(f"padding is {other!r}, not ((top, bottom), (left, right))")
    if min(padding) < 0:
        reading.refuse(f"padding is {tuple(padding)}; it cannot be below 0")
    return Value(reading.add(ops.Pad(padding)), source.axes)


@keras.reads("Flatten")
def flatten(reading: Reading) -> Value:
    """To a vector; with channels_first, Keras moves the channels to the end before it counts."""
    axes, order = reading.input.axes, reading.input.axes.order
    if reading.data_format() is Axes.CHW and axes.rank > 2:
        if axes is not Axes.CHW:
            reading.misfit(
                f"a channels_first Flatten of a tensor {axes.value} is not supported", "use data_format='channels_last'"
            )
        order = Order.HWC
    return Value(reading.add(ops.Reshape(Shape(1, 1, reading.shape.size), order)), Axes.C)


@keras.reads("Reshape")
def reshape(reading: Reading) -> Value:
    source = reading.input
    target = _target(reading, reading.settings.take("target_shape"), reading.shape.size)
    match target:
        case [n]:
            return Value(reading.add(ops.Reshape(Shape(1, 1, n), source.axes.order)), Axes.C)
        case [a, b] if source.axes is not Axes.CHW:
            return Value(reading.add(ops.Reshape(Shape(1, a, b), Order.HWC)), Axes.WC)
        case [_, _, _]:
            return _reshape_to_map(reading, source, target)
        case _:
            reading.refuse(
                f"a reshape of {source.axes.value} to {tuple(target)} is not supported",
                "reshape to (height, width, channels)",
            )


def _reshape_to_map(reading: Reading, source: Value, target: list[int]) -> Value:
    axes = source.axes if source.axes in (Axes.HWC, Axes.CHW) else reading.map_axes()
    sizes = dict(zip(axes.value, target, strict=True))
    if axes.order is not source.axes.order and source.axes is not Axes.C:
        reading.refuse(f"a reshape of a tensor {source.axes.value} to one {axes.value} is not supported")
    return Value(reading.add(ops.Reshape(Shape(sizes["H"], sizes["W"], sizes["C"]), axes.order)), axes)


def _target(reading: Reading, given: Any, size: int) -> list[int]:
    """The target shape, with the size that it leaves open (-1) worked out."""
    if not isinstance(given, list) or not all(isinstance(n, int) or n is None for n in given):
        reading.refuse(f"target_shape is {given!r}, not a list of sizes")
    sizes = [-1 if n is None else n for n in given]
    known = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) > 1 or any(n < 1 and n != -1 for n in sizes):
        reading.refuse(f"target_shape is {tuple(given)}, which has more than one open size, or none at all")
    if -1 in sizes and size % known:
        reading.misfit(f"{size} elements cannot be reshaped to {tuple(given)}")
    return [size // known if n == -1 else n for n in sizes]


# --- joins ---------------------------------------------------------------------------------------------------------------


@keras.reads("Add")
def add(reading: Reading) -> Value:
    """A chain of sums of two; the last one has the layer's name."""
    shapes = [reading.builder.shape(value.node) for value in reading.inputs]
    if len(shapes) < 2:
        reading.misfit(f"the layer adds {len(shapes)} inputs; it needs two or more")
    if len({*shapes}) > 1 or len({value.axes for value in reading.inputs}) > 1:
        reading.misfit(
            f"the layer adds maps of different sizes ({', '.join(map(str, shapes))})",
            "make the inputs the same size before the sum",
        )
    total, *rest = (value.node for value in reading.inputs)
    for count, node in enumerate(rest, start=1):
        total = reading.add(ops.Add(), total, node, part="" if count == len(rest) else f"sum{count}")
    return Value(total, reading.inputs[0].axes)


@keras.reads("Concatenate")
def concatenate(reading: Reading) -> Value:
    axis = reading.settings.take("axis", -1)
    if not reading.inputs or len({value.axes for value in reading.inputs}) > 1:
        reading.misfit("the layer joins tensors of different kinds", "bring them to the same axes first")
    axes = reading.inputs[0].axes
    if not axes.is_channels(axis):
        reading.misfit(
            f"joining tensors {axes.value} on axis {axis}, which is not that of the channels, is not supported"
        )
    return Value(reading.add(ops.Concat(), *(value.node for value in reading.inputs)), axes)


# --- element by element --------------------------------------------------------------------------------------------------


@keras.reads(*BATCH_NORMALIZATIONS)
def batch_normalization(reading: Reading) -> Value:
    axis, channels = reading.settings.take("axis", -1), reading.shape.channels
    if not reading.input.axes.is_channels(axis):
        reading.misfit(
            f"batch normalisation of axis {axis} of a tensor {reading.input.axes.value} is not one of the channels"
        )
    if reading.flag("renorm", False):
        reading.refuse("batch renormalisation is not supported", "train without renorm")
    for name in ("momentum", "fused", "synchronized", "renorm_clipping", "renorm_momentum"):  # for training alone
        reading.settings.take(name)
    op = ops.BatchNorm(
        mean=reading.vector("moving_mean", channels),
        variance=reading.vector("moving_variance", channels),
        gamma=reading.vector("gamma", channels) if reading.flag("scale", True) else None,
        beta=reading.vector("beta", channels) if reading.flag("center", True) else None,
        epsilon=reading.number("epsilon", 1e-3),
    )
    return Value(reading.add(op), reading.input.axes)


DROPOUTS = (
    "Dropout",
    "SpatialDropout2D",
    "GaussianNoise",
    "GaussianDropout",
    "AlphaDropout",
    "ActivityRegularization",
)


@keras.reads(*DROPOUTS)
def dropout(reading: Reading) -> Value:
    """For training alone."""
    for name in ("rate", "stddev", "noise_shape", "seed", "data_format", "l1", "l2"):
        reading.settings.take(name)
    return Value(reading.add(ops.Identity()), reading.input.axes)
