"""Operators that compute: with weights, over windows, element by element."""

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops.functions import ElementFunction, Function, PRelu, for_channels
from cnn_convertor.ir.ops.geometry import (
    LARGEST_INPUT,
    NO_MORE,
    NO_PADDING,
    Axis,
    Padding,
    Pair,
    SameShape,
    Shape,
    ShapeError,
    Window,
)


@dataclass(frozen=True, slots=True)
class Input:
    """axes: the framework's own, after the batch, as letters of "HWC"; empty where they are not known.

    integers: the smallest and the largest, where the framework takes integers.
    """

    shape: Shape
    axes: str = field(default="", compare=False, repr=False)
    integers: tuple[int, int] | None = field(default=None, compare=False, repr=False)

    def output_shape(self) -> Shape:
        if min(self.shape) < 1:
            raise ShapeError(f"the input size {self.shape} is not a size")
        if self.shape.size > LARGEST_INPUT:
            raise ShapeError(f"an input of {self.shape} has more than {LARGEST_INPUT:,} numbers")
        return self.shape


@dataclass(frozen=True, slots=True)
class Identity(SameShape):
    """No operation: dropout at inference, Split, a linear activation."""


class _Kernels:
    """What convolution and transposed convolution share."""

    __slots__ = ()
    weight: Constant
    window: Window
    groups: int

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel has one kernel of its own."""
        return self.weight.shape[1] == 1 and self.groups == self.weight.shape[0] > 1

    def _check(self, x: Shape) -> None:
        out, per_group, *kernel = self.weight.shape
        assert tuple(kernel) == tuple(self.window.kernel)
        channels = per_group * self.groups
        if x.channels != channels or out % self.groups:
            raise ShapeError(f"kernels for {channels} channels in {self.groups} groups meet an input of {x.channels}")


@dataclass(frozen=True, slots=True)
class Conv2d(_Kernels):
    """Convolution (cross-correlation, as in all frameworks) with zero padding.

    weight: (O, I / groups, kernel height, kernel width). bias: (O,) or None.
    """

    weight: Constant
    bias: Constant | None
    window: Window
    groups: int = 1
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        self._check(x)
        return self.window.slide(x, channels=self.weight.shape[0])


@dataclass(frozen=True, slots=True)
class ConvTranspose2d(_Kernels):
    """Transposed convolution: input pixel (y, x) adds input * kernel at output (y, x) * stride - padding.

    weight: (O, I / groups, kernel height, kernel width), not rotated. bias: (O,) or None.
    output_padding: extra output rows (bottom) and columns (right).
    """

    weight: Constant
    bias: Constant | None
    window: Window
    output_padding: Pair = NO_MORE
    groups: int = 1
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        self._check(x)
        pad = self.window.padding
        extent = self.window.extent
        stride = self.window.stride
        height = (x.height - 1) * stride.height + extent.height - pad.top - pad.bottom + self.output_padding.height
        width = (x.width - 1) * stride.width + extent.width - pad.left - pad.right + self.output_padding.width
        if height < 1 or width < 1:
            raise ShapeError(f"the padding leaves an output of {height}x{width}")
        return Shape(height, width, self.weight.shape[0])

    @property
    def rotated(self) -> Constant:
        """The kernels of the convolution that does the same over an input with stride - 1 zeros between its pixels."""
        return self.weight.map_rows(lambda kernels: kernels[:, :, ::-1, ::-1])

    @property
    def input_padding(self) -> Padding:
        """The padding of that convolution, so that it covers all of the input. Negative where the output is cut further."""
        reach = self.window.extent
        pad = self.window.padding
        more = self.output_padding
        return Padding(
            reach.height - 1 - pad.top,
            reach.height - 1 - pad.bottom + more.height,
            reach.width - 1 - pad.left,
            reach.width - 1 - pad.right + more.width,
        )


@dataclass(frozen=True, slots=True)
class Dense:
    """Fully connected over the whole map: weight (O, C, H, W) of the input map C, H, W; bias (O,) or None."""

    weight: Constant
    bias: Constant | None
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        out, channels, height, width = self.weight.shape
        if x != (height, width, channels):
            expected = Shape(height, width, channels)
            raise ShapeError(f"weights for {expected.size} inputs ({expected}) meet {x.size} ({x})")
        return Shape(1, 1, out)


AnyWeighted = TypeVar("AnyWeighted", bound="Conv2d | ConvTranspose2d | Dense")


def with_outputs(op: AnyWeighted, channels: NDArray[np.intp]) -> AnyWeighted:
    """The operator restricted to some output channels, or with these reordered. The caller adjusts groups."""
    bias = None if op.bias is None else op.bias.take_rows(channels)
    function = None if op.activation is None else for_channels(op.activation, channels)
    return replace(op, weight=op.weight.take_rows(channels), bias=bias, activation=function)


@dataclass(frozen=True, slots=True)
class MaxPool2d:
    """Maximum over windows; padding is minus infinity."""

    window: Window
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        return self.window.slide(x, channels=x.channels)


@dataclass(frozen=True, slots=True)
class MaxUnpool:
    """SegNet's unpooling: places each value where the maximum of its window was; zeros elsewhere.

    Inputs: the values, one per window, and the map that was pooled. Of equal maxima the first counts, row by row; where
    windows overlap, the last window with its maximum at a position decides.
    """

    window: Window

    def output_shape(self, values: Shape, pooled: Shape) -> Shape:
        windows = self.window.slide(pooled, channels=pooled.channels)
        if values != windows:
            raise ShapeError(f"a map of {values} meets the {windows} maxima of a pooling")
        return pooled


@dataclass(frozen=True, slots=True)
class AveragePool2d:
    """Sum over windows, times a factor.

    window.padding counts as zeros. uncounted: additional padding, excluded from the divisor.
    factor: multiplies the sums; None: 1 / (number of elements that count).
    """

    window: Window
    uncounted: Padding = NO_PADDING
    factor: float | None = None
    activation: Function | None = None

    @property
    def fixed_factor(self) -> float:
        """The factor of a window whose elements all count."""
        return 1.0 / math.prod(self.window.kernel) if self.factor is None else self.factor

    def output_shape(self, x: Shape) -> Shape:
        return self.window.slide(x, channels=x.channels, extra=self.uncounted)


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, each (C,); gamma None: 1, beta None: 0."""

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
    """x * factor + shift, each (C,); shift None: 0."""

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
class Unary(SameShape):
    """A scalar function of each element."""

    function: ElementFunction


