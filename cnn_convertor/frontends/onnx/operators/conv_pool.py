"""Nodes whose windows move over a map: convolutions, transposed convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cnn_convertor.frontends.arithmetic import pooling_reach, same_padding, whole_map
from cnn_convertor.frontends.onnx.operators.batches import for_each_image, images_as_channels, planes_as_images
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, onnx
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Padding, Pair, Reduction, Window

WINDOW = "kernel_shape strides dilations pads auto_pad"
ON_MAPS = "one or two axes after the channels"


@onnx.reads("Conv", settings=f"{WINDOW} group", makes=[ops.Conv2d], limits=ON_MAPS)
@planes_as_images
@images_as_channels
def read_conv(reading: OnnxReading) -> OnnxTensor:
    x = reading.map
    stored = reading.needed_stored(1, "the weights")
    group = reading.integer("group", 1)
    channels = reading.shape(x).channels
    outputs, per_group, *kernel = _weight_dims(reading, x, stored.dims)
    if group < 1 or per_group * group * reading.images != channels or outputs % group:
        raise reading.wrong(f"weights of {stored.dims} do not fit {channels} channels in {group} groups")
    window = _window(reading, x, kernel)
    weight = for_each_image(reading, reading.constant(stored, (outputs, per_group, *window.kernel)))
    return reading.add(ops.Conv2d(weight, _bias(reading, outputs), window, groups=group * reading.images), x)


def _bias(reading: OnnxReading, outputs: int) -> Constant | None:
    bias = reading.vector(2, outputs, "bias")
    return None if bias is None else for_each_image(reading, bias)


@onnx.reads(
    "ConvTranspose", settings=f"{WINDOW} group output_padding output_shape", makes=[ops.ConvTranspose2d], limits=ON_MAPS,
)  # fmt: skip
@images_as_channels
def read_conv_transpose(reading: OnnxReading) -> OnnxTensor:
    x = reading.map
    stored = reading.needed_stored(1, "the weights")
    group = reading.integer("group", 1)
    channels = reading.shape(x).channels
    inputs, per_group, *kernel = _weight_dims(reading, x, stored.dims)
    if group < 1 or inputs * reading.images != channels or inputs % group:
        raise reading.wrong(f"weights of {stored.dims} do not fit {channels} channels in {group} groups")
    window = _window(reading, x, kernel, transposed=True)
    extra = _pair(reading, "output_padding", x, 0)
    window, extra = _with_output_size(reading, x, window, extra)
    weight = reading.constant(stored, (inputs, per_group, *window.kernel)).swap_axes(group)
    weight = for_each_image(reading, weight)
    bias = _bias(reading, per_group * group)
    return reading.add(ops.ConvTranspose2d(weight, bias, window, extra, groups=group * reading.images), x)


def _with_output_size(reading: OnnxReading, x: OnnxTensor, window: Window, extra: Pair) -> tuple[Window, Pair]:
    """The window and the output padding, where output_shape or auto_pad gives the size of the output."""
    lengths = reading.integers("output_shape")
    auto = reading.text("auto_pad", "NOTSET")
    shape = reading.shape(x)
    if lengths is not None:
        if len(lengths) != x.rank - 2:
            raise reading.contradiction(f"output_shape is given for {len(lengths)} axes of {x.rank - 2}")
        sizes = [*lengths, 1][:2]
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        sizes = [n * s for n, s in zip(shape[:2], window.stride, strict=True)]
    else:
        return window, extra
    sides: list[int] = []
    more: list[int] = []
    for size, n, s, e, o in zip(sizes, shape[:2], window.stride, window.extent, extra, strict=True):
        total = s * (n - 1) + o + e - size
        missing = max(-total, 0)  # rows or columns that no window reaches
        if missing and (lengths is None or o + missing >= s):
            hint = "give pads and output_padding instead"
            raise reading.unsupported(f"an output of {size} is larger than windows on {n} inputs reach", hint)
        small = max(total, 0) // 2
        large = max(total, 0) - max(total, 0) // 2
        sides += (small, large) if auto == "SAME_UPPER" else (large, small)
        more.append(o + missing)
    return window._replace(padding=Padding(*sides)), Pair(*more)


# --- windows -------------------------------------------------------------------------------------------------------------


def _weight_dims(reading: OnnxReading, x: OnnxTensor, dims: Sequence[int]) -> Sequence[int]:
    if len(dims) != x.rank:
        raise reading.wrong(f"weights of {len(dims)} axes do not fit an input of {x.rank}")
    return dims


def _window(reading: OnnxReading, x: OnnxTensor, kernel: Sequence[int], *, transposed: bool = False) -> Window:
    """The window with its padding. A single axis after the channels is the height."""
    declared = reading.integers("kernel_shape")
    kernel = list(kernel) or declared or []
    if len(kernel) != x.rank - 2 or (declared is not None and declared != list(kernel)):
        raise reading.contradiction(f"the kernel {declared or kernel} does not fit")
    stride = _pair(reading, "strides", x, 1)
    dilation = _pair(reading, "dilations", x, 1)
    window = Window(Pair(*[*kernel, 1][:2]), stride, dilation)
    if min(*window.kernel, *stride, *dilation) < 1:
        raise reading.contradiction("kernel, strides and dilations must be at least 1")
    spread = (1 if k == 1 else d for k, d in zip(window.kernel, dilation, strict=True))
    window = window._replace(dilation=Pair(*spread))
    return window._replace(padding=_padding(reading, x, window, transposed=transposed))


def _pair(reading: OnnxReading, name: str, x: OnnxTensor, default: int) -> Pair:
    numbers = reading.integers(name)
    if numbers is None:
        return Pair(default, default)
    if len(numbers) != x.rank - 2:
        raise reading.contradiction(f"{name} is given for {len(numbers)} axes of {x.rank - 2}")
    return Pair(*[*numbers, default][:2])


def _padding(reading: OnnxReading, x: OnnxTensor, window: Window, *, transposed: bool) -> Padding:
    pads = reading.integers("pads")
    auto = reading.text("auto_pad", "NOTSET")
    if pads is not None and len(pads) != 2 * (x.rank - 2):
        raise reading.contradiction(f"{len(pads)} pads are given for {x.rank - 2} axes")
    if pads is not None and min(pads) < 0:
        raise reading.unsupported("padding below zero cannot be converted", "crop the input with a Slice node")
    match auto:
        case "NOTSET" | "":
            if pads is None:
                return ops.NO_PADDING
            before = pads[: x.rank - 2]
            after = pads[x.rank - 2 :]
            top, left, bottom, right = (*[*before, 0][:2], *[*after, 0][:2])
            return Padding(top, bottom, left, right)
        case "VALID":
            return ops.NO_PADDING
        case "SAME_UPPER" | "SAME_LOWER":
            if transposed:
                return ops.NO_PADDING  # follows from the size of the output
            _check_same(reading, x, window)
            upper = same_padding(window, reading.shape(x))
            if auto == "SAME_UPPER":
                return upper
            return Padding(upper.bottom, upper.top, upper.right, upper.left)
        case _:
            raise reading.contradiction(f"auto_pad is {auto}, which does not exist")


def _check_same(reading: OnnxReading, x: OnnxTensor, window: Window) -> None:
    """Refuse forms of SAME for which onnxruntime deviates from ONNX, or fails."""
    hint = "give the padding as pads in place of auto_pad"
    is_pool = "Pool" in reading.node.type
    for n, s, e in zip(reading.shape(x)[:2], window.stride, window.extent, strict=True):
        skipped = n - (n - 1) // s * s - e  # at the end
        if skipped > (0 if is_pool else 2):
            raise reading.unsupported("auto_pad for strides that skip the end of the input cannot be converted", hint)
    if is_pool and max(window.dilation) > 1:
        raise reading.unsupported("auto_pad for a pool with dilations cannot be converted", hint)


# --- pooling -------------------------------------------------------------------------------------------------------------


class _Reach(NamedTuple):
    """A pooling's window with its padding, and how far its windows reach beyond the padded input."""

    window: Window
    beyond: Padding


