"""Shapes of feature maps, windows and padding."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple


class ShapeError(ValueError):
    """An operator's inputs do not fit; the text says how, in the user's terms."""


class Shape(NamedTuple):
    """A feature map."""

    height: int
    width: int
    channels: int

    @property
    def size(self) -> int:
        return math.prod(self)

    @property
    def is_vector(self) -> bool:
        return self.height == self.width == 1

    def with_length(self, axis: Axis, length: int) -> Shape:
        """The shape with another length along one axis."""
        return Shape(*(length if index == axis else old for index, old in enumerate(self)))

    def __str__(self) -> str:
        return "x".join(map(str, self))


class SameShape:
    """An operator whose output has the shape of its input."""

    __slots__ = ()

    def output_shape(self, x: Shape) -> Shape:
        return x


class Axis(IntEnum):
    """The axes of a map, as indices into a Shape."""

    HEIGHT = 0
    WIDTH = 1
    CHANNELS = 2


class Pair(NamedTuple):
    height: int
    width: int

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"


class Padding(NamedTuple):
    top: int
    bottom: int
    left: int
    right: int

    def __add__(self, other: object) -> Padding:
        assert isinstance(other, Padding)
        return Padding(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def around(self, shape: Shape) -> Pair:
        """The padded height and width."""
        return Pair(shape.height + self.top + self.bottom, shape.width + self.left + self.right)


LARGEST_WINDOW = (1 << 16) - 1  # more than the height and width of any map
LARGEST_INPUT = 1 << 25  # numbers: more than any image for a device has, few enough to hold a weight for each
NO_PADDING = Padding(0, 0, 0, 0)
NO_MORE = Pair(0, 0)
ONE = Pair(1, 1)


class Window(NamedTuple):
    """How a kernel slides over a map."""

    kernel: Pair
    stride: Pair = ONE
    dilation: Pair = ONE
    padding: Padding = NO_PADDING

    @property
    def extent(self) -> Pair:
        """The size of the dilated kernel."""
        return Pair(*((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)))

    def slide(self, shape: Shape, *, channels: int, extra: Padding = NO_PADDING) -> Shape:
        """The output shape for an input of `shape`, padded by the window's padding and `extra`."""
        pad = self.padding + extra
        padded = pad.around(shape)
        extent = self.extent
        if min(*self.kernel, *self.stride, *self.dilation) < 1:
            raise ShapeError("kernel, stride and dilation must be at least 1")
        if max(*self.kernel, *self.stride, *self.dilation, *pad) > LARGEST_WINDOW:
            raise ShapeError(f"kernel, stride, dilation and padding must be at most {LARGEST_WINDOW}")
        if padded.height < extent.height or padded.width < extent.width:
            raise ShapeError(f"the padded input {padded} is smaller than the kernel {extent}")
        height, width = ((p - e) // s + 1 for p, e, s in zip(padded, extent, self.stride, strict=True))
        return Shape(height, width, channels)
