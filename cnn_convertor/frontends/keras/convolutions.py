"""Layers that have kernels: convolutions and Dense."""

from dataclasses import replace

import numpy as np

from cnn_convertor.frontends.arithmetic import same_padding
from cnn_convertor.frontends.keras.activations import add_activated, take_activation
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.hdf5 import Index, Variable
from cnn_convertor.frontends.keras.reading import KerasReading, constant, keras
from cnn_convertor.frontends.keras.versions import warn_of_theano
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.ops import ONE, Padding, Pair, Shape, Window

BLOCK = 256  # rows and columns of a piece when a matrix is transposed: a piece stays in the cache
WINDOW = "activation data_format padding kernel_size strides dilation_rate use_bias"
NO_THEANO = "not saved by Keras on Theano"

# Each reader takes the activation first, so that a refused one is always reported.


@keras.reads("Conv1D", "Conv2D", settings=f"{WINDOW} groups filters", makes=[ops.Conv2d])
def convolution(reading: KerasReading) -> Value:
    activation = take_activation(reading)
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    window = padded(reading, read_window(reading), shape)
    groups = reading.integer("groups")
    filters = reading.integer("filters")
    if shape.channels % groups or filters % groups:
        reading.misfit(f"{shape.channels} channels and {filters} filters cannot be cut into {groups} groups")
    kernel = read_kernel(reading, "kernel", (*window.kernel, shape.channels // groups, filters))
    op = ops.Conv2d(convolution_kernel(kernel, flip=is_flipped(reading)), bias(reading, filters), window, groups)
    return add_activated(reading, op, source.node, source.axes, activation)


# Keras 2 writes `groups`, which has no meaning for depthwise kernels.
@keras.reads(
    "DepthwiseConv1D", "DepthwiseConv2D", settings=f"{WINDOW} depth_multiplier", ignores="groups", makes=[ops.Conv2d],
    limits=NO_THEANO,
)  # fmt: skip
def depthwise_convolution(reading: KerasReading) -> Value:
    activation = take_activation(reading)
    source = reading.map_input()
    op = _depthwise(reading, source)
    return add_activated(
        reading, replace(op, bias=bias(reading, op.weight.shape[0])), source.node, source.axes, activation
    )


@keras.reads(
    "SeparableConv1D", "SeparableConv2D", settings=f"{WINDOW} depth_multiplier filters", ignores="groups",
    makes=[ops.Conv2d], limits=NO_THEANO,
)  # fmt: skip
def separable_convolution(reading: KerasReading) -> Value:
    activation = take_activation(reading)
    source = reading.map_input()
    depthwise = _depthwise(reading, source)
    filters = reading.integer("filters")
    pointwise = read_kernel(reading, "pointwise_kernel", (1, 1, depthwise.weight.shape[0], filters))
    op = ops.Conv2d(convolution_kernel(pointwise), bias(reading, filters), Window(ONE))
    name = reading.add(depthwise, source.node, part="depthwise")
    return add_activated(reading, op, name, source.axes, activation)


def _depthwise(reading: KerasReading, source: Value) -> ops.Conv2d:
    """The convolution of each channel with its own kernels, without a bias."""
    shape = reading.builder.shape(source.node)
    if is_flipped(reading):
        hint = "load and save the model with TensorFlow"
        reading.refuse("depthwise kernels saved by Keras on Theano are not supported", hint)
    window = padded(reading, read_window(reading), shape)
    sizes = (*window.kernel, shape.channels, reading.integer("depth_multiplier"))
    return ops.Conv2d(depthwise_kernel(read_kernel(reading, "depthwise_kernel", sizes)), None, window, shape.channels)


@keras.reads(
    "Conv1DTranspose", "Conv2DTranspose", settings=f"{WINDOW} filters groups output_padding",
    makes=[ops.ConvTranspose2d], limits="dilation_rate: 1; groups: 1",
)  # fmt: skip
def transposed_convolution(reading: KerasReading) -> Value:
    activation = take_activation(reading)
    source = reading.map_input()
    shape = reading.builder.shape(source.node)
    window = read_window(reading)
    filters = reading.integer("filters")
    if window.dilation != ONE:
        rate = tuple(window.dilation)
        reading.refuse(f"a dilation_rate of {rate} in a transposed convolution is not supported", "use 1")
    if reading.integer("groups") != 1:
        reading.refuse("a transposed convolution in groups is not supported", "use groups=1")
    same = reading.same()
    extra = _output_padding(reading)
    if same:
        warn_of_theano(reading, window)
    height, width = (
        transposed_size(size, kernel, stride, more, same=same)
        for size, kernel, stride, more in zip(shape[:2], window.kernel, window.stride, extra, strict=True)
    )
    if height is None or width is None:
        hint = "leave output_padding at None"
        reading.misfit(f"with output_padding {extra}, no convolution would turn the output into the input again", hint)
    padding, output_padding = transposed_padding(shape, window, Pair(height, width))
    kernel = read_kernel(reading, "kernel", (*window.kernel, filters, shape.channels))
    weight = convolution_kernel(kernel, flip=is_flipped(reading), transposed=True)
    op = ops.ConvTranspose2d(weight, bias(reading, filters), window._replace(padding=padding), output_padding)
    return add_activated(reading, op, source.node, source.axes, activation)


@keras.reads(
    "Dense", settings="activation units use_bias", makes=[ops.Dense, ops.Conv2d],
    limits="at most three axes and the batch",
)  # fmt: skip
def dense(reading: KerasReading) -> Value:
    """Works on the last axis: a fully connected layer on a vector, a 1x1 convolution on a map."""
    activation = take_activation(reading)
    units = reading.integer("units")
    source = reading.input
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


def read_window(reading: KerasReading) -> Window:
    """Kernel, stride and dilation of a convolution; no padding yet."""
    return Window(reading.pair("kernel_size"), reading.pair("strides"), reading.pair("dilation_rate"))


def padded(reading: KerasReading, window: Window, shape: Shape) -> Window:
    """With the padding of the layer's `padding`: "same", "valid", or on rows "causal", which pads only the start."""
    if reading.layer.type == "Conv1D" and reading.take("padding") == "causal":
        return window._replace(padding=Padding(0, 0, window.extent.width - 1, 0))
    if not reading.same():
        return window
    warn_of_theano(reading, window)
    return window._replace(padding=same_padding(window, shape))


def transposed_size(size: int, kernel: int, stride: int, extra: int | None, *, same: bool) -> int | None:
    """Keras's rule for the output of a transposed convolution, along one axis; None where it cannot run.

    It runs if the convolution that it transposes makes an output of `size` from such an input.
    """
    reach = (size - 1) * stride + kernel
    if extra is not None:
        output = reach - 2 * (kernel // 2 if same else 0) + extra
    else:
        output = size * stride if same else max(size * stride, reach)
    back = -(-output // stride) if same else (output - kernel) // stride + 1
    return output if back == size else None


def transposed_padding(shape: Shape, window: Window, output: Pair) -> tuple[Padding, Pair]:
    """What is cut off a transposed convolution's full output, as "same" pads, and added at the bottom and right."""
    sides: list[int] = []
    added: list[int] = []
    for size, kernel, stride, target in zip(shape[:2], window.kernel, window.stride, output, strict=True):
        reach = (size - 1) * stride + kernel
        cut = max(reach - target, 0)
        sides += (cut // 2, cut - cut // 2)
        added.append(max(target - reach, 0))
    return Padding(*sides), Pair(*added)


def _output_padding(reading: KerasReading) -> tuple[int | None, int | None]:
    match reading.take("output_padding"):
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


def is_flipped(reading: KerasReading) -> bool:
    """Theano flips kernels when it convolves."""
    return reading.weights.backend == "theano"


# --- kernels -------------------------------------------------------------------------------------------------------------


def read_kernel(reading: KerasReading, role: str, shape: tuple[int, int, int, int]) -> Variable:
    """An array (height, width, in, out), which has no height in the file if the layer works on rows."""
    if not reading.is_1d:
        return reading.variable(role, shape)
    stored = reading.variable(role, shape[1:])
    return Variable(stored.name, shape, lambda index: stored.read(index[1:])[None])


def bias(reading: KerasReading, size: int) -> Constant | None:
    return reading.vector("bias", size) if reading.flag("use_bias", True) else None


def convolution_kernel(kernel: Variable, *, flip: bool = False, transposed: bool = False) -> Constant:
    """(height, width, in, out), or (height, width, out, in) if transposed, as (out, in, height, width)."""
    order = (2, 3, 0, 1) if transposed else (3, 2, 0, 1)

    def index(rows: slice) -> Index:
        return tuple(rows if axis == order[0] else slice(None) for axis in range(4))

    def turn(values: Array) -> Array:
        kernels = values.transpose(order)
        return np.ascontiguousarray(kernels[:, :, ::-1, ::-1] if flip else kernels)

    return constant(tuple(kernel.shape[axis] for axis in order), kernel, index, turn)


def depthwise_kernel(kernel: Variable) -> Constant:
    """(height, width, in, multiplier) as (in * multiplier, 1, height, width)."""
    height, width, inputs, multiplier = kernel.shape

    def read(rows: slice) -> Array:
        first = rows.start // multiplier
        channels = slice(first, -(-rows.stop // multiplier))
        values = kernel.read((slice(None), slice(None), channels, slice(None))).reshape(height, width, -1)
        values = values[..., rows.start - first * multiplier : rows.stop - first * multiplier]
        return np.ascontiguousarray(values.transpose(2, 0, 1)[:, None])

    return Constant((inputs * multiplier, 1, height, width), read).in_pieces()


def turned(matrix: Array) -> Array:
    """The transposed matrix in memory order, copied in pieces that fit the cache."""
    result = np.empty(matrix.shape[::-1], np.float32)
    for at in range(0, len(matrix), BLOCK):
        result[:, at : at + BLOCK] = np.ascontiguousarray(matrix[at : at + BLOCK]).T  # a file's rows lie far apart
    return result
