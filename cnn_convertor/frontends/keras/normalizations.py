"""Layers that scale and shift, by arrays, by settings or by the input's own statistics."""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import Problem, warn
from cnn_convertor.frontends import arithmetic
from cnn_convertor.frontends.builder import prefix_of
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.merge import ALIKE, combined
from cnn_convertor.frontends.keras.reading import EPSILON, KerasReading, keras
from cnn_convertor.frontends.keras.variables import ADDONS, BATCH_NORMALIZATIONS
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array
from cnn_convertor.ir.ops import Axis, BinaryOp, Op, Order, Shape

EPSILON_OUTSIDE = (
    "the package of this layer is not in the file: it is read as keras_contrib's, which adds epsilon to the deviation, where "
    "other packages add it to the variance"
)
Numbers: TypeAlias = NDArray[np.floating[Any]] | float | None


@keras.reads(
    *BATCH_NORMALIZATIONS, settings="renorm axis scale center epsilon",
    ignores="momentum fused synchronized renorm_clipping renorm_momentum", makes=[ops.BatchNorm],
    limits="renorm: False",
)  # fmt: skip
def batch_normalization(reading: KerasReading) -> Value:
    if reading.flag("renorm", False):
        reading.refuse("batch renormalization is not supported", "train without renorm")
    axis = _axis(reading, reading.take("axis", -1))
    size = reading.shape[axis]
    op = ops.BatchNorm(
        mean=reading.vector("moving_mean", size),
        variance=reading.vector("moving_variance", size),
        gamma=reading.vector("gamma", size) if reading.flag("scale", True) else None,
        beta=reading.vector("beta", size) if reading.flag("center", True) else None,
        epsilon=reading.number("epsilon", 1e-3),
    )
    return _along(reading, op, axis)


def _axis(reading: KerasReading, position: object) -> Axis:
    axis = reading.input.axes.at(position)
    if axis is None:
        reading.misfit(
            f"normalization of axis {position} of a tensor of {len(reading.sizes(reading.input)) + 1} axes is not supported"
        )
    return axis


def _along(reading: KerasReading, op: Op, axis: Axis) -> Value:
    """An operator on channels, along another axis, which becomes the channels and is moved back."""
    if axis is Axis.CHANNELS:
        return reading.input.computed_by(reading.add(op))
    shape = reading.shape
    order = (*(number for number in range(3) if number != axis), int(axis))
    turned = Shape(*(shape[number] for number in order))
    node = reading.add(ops.TransposeReshape(tuple(shape), order, turned, Order.HWC), part="turned")
    node = reading.add(op, node, part="scaled")
    back = tuple(order.index(number) for number in range(3))
    return reading.input.computed_by(reading.add(ops.TransposeReshape(tuple(turned), back, shape, Order.HWC), node))


def scale_and_shift(reading: KerasReading, node: str, factor: Numbers, shift: Numbers, part: str = "") -> Value:
    """node * factor + shift, with arrays that fit the axes of the input, without the batch."""
    value = reading.input
    sizes = reading.sizes(reading.input)
    arrays = [_widened(1.0 if factor is None else factor, len(sizes))]
    arrays += [] if shift is None else [_widened(shift, len(sizes))]
    longer = {axis for array in arrays for axis, size in enumerate(array.shape) if size > 1}
    if value.axes is not Axes.MANY and longer <= {value.axes.value.find("C")}:
        op = arithmetic.scale_and_shift(reading.shape.channels, *(array.reshape(-1) for array in arrays))
        return value.computed_by(reading.add(op, node, part=part))
    inside = prefix_of(part)
    counted = reading.counted(value.computed_by(node), part=f"{inside}counted")
    every = (np.broadcast_to(array, sizes).reshape(-1) for array in arrays)
    counted = reading.add(arithmetic.scale_and_shift(math.prod(sizes), *every), counted, part=f"{inside}scaled")
    return reading.counted_back(counted, value)


def _widened(values: NDArray[np.floating[Any]] | float, rank: int) -> Array:
    """With axes of length 1 at the front."""
    array = np.asarray(values, np.float32)
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


# --- with the input's own statistics -------------------------------------------------------------------------------------


def map_axes_of(reading: KerasReading, setting: Any) -> tuple[list[int], tuple[Axis, ...]]:
    """The positions of axes in the tensor, without the batch, as they are listed; and the map's axes, sorted."""
    rank = len(reading.sizes(reading.input)) + 1
    items = setting if isinstance(setting, list) else [setting]
    map_axes = [reading.input.axes.at(item) for item in items]
    if not map_axes or None in map_axes or len({*map_axes}) < len(map_axes):
        reading.misfit(f"normalization over the axes {setting} of a tensor of {rank} axes is not supported")
    positions = [int(item) % rank - 1 for item in items]
    axes = {axis for axis in map_axes if axis is not None}
    everything = {Axis("HWC".index(letter)) for letter in reading.input.axes.value}
    if everything == axes:  # axes of length 1 change nothing, and all axes together are simple
        axes = set(Axis)
    return positions, tuple(sorted(axes))


