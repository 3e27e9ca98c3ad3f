"""Layers that change the height and width of a map: pooling, upsampling, cropping, padding."""

from cnn_convertor.frontends.arithmetic import crop, same_padding
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.reading import KerasReading, keras
from cnn_convertor.frontends.keras.versions import upsampling_of, warn_of_theano
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import NO_PADDING, Axis, Interpolation, Op, Padding, Pair, Sampling, Window

POOLS = (ops.MaxPool2d, ops.AveragePool2d)
INTERPOLATIONS = {"nearest": Interpolation.NEAREST, "bilinear": Interpolation.BILINEAR}
INTERPOLATED = "interpolation: nearest, bilinear"
RESIZING_FLAGS = ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias")


@keras.reads(
    "MaxPooling1D", "AveragePooling1D", "MaxPooling2D", "AveragePooling2D",
    settings="data_format pool_size strides padding", makes=POOLS,
)  # fmt: skip
def pooling(reading: KerasReading) -> Value:
    source = reading.map_input()
    kernel = reading.pair("pool_size", 2)
    stride = kernel if reading.take("strides") is None else reading.pair("strides")
    return pooled(reading, source, Window(kernel, stride), same=reading.same(), maximum="Max" in reading.layer.type)


def pooled(reading: KerasReading, source: Value, window: Window, *, same: bool, maximum: bool) -> Value:
    padding = NO_PADDING
    if same:
        warn_of_theano(reading, window, is_pool=True)
        padding = same_padding(window, reading.builder.shape(source.node))
    op: Op = ops.AveragePool2d(window, uncounted=padding)
    if maximum:
        op = ops.MaxPool2d(window._replace(padding=padding))
    return Value(reading.add(op, source.node), source.axes)


@keras.reads(
    "GlobalMaxPooling1D", "GlobalAveragePooling1D", "GlobalMaxPooling2D", "GlobalAveragePooling2D",
    settings="data_format keepdims", makes=POOLS,
)  # fmt: skip
def global_pooling(reading: KerasReading) -> Value:
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    window = Window(Pair(shape.height, shape.width))
    op = ops.MaxPool2d(window) if "Max" in reading.layer.type else ops.AveragePool2d(window)
    return Value(reading.add(op, source.node), source.axes if reading.flag("keepdims", False) else Axes.C)


