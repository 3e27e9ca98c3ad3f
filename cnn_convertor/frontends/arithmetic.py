"""Arithmetic that all frameworks share: padding, pooling windows, slices, scales and shifts, functions."""

from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Axis, Crop, Op, Padding, Pair, Reduction, Scale, Shape, Window

Numbers: TypeAlias = Constant | NDArray[np.floating[Any]] | float


def range_of(type: np.dtype[Any]) -> tuple[int, int]:
    """The smallest and the largest number of an integer type, or of booleans."""
    return (0, 1) if type.kind == "b" else (int(np.iinfo(type).min), int(np.iinfo(type).max))


def filled(value: float, size: int) -> Constant:
    """The same number `size` times."""
    return Constant.of(np.broadcast_to(np.float32(value), (size,)))


def scale_and_shift(channels: int, factor: Numbers = 1.0, shift: Numbers | None = None) -> Scale:
    """x * factor + shift, with a number for each channel or one for all."""

    def constant(numbers: Numbers) -> Constant:
        if isinstance(numbers, Constant):
            return filled(float(numbers.load()[0]), channels) if numbers.shape == (1,) else numbers
        return Constant.of(np.broadcast_to(np.asarray(numbers, np.float32), (channels,)))

    return Scale(constant(factor), None if shift is None else constant(shift))


def applied(function: ops.Function | ops.ScalarFunction) -> Op:
    if isinstance(function, get_args(ops.ScalarFunction)):
        return ops.Unary(function)
    return ops.Activation(function)  # type: ignore[arg-type]  # mypy cannot follow get_args


def same_padding(window: Window, shape: Shape) -> Padding:
    """Padding that makes the output input / stride long, rounded up; an odd rest goes to the bottom and right."""
    sides: list[int] = []
    for size, extent, stride in zip(shape[:2], window.extent, window.stride, strict=True):
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        sides += (total // 2, total - total // 2)
    return Padding(*sides)


def pooling_reach(
    size: int, kernel: int, stride: int, padding: tuple[int, int], *, rounds_up: bool, clips: bool
) -> tuple[int, int]:
    """The number of pooling windows along an axis, and how far they reach beyond the padded input.

    padding: before and after the input. rounds_up: the last window may be cut by the input's end (ceil mode). clips: no window
    starts beyond the input.
    """
    before, after = padding
    room = size + before + after - kernel
    count = (-(-room // stride) if rounds_up else room // stride) + 1
    if clips and (count - 1) * stride >= size + before:
        count -= 1
    return count, max((count - 1) * stride - room, 0)


def crop(shape: Shape, bounds: Mapping[Axis, tuple[int, int]]) -> Crop:
    """The part of a map from start to before stop along some axes: axis -> (start, stop)."""
    ends = [bounds.get(axis, (0, shape[axis])) for axis in Axis]
    return Crop(Shape(*(start for start, _ in ends)), Shape(*(stop for _, stop in ends)))


def whole_map(reduction: Reduction, shape: Shape, axes: tuple[Axis, ...] = (Axis.HEIGHT, Axis.WIDTH)) -> Op:
    """A reduction; as a pool of the whole map where possible, since devices run pools."""
    if {axis for axis in (Axis.HEIGHT, Axis.WIDTH) if shape[axis] > 1} <= {*axes} and Axis.CHANNELS not in axes:
        window = Window(Pair(shape.height, shape.width))
        match reduction:
            case Reduction.MEAN:
                return ops.AveragePool2d(window)
            case Reduction.MAXIMUM:
                return ops.MaxPool2d(window)
    return ops.Reduce(reduction, axes)
