"""Layers whose windows move over a map: convolutions, deconvolutions and pooling."""

import math
from collections.abc import Sequence

import numpy as np

from cnn_convertor.errors import Problem, warn
from cnn_convertor.frontends.arithmetic import filled, pooling_reach
from cnn_convertor.frontends.caffe.reading import CaffeBlob, CaffeReading, Mask, caffe
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, Axis, Padding, Pair, Shape, Window

WINDOW = "kernel_size kernel_h kernel_w stride stride_h stride_w pad pad_h pad_w"
CONVOLUTION = f"axis {WINDOW} dilation num_output bias_term group"
NO_KERNEL = 'give "kernel_size", or "kernel_h" and "kernel_w"'
MOST_LEVELS = 12  # of a pyramid: 2048x2048 windows
ON_PIXELS = "over height and width (axis: 1)"


@caffe.reads("Convolution", group="convolution_param", settings=CONVOLUTION, makes=[ops.Conv2d], limits=ON_PIXELS)
def read_convolution(reading: CaffeReading) -> CaffeBlob:
    return _convolution(reading, reading.take("group"))


@caffe.reads(
    "DepthwiseConvolution", "ConvolutionDepthwise", "DepthWiseConv", "DepthwiseConv", group="convolution_param",
    settings=CONVOLUTION, makes=[ops.Conv2d], limits=f"{ON_PIXELS}; as many groups as channels",
)  # fmt: skip
def read_depthwise_convolution(reading: CaffeReading) -> CaffeBlob:
    channels = reading.shape(_convolved(reading)).channels
    group = reading.take("group", channels)
    if group != channels:
        raise reading.unsupported(
            f"a depthwise convolution of {channels} channels in {group} groups cannot be converted"
        )
    return _convolution(reading, channels)


def _convolved(reading: CaffeReading) -> CaffeBlob:
    """The only input: a map, or a blob whose single axis after the channels becomes the height."""
    return reading.as_plain(reading.input) if reading.input.rank == 3 else reading.map


