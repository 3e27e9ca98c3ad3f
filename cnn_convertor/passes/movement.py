"""What a transpose or reshape does to runs of elements that stay together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import mul
from typing import NamedTuple, TypeAlias

from cnn_convertor.ir.ops import Axis, Op, Order, Reshape, Shape, TransposeReshape

Run: TypeAlias = tuple[int, int, int]  # identifies an axis of an array whose elements keep their order and neighbors
Runs: TypeAlias = tuple[Run, ...]
COUNTED = {Order.CHW: (Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH), Order.HWC: (Axis.HEIGHT, Axis.WIDTH, Axis.CHANNELS)}


class Movement(NamedTuple):
    """The runs that are each axis of the map before and after, longest distance first, and the length of each run."""

    before: Mapping[Axis, Runs]
    after: Mapping[Axis, Runs]
    lengths: Mapping[Run, int]


def cut(lengths: Sequence[int], other_lengths: Sequence[int]) -> list[list[int]] | None:
    """The lengths, each as a product of lengths that the other axes have as well; None where there are none.

    Both are axes of one array: 6x4 and 2x12 give [[2, 3], [4]].
    """
    ends = list(accumulate(lengths, mul, initial=1))
    every = sorted({*ends, *accumulate(other_lengths, mul, initial=1)})
    if any(end % start for start, end in pairwise(every)):
        return None
    pieces = []
    for first, last in pairwise(ends):
        inside = [end for end in every if first <= end <= last]
        pieces.append([end // start for start, end in pairwise(inside)])
    return pieces


def movement_of(op: Op, x: Shape) -> Movement | None:
    """What the operator does to a map; None if it is not a transpose or reshape, or does not move whole runs."""
    match op:
        case TransposeReshape(dims=dims, axes=axes, shape=shape, order=order):
            pass
        case Reshape(shape=shape, order=order) if order is not Order.MEMORY:
            dims = (x.size,)
            axes = (0,)
        case _:
            return None
    counted = COUNTED[order]
    pieces = cut(dims, [x[axis] for axis in counted])
    if pieces is None:
        return None
    moved = [(axis, place) for axis in axes for place in range(len(pieces[axis]))]
    parts = cut([pieces[axis][place] for axis, place in moved], [shape[axis] for axis in counted])
    if parts is None:
        return None
    lengths = {}
    for (axis, place), part in zip(moved, parts, strict=True):
        for index, length in enumerate(part):
            lengths[axis, place, index] = length
    return Movement(_grouped(sorted(lengths), lengths, x, counted), _grouped(lengths, lengths, shape, counted), lengths)


def _grouped(
    runs: Iterable[Run], lengths: Mapping[Run, int], shape: Shape, counted: Sequence[Axis]
) -> Mapping[Axis, Runs]:
    """The runs that make each axis of a map."""
    remaining = iter(runs)
    groups = {}
    for axis in counted:
        group: list[Run] = []
        while math.prod(lengths[run] for run in group) < shape[axis]:
            group.append(next(remaining))
        groups[axis] = tuple(group)
    return groups
