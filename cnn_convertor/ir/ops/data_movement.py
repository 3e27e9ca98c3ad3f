"""Operators that move elements: concatenate, slice, pad, reshape, transpose, resample."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from cnn_convertor.ir.ops.geometry import NO_PADDING, Axis, Padding, Pair, Shape, ShapeError


@dataclass(frozen=True, slots=True)
class Concat:
    """Concatenation along an axis."""

    axis: Axis = Axis.CHANNELS

    def output_shape(self, *xs: Shape) -> Shape:
        first, *differing = set(xs)  # a dense network joins many equal ones
        rest = first.with_length(self.axis, 0)
        if any(other.with_length(self.axis, 0) != rest for other in differing):
            raise ShapeError(f"cannot join maps of {', '.join(map(str, xs))} on {self.axis.name.lower()}")
        return xs[0].with_length(self.axis, sum(x[self.axis] for x in xs))


@dataclass(frozen=True, slots=True)
class Pad:
    """Zero padding."""

    padding: Padding

    def output_shape(self, x: Shape) -> Shape:
        if min(self.padding) < 0:
            raise ShapeError("a padding below zero")
        return Shape(*self.padding.around(x), x.channels)


@dataclass(frozen=True, slots=True)
class Upsample:
    """Nearest-neighbor upsampling by whole factors."""

    factor: Pair

    def output_shape(self, x: Shape) -> Shape:
        if min(self.factor) < 1:
            raise ShapeError("an upsampling factor must be at least 1")
        return Shape(x.height * self.factor.height, x.width * self.factor.width, x.channels)


class Order(Enum):
    """The element order a reshape preserves."""

    HWC = "HWC"  # Keras, channels_last
    CHW = "CHW"  # Caffe; Keras, channels_first
    MEMORY = "memory"  # device memory order: no data moves. Only in legalized graphs


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements, in the given order, as another shape. Flatten is a reshape to a vector."""

    shape: Shape
    order: Order

    def output_shape(self, x: Shape) -> Shape:
        if x.size != self.shape.size:
            raise ShapeError(f"cannot reshape {x} ({x.size} elements) to {self.shape} ({self.shape.size})")
        return self.shape


class Interpolation(Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"


class Sampling(Enum):
    """The input position of output pixel i, with ratio = input size / output size."""

    HALF_PIXEL = "(i + 0.5) * ratio - 0.5"
    CORNERS = "i * (input size - 1) / (output size - 1)"  # 0 where the output size is 1
    ASYMMETRIC = "i * ratio"


@dataclass(frozen=True, slots=True)
class Resize:
    """Resampling to another size; border pixels extend outwards.

    The nearest pixel of position p is floor(p), or floor(p + 0.5) with HALF_PIXEL and CORNERS.
    """

    size: Pair
    interpolation: Interpolation
    sampling: Sampling

    def output_shape(self, x: Shape) -> Shape:
        if min(self.size) < 1:
            raise ShapeError(f"{self.size} is not a size")
        return Shape(*self.size, x.channels)


class Outside(Enum):
    """What lies outside a map that is sampled."""

    ZEROS = "zeros"
    BORDER = "the pixel of the border next to it"
    REFLECTED = "the map in a mirror"


@dataclass(frozen=True, slots=True)
class GridSample:
    """Samples a map at computed positions between pixels: x, then y, from -1 to 1, are two channels of a second map.

    corners: whether -1 and 1 are the middles of the outer pixels; else they are their outer edges. images: how many lie as
    groups of channels in both maps. The nearest of two pixels that are equally near has an even number.
    """

    interpolation: Interpolation
    outside: Outside = Outside.ZEROS
    corners: bool = False
    images: int = 1

    def output_shape(self, x: Shape, grid: Shape) -> Shape:
        if self.images < 1 or x.channels % self.images or grid.channels != 2 * self.images:
            raise ShapeError(
                f"{x} and the places {grid} are not {self.images} images, with two channels of places each"
            )
        return Shape(grid.height, grid.width, x.channels)


@dataclass(frozen=True, slots=True)
class Crop:
    """A slice along each axis: from start up to, excluding, stop, every stride-th element."""

    start: Shape
    stop: Shape
    stride: Shape = Shape(1, 1, 1)

    def output_shape(self, x: Shape) -> Shape:
        if not all(0 <= a < b <= n and s > 0 for a, b, n, s in zip(self.start, self.stop, x, self.stride, strict=True)):
            raise ShapeError(f"{self.start} to {self.stop} is not a part of {x}")
        return Shape(*((b - a - 1) // s + 1 for a, b, s in zip(self.start, self.stop, self.stride, strict=True)))


@dataclass(frozen=True, slots=True)
class Gather:
    """The elements at all combinations of some rows, columns and channels; of -1, the filling number.

    An empty tuple stands for all of them, in order.
    """

    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    channels: tuple[int, ...] = ()
    filling: float = 0.0

    def output_shape(self, x: Shape) -> Shape:
        lists = (self.rows, self.columns, self.channels)
        if any(not -1 <= place < size for places, size in zip(lists, x, strict=True) for place in places):
            raise ShapeError(f"elements outside of {x} are asked for")
        return Shape(*(len(places) or size for places, size in zip(lists, x, strict=True)))


@dataclass(frozen=True, slots=True)
class TransposeReshape:
    """Reshape to `dims` (elements in `order`), transpose, reshape to `shape`: permute, pixel shuffle, channel shuffle.

    Axis i of the transposed array is axis axes[i] of the array, as in numpy.
    """

    dims: tuple[int, ...]
    axes: tuple[int, ...]
    shape: Shape
    order: Order

    def output_shape(self, x: Shape) -> Shape:
        assert sorted(self.axes) == list(range(len(self.dims)))
        if not x.size == math.prod(self.dims) == self.shape.size:
            raise ShapeError(f"cannot rearrange {x} ({x.size} elements) to {self.shape} ({self.shape.size})")
        return self.shape


@dataclass(frozen=True, slots=True)
class SpaceToDepth:
    """Zero padding (negative: cropping), then each block of pixels becomes one pixel.

    Output channel (y * block.width + x) * C + c is channel c of the block's pixel (y, x).
    """

    block: Pair
    padding: Padding = NO_PADDING

    def output_shape(self, x: Shape) -> Shape:
        padded = self.padding.around(x)
        block = self.block
        if padded.height % block.height or padded.width % block.width:
            raise ShapeError(f"{padded} pixels are not blocks of {block}")
        return Shape(padded.height // block.height, padded.width // block.width, x.channels * math.prod(block))


@dataclass(frozen=True, slots=True)
class ChannelSlice:
    """Some channels of a map, as a view of device memory. Only in legalized graphs."""

    first: int
    count: int

    def output_shape(self, x: Shape) -> Shape:
        assert 0 <= self.first < self.first + self.count <= x.channels
        return Shape(x.height, x.width, self.count)


DataMovementOp: TypeAlias = (
    Concat
    | Pad
    | Upsample
    | Reshape
    | Resize
    | GridSample
    | Crop
    | Gather
    | TransposeReshape
    | SpaceToDepth
    | ChannelSlice
)  # the operators of this file
