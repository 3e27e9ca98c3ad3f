"""Which executor runs each operator (the device, the SDK or a C++ function), and its name in messages and pages."""

import re
from collections.abc import Callable, Mapping
from dataclasses import astuple
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.program import ElementType, LayerType
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, Axis, Op, Order, Window

Arrays: TypeAlias = tuple[tuple[Constant, ElementType], ...]  # vectors or maps, and how the weight buffer holds them
Argument: TypeAlias = "bool | int | float | str | tuple[int, ...] | tuple[float, ...] | CpuKernelCall"


class CpuKernelCall(NamedTuple):
    """A call of a C++ function, after the maps that it reads and writes; as an argument: a value of a struct.

    Arguments that are words are names of constants.
    """

    function: str
    arguments: tuple[Argument, ...] = ()


class Executor(Enum):
    """Who does the work of an operator, as docs/layers.md has it."""

    DEVICE = "device"
    WITHIN = "within"
    EITHER = "device/CPU"
    CPU = "CPU"
    IN_PLACE = "in place"
    NOTHING = "nothing"
    APPLICATION = "application"
    FIRMWARE = "firmware"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Executor.DEVICE: "on the device, rewritten if the device has no such form",
    Executor.WITHIN: "on the device, in the command of a neighbor; in a separate command if no neighbor can take it",
    Executor.EITHER: "on the device, rewritten if necessary; on the CPU if no rewrite is exact",
    Executor.CPU: "on the CPU: in the runtime, or in generated C++",
    Executor.IN_PLACE: "nothing to compute if the sizes allow it; otherwise on the CPU",
    Executor.NOTHING: "nothing to compute",
    Executor.APPLICATION: "the application writes it",
    Executor.FIRMWARE: "the author of the firmware writes it",
}


class Operator(NamedTuple):
    """layer: the type of the operator's layer in a legal graph; None if it is rewritten, or left to the CPU, before.

    function: what does it on the CPU, in codegen/kernels; empty if a rewrite makes other operators of it. arguments: what the
    function takes after the maps. constants: arrays that it takes after the maps that it reads.
    """

    executor: Executor
    words: str
    layer: LayerType | None = None
    function: str = ""
    arguments: Callable[[Any], tuple[Argument, ...]] = lambda _: ()
    constants: Callable[[Any], Arrays] = lambda _: ()


def _constant(value: Enum) -> str:
    """The name in C++: CENTER_SIZE is kCenterSize."""
    return "k" + value.name.title().replace("_", "")


def _axes(*axes: Axis) -> CpuKernelCall:
    return CpuKernelCall("Axes", tuple(axis in axes for axis in Axis))


def _window(window: Window) -> CpuKernelCall:
    pad = window.padding
    return CpuKernelCall("Window", (*window.kernel, *window.stride, *window.dilation, pad.top, pad.left))


def _matrices(matrices: ops.Matrices) -> CpuKernelCall:
    return CpuKernelCall("Matrices", (matrices.number, *map(int, matrices[1:])))


def _floats(*numbers: float) -> tuple[float, ...]:
    return tuple(map(float, numbers))


def _average_pool(op: ops.AveragePool2d) -> tuple[Argument, ...]:
    window = op.window._replace(padding=op.window.padding + op.uncounted)
    return _window(window), CpuKernelCall("Counted", tuple(op.window.padding)), op.factor or 0.0


def _prior_box(op: ops.PriorBox) -> tuple[Argument, ...]:
    sizes = _floats(*op.min_sizes), _floats(*op.max_sizes), _floats(*op.aspect_ratios)
    steps = _floats(op.step_height, op.step_width, op.offset)
    return *op.map_size, *_floats(*op.image_size), *sizes, op.clip, op.variance, *steps


def _detection_output(op: ops.DetectionOutput) -> tuple[Argument, ...]:
    boxes = op.classes, op.background, op.share_location, _constant(op.code), op.variance_encoded
    suppression = float(op.nms_threshold), op.top_k, float(op.eta)
    return *boxes, *suppression, float(op.confidence_threshold), op.keep_top_k


