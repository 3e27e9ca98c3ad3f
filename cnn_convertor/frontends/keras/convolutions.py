"""Readers of the layers that have kernels: convolutions and Dense."""

from __future__ import annotations

import numpy as np

from cnn_convertor.frontends.keras.functions import add_activated, take_activation
from cnn_convertor.frontends.keras.reading import Reading, constant, keras
from cnn_convertor.frontends.keras.storage import Variable
from cnn_convertor.frontends.keras.tensors import Axes, Value
from cnn_convertor.frontends.keras.versions import warn_of_theano
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.ops import ONE, Padding, Pair, Shape, Window

BLOCK = 256  # rows and columns of a piece when a matrix is turned: a piece stays in the cache


@keras.reads("Conv1D", "Conv2D")
def convolution(reading: Reading) -> Value:
    activation = take_activation(reading)  # first, so that one which is refused is told whatever else is wrong
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    window = padded(reading, read_window(reading), shape)
    groups, filters = reading.integer("groups"), reading.integer("filters")
    if shape.channels % groups or filters % groups:
        reading.misfit(f"{shape.channels} channels and {filters} filters cannot be cut into {groups} groups")
    kernel = read_kernel(reading, "kernel", (*window.kernel, shape.channels // groups, filters))
    op = ops.Conv2d(convolution_kernel(kernel, flip=is_flipped(reading)), bias(reading, filters), window, groups)
    return add_activated(reading, op, source.node, source.axes, activation)


@keras.reads("DepthwiseConv1D", "DepthwiseConv2D")
def depthwise_convolution(reading: Reading) -> Value:
    activation = take_activation(reading)  # first, so that one which is refused is told whatever else is wrong
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    refuse_theano(reading)
    window = padded(reading, read_window(reading), shape)
    multiplier = reading.integer("depth_multiplier")
    reading.settings.take("groups")  # written by Keras 2, which has one group a channel whatever it says
    kernel = read_kernel(reading, "depthwise_kernel", (*window.kernel, shape.channels, multiplier))
    op = ops.Conv2d(depthwise_kernel(kernel), bias(reading, shape.channels * multiplier), window, shape.channels)
    return add_activated(reading, op, source.node, source.axes, activation)


@keras.reads("SeparableConv1D", "SeparableConv2D")
def separable_convolution(reading: Reading) -> Value:
    activation = take_activation(reading)  # first, so that one which is refused is told whatever else is wrong
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    refuse_theano(reading)
    window = padded(reading, read_window(reading), shape)
    multiplier, filters = reading.integer("depth_multiplier"), reading.integer("filters")
    reading.settings.take("groups")  # see above
    middle = shape.channels * multiplier
    kernel = read_kernel(reading, "depthwise_kernel", (*window.kernel, shape.channels, multiplier))
    pointwise = read_kernel(reading, "pointwise_kernel", (1, 1, middle, filters))
    depthwise = ops.Conv2d(depthwise_kernel(kernel), None, window, shape.channels)
    op = ops.Conv2d(convolution_kernel(pointwise), bias(reading, filters), Window(ONE))
    name = reading.add(depthwise, source.node, part="depthwise")
    return add_activated(reading, op, name, source.axes, activation)


@keras.reads("Conv1DTranspose", "Conv2DTranspose")
def transposed_convolution(reading: Reading) -> Value:
    activation = take_activation(reading)  # first, so that one which is refused is told whatever else is wrong
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    window, filters = read_window(reading), reading.integer("filters")
    if window.dilation != ONE:
        reading.refuse(
            f"a dilation_rate of {tuple(window.dilation)} in a transposed convolution is not supported", "use 1"
        )
    if reading.integer("groups") != 1:
        reading.refuse("a transposed convolution in groups is not supported", "use groups=1")
    same, extra = reading.same(), _output_padding(reading)
    if same:
        warn_of_theano(reading, window)
    height, width = (
        transposed_size(size, kernel, stride, more, same=same)
        for size, kernel, stride, more in zip(shape[:2], window.kernel, window.stride, extra, strict=True)
    )
    if height is None or width is None:
        reading.misfit(
            f"with output_padding {extra}, no convolution would turn the output into the input again",
            "leave output_padding at None",
        )
    padding, output_padding = transposed_padding(shape, window, Pair(height, width))
    kernel = read_kernel(reading, "kernel", (*window.kernel, filters, shape.channels))
    weight = transposed_kernel(kernel, flip=is_flipped(reading))
    op = ops.ConvTranspose2d(weight, bias(reading, filters), window._replace(padding=padding), output_padding)
    return add_activated(reading, op, source.node, source.axes, activation)


@keras.reads("Dense")
def dense(reading: Reading) -> Value:
    """Works on the last axis: a fully connected layer on a vector, a 1x1 convolution on a map."""
    activation = take_activation(reading)  # first, so that one which is refused is told whatever else is wrong
    units, source = reading.integer("units"), reading.input
    last_channels = {4: Axes.HWC, 3: Axes.WC, 2: Axes.C}.get(source.axes.rank)
    if source.axes is Axes.MANY or last_channels is None:
        reading.misfit("a Dense layer on more than three axes is not supported", "reshape the tensor before it")
    source = reading.as_axes(source, last_channels)
    channels = reading.builder.shape(source.node).channels
    kernel = reading.variable("kernel", (channels, units))
    weight = constant(
        (units, channels, 1, 1), kernel, lambda rows: (slice(None), rows), lambda v: turned(v)[..., None, None]
    )
    op: ops.Dense | ops.Conv2d
    if source.axes is Axes.C:
        op = ops.Dense(weight, bias(reading, units))
    else:
        op = ops.Conv2d(weight, bias(reading, units), Window(ONE))
    return add_activated(reading, op, source.node, source.axes, activation)


# --- settings ------------------------------------------------------------------------------------------------------------


def read_window(reading: Reading) -> Window:
    """Kernel, stride and dilation of a convolution; no padding yet."""
    return Window(reading.pair("kernel_size"), reading.pair("strides"), reading.pair("dilation_rate"))


def padded(reading: Reading, window: Window, shape: Shape) -> Window:
    """With the padding of the layer's `padding`: "same", "valid", or on rows also "causal", which pads the start alone."""
    if reading.layer.type == "Conv1D" and reading.settings.take("padding") == "causal":
        return window._replace(padding=Padding(0, 0, window.extent.width - 1, 0))
    if not reading.same():
        return window
    warn_of_theano(reading, window)
    return window._replace(padding=same_padding(window, shape))


def same_padding(window: Window, shape: Shape) -> Padding:
    """What makes the output input / stride long, rounded up; an odd rest goes to the bottom and right."""
    sides: list[int] = []
    for size, extent, stride in zip(shape[:2], window.extent, window.stride, strict=True):
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        sides += (total // 2, total - total // 2)
    return Padding(*sides)


def transposed_size(size: int, kernel: int, stride: int, extra: int | None, *, same: bool) -> int | None:
    """Keras's rule for the output of a transposed convolution, along one axis; None where it cannot be run.

    It runs when the convolution that it transposes makes an output of `size` from such an input.
    """
    reach = (size - 1) * stride + kernel
    if extra is not None:
        output = reach - 2 * (kernel // 2 if same else 0) + extra
    else:
        output = size * stride if same else max(size * stride, reach)
    back = -(-output // stride) if same else (output - kernel) // stride + 1
    return output if back == size else None


def transposed_padding(shape: Shape, window: Window, output: Pair) -> tuple[Padding, Pair]:
    """What is cut off a transposed convolution's full output (as "same" pads), and what is added at the bottom and right."""
    sides: list[int] = []
    added: list[int] = []
    for size, kernel, stride, wanted in zip(shape[:2], window.kernel, window.stride, output, strict=True):
        reach = (size - 1) * stride + kernel
        cut = max(reach - wanted, 0)
        sides += (cut // 2, cut - cut // 2)
        added.append(max(wanted - reach, 0))
    return Padding(*sides), Pair(*added)


def _output_padding(reading: Reading) -> tuple[int | None, int | None]:
    match reading.settings.take("output_padding"):
        case None:
            return None, None
        case int(steps) | [int(steps)] if reading.is_1d and steps >= 0:
            return None, steps
        case int(both) if both >= 0:
            return both, both
        case [int(height), int(width)] if min(height, width) >= 0:
            return height, width
        case other:
            reading.refuse(f"output_padding is {other!r}, not (height, width)")


def is_flipped(reading: Reading) -> bool:
    """Theano turns kernels around when it convolves."""
    return reading.weights.backend == "theano"


def refuse_theano(reading: Reading) -> None:
    if is_flipped(reading):
        reading.refuse(
            "depthwise kernels saved by Keras on Theano are not supported", "load and save the model with TensorFlow"
        )


# --- kernels -------------------------------------------------------------------------------------------------------------


def read_kernel(reading: Reading, role: str, shape: tuple[int, int, int, int]) -> Variable:
    """An array (height, width, in, out), which has no height in the file of a layer on rows."""
    if not reading.is_1d:
        return reading.variable(role, shape)
    found = reading.variable(role, shape[1:])
    return Variable(found.name, shape, lambda index: found.read(index[1:])[None])


def bias(reading: Reading, size: int) -> Constant | None:
    return reading.vector("bias", size) if reading.flag("use_bias", True) else None


def convolution_kernel(kernel: Variable, *, flip: bool = False) -> Constant:
    """(height, width, in, out) as (out, in, height, width)."""
    height, width, inputs, outputs = kernel.shape

    def turn(values: Array) -> Array:
        rows = turned(values.reshape(-1, values.shape[-1])).reshape(-1, height, width, inputs)
        return np.ascontiguousarray(_flipped(rows.transpose(0, 3, 1, 2), flip))

    return constant((outputs, inputs, height, width), kernel, lambda rows: (*_ALL3, rows), turn)


def transposed_kernel(kernel: Variable, *, flip: bool = False) -> Constant:
    """(height, width, out, in) as (out, in, height, width)."""
    height, width, outputs, inputs = kernel.shape
    return constant(
        (outputs, inputs, height, width),
        kernel,
        lambda rows: (*_ALL3[:2], rows, slice(None)),
        lambda values: np.ascontiguousarray(_flipped(values.transpose(2, 3, 0, 1), flip)),
    )


def depthwise_kernel(kernel: Variable) -> Constant:
    """(height, width, in, multiplier) as (in * multiplier, 1, height, width)."""
    height, width, inputs, multiplier = kernel.shape

    def read(rows: slice) -> Array:
        first = rows.start // multiplier
        channels = slice(first, -(-rows.stop // multiplier))
        values = kernel.read((*_ALL3[:2], channels, slice(None))).reshape(height, width, -1)
        values = values[..., rows.start - first * multiplier : rows.stop - first * multiplier]
        return np.ascontiguousarray(values.transpose(2, 0, 1)[:, None])

    return Constant((inputs * multiplier, 1, height, width), read)


_ALL3 = (slice(None),) * 3


def _flipped(kernels: Array, flip: bool) -> Array:
    return kernels[:, :, ::-1, ::-1] if flip else kernels


def turned(matrix: Array) -> Array:
    """The transposed matrix in memory order, moved in pieces that fit the cache."""
    result = np.empty(matrix.shape[::-1], np.float32)
    for at in range(0, len(matrix), BLOCK):
        result[:, at : at + BLOCK] = np.ascontiguousarray(matrix[at : at + BLOCK]).T  # a file's rows lie far apart
    return result
