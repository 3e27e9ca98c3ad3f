"""Calls of the C++ functions that run operators on the CPU, as values: names and arguments."""

from dataclasses import astuple
from enum import Enum
from typing import NamedTuple, TypeAlias

from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Order, Window

Argument: TypeAlias = "bool | int | float | str | tuple[int, ...] | tuple[float, ...] | CpuKernelCall"


class CpuKernelCall(NamedTuple):
    """A call of a function, after the maps that it reads and writes; as an argument: a value of a struct.

    Arguments that are words are names of constants.
    """

    function: str
    arguments: tuple[Argument, ...] = ()


def unary(op: ops.Unary) -> CpuKernelCall:
    return CpuKernelCall("Unary", (CpuKernelCall(type(op.function).__name__, astuple(op.function)),))


def binary(op: ops.Binary) -> CpuKernelCall:
    return CpuKernelCall("Binary", (CpuKernelCall(op.operation.name.capitalize()),))


def local_response_norm(op: ops.LocalResponseNorm) -> CpuKernelCall:
    return CpuKernelCall("LocalResponseNorm", (op.size, op.alpha, op.beta, op.bias, op.across_channels))


def max_pool(op: ops.MaxPool2d) -> CpuKernelCall:
    return CpuKernelCall("MaxPool", (_window(op.window),))


def max_unpool(op: ops.MaxUnpool) -> CpuKernelCall:
    return CpuKernelCall("MaxUnpool", (_window(op.window),))


def average_pool(op: ops.AveragePool2d) -> CpuKernelCall:
    window = op.window._replace(padding=op.window.padding + op.uncounted)
    counted = CpuKernelCall("Counted", tuple(op.window.padding))
    return CpuKernelCall("AveragePool", (_window(window), counted, op.factor or 0.0))


def softmax(op: ops.Softmax) -> CpuKernelCall:
    return CpuKernelCall("Softmax", (_axes((op.axis,)),))


def mean_variance_norm(op: ops.MeanVarianceNorm) -> CpuKernelCall:
    settings = (op.groups, op.divides, float(op.epsilon), op.epsilon_outside)
    return CpuKernelCall("MeanVarianceNorm", (_axes(op.axes), *settings))


def l2_normalize(op: ops.L2Normalize) -> CpuKernelCall:
    return CpuKernelCall("L2Normalize", (_axes(op.axes), float(op.epsilon), op.at_least))


def reduce(op: ops.Reduce) -> CpuKernelCall:
    return CpuKernelCall("Reduce", (_axes(op.axes), _constant(op.reduction), float(op.factor)))


def arg_max(op: ops.ArgMax) -> CpuKernelCall:
    along = _axes(tuple(Axis) if op.axis is None else (op.axis,))
    return CpuKernelCall("ArgMax", (along, op.count, op.values, op.last_of_equals))


def resize(op: ops.Resize) -> CpuKernelCall:
    return CpuKernelCall("Resize", (op.interpolation is ops.Interpolation.BILINEAR, _constant(op.sampling)))


def crop(op: ops.Crop) -> CpuKernelCall:
    return CpuKernelCall("Crop", (CpuKernelCall("Steps", tuple(op.start)), CpuKernelCall("Steps", tuple(op.stride))))


def concat(op: ops.Concat) -> CpuKernelCall:
    return CpuKernelCall("Concat", (_axes((op.axis,)),))


def transpose_reshape(op: ops.TransposeReshape) -> CpuKernelCall:
    return CpuKernelCall("TransposeReshape", (op.dims, op.axes, op.order is Order.CHW))


def space_to_depth(op: ops.SpaceToDepth) -> CpuKernelCall:
    return CpuKernelCall("SpaceToDepth", (*op.block, op.padding.top, op.padding.left))


def prior_box(op: ops.PriorBox) -> CpuKernelCall:
    sizes = (tuple(map(float, values)) for values in (op.min_sizes, op.max_sizes, op.aspect_ratios))
    steps = (float(op.step_height), float(op.step_width), float(op.offset))
    image = map(float, op.image_size)
    return CpuKernelCall("PriorBox", (*op.map_size, *image, *sizes, op.clip, op.variance, *steps))


def detection_output(op: ops.DetectionOutput) -> CpuKernelCall:
    boxes = (op.classes, op.background, op.share_location, _constant(op.code), op.variance_encoded)
    suppression = (float(op.nms_threshold), op.top_k, float(op.eta))
    return CpuKernelCall("DetectionOutput", (*boxes, *suppression, float(op.confidence_threshold), op.keep_top_k))


def _constant(value: Enum) -> str:
    """The name in C++: CENTER_SIZE is kCenterSize."""
    return "k" + value.name.title().replace("_", "")


def _axes(axes: tuple[Axis, ...]) -> CpuKernelCall:
    return CpuKernelCall("Axes", tuple(axis in axes for axis in Axis))


def _window(window: Window) -> CpuKernelCall:
    return CpuKernelCall(
        "Window",
        (*window.kernel, *window.stride, *window.dilation, window.padding.top, window.padding.left),
    )
