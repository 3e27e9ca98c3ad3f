"""Nodes that scale and shift, by trained statistics or by the input's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.builder import prefix_of
from cnn_convertor.frontends.onnx.operators.batches import for_each_image, images_as_channels
from cnn_convertor.frontends.onnx.operators.elementwise import broadcast, on_channels, scaled
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, as_float, onnx
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Axis

ALL = (Axis.HEIGHT, Axis.WIDTH, Axis.CHANNELS)


@onnx.reads(
    "BatchNormalization", settings="epsilon spatial training_mode", ignores="momentum is_test", makes=[ops.BatchNorm]
)
def read_batch_normalization(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    if x.rank < 2:
        raise reading.wrong("the input has no channels")
    if reading.integer("spatial", 1) == 0:
        raise reading.unsupported("statistics for each pixel cannot be converted")
    gives_statistics = reading.opset < 14 and any(reading.node.outputs[1:])
    if reading.integer("training_mode", 0) or gives_statistics:
        raise reading.in_training()
    scale, shift, mean, variance = (_vector(reading, at, x.dims[1]) for at in range(1, 5))
    epsilon = reading.number("epsilon", 1e-5)
    return on_channels(reading, x, 1, lambda: ops.BatchNorm(mean, variance, scale, shift, epsilon))


NAMES = ("input", "scale", "bias", "mean", "variance")


def _vector(reading: OnnxReading, position: int, size: int) -> Constant:
    stored = reading.needed_stored(position, NAMES[position])
    return reading.constant(stored, (size,), NAMES[position])


@onnx.reads("InstanceNormalization", settings="epsilon", makes=[ops.MeanVarianceNorm, ops.Scale])
@images_as_channels
def read_instance_normalization(reading: OnnxReading) -> OnnxTensor:
    x = reading.map
    epsilon = reading.number("epsilon", 1e-5)
    normal = reading.add(ops.MeanVarianceNorm((Axis.HEIGHT, Axis.WIDTH), epsilon), x, part="normal")
    channels = x.dims[1] // reading.images
    scale, shift = (for_each_image(reading, _vector(reading, at, channels)) for at in (1, 2))
    return reading.add(ops.Scale(scale, shift), normal)


@onnx.reads("GroupNormalization", settings="epsilon num_groups stash_type", makes=[ops.MeanVarianceNorm, ops.Scale])
@images_as_channels
def read_group_normalization(reading: OnnxReading) -> OnnxTensor:
    x = reading.map
    epsilon = reading.number("epsilon", 1e-5)
    groups = reading.integer("num_groups", 0)
    reading.take("stash_type")
    channels = x.dims[1] // reading.images
    if groups < 1 or channels % groups:
        raise reading.wrong(f"{channels} channels do not make {groups} groups")
    normal = reading.add(ops.MeanVarianceNorm(ALL, epsilon, groups * reading.images), x, part="normal")
    size = channels if reading.opset >= 21 else groups
    every = np.arange(channels) // (channels // size)
    scale, shift = (for_each_image(reading, _vector(reading, at, size).take_rows(every)) for at in (1, 2))
    return reading.add(ops.Scale(scale, shift), normal)


@onnx.reads("LayerNormalization", settings="axis epsilon stash_type", makes=[ops.MeanVarianceNorm, ops.Scale])
def read_layer_normalization(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    epsilon = reading.number("epsilon", 1e-5)
    reading.take("stash_type")
    first = reading.axis_in(x.dims, reading.integer("axis", -1))
    return _by_input(reading, standardized(reading, x, range(first, x.rank), epsilon))


@onnx.reads("RMSNormalization", settings="axis epsilon stash_type", makes=[ops.L2Normalize, ops.Scale])
def read_rms_normalization(reading: OnnxReading) -> OnnxTensor:
    """x / sqrt(mean of squares + epsilon), as x / sqrt(sum of squares + size * epsilon) * sqrt(size)."""
    x = reading.input
    epsilon = reading.number("epsilon", 1e-5)
    reading.take("stash_type")
    first = reading.axis_in(x.dims, reading.integer("axis", -1))
    size = math.prod(x.dims[first:])
    normal = _normalized(reading, x, range(first, x.rank), lambda axes: ops.L2Normalize(axes, size * epsilon))
    return _by_input(reading, normal, size**0.5)


def _by_input(reading: OnnxReading, normal: OnnxTensor, more: float = 1.0) -> OnnxTensor:
    """Times the scale and `more`, plus the bias if there is one."""
    factor = as_float(reading.needed_stored(1, "the scale").load()) * np.float32(more)
    shift = reading.numbers(2, "the bias")
    dims = broadcast(reading, normal.dims, factor.shape, () if shift is None else shift.shape)
    if dims != normal.dims:
        raise reading.wrong(f"a scale of {nchw.text_of(factor.shape)} does not fit {nchw.text_of(normal.dims)}")
    return scaled(reading, normal, factor, shift)


@onnx.reads("Standardize", settings="axes epsilon", makes=[ops.MeanVarianceNorm])
def read_standardize(reading: OnnxReading) -> OnnxTensor:
    """The form of a LayerNorm that is spelled out; see idioms."""
    axes = [reading.axis_in(reading.input.dims, axis) for axis in reading.integers("axes", ()) or ()]
    return standardized(reading, reading.input, axes, reading.number("epsilon", 0.0), part="")


@onnx.reads("MeanVarianceNormalization", settings="axes", makes=[ops.MeanVarianceNorm])
def read_mean_variance_normalization(reading: OnnxReading) -> OnnxTensor:
    axes = reading.integers("axes", (0, 2, 3)) or ()
    x = reading.input
    axes = [reading.axis_in(x.dims, axis) for axis in axes]
    if len({*axes}) < len(axes):
        raise reading.wrong(f"the axes {axes} repeat")
    return standardized(reading, x, axes, 1e-9, part="", epsilon_outside=True)


def standardized(
    reading: OnnxReading,
    x: OnnxTensor,
    axes: Sequence[int],
    epsilon: float,
    part: str = "normal",
    *,
    epsilon_outside: bool = False,
) -> OnnxTensor:
    """(x - mean) / deviation, over some axes."""
    return _normalized(
        reading, x, axes, lambda axes: ops.MeanVarianceNorm(axes, epsilon, epsilon_outside=epsilon_outside), part
    )


def _normalized(
    reading: OnnxReading,
    x: OnnxTensor,
    axes: Sequence[int],
    over: Callable[[tuple[Axis, ...]], ops.Op],
    part: str = "normal",
) -> OnnxTensor:
    """A normalization over some axes of an array. over: the operator, over axes of a map."""
    inside = prefix_of(part)
    counted_axes = [axis for axis in axes if x.dims[axis] != 1] or list(axes)[:1]
    counted, map_axes = reading.on_map_axes(x, counted_axes, part)
    if {axis for axis in Axis if reading.shape(counted)[axis] > 1} <= {*map_axes}:
        map_axes = ALL
    is_whole = counted.dims == x.dims
    name = part if is_whole else f"{inside}along"
    normal = reading.add(over(map_axes), counted, part=name, dims=counted.dims)
    return normal if is_whole else reading.reshape(normal, x.dims, part=part)


@onnx.reads("LRN", settings="alpha beta bias size", makes=[ops.LocalResponseNorm], limits="size: odd")
def read_lrn(reading: OnnxReading) -> OnnxTensor:
    size = reading.integer("size", 0)
    if size % 2 == 0 or size < 1:
        raise reading.unsupported(f"a neighborhood of {size} channels cannot be converted: it must be odd")
    alpha, beta, bias = (
        reading.number(name, default) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    return reading.add(ops.LocalResponseNorm(size, alpha, beta, bias), reading.map)


@onnx.reads("LpNormalization", settings="axis p", makes=[ops.L2Normalize], limits="p: 2")
def read_lp_normalization(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    if (p := reading.integer("p", 2)) != 2:
        raise reading.unsupported(f"a norm of order {p} cannot be converted")
    axis = reading.axis_in(x.dims, reading.integer("axis", -1))
    counted, axes = reading.on_map_axes(x, [axis], "")
    normal = reading.add(ops.L2Normalize(axes, 1e-24, at_least=True), counted, part="normal", dims=counted.dims)
    return reading.reshape(normal, x.dims)