def _of_dense(op: ops.Dense) -> Arrays:
    """The factors of each input one after the other, and the bias."""
    outputs = op.weight.shape[0]

    def read(rows: slice) -> NDArray[np.float32]:
        return op.weight.load().reshape(outputs, -1).T.reshape(-1)[rows]

    return _halves(Constant((op.weight.size,), read), op.bias or _zeros(outputs))


def _of_scale(op: ops.Scale) -> Arrays:
    return _halves(op.factor, op.shift or _zeros(op.factor.size))


def _halves(*arrays: Constant) -> Arrays:
    return tuple((array, ElementType.HALF) for array in arrays)


def _zeros(count: int) -> Constant:
    return Constant.of(np.zeros(count))


_CPU, _IN_PLACE = Executor.CPU, Executor.IN_PLACE
_STEPS = partial(CpuKernelCall, "Steps")

OPERATORS: Mapping[type, Operator] = {
    ops.Input: Operator(Executor.APPLICATION, "input", LayerType.INPUT),
    ops.Identity: Operator(Executor.NOTHING, "identity"),
    ops.Conv2d: Operator(Executor.DEVICE, "convolution", LayerType.CONV),
    ops.ConvTranspose2d: Operator(Executor.DEVICE, "deconvolution", LayerType.CONV),
    ops.Dense: Operator(Executor.DEVICE, "fully connected", LayerType.CONV, "Dense", constants=_of_dense),
    ops.Add: Operator(Executor.DEVICE, "sum", LayerType.CONV),
    ops.MaxPool2d: Operator(
        Executor.EITHER, "max pool", LayerType.CONV, "MaxPool", lambda op: (_window(op.window),)
    ),
    ops.AveragePool2d: Operator(Executor.EITHER, "average pool", LayerType.CONV, "AveragePool", _average_pool),
    ops.Upsample: Operator(Executor.EITHER, "upsampling", LayerType.CONV),
    ops.BatchNorm: Operator(Executor.WITHIN, "batch norm"),
    ops.Scale: Operator(Executor.WITHIN, "scale", None, "Scale", constants=_of_scale),
    ops.Activation: Operator(Executor.WITHIN, "activation"),
    ops.PackedFactors: Operator(_CPU, "packed factors", None, "PackedFactors"),
    ops.ScaledBy: Operator(Executor.DEVICE, "scale by packed factors", LayerType.CONV),
    ops.Pad: Operator(Executor.WITHIN, "pad"),
    ops.Concat: Operator(_IN_PLACE, "concatenation", LayerType.CONCAT, "Concat", lambda op: (_axes(op.axis),)),
    ops.Reshape: Operator(_IN_PLACE, "reshape", LayerType.FLATTEN),
    ops.ChannelSlice: Operator(_IN_PLACE, "channel slice"),
    ops.Softmax: Operator(_CPU, "softmax", None, "Softmax", lambda op: (_axes(op.axis),)),
    ops.ArraySoftmax: Operator(_CPU, "softmax", LayerType.SOFTMAX),
    ops.Unary: Operator(
        _CPU, "function", None, "Unary", lambda op: (CpuKernelCall(type(op.function).__name__, astuple(op.function)),)
    ),
    ops.Binary: Operator(
        _CPU, "element-wise arithmetic", None, "Binary", lambda op: (CpuKernelCall(op.operation.name.capitalize()),)
    ),
    ops.MatMul: Operator(
        _CPU, "matrix product", None, "MatMul",
        lambda op: (_matrices(op.left), _matrices(op.right), _matrices(op.result), float(op.factor)),
    ),
    ops.MaxUnpool: Operator(_CPU, "max unpool", None, "MaxUnpool", lambda op: (_window(op.window),)),
    ops.LocalResponseNorm: Operator(
        _CPU, "local response norm", None, "LocalResponseNorm",
        lambda op: (op.size, op.alpha, op.beta, op.bias, op.across_channels),
    ),
    ops.MeanVarianceNorm: Operator(
        _CPU, "mean-variance normalization", None, "MeanVarianceNorm",
        lambda op: (_axes(*op.axes), op.groups, op.divides, float(op.epsilon), op.epsilon_outside),
    ),
    ops.L2Normalize: Operator(
        _CPU, "L2 normalization", None, "L2Normalize", lambda op: (_axes(*op.axes), float(op.epsilon), op.at_least)
    ),
    ops.Reduce: Operator(
        _CPU, "reduce", None, "Reduce", lambda op: (_axes(*op.axes), _constant(op.reduction), float(op.factor))
    ),
    ops.ArgMax: Operator(
        _CPU, "arg max", None, "ArgMax",
        lambda op: (_axes(*(Axis if op.axis is None else (op.axis,))), op.count, op.values, op.last_of_equals),
    ),
    ops.Resize: Operator(
        _CPU, "resize", None, "Resize",
        lambda op: (op.interpolation is ops.Interpolation.BILINEAR, _constant(op.sampling)),
    ),
    ops.GridSample: Operator(
        _CPU, "grid sample", None, "GridSample",
        lambda op: (op.interpolation is ops.Interpolation.BILINEAR, _constant(op.outside), op.corners, op.images),
    ),
    ops.Crop: Operator(_CPU, "crop", None, "Crop", lambda op: (_STEPS(tuple(op.start)), _STEPS(tuple(op.stride)))),
    ops.Gather: Operator(
        _CPU, "gather", None, "Gather", lambda op: (op.rows, op.columns, op.channels, float(op.filling))
    ),
    ops.TransposeReshape: Operator(
        _CPU, "transpose", None, "TransposeReshape", lambda op: (op.dims, op.axes, op.order is Order.CHW)
    ),
    ops.SpaceToDepth: Operator(
        _CPU, "space to depth", None, "SpaceToDepth", lambda op: (*op.block, op.padding.top, op.padding.left)
    ),
    ops.PriorBox: Operator(_CPU, "prior box", None, "PriorBox", _prior_box),
    ops.DetectionOutput: Operator(_CPU, "detection output", None, "DetectionOutput", _detection_output),
    ops.DetectionInBoxes: Operator(
        _CPU, "detection output", None, "DetectionOutput", lambda op: _detection_output(op.detection),
        lambda op: ((op.boxes, ElementType.FLOAT),),
    ),
    ops.InPieces: Operator(_CPU, "functions in pieces", None, "InPieces"),
    ops.OnCpu: Operator(_CPU, "function", LayerType.CUSTOM),
    ops.Custom: Operator(Executor.FIRMWARE, "custom", LayerType.CUSTOM),
}  # fmt: skip