def _parameters(reading: KerasReading, positions: list[int], roles: dict[str, bool]) -> list[Array | None]:
    """The layer's arrays, which have the axes at these positions, with length 1 along the others.

    Where the axes are not in order, Keras reshapes the arrays, and does not transpose them.
    """
    sizes = reading.sizes(reading.input)
    wide = tuple(size if position in positions else 1 for position, size in enumerate(sizes))
    lengths = tuple(sizes[position] for position in positions)
    return [reading.whole(role, lengths).reshape(wide) if present else None for role, present in roles.items()]


@keras.reads(
    "LayerNormalization", settings="rms_scaling axis epsilon scale center", makes=[ops.MeanVarianceNorm, ops.Scale],
    limits="rms_scaling: False",
)  # fmt: skip
def layer_normalization(reading: KerasReading) -> Value:
    if reading.flag("rms_scaling", False):
        reading.refuse("rms_scaling divides without subtracting the mean", "use an RMSNormalization layer")
    positions, axes = map_axes_of(reading, reading.take("axis", -1))
    op = ops.MeanVarianceNorm(axes, reading.number("epsilon", 1e-3))
    roles = {"gamma": reading.flag("scale", True), "beta": reading.flag("center", True)}
    return _then_scaled(reading, op, *_parameters(reading, positions, roles))


@keras.reads(
    "RMSNormalization", settings="axis epsilon", makes=[ops.L2Normalize, ops.Scale], limits="axis: the last axes",
)  # fmt: skip
def rms_normalization(reading: KerasReading) -> Value:
    """x / sqrt(mean of squares + epsilon), which is sqrt(count) * x / sqrt(sum of squares + count * epsilon)."""
    positions, axes = map_axes_of(reading, reading.take("axis", -1))
    rank = len(reading.sizes(reading.input))
    if positions != list(range(rank - len(positions), rank)):
        reading.misfit("its scale only fits the last axes, for any setting `axis`", "use axis=-1")
    count = math.prod(reading.sizes(reading.input)[position] for position in positions)
    op = ops.L2Normalize(axes, reading.number("epsilon", 1e-6) * count)
    (scale,) = _parameters(reading, positions, {"scale": True})
    assert scale is not None
    return _then_scaled(reading, op, scale * np.float32(math.sqrt(count)), None)


@keras.reads(
    "GroupNormalization", *ADDONS, settings="axis groups epsilon scale center", makes=[ops.MeanVarianceNorm, ops.Scale],
    limits="axis: the channels",
)  # fmt: skip
def group_normalization(reading: KerasReading) -> Value:
    axis = reading.take("axis", -1)
    positions, along = map_axes_of(reading, axis)
    if along != (Axis.CHANNELS,) and reading.input.axes is not Axes.C:
        reading.misfit(f"groups along axis {axis}, which is not the channels, are not supported", "use axis=-1")
    channels = reading.shape.channels
    groups = reading.take("groups", 32)
    if reading.layer.type.endswith("InstanceNormalization"):
        groups = -1
    groups = channels if groups == -1 else reading.integer("groups", 32)
    if channels % groups:
        reading.misfit(f"{channels} channels cannot be cut into {groups} groups")
    op = ops.MeanVarianceNorm(tuple(Axis), reading.number("epsilon", 1e-3), groups)
    roles = {"gamma": reading.flag("scale", True), "beta": reading.flag("center", True)}
    return _then_scaled(reading, op, *_parameters(reading, positions, roles))


@keras.reads(
    "InstanceNormalization", settings="axis epsilon scale center", makes=[ops.MeanVarianceNorm, ops.Scale],
    limits="axis: the channels, or None",
)  # fmt: skip
def instance_normalization(reading: KerasReading) -> Value:
    """Of keras_contrib: each channel, or for axis None each map, by its mean and its deviation + epsilon."""
    axis = reading.take("axis")
    rank = len(reading.sizes(reading.input))
    along = tuple(Axis)
    size = 1
    positions: list[int] = []
    if axis is not None:
        along = (Axis.HEIGHT, Axis.WIDTH)
        positions, axes = map_axes_of(reading, axis)
        if axes != (Axis.CHANNELS,) or rank == 1:
            reading.misfit(
                f"the normalization along axis {axis}, which is not a map's channels, is not supported", "use axis=-1"
            )
        size = reading.shape.channels
    warn(
        Problem("DV215", EPSILON_OUTSIDE, reading.origin, "compare the results with those of the code that trained it")
    )
    op = ops.MeanVarianceNorm(along, reading.number("epsilon", 1e-3), epsilon_outside=True)
    wide = tuple(size if position in positions else 1 for position in range(rank))
    present = {"gamma": reading.flag("scale", True), "beta": reading.flag("center", True)}
    arrays = [reading.whole(role, (size,)).reshape(wide) if present[role] else None for role in present]
    return _then_scaled(reading, op, *arrays)


@keras.reads("UnitNormalization", settings="axis", makes=[ops.L2Normalize])
def unit_normalization(reading: KerasReading) -> Value:
    _, axes = map_axes_of(reading, reading.take("axis", -1))
    return reading.input.computed_by(reading.add(ops.L2Normalize(axes, smallest_sum(reading), at_least=True)))


