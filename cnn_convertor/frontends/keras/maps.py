"""Readers of the layers that have no numbers of their own: inputs, pooling, sizes, shapes, what is for training alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

from cnn_convertor.errors import ModelError, Problem
from cnn_convertor.frontends.keras.convolutions import same_padding
from cnn_convertor.frontends.keras.reading import Reading, keras
from cnn_convertor.frontends.keras.tensors import Axes, Value
from cnn_convertor.frontends.keras.versions import upsampling_of, warn_of_theano
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import NO_PADDING, Interpolation, Op, Padding, Pair, Sampling, Shape, Window

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
    if len(given) not in (2, 3, 4):
        reading.refuse(
            f"an input of {len(given)} axes is not supported", "use an input of (batch, height, width, channels)"
        )
    axes = reading.map_axes(len(given))
    shape = _input_shape(reading, given[1:], axes)
    return Value(reading.builder.add(reading.layer.name, ops.Input(shape), (), reading.origin), axes)


def _input_shape(reading: Reading, sizes: list[int | None], axes: Axes) -> Shape:
    found: dict[str, int | None] = {"H": 1, "W": 1, "C": 1, **dict(zip(axes.value, sizes, strict=True))}
    if reading.size is not None and axes in (Axes.HWC, Axes.CHW):
        found["H"], found["W"] = reading.size
    height, width, channels = (found[axis] for axis in "HWC")
    if channels is None:
        reading.refuse("the number of the input's channels is not defined", "give the input a shape with its channels")
    if axes in (Axes.WC, Axes.CW) and width is None:
        reading.refuse("the number of the input's steps is not defined", "give the input a shape with its steps")
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


@keras.reads("MaxPooling1D", "AveragePooling1D", "MaxPooling2D", "AveragePooling2D")
def pooling(reading: Reading) -> Value:
    source = reading.map_input()
    kernel = reading.pair("pool_size", 2)
    stride = kernel if reading.settings.take("strides") is None else reading.pair("strides")
    return pooled(reading, source, Window(kernel, stride), same=reading.same(), maximum="Max" in reading.layer.type)


def pooled(reading: Reading, source: Value, window: Window, *, same: bool, maximum: bool) -> Value:
    padding = NO_PADDING
    if same:
        warn_of_theano(reading, window, is_pool=True)
        padding = same_padding(window, reading.builder.shape(source.node))
    op: Op = ops.AveragePool2d(window, uncounted=padding)
    if maximum:
        op = ops.MaxPool2d(window._replace(padding=padding))
    return Value(reading.add(op, source.node), source.axes)


@keras.reads("GlobalMaxPooling1D", "GlobalAveragePooling1D", "GlobalMaxPooling2D", "GlobalAveragePooling2D")
def global_pooling(reading: Reading) -> Value:
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    window = Window(Pair(shape.height, shape.width))
    op = ops.MaxPool2d(window) if "Max" in reading.layer.type else ops.AveragePool2d(window)
    return Value(reading.add(op, source.node), source.axes if reading.flag("keepdims", False) else Axes.C)


@keras.reads("AdaptiveMaxPooling1D", "AdaptiveAveragePooling1D", "AdaptiveMaxPooling2D", "AdaptiveAveragePooling2D")
def adaptive_pooling(reading: Reading) -> Value:
    """As a plain pool, where the input's sizes are multiples of the output's."""
    source = reading.map_input()
    shape, size = reading.builder.shape(source.node), reading.pair("output_size")
    if shape.height % size.height or shape.width % size.width:
        reading.misfit(
            f"windows of different sizes ({shape.height}x{shape.width} to {size.height}x{size.width}) are not supported",
            "use an output size that divides the input's, or a plain pooling layer",
        )
    kernel = Pair(shape.height // size.height, shape.width // size.width)
    return pooled(reading, source, Window(kernel, kernel), same=False, maximum="Max" in reading.layer.type)


# --- sizes ---------------------------------------------------------------------------------------------------------------


@keras.reads("UpSampling1D", "UpSampling2D")
def upsampling(reading: Reading) -> Value:
    source = reading.map_input()
    factor = reading.pair("size", 2)
    height, width, _ = reading.builder.shape(source.node)
    interpolation = reading.settings.take("interpolation", "nearest")
    if interpolation == "nearest":
        return Value(reading.add(ops.Upsample(factor), source.node), source.axes)
    sampling = upsampling_of(reading) if interpolation == "bilinear" else Sampling.HALF_PIXEL
    return resized(reading, source, Pair(height * factor.height, width * factor.width), interpolation, sampling)


def resized(
    reading: Reading, source: Value, size: Pair, interpolation: object, sampling: Sampling = Sampling.HALF_PIXEL
) -> Value:
    known = {"nearest": Interpolation.NEAREST, "bilinear": Interpolation.BILINEAR}
    if not isinstance(interpolation, str) or interpolation not in known:
        reading.refuse(f"{interpolation!r} interpolation is not supported", "use 'bilinear' or 'nearest'")
    op = ops.Resize(size, known[interpolation], sampling)
    return Value(reading.add(op, source.node), source.axes)


@keras.reads("Resizing")
def resizing(reading: Reading) -> Value:
    source = reading.map_input()
    size = Pair(reading.integer("height"), reading.integer("width"))
    for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"):
        if reading.flag(name, False):
            reading.refuse(f"resizing with {name} is not supported", f"use {name}=False")
    for name in ("fill_mode", "fill_value"):  # of what pad_to_aspect_ratio adds
        reading.settings.take(name)
    return resized(reading, source, size, reading.settings.take("interpolation", "bilinear"))


@keras.reads("CenterCrop")
def center_crop(reading: Reading) -> Value:
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    size = Pair(reading.integer("height"), reading.integer("width"))
    if size.height > shape.height or size.width > shape.width:
        reading.misfit(
            f"the input {shape} is smaller than the part {size.height}x{size.width} to cut out", "use Resizing"
        )
    top, left = (shape.height - size.height) // 2, (shape.width - size.width) // 2
    return cropped(reading, source, top, top + size.height, left, left + size.width)


@keras.reads("Cropping1D", "Cropping2D")
def cropping(reading: Reading) -> Value:
    source = reading.map_input()
    height, width, _ = reading.builder.shape(source.node)
    top, bottom, left, right = _sides(reading, "cropping", 1 if reading.is_1d else 0)
    if top + bottom >= height or left + right >= width:
        reading.misfit(f"nothing of {height}x{width} is left when ({top}, {bottom}), ({left}, {right}) is cut off")
    return cropped(reading, source, top, height - bottom, left, width - right)


def cropped(reading: Reading, source: Value, top: int, bottom: int, left: int, right: int) -> Value:
    """From top to before bottom, from left to before right."""
    channels = reading.builder.shape(source.node).channels
    op = ops.Crop(Shape(top, left, 0), Shape(bottom, right, channels))
    return Value(reading.add(op, source.node), source.axes)


@keras.reads("ZeroPadding1D", "ZeroPadding2D")
def zero_padding(reading: Reading) -> Value:
    source = reading.map_input()
    return Value(reading.add(ops.Pad(_sides(reading, "padding", 1)), source.node), source.axes)


def _sides(reading: Reading, name: str, default: int) -> Padding:
    """A setting of ((top, bottom), (left, right)), or less of it; of a layer on rows: (start, end)."""
    match reading.settings.take(name, default):
        case bool() as other:
            reading.refuse(f"{name} is {other!r}, not a number of rows")
        case int(both) | [int(both)] if reading.is_1d:
            sides = Padding(0, 0, both, both)
        case [int(start), int(end)] if reading.is_1d:
            sides = Padding(0, 0, start, end)
        case int(all_sides):
            sides = Padding(all_sides, all_sides, all_sides, all_sides)
        case [int(height), int(width)]:
            sides = Padding(height, height, width, width)
        case [[int(top), int(bottom)], [int(left), int(right)]]:
            sides = Padding(top, bottom, left, right)
        case other:
            reading.refuse(
                f"{name} is {other!r}, not {'(start, end)' if reading.is_1d else '((top, bottom), (left, right))'}"
            )
    if min(sides) < 0:
        reading.refuse(f"{name} is {tuple(sides)}; it cannot be below 0")
    return sides


# --- shapes --------------------------------------------------------------------------------------------------------------


@keras.reads("Flatten")
def flatten(reading: Reading) -> Value:
    """To a vector; with channels_first, Keras moves the channels to the end before it counts."""
    source = reading.input
    sizes = reading.sizes(source)
    order = tuple(range(len(sizes)))
    if reading.data_format() is Axes.CHW:
        order = (*order[1:], 0)
    return reading.lay_out(source, sizes, order, (math.prod(sizes),), Axes.C)


@keras.reads("Reshape")
def reshape(reading: Reading) -> Value:
    return reshaped(reading, reading.input, reading.settings.take("target_shape"))


def reshaped(reading: Reading, source: Value, target: Any) -> Value:
    sizes = reading.sizes(source)
    return reading.lay_out(
        source, sizes, tuple(range(len(sizes))), *_laid_out(reading, source, _target(reading, target, math.prod(sizes)))
    )


def _laid_out(reading: Reading, source: Value, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], Axes]:
    """The sizes of a tensor in the making, and how it is laid out."""
    kept = source.axes in (Axes.HWC, Axes.CHW, Axes.WC, Axes.CW) and source.axes.rank == len(sizes) + 1
    if kept:
        return sizes, source.axes
    axes = reading.map_axes(len(sizes) + 1)
    return sizes, Axes.WC if axes is Axes.HW else axes


@keras.reads("Permute")
def permute(reading: Reading) -> Value:
    given, sizes = reading.settings.take("dims"), reading.sizes(reading.input)
    if not is_order(given, range(1, len(sizes) + 1)):
        reading.misfit(f"dims is {given!r}, not an order of the axes 1 to {len(sizes)}")
    return permuted(reading, reading.input, tuple(axis - 1 for axis in given))


def is_order(given: object, axes: Sequence[int]) -> TypeGuard[list[int]]:
    """Whether a setting lists all of the axes, in any order."""
    return isinstance(given, list) and all(type(axis) is int for axis in given) and sorted(given) == list(axes)


def permuted(reading: Reading, source: Value, order: tuple[int, ...]) -> Value:
    """order: of the axes without the batch, counted from 0."""
    sizes = reading.sizes(source)
    axes = reading.map_axes(len(sizes) + 1)
    axes = Axes.WC if axes is Axes.HW else axes
    return reading.lay_out(source, sizes, order, tuple(sizes[axis] for axis in order), axes)


@keras.reads("RepeatVector")
def repeat_vector(reading: Reading) -> Value:
    if reading.input.axes is not Axes.C:
        reading.misfit("the layer repeats a vector", "put a Flatten before it")
    return Value(reading.add(ops.Upsample(Pair(1, reading.integer("n")))), Axes.WC)


def _target(reading: Reading, given: Any, size: int) -> tuple[int, ...]:
    """The target shape, with the size that it leaves open (-1) worked out."""
    if not isinstance(given, list) or not all(isinstance(n, int) or n is None for n in given):
        reading.refuse(f"target_shape is {given!r}, not a list of sizes")
    sizes = [-1 if n is None else n for n in given]
    known = math.prod(n for n in sizes if n != -1)
    if not sizes or sizes.count(-1) > 1 or any(n < 1 and n != -1 for n in sizes):
        reading.refuse(f"target_shape is {tuple(given)}, which has more than one open size, or none at all")
    if size % known or (-1 not in sizes and size != known):
        reading.misfit(f"{size} elements cannot be reshaped to {tuple(given)}")
    return tuple(size // known if n == -1 else n for n in sizes)


# --- for training alone --------------------------------------------------------------------------------------------------

DROPOUTS = (
    "Dropout",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "GaussianNoise",
    "GaussianDropout",
    "AlphaDropout",
    "ActivityRegularization",
    "StochasticDepth",  # of keras.applications.convnext
    "FixedDropout",  # of older files of EfficientNet
)
AUGMENTATIONS = (
    "RandomBrightness", "RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomElasticTransform",
    "RandomErasing", "RandomFlip", "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective",
    "RandomPosterization", "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation", "RandomZoom",
)  # fmt: skip


@keras.reads("Identity", *DROPOUTS)
def dropout(reading: Reading) -> Value:
    """For training alone."""
    for name in ("rate", "stddev", "noise_shape", "seed", "data_format", "l1", "l2", "drop_path_rate"):
        reading.settings.take(name)
    return reading.input._replace(node=reading.add(ops.Identity()))


@keras.reads(*AUGMENTATIONS)
def augmentation(reading: Reading) -> Value:
    """Changes images at random, in training alone; whatever the settings."""
    for name in reading.layer.config:
        if name != "dtype":
            reading.settings.take(name)
    return reading.input._replace(node=reading.add(ops.Identity()))