@keras.reads(
    "AdaptiveMaxPooling1D", "AdaptiveAveragePooling1D", "AdaptiveMaxPooling2D", "AdaptiveAveragePooling2D",
    settings="data_format output_size", makes=POOLS, limits="output_size: divides the input's size",
)  # fmt: skip
def adaptive_pooling(reading: KerasReading) -> Value:
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    size = reading.pair("output_size")
    if shape.height % size.height or shape.width % size.width:
        sizes = f"{shape.height}x{shape.width} to {size.height}x{size.width}"
        hint = "use an output size that divides the input's, or a plain pooling layer"
        reading.misfit(f"windows of different sizes ({sizes}) are not supported", hint)
    kernel = Pair(shape.height // size.height, shape.width // size.width)
    return pooled(reading, source, Window(kernel, kernel), same=False, maximum="Max" in reading.layer.type)


# --- sizes ---------------------------------------------------------------------------------------------------------------


@keras.reads(
    "UpSampling1D", "UpSampling2D", settings="data_format size interpolation", makes=[ops.Upsample, ops.Resize],
    limits=f"{INTERPOLATED}; bilinear: not saved by Keras on Theano",
)  # fmt: skip
def upsampling(reading: KerasReading) -> Value:
    source = reading.map_input()
    factor = reading.pair("size", 2)
    height, width, _ = reading.builder.shape(source.node)
    interpolation = reading.take("interpolation", "nearest")
    if interpolation == "nearest":
        return Value(reading.add(ops.Upsample(factor), source.node), source.axes)
    sampling = upsampling_of(reading) if interpolation == "bilinear" else Sampling.HALF_PIXEL
    return resized(reading, source, Pair(height * factor.height, width * factor.width), interpolation, sampling)


def resized(
    reading: KerasReading, source: Value, size: Pair, interpolation: object, sampling: Sampling = Sampling.HALF_PIXEL
) -> Value:
    if not isinstance(interpolation, str) or interpolation not in INTERPOLATIONS:
        reading.refuse(f"{interpolation!r} interpolation is not supported", "use 'bilinear' or 'nearest'")
    op = ops.Resize(size, INTERPOLATIONS[interpolation], sampling)
    return Value(reading.add(op, source.node), source.axes)


# fill_mode and fill_value apply to pad_to_aspect_ratio.
@keras.reads(
    "Resizing", settings=f"data_format height width interpolation {' '.join(RESIZING_FLAGS)}",
    ignores="fill_mode fill_value", makes=[ops.Resize], limits=f"{INTERPOLATED}; {', '.join(RESIZING_FLAGS)}: False",
)  # fmt: skip
def resizing(reading: KerasReading) -> Value:
    source = reading.map_input()
    size = Pair(reading.integer("height"), reading.integer("width"))
    refuse_flags(reading, RESIZING_FLAGS)
    return resized(reading, source, size, reading.take("interpolation", "bilinear"))


def refuse_flags(reading: KerasReading, names: tuple[str, ...]) -> None:
    """Refuse a resizing with any of these flags set."""
    for name in names:
        if reading.flag(name, False):
            reading.refuse(f"resizing with {name} is not supported", f"use {name}=False")


@keras.reads("CenterCrop", settings="data_format height width", makes=[ops.Crop], limits="not larger than the input")
def center_crop(reading: KerasReading) -> Value:
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    size = Pair(reading.integer("height"), reading.integer("width"))
    if size.height > shape.height or size.width > shape.width:
        part = f"{size.height}x{size.width}"
        reading.misfit(f"the input {shape} is smaller than the part {part} to cut out", "use Resizing")
    top = (shape.height - size.height) // 2
    left = (shape.width - size.width) // 2
    return cropped(reading, source, top, top + size.height, left, left + size.width)


@keras.reads("Cropping1D", "Cropping2D", settings="data_format cropping", makes=[ops.Crop])
def cropping(reading: KerasReading) -> Value:
    source = reading.map_input()
    height, width, _ = reading.builder.shape(source.node)
    top, bottom, left, right = _sides(reading, "cropping", 1 if reading.is_1d else 0)
    if top + bottom >= height or left + right >= width:
        reading.misfit(f"cropping ({top}, {bottom}), ({left}, {right}) leaves nothing of {height}x{width}")
    return cropped(reading, source, top, height - bottom, left, width - right)


def cropped(reading: KerasReading, source: Value, top: int, bottom: int, left: int, right: int) -> Value:
    """From top to before bottom, from left to before right."""
    op = crop(reading.builder.shape(source.node), {Axis.HEIGHT: (top, bottom), Axis.WIDTH: (left, right)})
    return Value(reading.add(op, source.node), source.axes)


@keras.reads("ZeroPadding1D", "ZeroPadding2D", settings="data_format padding", makes=[ops.Pad])
def zero_padding(reading: KerasReading) -> Value:
    source = reading.map_input()
    return Value(reading.add(ops.Pad(_sides(reading, "padding", 1)), source.node), source.axes)


def _sides(reading: KerasReading, name: str, default: int) -> Padding:
    """A setting ((top, bottom), (left, right)), or a short form of it; of a layer on rows: (start, end)."""
    match reading.take(name, default):
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
            expected = "(start, end)" if reading.is_1d else "((top, bottom), (left, right))"
            reading.refuse(f"{name} is {other!r}, not {expected}")
    if min(sides) < 0:
        reading.refuse(f"{name} is {tuple(sides)}; it cannot be below 0")
    return sides
