"""The C++ functions that run layers on the CPU: what each operator calls, and the arrays that the call reads."""

from collections.abc import Callable, Mapping
from dataclasses import astuple
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.program import ElementType, StoredArray
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Axis, Op, Order, Window

Arrays: TypeAlias = tuple[tuple[Constant, ElementType], ...]  # vectors or maps, and how the weight buffer holds them
Argument: TypeAlias = "bool | int | float | str | tuple[int, ...] | tuple[float, ...] | CpuKernelCall"


class CpuKernelCall(NamedTuple):
    """A call of a C++ function, after the maps that it reads and writes; as an argument: a value of a struct.

    Arguments that are words are names of constants.
    """

    function: str
    arguments: tuple[Argument, ...] = ()


class CpuFunction(NamedTuple):
    """What does an operator on the CPU, in codegen/kernels.

    arguments: what it takes after the maps. constants: arrays that it takes after the maps that it reads.
    """

    function: str
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


_ALIGNMENT = 16  # bytes, of arrays beside maps
_STEPS = partial(CpuKernelCall, "Steps")

FUNCTIONS: Mapping[type, CpuFunction] = {
    ops.Dense: CpuFunction("Dense", constants=_of_dense),
    ops.MaxPool2d: CpuFunction("MaxPool", lambda op: (_window(op.window),)),
    ops.AveragePool2d: CpuFunction("AveragePool", _average_pool),
    ops.Scale: CpuFunction("Scale", constants=_of_scale),
    ops.PackedFactors: CpuFunction("PackedFactors"),
    ops.PackedMatrices: CpuFunction("PackedMatrices", lambda op: (_matrices(op.matrices), float(op.factor))),
    ops.Concat: CpuFunction("Concat", lambda op: (_axes(op.axis),)),
    ops.Softmax: CpuFunction("Softmax", lambda op: (_axes(op.axis),)),
    ops.Unary: CpuFunction("Unary", lambda op: (CpuKernelCall(type(op.function).__name__, astuple(op.function)),)),
    ops.Binary: CpuFunction("Binary", lambda op: (CpuKernelCall(op.operation.name.capitalize()),)),
    ops.MatMul: CpuFunction(
        "MatMul", lambda op: (_matrices(op.left), _matrices(op.right), _matrices(op.result), float(op.factor))
    ),
    ops.MaxUnpool: CpuFunction("MaxUnpool", lambda op: (_window(op.window),)),
    ops.LocalResponseNorm: CpuFunction(
        "LocalResponseNorm", lambda op: (op.size, op.alpha, op.beta, op.bias, op.across_channels)
    ),
    ops.MeanVarianceNorm: CpuFunction(
        "MeanVarianceNorm", lambda op: (_axes(*op.axes), op.groups, op.divides, float(op.epsilon), op.epsilon_outside)
    ),
    ops.L2Normalize: CpuFunction("L2Normalize", lambda op: (_axes(*op.axes), float(op.epsilon), op.at_least)),
    ops.Reduce: CpuFunction("Reduce", lambda op: (_axes(*op.axes), _constant(op.reduction), float(op.factor))),
    ops.ArgMax: CpuFunction(
        "ArgMax", lambda op: (_axes(*(Axis if op.axis is None else (op.axis,))), op.count, op.values, op.last_of_equals)
    ),
    ops.Resize: CpuFunction(
        "Resize", lambda op: (op.interpolation is ops.Interpolation.BILINEAR, _constant(op.sampling))
    ),
    ops.GridSample: CpuFunction(
        "GridSample",
        lambda op: (op.interpolation is ops.Interpolation.BILINEAR, _constant(op.outside), op.corners, op.images),
    ),
    ops.Crop: CpuFunction("Crop", lambda op: (_STEPS(tuple(op.start)), _STEPS(tuple(op.stride)))),
    ops.Gather: CpuFunction("Gather", lambda op: (op.rows, op.columns, op.channels, float(op.filling))),
    ops.TransposeReshape: CpuFunction("TransposeReshape", lambda op: (op.dims, op.axes, op.order is Order.CHW)),
    ops.SpaceToDepth: CpuFunction("SpaceToDepth", lambda op: (*op.block, op.padding.top, op.padding.left)),
    ops.PriorBox: CpuFunction("PriorBox", _prior_box),
    ops.DetectionOutput: CpuFunction("DetectionOutput", _detection_output),
    ops.DetectionInBoxes: CpuFunction(
        "DetectionOutput", lambda op: _detection_output(op.detection), lambda op: ((op.boxes, ElementType.FLOAT),)
    ),
    ops.InPieces: CpuFunction("InPieces"),
}


def kernel_call(op: Op) -> CpuKernelCall:
    """The call that does the operator's work on the CPU."""
    row = FUNCTIONS.get(type(op))
    assert row is not None, f"{type(op).__name__} has no function for the CPU"
    return CpuKernelCall(row.function, row.arguments(op))


def constants_of(op: Op) -> Arrays:
    """The arrays that the operator's function takes beside maps."""
    row = FUNCTIONS.get(type(op))
    return () if row is None else row.constants(op)


def arrays_at(op: Op, offset: int, where: Origin | None) -> tuple[tuple[StoredArray, ...], int]:
    """What an operator on the CPU reads beside maps, from the offset on, and the offset after it."""
    arrays = []
    for values, kind in constants_of(op.op) if isinstance(op, ops.OnCpu) else ():
        arrays.append(StoredArray(offset, kind, values, where))
        offset += -(-arrays[-1].nbytes // _ALIGNMENT) * _ALIGNMENT
    return tuple(arrays), offset