def smallest_sum(reading: KerasReading) -> float:
    """Of squares, below which a vector does not get the length of 1. Keras 3 limits the length, Keras 2 the sum."""
    return 1e-12 if reading.version < 3 else 1e-24


def _then_scaled(reading: KerasReading, op: Op, factor: Numbers, shift: Numbers) -> Value:
    if factor is None and shift is None:
        return reading.input.computed_by(reading.add(op))
    return scale_and_shift(reading, reading.add(op, part="normal"), factor, shift)


# --- with numbers from the settings --------------------------------------------------------------------------------------


@keras.reads("Rescaling", settings="scale offset", makes=[ops.Scale], limits="arrays that fit the input")
def rescaling(reading: KerasReading) -> Value:
    scale = reading.numbers("scale", reading.take("scale", 1.0))
    offset = reading.numbers("offset", reading.take("offset", 0.0))
    rank = len(reading.sizes(reading.input))
    if reading.input.axes is Axes.CHW and scale.ndim == 1:
        scale = scale.reshape(-1, 1, 1)
    if max(scale.ndim, offset.ndim) > rank:
        problem = f"arrays of {scale.ndim} and {offset.ndim} axes scale a tensor of {rank}"
        reading.refuse(problem, "use one number a channel")
    _fits(reading, scale, offset)
    return scale_and_shift(reading, reading.input.node, scale, offset if np.any(offset) else None)


def _fits(reading: KerasReading, *arrays: Array) -> None:
    """Refuse arrays that do not fit the input."""
    sizes = reading.sizes(reading.input)
    for array in arrays:
        if any(n not in (1, size) for n, size in zip(array.shape[::-1], sizes[::-1], strict=False)):
            reading.misfit(f"an array of {array.shape} does not fit a tensor of {sizes}")


@keras.reads("Normalization", settings="axis mean variance invert", makes=[ops.Scale])
def normalization(reading: KerasReading) -> Value:
    """(x - mean) / deviation, or its inverse; mean and variance are arrays or settings."""
    sizes = reading.sizes(reading.input)
    axis = reading.take("axis", -1)
    items = [] if axis is None else axis if isinstance(axis, list) else [axis]
    if not all(type(item) is int and abs(item) <= len(sizes) for item in items):
        reading.refuse(f"axis is {axis!r}, not axes of a tensor", "use axis=-1")
    positions = sorted(item % (len(sizes) + 1) - 1 for item in items)
    mean, variance = (_statistics(reading, role, positions) for role in ("mean", "variance"))
    deviation = np.maximum(np.sqrt(variance), np.float32(EPSILON))
    if reading.flag("invert", False):
        return scale_and_shift(reading, reading.input.node, deviation, mean)
    return scale_and_shift(reading, reading.input.node, 1 / deviation, -mean / deviation)


def _statistics(reading: KerasReading, role: str, positions: list[int]) -> Array:
    sizes = reading.sizes(reading.input)
    wide = tuple(size if position in positions else 1 for position, size in enumerate(sizes))
    lengths = tuple(sizes[position] for position in positions if 0 <= position < len(sizes))
    if len({*positions} & {*range(len(sizes))}) < len(positions):
        reading.misfit("the layer normalizes axes that its input does not have")
    setting = reading.take(role)
    if setting is None:
        return reading.whole(role, lengths).reshape(wide)
    values = reading.numbers(role, setting)
    if math.prod(values.shape) not in (1, math.prod(lengths)):
        reading.misfit(f"{role} holds {values.size} numbers; the input needs {math.prod(lengths)}")
    return np.broadcast_to(values.reshape(-1), (math.prod(lengths),)).reshape(wide).astype(np.float32)


# --- of keras.applications -----------------------------------------------------------------------------------------------


@keras.reads("LayerScale", settings="projection_dim", ignores="init_values", makes=[ops.Scale])
def layer_scale(reading: KerasReading) -> Value:
    """Of ConvNeXt: x * gamma."""
    size = reading.sizes(reading.input)[-1]
    if (channels := reading.take("projection_dim", size)) != size:
        reading.misfit(f"projection_dim is {channels}, but the input has {size} channels")
    return scale_and_shift(reading, reading.input.node, reading.whole("gamma", (size,)), None)


@keras.reads("CustomScaleLayer", settings="scale", makes=[ops.Scale, ops.Add, ops.Binary], limits=ALIKE)
def custom_scale(reading: KerasReading) -> Value:
    """Of InceptionResNetV2: x + scale * y."""
    if len(reading.inputs) != 2:
        reading.misfit(f"the layer takes two inputs, not {len(reading.inputs)}")
    first, second = reading.inputs
    scale = arithmetic.scale_and_shift(reading.builder.shape(second.node).channels, reading.number("scale", 1.0))
    node = reading.add(scale, second.node, part="scaled")
    return combined(reading, BinaryOp.ADD, [first, second.computed_by(node)])