def _pooling(reading: OnnxReading) -> _Reach:
    x = reading.map
    kernel = reading.integers("kernel_shape")
    if kernel is None:
        raise reading.contradiction("kernel_shape is missing")
    window = _window(reading, x, kernel)
    pad, extent = window.padding, window.extent
    if max(pad.top, pad.bottom) >= extent.height or max(pad.left, pad.right) >= extent.width:
        raise reading.contradiction("the padding is as large as the kernel, so that windows hold nothing else")
    if reading.integer("ceil_mode", 0) == 0:
        return _Reach(window, ops.NO_PADDING)
    shape = reading.shape(x)
    padded = pad.around(shape)
    if padded.height < extent.height or padded.width < extent.width:
        raise reading.wrong(f"the kernel does not fit the input {shape}")
    rows = (shape.height, extent.height, window.stride.height, (pad.top, pad.bottom))
    columns = (shape.width, extent.width, window.stride.width, (pad.left, pad.right))
    _, below = pooling_reach(*rows, rounds_up=True, clips=True)
    _, right = pooling_reach(*columns, rounds_up=True, clips=True)
    return _Reach(window, Padding(0, below, 0, right))


@onnx.reads(
    "MaxPool", settings=f"{WINDOW} ceil_mode storage_order", makes=[ops.MaxPool2d], limits=f"{ON_MAPS}; one output",
)  # fmt: skip
@planes_as_images
@images_as_channels
def read_max_pool(reading: OnnxReading) -> OnnxTensor:
    reading.take("storage_order")  # of the second output
    window, beyond = _pooling(reading)
    return reading.add(ops.MaxPool2d(window._replace(padding=window.padding + beyond)), reading.map)


