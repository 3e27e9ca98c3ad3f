"""How maps hold Caffe's blobs of any number of axes: in the order channels, height, width, for a batch of one."""

import math
from itertools import accumulate
from operator import mul
from typing import TypeAlias

from cnn_convertor.ir.ops import Axis, Matrices, Shape

Dims: TypeAlias = tuple[int, ...]

COUNTED = (Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)


def _batch_axes(dims: Dims) -> int:
    """How many axes at the front are the batch: one, unless a layer has changed it."""
    return 1 if dims[:1] == (1,) else 0


def shape_of(dims: Dims) -> Shape:
    """The map that holds a blob: the axes after the batch are channels, height and width; missing ones have length 1.

    Of more than three axes, all but the last two together are the channels.
    """
    inner = dims[_batch_axes(dims) :]
    if len(inner) > len(COUNTED):
        inner = (math.prod(inner[:-2]), *inner[-2:])
    channels, height, width = (*inner, 1, 1, 1)[:3]
    return Shape(height, width, channels)


def letters_of(dims: Dims) -> str:
    """The axes after the batch as letters of "CHW", for at most three; empty for more."""
    count = len(dims) - _batch_axes(dims)
    return "CHW"[:count] if count <= len(COUNTED) else ""


def axis_of(dims: Dims, axis: int) -> Axis | None:
    """The map's axis that is an axis of the blob; None for the batch, and for one of several that make the channels."""
    position = axis - _batch_axes(dims)
    count = len(dims) - _batch_axes(dims)
    more = max(count - len(COUNTED), 0)
    return COUNTED[position - more] if position >= 0 and (not more or position > more) else None


def matrices_of(dims: Dims) -> Matrices:
    """How the map of a blob of two axes or more holds the matrices of the last two."""
    inner = dims[_batch_axes(dims) :]
    match len(inner):
        case 0 | 1:
            return Matrices(1, Axis.WIDTH, Axis.HEIGHT, Axis.CHANNELS)
        case 2:
            return Matrices(1, Axis.WIDTH, Axis.CHANNELS, Axis.HEIGHT)
        case _:
            return Matrices(math.prod(inner[:-2]), Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)


def is_plain(dims: Dims) -> bool:
    """Whether the axes are batch, channels, height and width, or the first of these."""
    return len(dims) <= 4 and dims[:1] == (1,)


def with_length(dims: Dims, axis: int, length: int) -> Dims:
    """The same dims with another length along one axis."""
    return (*dims[:axis], length, *dims[axis + 1 :])


def around(dims: Dims, axis: int) -> tuple[int, int, int]:
    """How many elements lie before an axis, along it, and behind it."""
    return math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])


def is_regrouped(dims: Dims, other: Dims) -> bool:
    """Whether one shape is the other with neighboring axes joined: 2x36 of 2x4x3x3. The elements keep their order."""
    ends, other_ends = ({*accumulate(sizes, mul), 1} for sizes in (dims, other))
    return math.prod(dims) == math.prod(other) and (ends <= other_ends or other_ends <= ends)


def text_of(dims: Dims) -> str:
    return "x".join(map(str, dims)) or "one number"
