"""Layers whose windows move over a map: convolutions, pooling; and those that only change its size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cnn_convertor.errors import Problem, warn
from cnn_convertor.frontends.caffe.reading import (
    Mask,
    Parameters,
    Reading,
    Value,
    caffe,
    filled,
    number_of_outputs,
    weight_and_bias,
)
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, Interpolation, Padding, Pair, Sampling, Shape, Window

LARGEST = 1 << 15  # height or width of a map, far more than any device's


@caffe.reads("Convolution")
def read_convolution(reading: Reading) -> Value:
    return _convolution(reading, reading.parameters("convolution_param").take("group"))


@caffe.reads("DepthwiseConvolution", "ConvolutionDepthwise")
def read_depthwise_convolution(reading: Reading) -> Value:
    channels = reading.shape(_convolved(reading)).channels
    group = reading.parameters("convolution_param").take("group", channels)
    if group != channels:
        raise reading.unsupported(
            f"a depthwise convolution of {channels} channels in {group} groups cannot be converted"
        )
    return _convolution(reading, channels)


def _convolved(reading: Reading) -> Value:
    """The only input: a map, or one whose single axis behind the channels is the height of ours."""
    return reading.as_plain(reading.input) if reading.input.rank == 3 else reading.map


def _convolution(reading: Reading, group: int) -> Value:
    x = _convolved(reading)
    parameters = reading.parameters("convolution_param")
    window = _convolution_window(reading, parameters)
    channels, outputs = reading.shape(x).channels, number_of_outputs(reading, parameters)
    if group < 1 or channels % group or outputs % group:
        raise reading.wrong(f"{channels} input and {outputs} output channels do not make {group} groups")
    weight, bias = weight_and_bias(reading, parameters, (outputs, channels // group, *window.kernel), outputs)
    return reading.add(ops.Conv2d(weight, bias, window, groups=group), x)


@caffe.reads("Deconvolution")
def read_deconvolution(reading: Reading) -> Value:
    x = _convolved(reading)
    parameters = reading.parameters("convolution_param")
    window = _convolution_window(reading, parameters)
    channels, outputs = reading.shape(x).channels, number_of_outputs(reading, parameters)
    group = parameters.take("group")
    if group < 1 or channels % group or outputs % group:
        raise reading.wrong(f"{channels} input and {outputs} output channels do not make {group} groups")
    shape = (channels, outputs // group, *window.kernel)
    weight, bias = _filled(reading, parameters, shape) or weight_and_bias(reading, parameters, shape, outputs)
    return reading.add(ops.ConvTranspose2d(_outputs_first(weight, group), bias, window, groups=group), x)


def _filled(
    reading: Reading, parameters: Parameters, shape: tuple[int, ...]
) -> tuple[Constant, Constant | None] | None:
    """Caffe's bilinear weights (I, O / groups, h, w), for a layer that asks for them and was never trained.

    None: the layer asks for others, or the file holds its weights.
    """
    filler, bias_filler = parameters.take("weight_filler"), parameters.take("bias_filler")
    height, width = shape[2:]
    half = math.ceil(width / 2)
    versions_agree = width == 2 * half - half % 2  # Caffe's old filler centers other sizes elsewhere
    if filler.type != "bilinear" or height != width or not versions_agree:
        return None
    if reading.weights is None or reading.weights.has(reading.layer):
        return None
    bias = None
    if parameters.take("bias_term"):
        if bias_filler.type != "constant":
            return None
        bias = filled(bias_filler.value, number_of_outputs(reading, parameters))
    problem = "the weights file holds nothing for the layer, which has the bilinear weights of its weight_filler then"
    warn(Problem("DV214", problem, reading.layer.origin, "make sure that the layer was not trained"))
    slope = 1 - np.abs(np.arange(width) / half - (width - 1) / (2 * half))
    plane = np.outer(slope, slope).astype(np.float32)
    return Constant(shape, lambda rows: np.broadcast_to(plane, (rows.stop - rows.start, *shape[1:]))), bias


def _outputs_first(weight: Constant, groups: int) -> Constant:
    """From Caffe's (I, O / groups, h, w) to (O, I / groups, h, w)."""
    inputs, per_group, *kernel = weight.shape
    split = (groups, inputs // groups, per_group, *kernel)
    shape = (groups * per_group, inputs // groups, *kernel)
    if groups == 1:
        return Constant(shape, lambda rows: weight.load().swapaxes(0, 1)[rows])
    return Constant(shape, lambda rows: weight.load().reshape(split).swapaxes(1, 2).reshape(shape)[rows])


def _convolution_window(reading: Reading, parameters: Parameters) -> Window:
    if reading.axis(parameters) != 1:
        raise reading.unsupported("a convolution over other axes than height and width cannot be converted")
    kernel, stride, pad = _kernel_stride_pad(reading, parameters)
    if kernel is None:
        raise reading.contradiction(
            "the convolution has no kernel size", 'give "kernel_size", or "kernel_h" and "kernel_w"'
        )
    dilation = parameters.take("dilation") or (1,)
    if len(dilation) > 2:
        raise reading.contradiction(f'"dilation" is given {len(dilation)} times: once, or (height, width), is possible')
    window = Window(
        kernel, stride, Pair(dilation[0], dilation[-1]), Padding(pad.height, pad.height, pad.width, pad.width)
    )
    return window if reading.input.rank == 4 else _on_one_axis(reading, window)


def _on_one_axis(reading: Reading, window: Window) -> Window:
    """The window with the settings of the height alone."""
    pad = window.padding
    if any(a != b for a, b in (window.kernel, window.stride, window.dilation, (pad.top, pad.left))):
        raise reading.wrong("the input has one axis behind the channels, but the settings are for two")
    kernel, stride, dilation = (Pair(side.height, 1) for side in (window.kernel, window.stride, window.dilation))
    return Window(kernel, stride, dilation, Padding(pad.top, pad.bottom, 0, 0))


def _kernel_stride_pad(reading: Reading, parameters: Parameters) -> tuple[Pair | None, Pair, Pair]:
    try:
        kernel = parameters.take_pair("kernel_size", "kernel")
        stride = parameters.take_pair("stride", "stride", default=1)
        pad = parameters.take_pair("pad", "pad", default=0)
    except ValueError as error:
        raise reading.contradiction(str(error)) from None
    assert stride is not None and pad is not None
    if min(stride) < 1 or (kernel is not None and min(kernel) < 1):
        raise reading.contradiction("kernel and stride must be at least 1")
    return kernel, stride, pad


@caffe.reads("Pooling")
def read_pooling(reading: Reading) -> Value | Sequence[Value]:
    """A second output, the mask of a max pool, is for Upsample layers alone."""
    x = reading.map
    parameters = reading.parameters("pooling_param")
    method = parameters.take("pool")
    kernel, stride, pad = _kernel_stride_pad(reading, parameters)
    rounds_up = parameters.take("ceil_mode") and parameters.take("round_mode") == "CEIL"
    shape = reading.shape(x)
    if parameters.take("global_pooling"):
        if stride != ONE or pad != (0, 0):
            raise reading.contradiction("global pooling knows no stride and no padding")
        if kernel is not None:
            raise reading.contradiction("global pooling knows no kernel size", "leave it out, or global_pooling")
        kernel = Pair(shape.height, shape.width)
    if kernel is None:
        raise reading.contradiction(
            "the pooling has no kernel size", 'give "kernel_size", or "kernel_h" and "kernel_w"'
        )
    if pad.height >= kernel.height or pad.width >= kernel.width:
        raise reading.wrong(
            f"the padding {pad.height}x{pad.width} must be smaller than the kernel {kernel.height}x{kernel.width}"
        )
    beyond = _rows_beyond(reading, shape, Window(kernel, stride), pad, rounds_up=rounds_up)
    padding = Padding(pad.height, pad.height, pad.width, pad.width)
    match method:
        case "MAX":
            window = Window(kernel, stride, padding=padding + beyond)
            pooled = reading.add(ops.MaxPool2d(window), x)
            has_mask = len(reading.layer.tops) == 2
            return [pooled, pooled._replace(mask=Mask(x.node, window))] if has_mask else pooled
        case "AVE":
            return reading.add(ops.AveragePool2d(Window(kernel, stride, padding=padding), uncounted=beyond), x)
        case _:
            raise reading.unsupported(
                f"pooling of the method {method} cannot be converted", "only MAX and AVE give the same each time"
            )


def _rows_beyond(reading: Reading, shape: Shape, window: Window, pad: Pair, *, rounds_up: bool) -> Padding:
    """What the windows reach of the rows and columns beyond the padded input, at the bottom and on the right."""
    beyond = []
    for size, kernel, stride, padding in zip(shape, window.kernel, window.stride, pad, strict=False):
        room = size + 2 * padding - kernel
        count = (-(-room // stride) if rounds_up else room // stride) + 1
        if max(pad) > 0 and (count - 1) * stride >= size + padding:
            count -= 1
        if count < 1:
            raise reading.wrong(
                f"the kernel {window.kernel.height}x{window.kernel.width} does not fit the input {shape}"
            )
        if (count - 1) * stride - padding >= size:
            hint = "with round_mode: FLOOR, or a kernel not smaller than its stride, all windows see something"
            raise reading.unsupported(
                "the last windows of the pooling lie wholly beyond the input, so that Caffe's result has no meaning",
                hint,
            )
        beyond.append(max((count - 1) * stride - room, 0))
    height, width = beyond
    return Padding(0, height, 0, width)


# --- other sizes ------------------------------------------------------------------------------------------------------


@caffe.reads("Upsample")
def read_upsample(reading: Reading) -> Value:
    """By repetition; with the mask of a pooling as the second input, SegNet's unpooling."""
    if len(reading.inputs) == 2:
        return _unpooled(reading)
    x = reading.map
    parameters = reading.parameters("upsample_param")
    scale, height, width = (parameters.take(name) for name in ("scale", "scale_h", "scale_w"))
    factor = Pair(height, width) if "scale_h" in parameters or "scale_w" in parameters else Pair(scale, scale)
    if min(factor) < 1 or ("scale" in parameters and factor != (scale, scale)):
        raise reading.unsupported('only an upsampling by a given "scale", or "scale_h" and "scale_w", can be converted')
    _check_size(reading, factor.height * reading.shape(x).height, factor.width * reading.shape(x).width)
    return reading.add(ops.Upsample(factor), x)


def _unpooled(reading: Reading) -> Value:
    """The first input's values where the mask's pooling found its maxima."""
    x, mask = reading.as_map(reading.inputs[0]), reading.inputs[1].mask
    if mask is None and reading.builder.is_placeholder(reading.inputs[1].node):
        raise reading.wrong("the pooling before the unpooling cannot be read")
    if mask is None:
        hint = 'the second top of a Pooling, whose "pool" is MAX, is one'
        raise reading.unsupported("an unpooling whose second input is no mask of a pooling cannot be converted", hint)
    pooled, size = reading.builder.shape(mask.pooled), _unpooled_size(reading, reading.shape(x))
    below = size.height - pooled.height
    if size.width != pooled.width or below < 0:
        raise reading.unsupported(
            f"an unpooling to the size {size.height}x{size.width} cannot be converted: the mask counts the pixels of another map",
            f"give upsample_h: {pooled.height} and upsample_w: {pooled.width}, the size of what was pooled",
        )
    source = x._replace(node=mask.pooled)
    if below == 0:
        return reading.add(ops.MaxUnpool(mask.window), x, source)
    unpooled = reading.add(ops.MaxUnpool(mask.window), x, source, name=f"{reading.layer.name}/unpooled")
    return reading.add(ops.Pad(Padding(0, below, 0, 0)), unpooled)


def _unpooled_size(reading: Reading, shape: Shape) -> Pair:
    """The size after an unpooling, by whatever settings give it."""
    parameters = reading.parameters("upsample_param")
    size = Pair(parameters.take("upsample_h"), parameters.take("upsample_w"))
    cut = Pair(int(parameters.take("pad_out_h")), int(parameters.take("pad_out_w")))
    scale, sides = parameters.take("scale"), Pair(parameters.take("scale_h"), parameters.take("scale_w"))
    if any(size):
        _check_size(reading, *size)
        return size
    factor = sides if any(sides) else Pair(scale or 2, scale or 2)
    if min(factor) < 1 or (any(sides) and "scale" in parameters):
        raise reading.contradiction(
            "the factors of the unpooling are not clear", 'give "upsample_h" and "upsample_w", or "scale" alone'
        )
    if any(c and f != 2 for c, f in zip(cut, factor, strict=True)):
        raise reading.contradiction('"pad_out_h" and "pad_out_w" take a row or column off what is twice as large')
    return Pair(*(n * f - c for n, f, c in zip(shape, factor, cut, strict=False)))


@caffe.reads("Interp")
def read_interp(reading: Reading) -> Value:
    """DeepLab's layer, and PSPNet's: bilinear, the corners stay where they are."""
    if len(reading.inputs) == 2:  # the second input gives the size
        like = reading.shape(reading.as_map(reading.inputs[1]))
        reading.parameters("interp_param")
        return _resized(reading, reading.as_map(reading.inputs[0]), Pair(like.height, like.width), Sampling.CORNERS)
    x = reading.map
    parameters = reading.parameters("interp_param")
    first, last = parameters.take("pad_beg"), parameters.take("pad_end")
    shape = reading.shape(x)
    if max(first, last) > 0 or min(shape.height, shape.width) + first + last < 1:
        raise reading.wrong(f"pad_beg {first} and pad_end {last} must not be above 0, and leave something of the input")
    name = f"{reading.layer.name}/cropped"
    if first or last:
        stop = Shape(shape.height + last, shape.width + last, shape.channels)
        x = reading.add(ops.Crop(Shape(-first, -first, 0), stop), x, name=name)
    return _resized(reading, x, _size_after_interp(reading, parameters, reading.shape(x)), Sampling.CORNERS)


def _size_after_interp(reading: Reading, parameters: Parameters, shape: Shape) -> Pair:
    """The size, or the factor, that the settings give; factors count the gaps between pixels."""
    given = {name for name in ("height", "width", "zoom_factor", "shrink_factor") if name in parameters}
    height, width, zoom, shrink = (
        parameters.take(name) for name in ("height", "width", "zoom_factor", "shrink_factor")
    )
    if given == {"height", "width"}:
        size = Pair(height, width)
    elif given and given <= {"zoom_factor", "shrink_factor"} and min(zoom, shrink) >= 1:
        size = Pair(*((n - 1) // shrink * zoom + 1 for n in (shape.height, shape.width)))
    else:
        hint = 'give "height" and "width", or "zoom_factor" or "shrink_factor"'
        raise reading.wrong(f"a size cannot be told from {', '.join(sorted(given)) or 'no setting'}", hint)
    return size


@caffe.reads("BilinearInterpolate")
def read_bilinear_interpolate(reading: Reading) -> Value:
    x = reading.map
    parameters = reading.parameters("bilinear_interpolate_param")
    if "align_corners" not in parameters:
        raise reading.wrong('"align_corners" must be given')
    size = Pair(parameters.take("dst_h"), parameters.take("dst_w"))
    sampling = Sampling.CORNERS if parameters.take("align_corners") else Sampling.HALF_PIXEL
    return _resized(reading, x, size, sampling)


def _resized(reading: Reading, x: Value, size: Pair, sampling: Sampling) -> Value:
    _check_size(reading, *size)
    shape = reading.shape(x)
    if size == (shape.height, shape.width):
        return reading.add(ops.Identity(), x)
    return reading.add(ops.Resize(size, Interpolation.BILINEAR, sampling), x)


def _check_size(reading: Reading, height: int, width: int) -> None:
    if min(height, width) < 1 or max(height, width) > LARGEST:
        raise reading.wrong(f"{height}x{width} is no size of a map")


@caffe.reads("Pad")
def read_pad(reading: Reading) -> Value:
    x = reading.map
    parameters = reading.parameters("pad_param")
    pad = Padding(*(parameters.take(f"pad_{side}") for side in "udlr"))
    value, channels = parameters.take("pad_value"), reading.shape(x).channels
    _check_size(reading, 1 + pad.top + pad.bottom, 1 + pad.left + pad.right)
    if value == 0:
        return reading.add(ops.Pad(pad), x)
    # Zeros, and a second map that is 0 where x is, and the value around it: not a bit of x changes.
    name = reading.layer.name
    ones = reading.add(ops.Scale(filled(0.0, channels), filled(1.0, channels)), x, name=f"{name}/ones")
    ones = reading.add(ops.Pad(pad), ones, name=f"{name}/ones_padded")
    around = reading.add(ops.Scale(filled(-value, channels), filled(value, channels)), ones, name=f"{name}/around")
    return reading.add(ops.Add(), reading.add(ops.Pad(pad), x, name=f"{name}/padded"), around)