@onnx.reads(
    "AveragePool", settings=f"{WINDOW} ceil_mode count_include_pad", makes=[ops.AveragePool2d], limits=ON_MAPS,
)  # fmt: skip
@planes_as_images
@images_as_channels
def read_average_pool(reading: OnnxReading) -> OnnxTensor:
    window, beyond = _pooling(reading)
    if reading.integer("count_include_pad", 0):
        return reading.add(ops.AveragePool2d(window, uncounted=beyond), reading.map)
    bare = window._replace(padding=ops.NO_PADDING)
    return reading.add(ops.AveragePool2d(bare, uncounted=window.padding + beyond), reading.map)


@onnx.reads(
    "LpPool",
    settings=f"{WINDOW} ceil_mode p",
    makes=[ops.AveragePool2d, ops.Absolute, ops.Power],
    limits=f"{ON_MAPS}; p: 1 or 2",
)
@planes_as_images
@images_as_channels
def read_lp_pool(reading: OnnxReading) -> OnnxTensor:
    """The root of the sum of powers, over windows."""
    window, beyond = _pooling(reading)
    pooled = ops.AveragePool2d(window._replace(padding=window.padding + beyond), factor=1.0)
    match reading.integer("p", 2):
        case 1:
            return reading.add(pooled, reading.add(ops.Unary(ops.Absolute()), reading.map, part="magnitudes"))
        case 2:
            squares = reading.add(ops.Unary(ops.Power(2.0)), reading.map, part="squares")
            return reading.add(ops.Unary(ops.Power(0.5)), reading.add(pooled, squares, part="sums"))
        case p:
            raise reading.unsupported(f"a norm of order {p} cannot be converted")


GLOBAL = {"GlobalAveragePool": Reduction.MEAN, "GlobalMaxPool": Reduction.MAXIMUM}


@onnx.reads(*GLOBAL, makes=[ops.AveragePool2d, ops.MaxPool2d])
@images_as_channels
def read_global_pool(reading: OnnxReading) -> OnnxTensor:
    return reading.add(whole_map(GLOBAL[reading.node.type], reading.shape(reading.map)), reading.map)