@dataclass(frozen=True, slots=True)
class Add:
    """The element-wise sum of two maps; frontends chain longer sums."""

    activation: Function | None = None

    def output_shape(self, x: Shape, y: Shape) -> Shape:
        if x != y:
            raise ShapeError(f"cannot add maps of {x} and {y}")
        return x


class BinaryOp(Enum):
    """A function of two numbers. The value is its notation."""

    ADD = "x + y"
    SUBTRACT = "x - y"
    MULTIPLY = "x * y"
    DIVIDE = "x / y"
    MAXIMUM = "max(x, y)"
    MINIMUM = "min(x, y)"
    MASK = "x where y is not 0, otherwise 0"


@dataclass(frozen=True, slots=True)
class Binary:
    """An element-wise function of two maps; axes of length 1 broadcast."""

    operation: BinaryOp

    def output_shape(self, x: Shape, y: Shape) -> Shape:
        if any(mine != theirs and 1 not in (mine, theirs) for mine, theirs in zip(x, y, strict=True)):
            raise ShapeError(f"cannot combine maps of {x} and {y}")
        return Shape(*map(max, x, y))


@dataclass(frozen=True, slots=True)
class PackedFactors:
    """Factors as the packed weights of a 1x1 depthwise convolution, in FP16. Only in legalized graphs.

    For each 8 factors: 8 biases, then 72 elements a factor, of which it is number 66.
    """

    def output_shape(self, x: Shape) -> Shape:
        if not x.is_vector:
            raise ShapeError(f"a map of {x} is not a vector of factors")
        return Shape(1, 1, packed_factors(x.size))


def packed_factors(count: int) -> int:
    """How many elements so many packed factors have."""
    return 8 * -(-count // 8) + 72 * count


@dataclass(frozen=True, slots=True)
class ScaledBy:
    """A map, each channel times one of the packed factors: a 1x1 depthwise convolution. Only in legalized graphs."""

    def output_shape(self, x: Shape, factors: Shape) -> Shape:
        if factors != Shape(1, 1, packed_factors(x.channels)):
            raise ShapeError(f"{factors} do not pack a factor for each channel of {x}")
        return x


class Matrices(NamedTuple):
    """How a map holds matrices: which of its axes counts them, their rows and their columns.

    Where the rows or the columns share the axis of the batch, each matrix has a run of its own, all of one length. A third
    axis that is not named has length 1.
    """

    number: int
    batch: Axis
    rows: Axis
    columns: Axis

    def size_in(self, x: Shape) -> Pair:
        """Rows and columns of each matrix. Raises ShapeError unless the matrices are the whole map."""
        rows, columns = (
            x[axis] // self.number if axis is self.batch else x[axis] for axis in (self.rows, self.columns)
        )
        if self.rows is self.columns or self.number * rows * columns != x.size:
            raise ShapeError(f"a map of {x} does not hold {self.number} matrices")
        return Pair(rows, columns)

    def shape(self, size: Pair) -> Shape:
        """The map of matrices of this size."""
        lengths = Shape(1, 1, 1).with_length(self.batch, self.number)
        for axis, length in ((self.rows, size.height), (self.columns, size.width)):
            lengths = lengths.with_length(axis, lengths[axis] * length)
        return lengths


@dataclass(frozen=True, slots=True)
class MatMul:
    """The products of the matrices of two maps, times a factor. A single matrix meets all of the other map.

    left, right, result: how the maps and the result hold their matrices.
    """

    left: Matrices
    right: Matrices
    result: Matrices
    factor: float = 1.0

    def output_shape(self, x: Shape, y: Shape) -> Shape:
        (rows, inner), (others, columns) = self.left.size_in(x), self.right.size_in(y)
        counts = {self.left.number, self.right.number}
        if inner != others or len(counts - {1}) > 1:
            sizes = f"{self.left.number} of {rows}x{inner} and {self.right.number} of {others}x{columns}"
            raise ShapeError(f"cannot multiply matrices: {sizes}")
        assert self.result.number == max(counts)
        return self.result.shape(Pair(rows, columns))

    def multiplications(self, x: Shape, y: Shape) -> int:
        return self.output_shape(x, y).size * self.left.size_in(x).width


Weighted: TypeAlias = Conv2d | ConvTranspose2d | Dense
Activated: TypeAlias = Weighted | MaxPool2d | AveragePool2d | Scale | Add  # operators that can carry an activation


LayerOp: TypeAlias = (
    Input
    | Identity
    | Conv2d
    | ConvTranspose2d
    | Dense
    | MaxPool2d
    | AveragePool2d
    | MaxUnpool
    | BatchNorm
    | Scale
    | Activation
    | PackedFactors
    | ScaledBy
    | Unary
    | Add
    | Binary
    | MatMul
)  # the operators of this file
