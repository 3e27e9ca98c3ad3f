"""Operators whose results depend on many elements: norms, reductions, argmax."""

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import TypeAlias

from cnn_convertor.ir.ops.geometry import LARGEST_WINDOW, Axis, SameShape, Shape, ShapeError


@dataclass(frozen=True, slots=True)
class Softmax(SameShape):
    """exp(x) / sum(exp(x)) along an axis."""

    axis: Axis = Axis.CHANNELS


@dataclass(frozen=True, slots=True)
class ArraySoftmax:
    """A softmax along one axis of a vector, which is read as an array of dims, its last axis fastest."""

    dims: tuple[int, ...]
    axis: int

    def output_shape(self, x: Shape) -> Shape:
        assert x.is_vector and x.size == prod(self.dims)
        return x


@dataclass(frozen=True, slots=True)
class LocalResponseNorm:
    """x / (bias + alpha / n * sum of squares) ** beta, the sum over a neighborhood of x; zero outside the map.

    across_channels: the neighborhood is `size` channels, n = size; else size x size pixels, n = size * size. size is odd.
    """

    size: int
    alpha: float
    beta: float
    bias: float = 1.0
    across_channels: bool = True

    def output_shape(self, x: Shape) -> Shape:
        if self.size < 1 or self.size % 2 == 0:
            raise ShapeError(f"a neighborhood of {self.size} has no middle")
        if self.size > LARGEST_WINDOW:
            raise ShapeError(f"a neighborhood is at most {LARGEST_WINDOW}")
        return x


@dataclass(frozen=True, slots=True)
class MeanVarianceNorm:
    """(x - mean) / deviation, with statistics of the input over some axes, per group of channels.

    The deviation is sqrt(variance + epsilon); sqrt(variance) + epsilon with epsilon_outside; 1 without divides.
    groups: 1 unless the axes include the channels.
    """

    axes: tuple[Axis, ...]
    epsilon: float
    groups: int = 1
    divides: bool = True
    epsilon_outside: bool = False

    def output_shape(self, x: Shape) -> Shape:
        if self.groups < 1 or x.channels % self.groups:
            raise ShapeError(f"{x.channels} channels are not {self.groups} groups")
        assert self.groups == 1 or Axis.CHANNELS in self.axes
        return x


@dataclass(frozen=True, slots=True)
class L2Normalize(SameShape):
    """x / sqrt(sum of squares + epsilon), the sum over some axes; with at_least: x / sqrt(max(sum, epsilon))."""

    axes: tuple[Axis, ...]
    epsilon: float
    at_least: bool = False


class Reduction(Enum):
    SUM = "sum"
    MEAN = "mean"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    SUM_OF_MAGNITUDES = "sum of magnitudes"
    SUM_OF_SQUARES = "sum of squares"


@dataclass(frozen=True, slots=True)
class Reduce:
    """Reduces some axes to length 1; the result is multiplied by a factor."""

    reduction: Reduction
    axes: tuple[Axis, ...]
    factor: float = 1.0

    def output_shape(self, x: Shape) -> Shape:
        return Shape(*(1 if axis in self.axes else x[axis] for axis in Axis))


@dataclass(frozen=True, slots=True)
class ArgMax:
    """The indices of the `count` largest numbers along an axis, in descending order; ties: first index first, or last first
    with last_of_equals.

    axis None: over the whole map in CHW order; the result is count x 1 x 1, or count x 1 x 2 with values: indices, then
    values. Along an axis, the result has length `count` there: indices, or values.
    """

    axis: Axis | None
    count: int = 1
    values: bool = False
    last_of_equals: bool = False

    def output_shape(self, x: Shape) -> Shape:
        available = x.size if self.axis is None else x[self.axis]
        if not 1 <= self.count <= available:
            raise ShapeError(f"{self.count} of {available} numbers are asked for")
        if self.axis is None:
            return Shape(self.count, 1, 2 if self.values else 1)
        return x.with_length(self.axis, self.count)


ReducingOp: TypeAlias = (
    Softmax | ArraySoftmax | LocalResponseNorm | MeanVarianceNorm | L2Normalize | Reduce | ArgMax
)  # the operators of this file