def kernel_call(op: Op) -> CpuKernelCall:
    """The call that does the operator's work on the CPU."""
    row = OPERATORS[type(op)]
    assert row.function, f"{type(op).__name__} has no function for the CPU"
    return CpuKernelCall(row.function, row.arguments(op))


def constants_of(op: Op) -> Arrays:
    """The arrays that the operator's function takes beside maps."""
    return OPERATORS[type(op)].constants(op)


def describe(op: Op) -> str:
    """What an operator does, with the settings that matter for who can do it."""
    match op:
        case ops.OnCpu(op=inner):
            return describe(inner)
        case ops.InPieces(steps=steps):
            return ", ".join(describe(step.op) for step in steps)
        case ops.Unary(function=function) | ops.Activation(function=function):
            return words_of(type(function))
        case ops.Binary(operation=operation):
            return operation.value
        case ops.Conv2d() | ops.ConvTranspose2d():
            depthwise = "depthwise " * op.is_depthwise
            groups = f" in {op.groups} groups" * (op.groups > 1 and not op.is_depthwise)
            dilation = f" dilated by {op.window.dilation}" * (op.window.dilation != ONE)
            return f"{depthwise}{words_of(type(op))} {op.window.kernel}{groups}{dilation}"
        case ops.MaxPool2d() | ops.AveragePool2d():
            return f"{words_of(type(op))} {op.window.kernel}"
        case ops.Upsample(factor=factor):
            return f"{words_of(type(op))} by {factor}"
        case _:
            return words_of(type(op))


def words_of(kind: type) -> str:
    """An operator's words; those of a function come from its name: HardSwish is "hard swish"."""
    if kind in OPERATORS:
        return OPERATORS[kind].words
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
