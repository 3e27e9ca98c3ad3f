"""Layers whose windows move over a map: convolutions, pooling, upsampling."""

from __future__ import annotations

from cnn_convertor.frontends.caffe.reading import Parameters, Reading, Value, caffe, number_of_outputs, weight_and_bias
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, Padding, Pair, Shape, Window


@caffe.reads("Convolution")
def read_convolution(reading: Reading) -> Value:
    return _convolution(reading, reading.parameters("convolution_param").take("group"))


@caffe.reads("DepthwiseConvolution", "ConvolutionDepthwise")
def read_depthwise_convolution(reading: Reading) -> Value:
    channels = reading.shape(reading.map).channels
    group = reading.parameters("convolution_param").take("group", channels)
    if group != channels:
        raise reading.unsupported(
            f"a depthwise convolution of {channels} channels in {group} groups cannot be converted"
        )
    return _convolution(reading, channels)


def _convolution(reading: Reading, group: int) -> Value:
    x = reading.map
    parameters = reading.parameters("convolution_param")
    window = _convolution_window(reading, parameters)
    channels, outputs = reading.shape(x).channels, number_of_outputs(reading, parameters)
    if group < 1 or channels % group or outputs % group:
        raise reading.wrong(f"{channels} input and {outputs} output channels do not make {group} groups")
    weight, bias = weight_and_bias(reading, parameters, (outputs, channels // group, *window.kernel), outputs)
    return reading.add(ops.Conv2d(weight, bias, window, groups=group), x)


@caffe.reads("Deconvolution")
def read_deconvolution(reading: Reading) -> Value:
    x = reading.map
    parameters = reading.parameters("convolution_param")
    window = _convolution_window(reading, parameters)
    channels, outputs, group = (
        reading.shape(x).channels,
        number_of_outputs(reading, parameters),
        parameters.take("group"),
    )
    if group < 1 or channels % group or outputs % group:
        raise reading.wrong(f"{channels} input and {outputs} output channels do not make {group} groups")
    weight, bias = weight_and_bias(reading, parameters, (channels, outputs // group, *window.kernel), outputs)
    return reading.add(ops.ConvTranspose2d(_outputs_first(weight, group), bias, window, groups=group), x)


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
        raise reading.wrong("the convolution has no kernel size", 'give "kernel_size", or "kernel_h" and "kernel_w"')
    dilation = parameters.take("dilation") or (1,)
    if len(dilation) > 2:
        raise reading.wrong(f'"dilation" is given {len(dilation)} times: once, or (height, width), is possible')
    return Window(
        kernel, stride, Pair(dilation[0], dilation[-1]), Padding(pad.height, pad.height, pad.width, pad.width)
    )


def _kernel_stride_pad(reading: Reading, parameters: Parameters) -> tuple[Pair | None, Pair, Pair]:
    try:
        kernel = parameters.take_pair("kernel_size", "kernel")
        stride = parameters.take_pair("stride", "stride", default=1)
        pad = parameters.take_pair("pad", "pad", default=0)
    except ValueError as error:
        raise reading.wrong(str(error)) from None
    assert stride is not None and pad is not None
    if min(stride) < 1 or (kernel is not None and min(kernel) < 1):
        raise reading.wrong("kernel and stride must be at least 1")
    return kernel, stride, pad


@caffe.reads("Pooling")
def read_pooling(reading: Reading) -> Value:
    x = reading.map
    parameters = reading.parameters("pooling_param")
    method = parameters.take("pool")
    kernel, stride, pad = _kernel_stride_pad(reading, parameters)
    rounds_up = parameters.take("ceil_mode") and parameters.take("round_mode") == "CEIL"
    shape = reading.shape(x)
    if parameters.take("global_pooling"):
        if stride != ONE or pad != (0, 0):
            raise reading.wrong("global pooling knows no stride and no padding")
        kernel = Pair(shape.height, shape.width)
    if kernel is None:
        raise reading.wrong("the pooling has no kernel size", 'give "kernel_size", or "kernel_h" and "kernel_w"')
    if pad.height >= kernel.height or pad.width >= kernel.width:
        raise reading.wrong(
            f"the padding {pad.height}x{pad.width} must be smaller than the kernel {kernel.height}x{kernel.width}"
        )
    beyond = _rows_beyond(reading, shape, Window(kernel, stride), pad, rounds_up=rounds_up)
    padding = Padding(pad.height, pad.height, pad.width, pad.width)
    match method:
        case "MAX":
            return reading.add(ops.MaxPool2d(Window(kernel, stride, padding=padding + beyond)), x)
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


@caffe.reads("Upsample")
def read_upsample(reading: Reading) -> Value:
    x = reading.map
    parameters = reading.parameters("upsample_param")
    scale = parameters.take("scale")
    if scale < 1:
        raise reading.unsupported('only an upsampling by a given "scale" can be converted')
    return reading.add(ops.Upsample(Pair(scale, scale)), x)
