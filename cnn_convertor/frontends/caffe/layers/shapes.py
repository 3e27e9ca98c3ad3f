"""Layers that move a blob's elements, or leave some of them out."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from cnn_convertor.frontends.arithmetic import crop
from cnn_convertor.frontends.caffe.reading import CaffeBlob, CaffeReading, caffe
from cnn_convertor.frontends.nchw import Dims, text_of, with_length
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis

MOVES = [ops.TransposeReshape, ops.Reshape, ops.Identity]


@caffe.reads("Flatten", group="flatten_param", settings="axis end_axis", makes=[ops.Reshape, ops.Identity])
def read_flatten(reading: CaffeReading) -> CaffeBlob:
    x = reading.input
    first = reading.axis()
    last = reading.axis("end_axis")
    if first > last:
        raise reading.wrong(f"axis is {first}, after end_axis, which is {last}")
    return reading.reshape(x, (*x.dims[:first], math.prod(x.dims[first : last + 1]), *x.dims[last + 1 :]))


@caffe.reads("Reshape", group="reshape_param", settings="shape axis num_axes", makes=[ops.Reshape, ops.Identity])
def read_reshape(reading: CaffeReading) -> CaffeBlob:
    return reading.reshape(reading.input, _reshaped(reading, reading.input.dims))


def _reshaped(reading: CaffeReading, dims: Dims) -> Dims:
    """All axes after a Reshape, for a batch of one."""
    rank = len(dims)
    new = [int(dim) for dim in reading.take("shape").dim]
    start, count = reading.take_each("axis", "num_axes")
    start += rank + 1 if start < 0 else 0
    end = rank if count == -1 else start + count
    if not 0 <= start <= end <= rank:
        raise reading.wrong(f"axis and num_axes do not fit an input of {rank} axes")
    if start == 0 and new and new[0] == reading.batch:
        new[0] = 1  # the batch of the definition; ours is always one
    for index, dim in enumerate(new):
        if dim == 0:
            if start + index >= rank:
                raise reading.wrong("a 0 in the shape stands for an axis that the input does not have")
            new[index] = dims[start + index]
    result = [*dims[:start], *new, *dims[end:]]
    product = math.prod(dim for dim in result if dim != -1)
    if result.count(-1) == 1 and product and math.prod(dims) % product == 0:
        result[result.index(-1)] = math.prod(dims) // product
    if min(result, default=1) < 1 or math.prod(result) != math.prod(dims):
        raise reading.wrong(f"{text_of(dims)} cannot become {text_of(tuple(result))}")
    return tuple(result)


@caffe.reads("Permute", group="permute_param", settings="order", makes=MOVES)
def read_permute(reading: CaffeReading) -> CaffeBlob:
    """SSD's layer. Axes that are not named follow in their order."""
    x = reading.input
    order = reading.take("order")
    if len(set(order)) < len(order) or any(axis >= x.rank for axis in order):
        raise reading.wrong(f"the order {' '.join(map(str, order))} does not fit an input of {x.rank} axes")
    axes = (*order, *(axis for axis in range(x.rank) if axis not in order))
    return reading.permute(x, x.dims, axes, tuple(x.dims[axis] for axis in axes))


@caffe.reads("ShuffleChannel", group="shuffle_channel_param", settings="group", makes=MOVES)
def read_shuffle_channel(reading: CaffeReading) -> CaffeBlob:
    """ShuffleNet's layer: the first channel of each group, then the second of each, and so on."""
    x = reading.as_plain(reading.input)
    group = reading.take("group")
    height, width, channels = reading.shape(x)
    if group < 1 or channels % group:
        raise reading.wrong(f"{channels} channels do not make {group} groups")
    return reading.permute(x, (group, channels // group, height * width), (1, 0, 2), x.dims)


@caffe.reads("Slice", group="slice_param", settings="slice_dim axis slice_point", makes=[ops.Identity, ops.Crop])
def read_slice(reading: CaffeReading) -> list[CaffeBlob]:
    x = reading.input
    tops = reading.layer.tops
    if reading.gives("axis") and reading.gives("slice_dim"):
        raise reading.wrong('"axis" and "slice_dim" are both given')
    axis = reading.axis("slice_dim" if reading.gives("slice_dim") else "axis")
    length = x.dims[axis]
    points = reading.take("slice_point")
    if not points:
        if length % len(tops):
            raise reading.wrong(f"{length} elements on axis {axis} do not make {len(tops)} equal slices")
        points = tuple(range(length // len(tops), length, length // len(tops)))
    bounds = (0, *points, length)
    if len(points) != len(tops) - 1 or any(start >= stop for start, stop in pairwise(bounds)):
        raise reading.wrong(f"the slice points {list(points)} do not make {len(tops)} slices of {length} elements")
    if len(tops) == 1:
        return [reading.add(ops.Identity(), x)]
    return [
        _part(reading, x, {axis: (start, stop)}, name=top)
        if needed
        else CaffeBlob("", with_length(x.dims, axis, stop - start))
        for top, needed, (start, stop) in zip(tops, reading.needed, pairwise(bounds), strict=True)
    ]


def _part(reading: CaffeReading, x: CaffeBlob, bounds: Mapping[int, tuple[int, int]], name: str = "") -> CaffeBlob:
    """The elements within bounds: axis of the blob -> (start, stop)."""
    cut: dict[Axis, tuple[int, int]] = {}
    dims = x.dims
    for axis, (start, stop) in bounds.items():
        if (start, stop) != (0, dims[axis]):
            cut[reading.axis_of_map(x, axis)] = start, stop
            dims = with_length(dims, axis, stop - start)
    return reading.add(crop(reading.shape(x), cut), x, name=name, dims=dims)


@caffe.reads("Crop", group="crop_param", settings="axis offset", makes=[ops.Crop])
def read_crop(reading: CaffeReading) -> CaffeBlob:
    """The second input gives the size; its elements do not matter."""
    reading.check_inputs(2, "two inputs")
    x, like = reading.inputs
    first = reading.axis()
    offsets = _offsets(reading, reading.take("offset"), x.rank - first)
    if like.rank != x.rank:
        raise reading.wrong(f"an input of {x.rank} axes cannot be cropped to one of {like.rank}")
    bounds = {axis: (o, o + like.dims[axis]) for axis, o in zip(range(first, x.rank), offsets, strict=True)}
    if any(stop > x.dims[axis] for axis, (_, stop) in bounds.items()):
        at = text_of(tuple(offsets))
        raise reading.wrong(f"{text_of(like.dims)} at the offset {at} is not a part of {text_of(x.dims)}")
    return _part(reading, x, bounds)


def _offsets(reading: CaffeReading, offsets: Sequence[int], count: int) -> Sequence[int]:
    """One for each of `count` axes."""
    if len(offsets) not in (0, 1, count):
        raise reading.wrong(f"{len(offsets)} offsets are given for {count} axes")
    return offsets if len(offsets) == count else [offsets[0] if offsets else 0] * count