def _convolution(reading: CaffeReading, group: int) -> CaffeBlob:
    x = _convolved(reading)
    window = _convolution_window(reading)
    channels, outputs = _channels_in_groups(reading, x, group)
    weight, bias = reading.weight_and_bias((outputs, channels // group, *window.kernel), outputs)
    return reading.add(ops.Conv2d(weight, bias, window, groups=group), x)


def _channels_in_groups(reading: CaffeReading, x: CaffeBlob, group: int) -> tuple[int, int]:
    """The channels of input and output, which must be multiples of the number of groups."""
    channels = reading.shape(x).channels
    outputs = reading.number_of_outputs()
    if group < 1 or channels % group or outputs % group:
        raise reading.wrong(f"{channels} input and {outputs} output channels do not make {group} groups")
    return channels, outputs


@caffe.reads(
    "Deconvolution", group="convolution_param", settings=f"{CONVOLUTION} weight_filler bias_filler",
    makes=[ops.ConvTranspose2d], limits=ON_PIXELS,
)  # fmt: skip
def read_deconvolution(reading: CaffeReading) -> CaffeBlob:
    x = _convolved(reading)
    window = _convolution_window(reading)
    group = reading.take("group")
    channels, outputs = _channels_in_groups(reading, x, group)
    shape = (channels, outputs // group, *window.kernel)
    weight, bias = _bilinear(reading, shape) or reading.weight_and_bias(shape, outputs)
    return reading.add(ops.ConvTranspose2d(weight.swap_axes(group), bias, window, groups=group), x)


def _bilinear(reading: CaffeReading, shape: tuple[int, ...]) -> tuple[Constant, Constant | None] | None:
    """Caffe's bilinear weights (I, O / groups, h, w), for a layer that asks for them and was never trained.

    None: the layer asks for others, or the file holds its weights.
    """
    filler, bias_filler = reading.take_each("weight_filler", "bias_filler")
    height, width = shape[2:]
    half = math.ceil(width / 2)
    versions_agree = width == 2 * half - half % 2  # Caffe's old filler centers other sizes elsewhere
    if filler.type != "bilinear" or height != width or not versions_agree:
        return None
    if reading.weights is None or reading.weights.has(reading.layer):
        return None
    bias = None
    if reading.take("bias_term"):
        if bias_filler.type != "constant":
            return None
        bias = filled(bias_filler.value, reading.number_of_outputs())
    problem = "the weights file holds nothing for the layer, so it gets the bilinear weights of its weight_filler"
    warn(Problem("DV214", problem, reading.layer.origin, "make sure that the layer was not trained"))
    slope = 1 - np.abs(np.arange(width) / half - (width - 1) / (2 * half))
    plane = np.outer(slope, slope).astype(np.float32)
    return Constant(shape, lambda rows: np.broadcast_to(plane, (rows.stop - rows.start, *shape[1:]))), bias


# --- windows -------------------------------------------------------------------------------------------------------------


def _convolution_window(reading: CaffeReading) -> Window:
    if reading.axis() != 1:
        raise reading.unsupported("a convolution over other axes than height and width cannot be converted")
    kernel, stride, pad = _kernel_stride_pad(reading)
    if kernel is None:
        raise reading.contradiction("the convolution has no kernel size", NO_KERNEL)
    dilation = reading.take("dilation") or (1,)
    if len(dilation) > 2:
        raise reading.contradiction(f'"dilation" is given {len(dilation)} times: give it once, or as (height, width)')
    padding = Padding(pad.height, pad.height, pad.width, pad.width)
    window = Window(kernel, stride, Pair(dilation[0], dilation[-1]), padding)
    return window if reading.input.rank == 4 else _on_one_axis(reading, window)


def _on_one_axis(reading: CaffeReading, window: Window) -> Window:
    """The window with the settings of the height only."""
    pad = window.padding
    if any(a != b for a, b in (window.kernel, window.stride, window.dilation, (pad.top, pad.left))):
        raise reading.wrong("the input has one axis after the channels, but the settings are for two")
    kernel, stride, dilation = (Pair(side.height, 1) for side in (window.kernel, window.stride, window.dilation))
    return Window(kernel, stride, dilation, Padding(pad.top, pad.bottom, 0, 0))


def _kernel_stride_pad(reading: CaffeReading) -> tuple[Pair | None, Pair, Pair]:
    kernel = _pair(reading, "kernel_size", "kernel")
    stride = _pair(reading, "stride", "stride") or ONE
    pad = _pair(reading, "pad", "pad", lonely=True) or Pair(0, 0)
    if min(stride) < 1 or (kernel is not None and min(kernel) < 1):
        raise reading.contradiction("kernel and stride must be at least 1")
    return kernel, stride, pad


def _pair(reading: CaffeReading, name: str, short: str, *, lonely: bool = False) -> Pair | None:
    """Height and width from `name`, given once or as (h, w), or from `short_h` and `short_w`. None: not given.

    lonely: one of short_h and short_w may be given, and the other has its default.
    """
    sides = (f"{short}_h", f"{short}_w")
    both, *values = reading.take_each(name, *sides)
    is_given = [reading.gives(side) for side in sides]
    if any(is_given):
        if both:
            raise reading.contradiction(f'"{name}" is given, and "{sides[0]}" or "{sides[1]}" too')
        if not all(is_given) and not lonely:
            raise reading.contradiction(f'"{sides[0]}" and "{sides[1]}" must be given together')
        return Pair(*values)
    if len(both) > 2:
        raise reading.contradiction(f'"{name}" is given {len(both)} times: give it once, or as (height, width)')
    return Pair(both[0], both[-1]) if both else None


# --- pooling -------------------------------------------------------------------------------------------------------------


@caffe.reads(
    "Pooling", group="pooling_param", settings=f"pool {WINDOW} ceil_mode round_mode global_pooling",
    makes=[ops.MaxPool2d, ops.AveragePool2d], limits="pool: MAX or AVE; no window entirely beyond the input",
)  # fmt: skip
def read_pooling(reading: CaffeReading) -> CaffeBlob | Sequence[CaffeBlob]:
    """A second output, the mask of a max pool, is for Upsample layers only."""
    x = reading.map
    kernel, stride, pad = _kernel_stride_pad(reading)
    rounds_up = reading.take("ceil_mode") and reading.take("round_mode") == "CEIL"
    shape = reading.shape(x)
    if reading.take("global_pooling"):
        if stride != ONE or pad != (0, 0):
            raise reading.contradiction("global pooling has no stride and no padding")
        if kernel is not None:
            raise reading.contradiction("global pooling has no kernel size", "remove the size, or global_pooling")
        kernel = Pair(shape.height, shape.width)
    if kernel is None:
        raise reading.contradiction("the pooling has no kernel size", NO_KERNEL)
    if pad.height >= kernel.height or pad.width >= kernel.width:
        padded = f"{pad.height}x{pad.width}"
        by = f"{kernel.height}x{kernel.width}"
        raise reading.wrong(f"the padding {padded} must be smaller than the kernel {by}")
    op = _pool(reading, shape, Window(kernel, stride), pad, rounds_up=rounds_up)
    pooled = reading.add(op, x)
    has_mask = isinstance(op, ops.MaxPool2d) and len(reading.layer.tops) == 2
    return [pooled, pooled._replace(mask=Mask(x.node, op.window))] if has_mask else pooled


@caffe.reads(
    "SPP", group="spp_param", settings="pyramid_height pool", makes=[ops.MaxPool2d, ops.AveragePool2d, ops.Concat],
    limits="pool: MAX or AVE; no window entirely beyond the input",
)  # fmt: skip
def read_spatial_pyramid(reading: CaffeReading) -> CaffeBlob:
    """Pools of 1x1, 2x2, 4x4 ... windows, joined as vectors."""
    x = reading.map
    levels = reading.take("pyramid_height")
    shape = reading.shape(x)
    if not 1 <= levels <= MOST_LEVELS:
        raise reading.wrong(f"pyramid_height is {levels}; it must be 1 to {MOST_LEVELS}")
    vectors = []
    for level in range(levels):
        bins = 2**level
        kernel = Pair(-(-shape.height // bins), -(-shape.width // bins))
        rest = Pair(kernel.height * bins - shape.height, kernel.width * bins - shape.width)
        pad = Pair((rest.height + 1) // 2, (rest.width + 1) // 2)
        if pad.height >= kernel.height or pad.width >= kernel.width:
            raise reading.wrong(f"the input {shape} is too small for {bins}x{bins} windows")
        op = _pool(reading, shape, Window(kernel, kernel), pad, rounds_up=True)
        if levels == 1:
            return reading.add(op, x)
        pooled = reading.add(op, x, part=f"pool{level}")
        vectors.append(reading.reshape(pooled, (1, reading.shape(pooled).size), part=f"level{level}"))
    dims = (1, sum(vector.dims[1] for vector in vectors))
    return reading.add(ops.Concat(Axis.CHANNELS), *vectors, dims=dims)


def _pool(
    reading: CaffeReading, shape: Shape, window: Window, pad: Pair, *, rounds_up: bool
) -> ops.MaxPool2d | ops.AveragePool2d:
    method = reading.take("pool")
    beyond = _beyond(reading, shape, window, pad, rounds_up=rounds_up)
    padding = Padding(pad.height, pad.height, pad.width, pad.width)
    match method:
        case "MAX":
            return ops.MaxPool2d(window._replace(padding=padding + beyond))
        case "AVE":
            return ops.AveragePool2d(window._replace(padding=padding), uncounted=beyond)
        case _:
            hint = "use MAX or AVE: other methods give random results"
            raise reading.unsupported(f"pooling of the method {method} cannot be converted", hint)


def _beyond(reading: CaffeReading, shape: Shape, window: Window, pad: Pair, *, rounds_up: bool) -> Padding:
    """The rows and columns beyond the padded input that windows reach, at the bottom and on the right."""
    reach = []
    for size, kernel, stride, padding in zip(shape, window.kernel, window.stride, pad, strict=False):
        count, beyond = pooling_reach(size, kernel, stride, (padding, padding), rounds_up=rounds_up, clips=max(pad) > 0)
        if count < 1:
            by = f"{window.kernel.height}x{window.kernel.width}"
            raise reading.wrong(f"the kernel {by} does not fit the input {shape}")
        if (count - 1) * stride - padding >= size:
            raise reading.unsupported(
                "the last windows of the pooling lie entirely beyond the input, so Caffe's result is undefined",
                "use round_mode: FLOOR, or a kernel at least as large as its stride",
            )
        reach.append(beyond)
    return Padding(0, reach[0], 0, reach[1])
