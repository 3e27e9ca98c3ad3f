"""Operators whose every result depends on many elements of a map: norms, what is left of many numbers, the largest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cnn_convertor.ir.ops.shapes import Axis, Shape, ShapeError


@dataclass(frozen=True, slots=True)
class Softmax:
    """exp(x) / sum(exp(x)) along an axis."""

    axis: Axis = Axis.CHANNELS

    def output_shape(self, x: Shape) -> Shape:
        return x


@dataclass(frozen=True, slots=True)
class LocalResponseNorm:
    """x / (bias + alpha / n * sum of squares) ** beta, the sum over a neighborhood of x, zero outside of the map.

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
        return x


@dataclass(frozen=True, slots=True)
class MeanVarianceNorm:
    """(x - mean) / deviation, both of the input itself, over some axes and in groups of channels.

    The deviation is sqrt(variance + epsilon), or sqrt(variance) + epsilon with epsilon_outside, or 1 without divides.
    groups: 1 unless the channels are among the axes.
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
class L2Normalize:
    """x / length, the length being sqrt(sum of squares + epsilon) over some axes; with at_least: sqrt(max(sum, epsilon))."""

    axes: tuple[Axis, ...]
    epsilon: float
    at_least: bool = False

    def output_shape(self, x: Shape) -> Shape:
        return x


class Reduction(Enum):
    """What is left of many numbers."""

    SUM = "sum"
    MEAN = "mean"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    SUM_OF_MAGNITUDES = "sum of magnitudes"
    SUM_OF_SQUARES = "sum of squares"


@dataclass(frozen=True, slots=True)
class Reduce:
    """One number for all that lie along some axes, times a factor; these axes have the length 1 then."""

    reduction: Reduction
    axes: tuple[Axis, ...]
    factor: float = 1.0

    def output_shape(self, x: Shape) -> Shape:
        return Shape(*(1 if axis in self.axes else x[axis] for axis in Axis))


@dataclass(frozen=True, slots=True)
class ArgMax:
    """The places of the `count` largest numbers along an axis, the largest first; of equal ones the first comes first,
    or the last with last_of_equals.

    axis None: of the whole map, counted in CHW order; the result is count x 1 x 1, or count x 1 x 2 with values: places,
    then values. Along an axis the result has `count` there: places, or values.
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
