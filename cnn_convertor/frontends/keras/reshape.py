"""Layers that rearrange the elements of a tensor."""

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.reading import KerasReading, keras
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Pair

MOVES = (ops.TransposeReshape, ops.Reshape, ops.Identity)


@keras.reads("Flatten", settings="data_format", makes=MOVES)
def flatten(reading: KerasReading) -> Value:
    """To a vector; with channels_first, Keras first moves the channels to the end."""
    source = reading.input
    sizes = reading.sizes(source)
    order = tuple(range(len(sizes)))
    if reading.data_format() is Axes.CHW:
        order = (*order[1:], 0)
    return reading.lay_out(source, sizes, order, (math.prod(sizes),), Axes.C)


@keras.reads("Reshape", settings="target_shape", makes=MOVES)
def reshape(reading: KerasReading) -> Value:
    return reshaped(reading, reading.input, reading.take("target_shape"))


def reshaped(reading: KerasReading, source: Value, target: Any) -> Value:
    sizes = reading.sizes(source)
    return reading.lay_out(
        source, sizes, tuple(range(len(sizes))), *_laid_out(reading, source, _target(reading, target, math.prod(sizes)))
    )


def _laid_out(reading: KerasReading, source: Value, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], Axes]:
    """The sizes and layout of a reshaped tensor."""
    kept = source.axes in (Axes.HWC, Axes.CHW, Axes.WC, Axes.CW) and source.axes.rank == len(sizes) + 1
    if kept:
        return sizes, source.axes
    axes = reading.map_axes(len(sizes) + 1)
    return sizes, Axes.WC if axes is Axes.HW else axes


@keras.reads("Permute", settings="dims", makes=MOVES)
def permute(reading: KerasReading) -> Value:
    order = reading.take("dims")
    sizes = reading.sizes(reading.input)
    if not is_order(order, range(1, len(sizes) + 1)):
        reading.misfit(f"dims is {order!r}, not an order of the axes 1 to {len(sizes)}")
    return permuted(reading, reading.input, tuple(axis - 1 for axis in order))


def is_order(order: object, axes: Sequence[int]) -> TypeGuard[list[int]]:
    """Whether a setting lists all axes, in any order."""
    return isinstance(order, list) and all(type(axis) is int for axis in order) and sorted(order) == list(axes)


def permuted(reading: KerasReading, source: Value, order: tuple[int, ...]) -> Value:
    """order: of the axes without the batch, counted from 0."""
    sizes = reading.sizes(source)
    axes = reading.map_axes(len(sizes) + 1)
    axes = Axes.WC if axes is Axes.HW else axes
    return reading.lay_out(source, sizes, order, tuple(sizes[axis] for axis in order), axes)


@keras.reads("RepeatVector", settings="n", makes=[ops.Upsample], limits="of a vector")
def repeat_vector(reading: KerasReading) -> Value:
    if reading.input.axes is not Axes.C:
        reading.misfit("the layer repeats a vector", "put a Flatten before it")
    return Value(reading.add(ops.Upsample(Pair(1, reading.integer("n")))), Axes.WC)


def _target(reading: KerasReading, target: Any, size: int) -> tuple[int, ...]:
    """The target shape, with its open size (-1) filled in."""
    if not isinstance(target, list) or not all(isinstance(n, int) or n is None for n in target):
        reading.refuse(f"target_shape is {target!r}, not a list of sizes")
    sizes = [-1 if n is None else n for n in target]
    product = math.prod(n for n in sizes if n != -1)
    if not sizes or sizes.count(-1) > 1 or any(n < 1 and n != -1 for n in sizes):
        reading.refuse(f"target_shape is {tuple(target)}, which has several open sizes, or a size below 1")
    if size % product or (-1 not in sizes and size != product):
        reading.misfit(f"{size} elements cannot be reshaped to {tuple(target)}")
    return tuple(size // product if n == -1 else n for n in sizes)
