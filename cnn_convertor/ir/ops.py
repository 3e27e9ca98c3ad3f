"""The operators that a network is made of, each with the rule for its output's shape.

Maps are (height, width, channels); the batch is always one. A vector of n values is the map 1 x 1 x n.
An operator's `output_shape` raises `ShapeError` when its inputs do not fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.ir.constant import Constant


class ShapeError(ValueError):
    """The inputs of an operator do not fit it; says how, in the user's terms."""


class Shape(NamedTuple):
    """A feature map."""

    height: int
    width: int
    channels: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self)

    @property
    def is_vector(self) -> bool:
        return self.height == self.width == 1

    def __str__(self) -> str:
        return "x".join(map(str, self))


class Pair(NamedTuple):
    height: int
    width: int


class Padding(NamedTuple):
    top: int
    bottom: int
    left: int
    right: int

    def __add__(self, other: object) -> Padding:
        assert isinstance(other, Padding)
        return Padding(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


NO_PADDING = Padding(0, 0, 0, 0)
NO_MORE = Pair(0, 0)
ONE = Pair(1, 1)


class Window(NamedTuple):
    """How a kernel moves over a map."""

    kernel: Pair
    stride: Pair = ONE
    dilation: Pair = ONE
    padding: Padding = NO_PADDING

    @property
    def extent(self) -> Pair:
        """What the dilated kernel spans."""
        return Pair(*((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)))

    def slide(self, shape: Shape, *, channels: int, extra: Padding = NO_PADDING) -> Shape:
        """Output shape of sliding over `shape`, padded by the window's padding and `extra`."""
        pad = self.padding + extra
        padded = Pair(shape.height + pad.top + pad.bottom, shape.width + pad.left + pad.right)
        if min(self.kernel) < 1 or min(self.stride) < 1 or min(self.dilation) < 1:
            raise ShapeError("kernel, stride and dilation must be at least 1")
        if padded.height < self.extent.height or padded.width < self.extent.width:
            raise ShapeError(
                f"the padded input {padded.height}x{padded.width} is smaller than the kernel {self.extent.height}x{self.extent.width}"
            )
        height, width = ((p - e) // s + 1 for p, e, s in zip(padded, self.extent, self.stride, strict=True))
        return Shape(height, width, channels)


# --- activation functions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relu:
    """max(x, 0) + slope * min(x, 0)"""

    slope: float = 0.0


@dataclass(frozen=True, slots=True)
class Relu6:
    """min(max(x, 0), 6)"""


@dataclass(frozen=True, slots=True)
class PRelu:
    """max(x, 0) + slopes[channel] * min(x, 0); slopes: (C,)"""

    slopes: Constant


@dataclass(frozen=True, slots=True)
class Elu:
    """x for x > 0, exp(x) - 1 otherwise"""


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """1 / (1 + exp(-x))"""


@dataclass(frozen=True, slots=True)
class Tanh:
    """tanh(x)"""


Function: TypeAlias = Relu | Relu6 | PRelu | Elu | Sigmoid | Tanh


def never_decreases(function: Function | None) -> bool:
    """Whether taking a maximum before the function gives the same as taking it after."""
    match function:
        case Relu(slope=slope):
            return slope >= 0
        case PRelu(slopes=slopes):
            return bool(np.all(slopes.load() >= 0))
        case _:
            return True


def never_negative(function: Function | None) -> bool:
    """Whether the function's results are all >= 0."""
    match function:
        case Relu(slope=slope):
            return slope == 0
        case Relu6() | Sigmoid():
            return True
        case _:
            return False


# --- operators -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Input:
    shape: Shape

    def output_shape(self) -> Shape:
        if min(self.shape) < 1:
            raise ShapeError(f"the input size {self.shape} is not a size")
        return self.shape


@dataclass(frozen=True, slots=True)
class Identity:
    """Passes its input on: dropout at inference, Split, a linear activation."""

    def output_shape(self, x: Shape) -> Shape:
        return x


@dataclass(frozen=True, slots=True)
class Conv2d:
    """Convolution (cross-correlation, as every framework has it).

    weight: (O, I / groups, kernel height, kernel width), padding is zeros. bias: (O,) or None.
    """

    weight: Constant
    bias: Constant | None
    window: Window
    groups: int = 1
    activation: Function | None = None

    @property
    def is_depthwise(self) -> bool:
        """One kernel a channel."""
        return self.weight.shape[1] == 1 and self.groups == self.weight.shape[0] > 1

    def output_shape(self, x: Shape) -> Shape:
        out, per_group, *kernel = self.weight.shape
        assert tuple(kernel) == tuple(self.window.kernel)
        if x.channels != per_group * self.groups or out % self.groups:
            raise ShapeError(
                f"kernels for {per_group * self.groups} channels in {self.groups} groups meet an input of {x.channels}"
            )
        return self.window.slide(x, channels=out)


@dataclass(frozen=True, slots=True)
class ConvTranspose2d:
    """Transposed convolution: input pixel (y, x) adds input * kernel at output (y, x) * stride - padding.

    weight: (O, I / groups, kernel height, kernel width), not rotated. bias: (O,) or None.
    output_padding: rows and columns that the output has beyond what the kernel reaches (bottom and right).
    """

    weight: Constant
    bias: Constant | None
    window: Window
    output_padding: Pair = NO_MORE
    groups: int = 1
    activation: Function | None = None

    @property
    def is_depthwise(self) -> bool:
        """One kernel a channel."""
        return self.weight.shape[1] == 1 and self.groups == self.weight.shape[0] > 1

    def output_shape(self, x: Shape) -> Shape:
        out, per_group, *kernel = self.weight.shape
        assert tuple(kernel) == tuple(self.window.kernel)
        if x.channels != per_group * self.groups or out % self.groups:
            raise ShapeError(
                f"kernels for {per_group * self.groups} channels in {self.groups} groups meet an input of {x.channels}"
            )
        pad, extent, stride = self.window.padding, self.window.extent, self.window.stride
        height = (x.height - 1) * stride.height + extent.height - pad.top - pad.bottom + self.output_padding.height
        width = (x.width - 1) * stride.width + extent.width - pad.left - pad.right + self.output_padding.width
        if height < 1 or width < 1:
            raise ShapeError(f"the padding leaves an output of {height}x{width}")
        return Shape(height, width, out)


@dataclass(frozen=True, slots=True)
class Dense:
    """Fully connected over the whole map: weight (O, C, H, W) of the input map C, H, W; bias (O,) or None."""

    weight: Constant
    bias: Constant | None
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        out, channels, height, width = self.weight.shape
        if x != (height, width, channels):
            raise ShapeError(
                f"weights for {height * width * channels} inputs ({height}x{width}x{channels}) meet {x.size} ({x})"
            )
        return Shape(1, 1, out)


@dataclass(frozen=True, slots=True)
class MaxPool2d:
    """Maximum over windows; padding never wins."""

    window: Window
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        return self.window.slide(x, channels=x.channels)


@dataclass(frozen=True, slots=True)
class AveragePool2d:
    """Sum over windows, times a factor.

    window.padding counts as zeros. uncounted: more padding, whose elements are left out of the divisor.
    factor: what sums are multiplied by; None is 1 / (number of the window's elements that count).
    """

    window: Window
    uncounted: Padding = NO_PADDING
    factor: float | None = None
    activation: Function | None = None

    @property
    def fixed_factor(self) -> float:
        """The factor where every element of a window counts."""
        return 1.0 / math.prod(self.window.kernel) if self.factor is None else self.factor

    def output_shape(self, x: Shape) -> Shape:
        return self.window.slide(x, channels=x.channels, extra=self.uncounted)


@dataclass(frozen=True, slots=True)
class Upsample:
    """Repeat every pixel (nearest neighbour)."""

    factor: Pair

    def output_shape(self, x: Shape) -> Shape:
        if min(self.factor) < 1:
            raise ShapeError("an upsampling factor must be at least 1")
        return Shape(x.height * self.factor.height, x.width * self.factor.width, x.channels)


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, each (C,); no gamma is 1, no beta is 0."""

    mean: Constant
    variance: Constant
    gamma: Constant | None
    beta: Constant | None
    epsilon: float

    def output_shape(self, x: Shape) -> Shape:
        if self.mean.shape != (x.channels,):
            raise ShapeError(f"statistics of {self.mean.shape[0]} channels meet an input of {x.channels}")
        return x


@dataclass(frozen=True, slots=True)
class Scale:
    """x * factor + shift, each (C,); no shift is 0."""

    factor: Constant
    shift: Constant | None = None
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        if self.factor.shape != (x.channels,):
            raise ShapeError(f"{self.factor.shape[0]} factors meet an input of {x.channels} channels")
        return x


@dataclass(frozen=True, slots=True)
class Activation:
    function: Function

    def output_shape(self, x: Shape) -> Shape:
        if isinstance(self.function, PRelu) and self.function.slopes.shape != (x.channels,):
            raise ShapeError(f"{self.function.slopes.shape[0]} slopes meet an input of {x.channels} channels")
        return x


@dataclass(frozen=True, slots=True)
class Add:
    """Element by element; two inputs (frontends make chains of longer sums)."""

    activation: Function | None = None

    def output_shape(self, x: Shape, y: Shape) -> Shape:
        if x != y:
            raise ShapeError(f"cannot add maps of {x} and {y}")
        return x


@dataclass(frozen=True, slots=True)
class Concat:
    """One input after the other, on channels."""

    def output_shape(self, *xs: Shape) -> Shape:
        if len({x[:2] for x in xs}) != 1:
            raise ShapeError(f"cannot join maps of {', '.join(map(str, xs))} on channels")
        return Shape(xs[0].height, xs[0].width, sum(x.channels for x in xs))


@dataclass(frozen=True, slots=True)
class Pad:
    """Zeros around the map."""

    padding: Padding

    def output_shape(self, x: Shape) -> Shape:
        pad = self.padding
        if min(pad) < 0:
            raise ShapeError("a padding below zero")
        return Shape(x.height + pad.top + pad.bottom, x.width + pad.left + pad.right, x.channels)


class Order(Enum):
    """The order in which the elements of a map are counted when it is reshaped."""

    HWC = "HWC"  # Keras, channels_last
    CHW = "CHW"  # Caffe; Keras, channels_first
    MEMORY = "memory"  # as they lie in the device's memory: nothing moves. Made when a graph is fitted to a device


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements, counted in the given order, as another shape. To a vector: Flatten."""

    shape: Shape
    order: Order

    def output_shape(self, x: Shape) -> Shape:
        if x.size != self.shape.size:
            raise ShapeError(f"cannot reshape {x} ({x.size} elements) to {self.shape} ({self.shape.size})")
        return self.shape


@dataclass(frozen=True, slots=True)
class Softmax:
    """Over the channels."""

    def output_shape(self, x: Shape) -> Shape:
        return x


Parameter: TypeAlias = bool | int | float | tuple[bool, ...] | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Custom:
    """A layer that the firmware's author implements. parameters: (name, value) in the order of the C++ struct."""

    type: str
    parameters: tuple[tuple[str, Parameter], ...]
    shape: Shape

    def output_shape(self, *_: Shape) -> Shape:
        return self.shape


Op: TypeAlias = (
    Input
    | Identity
    | Conv2d
    | ConvTranspose2d
    | Dense
    | MaxPool2d
    | AveragePool2d
    | Upsample
    | BatchNorm
    | Scale
    | Activation
    | Add
    | Concat
    | Pad
    | Reshape
    | Softmax
    | Custom
)
