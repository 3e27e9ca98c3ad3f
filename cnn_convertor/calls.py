"""Operators that run on the CPU, as calls of the C++ functions in codegen/kernels."""

from __future__ import annotations

from dataclasses import astuple
from typing import NamedTuple, TypeAlias

from cnn_convertor.errors import assert_never
from cnn_convertor.ir.ops import (
    Activation,
    Add,
    ArgMax,
    ArraySoftmax,
    AveragePool2d,
    Axis,
    BatchNorm,
    Binary,
    BoxCode,
    ChannelSlice,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Crop,
    Custom,
    Dense,
    DetectionOutput,
    Identity,
    Input,
    Interpolation,
    L2Normalize,
    LocalResponseNorm,
    MaxPool2d,
    MaxUnpool,
    MeanVarianceNorm,
    OnCpu,
    Op,
    Order,
    Pad,
    PriorBox,
    Reduce,
    Reduction,
    Reshape,
    Resize,
    Sampling,
    Scale,
    Softmax,
    SpaceToDepth,
    TransposeReshape,
    Unary,
    Upsample,
    Window,
)

Argument: TypeAlias = "bool | int | float | str | tuple[int, ...] | tuple[float, ...] | Call"


class Call(NamedTuple):
    """A call of a C++ function, after the maps that it reads and writes; as an argument: a value of a C++ struct.

    Arguments that are words are C++ names.
    """

    function: str
    arguments: tuple[Argument, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The functions and structs that the call needs."""
        inner = (argument.names for argument in self.arguments if isinstance(argument, Call))
        return frozenset({self.function}).union(*inner)


def call_of(op: Op) -> Call:
    """The call that does the operator's work."""
    match op:
        case Unary(function=function):
            return Call("Unary", (Call(type(function).__name__, astuple(function)),))
        case Binary(operation=operation):
            return Call("Binary", (Call(operation.name.capitalize()),))
        case LocalResponseNorm():
            return Call("LocalResponseNorm", (op.size, op.alpha, op.beta, op.bias, op.across_channels))
        case MaxPool2d(window=window):
            return Call("MaxPool", (_window(window),))
        case MaxUnpool(window=window):
            return Call("MaxUnpool", (_window(window),))
        case AveragePool2d(window=window, uncounted=uncounted):
            moved = _window(window._replace(padding=window.padding + uncounted))
            return Call("AveragePool", (moved, Call("Counted", tuple(window.padding)), op.factor or 0.0))
        case Softmax(axis=axis):
            return Call("Softmax", (_axes((axis,)),))
        case MeanVarianceNorm():
            return Call(
                "MeanVarianceNorm", (_axes(op.axes), op.groups, op.divides, float(op.epsilon), op.epsilon_outside)
            )
        case L2Normalize():
            return Call("L2Normalize", (_axes(op.axes), float(op.epsilon), op.at_least))
        case Reduce():
            return Call("Reduce", (_axes(op.axes), _REDUCTIONS[op.reduction], float(op.factor)))
        case ArgMax(axis=axis):
            along = _axes(tuple(Axis) if axis is None else (axis,))
            return Call("ArgMax", (along, op.count, op.values, op.last_of_equals))
        case Resize():
            return Call("Resize", (op.interpolation is Interpolation.BILINEAR, _SAMPLINGS[op.sampling]))
        case Crop(start=start, stride=stride):
            return Call("Crop", (Call("Steps", tuple(start)), Call("Steps", tuple(stride))))
        case Concat(axis=axis):
            return Call("Concat", (_axes((axis,)),))
        case TransposeReshape():
            return Call("TransposeReshape", (op.dims, op.axes, op.order is Order.CHW))
        case SpaceToDepth(block=block, padding=padding):
            return Call("SpaceToDepth", (*block, padding.top, padding.left))
        case PriorBox():
            floats = tuple(map(float, op.image_size))
            lists = (op.min_sizes, op.max_sizes, op.aspect_ratios)
            steps = (float(op.step_height), float(op.step_width), float(op.offset))
            return Call(
                "PriorBox",
                (*op.map_size, *floats, *(tuple(map(float, v)) for v in lists), op.clip, op.variance, *steps),
            )
        case DetectionOutput():
            counts = (op.classes, op.background, op.share_location, _CODES[op.code], op.variance_encoded)
            return Call(
                "DetectionOutput",
                (
                    *counts,
                    float(op.nms_threshold),
                    op.top_k,
                    float(op.eta),
                    float(op.confidence_threshold),
                    op.keep_top_k,
                ),
            )
        case (
            Input()
            | Identity()
            | Conv2d()
            | ConvTranspose2d()
            | Dense()
            | Upsample()
            | BatchNorm()
            | Scale()
            | Activation()
        ):
            raise AssertionError(f"{type(op).__name__} is the device's")
        case Add() | ArraySoftmax() | Pad() | Reshape() | ChannelSlice() | Custom() | OnCpu():
            raise AssertionError(f"{type(op).__name__} is no call")
        case _:
            assert_never(op)


def title(op: Op) -> str:
    """What the operator does, in a word."""
    match op:
        case Unary(function=function):
            return type(function).__name__
        case Binary(operation=operation):
            return operation.name.capitalize()
        case _:
            return type(op).__name__


_REDUCTIONS = {
    Reduction.SUM: "kSum",
    Reduction.MEAN: "kMean",
    Reduction.MAXIMUM: "kMaximum",
    Reduction.MINIMUM: "kMinimum",
    Reduction.SUM_OF_MAGNITUDES: "kSumOfMagnitudes",
    Reduction.SUM_OF_SQUARES: "kSumOfSquares",
}
_SAMPLINGS = {
    Sampling.HALF_PIXEL: "kHalfPixel",
    Sampling.CORNERS: "kCorners",
    Sampling.ASYMMETRIC: "kAsymmetric",
}
_CODES = {BoxCode.CORNER: "kCorner", BoxCode.CENTER_SIZE: "kCenterSize", BoxCode.CORNER_SIZE: "kCornerSize"}


def _axes(axes: tuple[Axis, ...]) -> Call:
    return Call("Axes", tuple(axis in axes for axis in Axis))


def _window(window: Window) -> Call:
    return Call(
        "Window",
        (*window.kernel, *window.stride, *window.dilation, window.padding.top, window.padding.left),
    )
