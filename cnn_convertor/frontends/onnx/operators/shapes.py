"""Nodes that move numbers, repeat them, or leave some out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.arithmetic import crop
from cnn_convertor.frontends.builder import prefix_of
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.folding import flattened, reshaped, slice_of, split_sizes
from cnn_convertor.frontends.onnx.operators.elementwise import broadcast, expanded, scaled, widened
from cnn_convertor.frontends.onnx.operators.indexing import MOST_INDICES
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, Value, as_float, onnx, whole_numbers
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.frontends.onnx.versions import is_known
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Padding, Pair, Shape

MOVES = [ops.TransposeReshape, ops.Reshape, ops.Identity]
LARGEST = 1 << 15  # height or width of a map, far more than any device has
LARGEST_CONSTANT = 1 << 24  # elements
MOST_PARTS = 256  # pieces that one node may be cut into


@onnx.reads("Flatten", settings="axis", makes=MOVES)
def read_flatten(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    axis = reading.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise reading.wrong(f"axis {axis} does not exist: the input has {x.rank} axes")
    return reading.reshape(x, flattened(x.dims, axis))


@onnx.reads("Reshape", settings="allowzero", makes=MOVES, limits="a constant shape")
def read_reshape(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    shape = reading.integers_at(1, "the shape")
    if shape is None:
        raise reading.wrong("the shape is missing")
    try:
        dims = reshaped(x.dims, shape, zero_is_zero=bool(reading.integer("allowzero", 0)))
    except (ValueError, IndexError) as error:
        hint = "export the model for a batch of one" if shape and shape[0] > 1 else "check the sizes of the inputs"
        raise reading.wrong(f"the reshape does not fit: {error}", hint) from None
    return reading.reshape(x, dims)


@onnx.reads("Squeeze", settings="axes", makes=MOVES)
def read_squeeze(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    listed = reading.integers_of("axes", 1)
    if listed is None:
        axes = [at for at, n in enumerate(x.dims) if n == 1]
    else:
        axes = [reading.axis_in(x.dims, at) for at in listed]
    if any(x.dims[at] != 1 for at in axes):
        raise reading.wrong(f"the axes {axes} of {nchw.text_of(x.dims)} cannot be removed: their lengths are not 1")
    return reading.reshape(x, tuple(n for at, n in enumerate(x.dims) if at not in axes))


@onnx.reads("Unsqueeze", settings="axes", makes=MOVES)
def read_unsqueeze(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    listed = reading.integers_of("axes", 1)
    rank = x.rank + len(listed or ())
    positions = sorted(reading.axis_in((1,) * rank, at) for at in listed or ())
    if len(set(positions)) < len(positions):
        raise reading.wrong(f"the axes {listed} repeat")
    dims = list(x.dims)
    for position in positions:
        dims.insert(position, 1)
    return reading.reshape(x, tuple(dims))


@onnx.reads("Transpose", settings="perm", makes=MOVES)
def read_transpose(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    axes = reading.integers("perm", tuple(reversed(range(x.rank)))) or []
    if sorted(axes) != list(range(x.rank)):
        raise reading.wrong(f"perm {axes} does not fit an input of {x.rank} axes")
    return reading.transpose(x, axes)


@onnx.reads("DepthToSpace", settings="blocksize mode", makes=MOVES)
def read_depth_to_space(reading: OnnxReading) -> OnnxTensor:
    x = reading.map
    b = reading.integer("blocksize", 0)
    mode = reading.text("mode", "DCR")
    if b < 1 or x.rank != 4 or x.dims[1] % (b * b) or mode not in ("DCR", "CRD"):
        raise reading.wrong(f"{nchw.text_of(x.dims)} are not pixels of {b}x{b} blocks, in the mode {mode}")
    _, channels, height, width = x.dims
    depth = channels // (b * b)
    dims = (1, depth, height * b, width * b)
    if mode == "DCR":
        return reading.permute(x, (b, b, depth, height, width), (2, 3, 0, 4, 1), dims)
    return reading.permute(x, (depth, b, b, height, width), (0, 3, 1, 4, 2), dims)


@onnx.reads("SpaceToDepth", settings="blocksize mode", makes=[ops.SpaceToDepth, ops.TransposeReshape])
def read_space_to_depth(reading: OnnxReading) -> OnnxTensor:
    x = reading.map
    b = reading.integer("blocksize", 0)
    if b < 1 or x.rank != 4:
        raise reading.wrong(f"blocks of {b} do not exist")
    if reading.text("mode", "DCR") == "CRD":
        _, channels, height, width = x.dims
        if height % b or width % b:
            raise reading.wrong(f"{height}x{width} pixels are not blocks of {b}")
        split = (channels, height // b, b, width // b, b)
        return reading.permute(x, split, (0, 2, 4, 1, 3), (1, channels * b * b, height // b, width // b))
    return reading.add(ops.SpaceToDepth(Pair(b, b)), x, integers=x.integers)


@onnx.reads("Focus", settings="blocksize order", makes=[ops.SpaceToDepth, ops.TransposeReshape])
def read_focus(reading: OnnxReading) -> OnnxTensor:
    """The form of a SpaceToDepth that is spelled out as slices; see idioms."""
    x = reading.map
    b = reading.integer("blocksize", 0)
    order = reading.text("order", "rows")
    height, width, channels = reading.shape(x)
    if height % b or width % b:
        raise reading.wrong(f"{height}x{width} pixels are not blocks of {b}: the slices differ in size")
    if order == "rows":
        return reading.add(ops.SpaceToDepth(Pair(b, b)), x)
    split = (channels, height // b, b, width // b, b)
    return reading.permute(x, split, (4, 2, 0, 1, 3), (1, channels * b * b, height // b, width // b))


# --- parts ---------------------------------------------------------------------------------------------------------------


def part_of(
    reading: OnnxReading,
    x: OnnxTensor,
    axis: int,
    start: int,
    stop: int,
    step: int = 1,
    *,
    name: str = "",
    part: str = "",
) -> OnnxTensor:
    """Every step-th element from start to before stop, along an axis."""
    dims = nchw.with_length(x.dims, axis, -(-(stop - start) // step))
    shape, target = reading.shape(x), nchw.shape_of(dims)
    leads = step == 1 and math.prod(x.dims[:axis]) == 1 and nchw.axis_of(x.dims, axis) is None
    if leads and shape[:2] == target[:2]:  # of several axes that make the channels, the first one
        length = shape.channels // x.dims[axis]
        cut = crop(shape, {Axis.CHANNELS: (start * length, stop * length)})
        return reading.add(cut, x, name=name, part=part, dims=dims, integers=x.integers)
    counted, (on,) = reading.on_map_axes(x, [axis], part)
    cut = crop(reading.shape(counted), {on: (start, stop)})
    cut = ops.Crop(cut.start, cut.stop, Shape(1, 1, 1).with_length(on, step))
    return reading.add(cut, counted, name=name, part=part, dims=dims, integers=x.integers)


@onnx.reads("Slice", settings="starts ends axes", makes=[ops.Crop, ops.Gather, ops.Identity], limits="constant bounds")
def read_slice(reading: OnnxReading) -> Value:
    x = reading.input
    starts = reading.integers_of("starts", 1)
    ends = reading.integers_of("ends", 2)
    if starts is None or ends is None:
        raise reading.wrong("the bounds are missing")
    listed = reading.integers_of("axes", 3)
    axes = list(range(len(starts))) if listed is None else listed
    steps = reading.integers_at(4, "steps")
    all_steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(all_steps):
        raise reading.wrong("the bounds are not for as many axes")
    cuts = []
    backward: list[tuple[int, range]] = []
    lengths = list(x.dims)
    for start, end, at, step in zip(starts, ends, axes, all_steps, strict=True):
        axis = reading.axis_in(x.dims, at)
        if step == 0:
            raise reading.wrong("a step is 0")
        bounds = slice_of(start, end, step, x.dims[axis])
        indices = range(x.dims[axis])[bounds]
        lengths[axis] = len(indices)
        if step < 0:
            backward.append((axis, indices))
        elif (bounds.start, bounds.stop, step) != (0, x.dims[axis], 1):
            cuts.append((axis, bounds.start, bounds.stop, step))
    if 0 in lengths:
        return reading.empty(tuple(lengths))
    for axis, indices in backward:
        x = picked(reading, x, axis, indices, f"backward{axis}")
    if not cuts:
        return reading.add(ops.Identity(), x, dims=x.dims, integers=x.integers)
    if all(nchw.axis_of(x.dims, axis) is not None for axis, *_ in cuts):
        return _cut_at_once(reading, x, cuts)
    for count, cut in enumerate(cuts):
        x = part_of(reading, x, *cut, part="" if count == len(cuts) - 1 else f"cut{count}")
    return x


def _cut_at_once(reading: OnnxReading, x: OnnxTensor, cuts: Sequence[tuple[int, int, int, int]]) -> OnnxTensor:
    dims = list(x.dims)
    steps = Shape(1, 1, 1)
    bounds = {}
    for axis, start, stop, step in cuts:
        on = nchw.axis_of(x.dims, axis)
        assert on is not None
        bounds[on] = (start, stop)
        steps = steps.with_length(on, step)
        dims[axis] = -(-(stop - start) // step)
    cut = crop(reading.shape(x), bounds)
    return reading.add(ops.Crop(cut.start, cut.stop, steps), x, dims=tuple(dims), integers=x.integers)


@onnx.reads("Split", settings="axis split num_outputs", makes=[ops.Crop])
def read_split(reading: OnnxReading) -> list[Value]:
    x = reading.input
    names = reading.node.outputs
    axis = reading.axis_in(x.dims, reading.integer("axis", 0))
    reading.take("num_outputs")
    try:
        sizes = split_sizes(reading.integers_of("split", 1), x.dims[axis], len(names))
    except ValueError as error:
        raise reading.wrong(str(error)) from None
    if sum(sizes) != x.dims[axis] or len(sizes) != len(names) or min(sizes) < 0:
        raise reading.wrong(f"{x.dims[axis]} elements do not make parts of {sizes}")
    parts: list[Value] = []
    bounds = pairwise(accumulate(sizes, initial=0))
    for name, needed, (start, stop) in zip(names, reading.needed, bounds, strict=True):
        dims = nchw.with_length(x.dims, axis, stop - start)
        if start == stop:
            parts.append(reading.empty(dims))
        elif needed:
            parts.append(part_of(reading, x, axis, start, stop, name=name))
        else:
            parts.append(OnnxTensor("", dims))
    return parts


@onnx.reads("Gather", settings="axis", makes=[ops.Crop, ops.Gather], limits="constant indices")
def read_gather(reading: OnnxReading) -> Value:
    x = reading.input
    shape = reading.needed_stored(1, "the indices").dims
    indices = reading.integers_at(1, "the indices")
    axis = reading.axis_in(x.dims, reading.integer("axis", 0))
    size = x.dims[axis]
    dims = x.dims[:axis] + shape + x.dims[axis + 1 :]
    if not indices:
        return reading.empty(dims)
    if min(indices) < -size or max(indices) >= size:
        raise reading.wrong(f"the indices do not exist: the axis has {size} elements")
    return reading.reshape(picked(reading, x, axis, [n % size for n in indices], "taken"), dims)


def picked(reading: OnnxReading, x: OnnxTensor, axis: int, indices: Sequence[int], part: str) -> OnnxTensor:
    """The elements of these indices along an axis."""
    first = indices[0]
    if list(indices) == list(range(first, first + len(indices))):
        return part_of(reading, x, axis, first, first + len(indices), part=part)
    return gathered(reading, x, axis, indices, part)


def gathered(
    reading: OnnxReading, x: OnnxTensor, axis: int, indices: Sequence[int], part: str, filling: float = 0.0
) -> OnnxTensor:
    """The elements of these indices along an axis; of -1, the filling number."""
    if len(indices) > MOST_INDICES:
        raise reading.unsupported(f"{len(indices):,} indices are more than {MOST_INDICES:,}")
    dims = nchw.with_length(x.dims, axis, len(indices))
    counted, (on,) = reading.on_map_axes(x, [axis], part)
    rows, columns, channels = (tuple(indices) if each is on else () for each in Axis)
    gather = ops.Gather(rows, columns, channels, filling)
    return reading.add(gather, counted, part=part, dims=dims, integers=x.integers)


# --- more of the same ----------------------------------------------------------------------------------------------------


@onnx.reads("Concat", settings="axis", makes=[ops.Concat, ops.Identity, ops.Crop, ops.Upsample, ops.Scale])
def read_concat(reading: OnnxReading) -> OnnxTensor:
    """Parts of length 0 join nothing."""
    like = next(value for value in reading.all_inputs() if isinstance(value, OnnxTensor))
    axis = reading.axis_in(like.dims, reading.integer("axis", 1))
    tensors: list[OnnxTensor] = []
    lengths: list[Dims] = []
    for at, value in enumerate(reading.inputs):
        is_empty = isinstance(value, Stored) and value.size == 0
        if isinstance(value, Stored) and not is_empty:
            tensors.append(constant_tensor(reading, like, value, f"constant{at}"))
        elif not is_empty:
            tensors.append(reading.tensor(at))
        if value is not None:
            lengths.append(value.dims)
    if len({nchw.with_length(dims, axis, 0) for dims in lengths}) != 1 or len({*map(len, lengths)}) != 1:
        sizes = ", ".join(map(nchw.text_of, lengths))
        raise reading.wrong(f"{sizes} cannot be joined on axis {axis}", "check the sizes of the node's inputs")
    return joined(reading, tensors, axis, "")


def constant_tensor(reading: OnnxReading, like: OnnxTensor, stored: Stored, part: str) -> OnnxTensor:
    """A constant as a tensor: an element of another one, repeated, times 0, plus the constant."""
    if stored.size > LARGEST_CONSTANT:
        raise reading.unsupported(f"a constant of {stored.size:,} elements cannot be joined to a map")
    numbers = as_float(stored.load())
    flat = reading.reshape(like, (1, math.prod(like.dims)), part=f"{part}/elements")
    first = part_of(reading, flat, 1, 0, 1, part=f"{part}/first")
    one = reading.reshape(first, (1,) * numbers.ndim, part=f"{part}/one")
    wide = expanded(reading, one, numbers.shape, f"{part}/repeated")
    return scaled(reading, wide, np.float32(0), numbers, part)._replace(integers=whole_numbers(stored))


def joined(reading: OnnxReading, tensors: Sequence[OnnxTensor], axis: int, part: str) -> OnnxTensor:
    first = tensors[0]
    inside = prefix_of(part)
    dims = nchw.with_length(first.dims, axis, sum(x.dims[axis] for x in tensors))
    integers = whole_numbers(*tensors)
    if len(tensors) == 1:
        return reading.add(ops.Identity(), first, part=part, dims=dims, integers=integers)
    # An array of one axis more than the batch may be of length 1 on it, and change its map once it is longer.
    on = nchw.axis_of(first.dims, axis)
    all_axes = [nchw.axis_of(dims, axis)] + [nchw.axis_of(x.dims, axis) for x in tensors]
    if on is None or any(each is not on for each in all_axes):
        counted = []
        for at, x in enumerate(tensors):
            counted.append(reading.reshape(x, (1, *nchw.around(x.dims, axis)), part=f"{inside}counted{at}"))
        tensors = counted
        on = Axis.HEIGHT
    return reading.add(ops.Concat(on), *tensors, part=part, dims=dims, integers=integers)


@onnx.reads("Expand", makes=[ops.Upsample, ops.Reshape], limits="a constant shape")
def read_expand(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    shape = reading.integers_at(1, "the shape")
    if shape is None or min(shape, default=1) < 1:
        raise reading.wrong("the shape is not a shape")
    dims = broadcast(reading, x.dims, tuple(shape))
    return expanded(reading, widened(reading, x, len(dims), "widened"), dims)


@onnx.reads("Tile", makes=[ops.Concat, ops.Identity], limits="constant repeats")
def read_tile(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    times = reading.integers_at(1, "the repeats") or []
    if len(times) != x.rank or min(times) < 1 or max(times) > MOST_PARTS:
        raise reading.wrong(f"{times} repeats do not fit {nchw.text_of(x.dims)}")
    for axis, count in enumerate(times):
        if count > 1:
            x = joined(reading, [x] * count, axis, f"axis{axis}")
    return reading.add(ops.Identity(), x, dims=x.dims)


# --- padding -------------------------------------------------------------------------------------------------------------


@onnx.reads(
    "Pad", settings="mode pads value", makes=[ops.Pad, ops.Crop, ops.Gather],
    limits="constant pads",
)  # fmt: skip
def read_pad(reading: OnnxReading) -> Value:
    """Constant, reflect, edge or wrap; numbers below zero crop."""
    x = reading.input
    mode = reading.text("mode", "constant")
    pads = _pads(reading, x)
    lengths = list(x.dims)
    for axis, sides in pads.items():
        lengths[axis] += sum(sides)
    if 0 in lengths and all(max(sides) <= 0 for sides in pads.values()):
        _padding_value(reading)
        return reading.empty(tuple(lengths))
    for axis, sides in pads.items():
        if min(sides) < 0:
            cut = [max(-side, 0) for side in sides]
            if sum(cut) >= x.dims[axis]:
                raise reading.wrong("the padding below zero leaves nothing")
            x = part_of(reading, x, axis, cut[0], x.dims[axis] - cut[1], part=f"cropped{axis}")
    more = {axis: [max(side, 0) for side in sides] for axis, sides in pads.items() if max(sides) > 0}
    if mode == "constant":
        x = _constant_padding(reading, x, more)
    elif mode in SOURCES:
        _padding_value(reading)  # it has no effect
        for axis, (before, after) in more.items():
            indices = [SOURCES[mode](at, x.dims[axis]) for at in range(-before, x.dims[axis] + after)]
            if min(indices) < 0 or max(indices) >= x.dims[axis]:
                raise reading.wrong(f"a padding of {before} and {after} is too large for {x.dims[axis]} elements")
            x = picked(reading, x, axis, indices, f"padded{axis}")
    else:
        raise reading.wrong(f"the mode {mode} does not exist")
    return reading.add(ops.Identity(), x, dims=x.dims)


# Which element of an axis of a size is at a position before or after it.
SOURCES = {
    "reflect": lambda at, size: -at if at < 0 else 2 * (size - 1) - at if at >= size else at,
    "edge": lambda at, size: min(max(at, 0), size - 1),
    "wrap": lambda at, size: at % size,
}


def _pads(reading: OnnxReading, x: OnnxTensor) -> dict[int, list[int]]:
    """Axis -> elements before and after it, where there are any."""
    amounts = reading.integers_of("pads", 1)
    listed = reading.integers_at(3, "the axes")
    axes = list(range(x.rank)) if listed is None else [reading.axis_in(x.dims, at) for at in listed]
    if amounts is None or len(amounts) != 2 * len(axes) or max(map(abs, amounts), default=0) > LARGEST:
        raise reading.wrong(f"the pads {amounts} do not fit {len(axes)} axes")
    if len({*axes}) < len(axes):
        raise reading.wrong(f"the axes {axes} repeat")
    pairs = zip(axes, amounts[: len(axes)], amounts[len(axes) :], strict=True)
    return {axis: [before, after] for axis, before, after in pairs if before or after}


def _constant_padding(reading: OnnxReading, x: OnnxTensor, more: dict[int, list[int]]) -> OnnxTensor:
    value = _padding_value(reading)
    if value == 0:
        return _zero_padding(reading, x, more, "zeros")
    for axis, (before, after) in more.items():
        indices = [-1] * before + list(range(x.dims[axis])) + [-1] * after
        x = gathered(reading, x, axis, indices, f"filled{axis}", value)
    return x


def _padding_value(reading: OnnxReading) -> float:
    if is_known("Pad.value", reading.opset):
        value = reading.number("value", 0.0)
    else:
        numbers = reading.numbers(2, "the value")
        value = 0.0 if numbers is None or not numbers.size else float(numbers.reshape(-1)[0])
    return value


def _zero_padding(reading: OnnxReading, x: OnnxTensor, more: dict[int, list[int]], part: str) -> OnnxTensor:
    dims = list(x.dims)
    sides = {}
    apart = []  # axes that are not height or width of the map
    for axis, amounts in more.items():
        on = nchw.axis_of(x.dims, axis)
        if on in (Axis.HEIGHT, Axis.WIDTH):
            sides[on] = amounts
            dims[axis] += sum(amounts)
        else:
            apart.append(axis)
    if sides:  # together, and first: a longer batch changes the map
        padding = Padding(*sides.get(Axis.HEIGHT, [0, 0]), *sides.get(Axis.WIDTH, [0, 0]))
        x = reading.add(ops.Pad(padding), x, part=f"{part}/map" if apart else part, dims=tuple(dims))
    for axis in apart:
        before, after = more[axis]
        dims[axis] += before + after
        flat = reading.reshape(x, (1, *nchw.around(x.dims, axis)), part=f"{part}/counted{axis}")
        name = part if axis == apart[-1] else f"{part}/axis{axis}"
        x = reading.add(ops.Pad(Padding(before, after, 0, 0)), flat, part=name, dims=tuple(dims))
    return x
