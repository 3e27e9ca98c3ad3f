"""Layers that give a blob's elements other places, or leave some of them out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from cnn_convertor.frontends.caffe.blobs import Dims, text_of, with_length
from cnn_convertor.frontends.caffe.reading import Reading, Value, caffe
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Shape


@caffe.reads("Flatten")
def read_flatten(reading: Reading) -> Value:
    x = reading.input
    parameters = reading.parameters("flatten_param")
    first, last = reading.axis(parameters), reading.axis(parameters, "end_axis")
    if first > last:
        raise reading.wrong(f"axis is {first}, behind end_axis, which is {last}")
    return reading.reshape(x, (*x.dims[:first], math.prod(x.dims[first : last + 1]), *x.dims[last + 1 :]))


@caffe.reads("Reshape")
def read_reshape(reading: Reading) -> Value:
    return reading.reshape(reading.input, _reshaped(reading, reading.input.dims))


def _reshaped(reading: Reading, dims: Dims) -> Dims:
    """All axes after a Reshape, for a batch of one."""
    parameters = reading.parameters("reshape_param")
    rank = len(dims)
    new = [int(dim) for dim in parameters.take("shape").dim]
    start, count = parameters.take("axis"), parameters.take("num_axes")
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
    known = math.prod(dim for dim in result if dim != -1)
    if result.count(-1) == 1 and known and math.prod(dims) % known == 0:
        result[result.index(-1)] = math.prod(dims) // known
    if min(result, default=1) < 1 or math.prod(result) != math.prod(dims):
        raise reading.wrong(f"{text_of(dims)} cannot become {text_of(tuple(result))}")
    return tuple(result)


@caffe.reads("Permute")
def read_permute(reading: Reading) -> Value:
    """SSD's layer. Axes that are not named follow in their order."""
    x = reading.input
    order = reading.parameters("permute_param").take("order")
    if len(set(order)) < len(order) or any(axis >= x.rank for axis in order):
        raise reading.wrong(f"the order {' '.join(map(str, order))} does not fit an input of {x.rank} axes")
    axes = (*order, *(axis for axis in range(x.rank) if axis not in order))
    return reading.permute(x, x.dims, axes, tuple(x.dims[axis] for axis in axes))


@caffe.reads("ShuffleChannel")
def read_shuffle_channel(reading: Reading) -> Value:
    """ShuffleNet's layer: of each group the first channel, then of each the second, and so on."""
    x = reading.as_plain(reading.input)
    group = reading.parameters("shuffle_channel_param").take("group")
    height, width, channels = reading.shape(x)
    if group < 1 or channels % group:
        raise reading.wrong(f"{channels} channels do not make {group} groups")
    return reading.permute(x, (group, channels // group, height * width), (1, 0, 2), x.dims)


@caffe.reads("Slice")
def read_slice(reading: Reading) -> list[Value]:
    x, tops = reading.input, reading.layer.tops
    parameters = reading.parameters("slice_param")
    if "axis" in parameters and "slice_dim" in parameters:
        raise reading.wrong('"axis" and "slice_dim" are both given')
    axis = reading.axis(parameters, "slice_dim" if "slice_dim" in parameters else "axis")
    length, points = x.dims[axis], parameters.take("slice_point")
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
        else Value("", with_length(x.dims, axis, stop - start))
        for top, needed, (start, stop) in zip(tops, reading.needed, pairwise(bounds), strict=True)
    ]


def _part(reading: Reading, x: Value, bounds: dict[int, tuple[int, int]], name: str = "") -> Value:
    """The elements within bounds: axis -> (start, stop)."""
    start, stop, dims = [0, 0, 0], list(reading.shape(x)), x.dims
    for axis, (first, last) in bounds.items():
        if (first, last) != (0, dims[axis]):
            place: Axis = reading.axis_of_map(x, axis)
            start[place], stop[place] = first, last
            dims = with_length(dims, axis, last - first)
    return reading.add(ops.Crop(Shape(*start), Shape(*stop)), x, name=name, dims=dims)


@caffe.reads("Crop")
def read_crop(reading: Reading) -> Value:
    """The second input gives the size; its elements do not matter."""
    if len(reading.inputs) != 2:
        raise reading.wrong(f"the layer needs two inputs, not {len(reading.inputs)}")
    x, like = reading.inputs
    parameters = reading.parameters("crop_param")
    first = reading.axis(parameters)
    offsets = _offsets(reading, parameters.take("offset"), x.rank - first)
    if like.rank != x.rank:
        raise reading.wrong(f"an input of {x.rank} axes cannot be cropped to one of {like.rank}")
    bounds = {axis: (o, o + like.dims[axis]) for axis, o in zip(range(first, x.rank), offsets, strict=True)}
    if any(stop > x.dims[axis] for axis, (_, stop) in bounds.items()):
        raise reading.wrong(
            f"{text_of(like.dims)} at the offset {text_of(tuple(offsets))} is not a part of {text_of(x.dims)}"
        )
    return _part(reading, x, bounds)


def _offsets(reading: Reading, given: Sequence[int], count: int) -> Sequence[int]:
    """One for each of `count` axes."""
    if len(given) not in (0, 1, count):
        raise reading.wrong(f"{len(given)} offsets are given for {count} axes")
    return given if len(given) == count else [given[0] if given else 0] * count
