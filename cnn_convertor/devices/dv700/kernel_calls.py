"""Calls of the C++ functions that run operators on the CPU, as values: names and arguments."""

from __future__ import annotations

from dataclasses import astuple
from typing import NamedTuple, TypeAlias

from cnn_convertor.ir.ops import (
    ArgMax,
    AveragePool2d,
    Axis,
    Binary,
    BoxCode,
    Concat,
    Crop,
    DetectionOutput,
    Interpolation,
    L2Normalize,
    LocalResponseNorm,
    MaxPool2d,
    MaxUnpool,
    MeanVarianceNorm,
    Order,
    PriorBox,
    Reduce,
    Reduction,
    Resize,
    Sampling,
    Softmax,
    SpaceToDepth,
    TransposeReshape,
    Unary,
    Window,
)

Argument: TypeAlias = "bool | int | float | str | tuple[int, ...] | tuple[float, ...] | CpuKernelCall"


class CpuKernelCall(NamedTuple):
    """A call of a function, after the maps that it reads and writes; as an argument: a value of a struct.

    Arguments that are words are names of constants.
    """

    function: str
    arguments: tuple[Argument, ...] = ()


def unary(op: Unary) -> CpuKernelCall:
    return CpuKernelCall("Unary", (CpuKernelCall(type(op.function).__name__, astuple(op.function)),))


def binary(op: Binary) -> CpuKernelCall:
    return CpuKernelCall("Binary", (CpuKernelCall(op.operation.name.capitalize()),))


def local_response_norm(op: LocalResponseNorm) -> CpuKernelCall:
    return CpuKernelCall("LocalResponseNorm", (op.size, op.alpha, op.beta, op.bias, op.across_channels))


def max_pool(op: MaxPool2d) -> CpuKernelCall:
    return CpuKernelCall("MaxPool", (_window(op.window),))


def max_unpool(op: MaxUnpool) -> CpuKernelCall:
    return CpuKernelCall("MaxUnpool", (_window(op.window),))


def average_pool(op: AveragePool2d) -> CpuKernelCall:
    window = op.window._replace(padding=op.window.padding + op.uncounted)
    counted = CpuKernelCall("Counted", tuple(op.window.padding))
    return CpuKernelCall("AveragePool", (_window(window), counted, op.factor or 0.0))


def softmax(op: Softmax) -> CpuKernelCall:
    return CpuKernelCall("Softmax", (_axes((op.axis,)),))


def mean_variance_norm(op: MeanVarianceNorm) -> CpuKernelCall:
    settings = (op.groups, op.divides, float(op.epsilon), op.epsilon_outside)
    return CpuKernelCall("MeanVarianceNorm", (_axes(op.axes), *settings))


def l2_normalize(op: L2Normalize) -> CpuKernelCall:
    return CpuKernelCall("L2Normalize", (_axes(op.axes), float(op.epsilon), op.at_least))


def reduce(op: Reduce) -> CpuKernelCall:
    return CpuKernelCall("Reduce", (_axes(op.axes), _REDUCTIONS[op.reduction], float(op.factor)))


def arg_max(op: ArgMax) -> CpuKernelCall:
    along = _axes(tuple(Axis) if op.axis is None else (op.axis,))
    return CpuKernelCall("ArgMax", (along, op.count, op.values, op.last_of_equals))


def resize(op: Resize) -> CpuKernelCall:
    return CpuKernelCall("Resize", (op.interpolation is Interpolation.BILINEAR, _SAMPLINGS[op.sampling]))


def crop(op: Crop) -> CpuKernelCall:
    return CpuKernelCall("Crop", (CpuKernelCall("Steps", tuple(op.start)), CpuKernelCall("Steps", tuple(op.stride))))


def concat(op: Concat) -> CpuKernelCall:
    return CpuKernelCall("Concat", (_axes((op.axis,)),))


def transpose_reshape(op: TransposeReshape) -> CpuKernelCall:
    return CpuKernelCall("TransposeReshape", (op.dims, op.axes, op.order is Order.CHW))


def space_to_depth(op: SpaceToDepth) -> CpuKernelCall:
    return CpuKernelCall("SpaceToDepth", (*op.block, op.padding.top, op.padding.left))


def prior_box(op: PriorBox) -> CpuKernelCall:
    sizes = (tuple(map(float, values)) for values in (op.min_sizes, op.max_sizes, op.aspect_ratios))
    steps = (float(op.step_height), float(op.step_width), float(op.offset))
    image = map(float, op.image_size)
    return CpuKernelCall("PriorBox", (*op.map_size, *image, *sizes, op.clip, op.variance, *steps))


def detection_output(op: DetectionOutput) -> CpuKernelCall:
    boxes = (op.classes, op.background, op.share_location, _CODES[op.code], op.variance_encoded)
    suppression = (float(op.nms_threshold), op.top_k, float(op.eta))
    return CpuKernelCall("DetectionOutput", (*boxes, *suppression, float(op.confidence_threshold), op.keep_top_k))


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


def _axes(axes: tuple[Axis, ...]) -> CpuKernelCall:
    return CpuKernelCall("Axes", tuple(axis in axes for axis in Axis))


def _window(window: Window) -> CpuKernelCall:
    return CpuKernelCall(
        "Window",
        (*window.kernel, *window.stride, *window.dilation, window.padding.top, window.padding.left),
    )
