"""Nodes that reduce axes, and softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.arithmetic import whole_map
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, onnx
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, BinaryOp, Reduction

REDUCTIONS = {
    "ReduceMean": Reduction.MEAN,
    "ReduceSum": Reduction.SUM,
    "ReduceMax": Reduction.MAXIMUM,
    "ReduceMin": Reduction.MINIMUM,
    "ReduceL1": Reduction.SUM_OF_MAGNITUDES,
    "ReduceL2": Reduction.SUM_OF_SQUARES,
    "ReduceSumSquare": Reduction.SUM_OF_SQUARES,
}
# Those that change a single number.
OF_ONE_NUMBER: Mapping[str, ops.Op] = {
    "ReduceL1": ops.Unary(ops.Absolute()),
    "ReduceL2": ops.Unary(ops.Absolute()),
    "ReduceSumSquare": ops.Unary(ops.Power(2.0)),
}


@onnx.reads(
    *REDUCTIONS, settings="axes keepdims noop_with_empty_axes", makes=[ops.Reduce, ops.AveragePool2d, ops.MaxPool2d],
    limits="axes: constant; of more than four axes: neighbors only",
)  # fmt: skip
def read_reduction(reading: OnnxReading) -> OnnxTensor:
    x, listed = reading.input, reading.integers_of("axes", 1)
    keeps = bool(reading.integer("keepdims", 1))
    keeps_all = bool(reading.integer("noop_with_empty_axes", 0))
    if not listed and keeps_all:
        return reading.add(OF_ONE_NUMBER.get(reading.node.type, ops.Identity()), x, dims=x.dims)
    axes = [reading.axis_in(x.dims, axis) for axis in listed or range(x.rank)]
    is_root = reading.node.type == "ReduceL2"
    reduced = _reduced(reading, x, REDUCTIONS[reading.node.type], sorted({*axes}), "reduced")
    dims = reduced.dims if keeps else tuple(n for at, n in enumerate(reduced.dims) if at not in axes)
    if is_root:
        reduced = reading.add(ops.Unary(ops.Power(0.5)), reduced, part="root", dims=reduced.dims)
    return reading.reshape(reduced, dims)


def _reduced(reading: OnnxReading, x: OnnxTensor, reduction: Reduction, axes: Sequence[int], part: str) -> OnnxTensor:
    """The axes get length 1."""
    dims = tuple(1 if at in axes else n for at, n in enumerate(x.dims))
    changed = [axis for axis in axes if x.dims[axis] != 1] or list(axes)[:1]
    if not changed:
        return reading.add(ops.Identity(), x, part=part, dims=dims)
    counted, map_axes = reading.on_map_axes(x, changed, part)
    op = whole_map(reduction, reading.shape(counted), map_axes)
    lengths = tuple(1 if nchw.axis_of(counted.dims, at) in map_axes else n for at, n in enumerate(counted.dims))
    result = reading.add(op, counted, part=f"{part}/map", dims=lengths)
    return reading.reshape(result, dims, part=part)


@onnx.reads("Softmax", "LogSoftmax", settings="axis", makes=[ops.Softmax, ops.Reduce, ops.Binary])
def read_softmax(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    axis = reading.axis_in(x.dims, reading.integer("axis", 1 if reading.opset < 13 else -1))
    if reading.opset < 13 and math.prod(x.dims[axis + 1 :]) > 1:  # over all axes from this one on
        flat = reading.reshape(x, (math.prod(x.dims[:axis]), math.prod(x.dims[axis:])), part="flat")
        return reading.reshape(_softmax(reading, flat, 1, "softmax"), x.dims)
    return _softmax(reading, x, axis)


def _softmax(reading: OnnxReading, x: OnnxTensor, axis: int, part: str = "") -> OnnxTensor:
    inside = f"{part}/" if part else ""
    counted, (on,) = reading.on_map_axes(x, [axis], part, plain=reading.node.type == "LogSoftmax")
    is_whole = counted.dims == x.dims
    if reading.node.type == "Softmax":
        result = reading.add(ops.Softmax(on), counted, part=part if is_whole else f"{inside}along", dims=counted.dims)
    else:
        result = _log_softmax(reading, counted, on, inside)
    return result if is_whole and reading.node.type == "Softmax" else reading.reshape(result, x.dims, part=part)


def _log_softmax(reading: OnnxReading, x: OnnxTensor, axis: Axis, inside: str) -> OnnxTensor:
    """x - maximum - log(sum(exp(x - maximum))): the logarithm of a softmax would lose small probabilities."""

    def add(op: ops.Op, *inputs: OnnxTensor, part: str, dims: Dims) -> OnnxTensor:
        return reading.add(op, *inputs, part=f"{inside}{part}", dims=dims)

    one = tuple(1 if nchw.axis_of(x.dims, at) is axis else n for at, n in enumerate(x.dims))
    maximum = add(ops.Reduce(Reduction.MAXIMUM, (axis,)), x, part="maximum", dims=one)
    shifted = add(ops.Binary(BinaryOp.SUBTRACT), x, maximum, part="shifted", dims=x.dims)
    exponentials = add(ops.Unary(ops.Exponential()), shifted, part="exponentials", dims=x.dims)
    total = add(ops.Reduce(Reduction.SUM, (axis,)), exponentials, part="total", dims=one)
    logarithm = add(ops.Unary(ops.Logarithm()), total, part="logarithm", dims=one)
    return add(ops.Binary(BinaryOp.SUBTRACT), shifted, logarithm, part="difference", dims=x.dims)


@onnx.reads("ArgMax", settings="axis keepdims select_last_index", makes=[ops.ArgMax])
def read_arg_max(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    axis = reading.axis_in(x.dims, reading.integer("axis", 0))
    last = bool(reading.integer("select_last_index", 0))
    counted, (on,) = reading.on_map_axes(x, [axis], "argmax")
    lengths = tuple(1 if nchw.axis_of(counted.dims, at) is on else n for at, n in enumerate(counted.dims))
    indices = reading.add(
        ops.ArgMax(on, last_of_equals=last), counted, part="argmax", dims=lengths, integers=(0, x.dims[axis] - 1)
    )
    keeps = bool(reading.integer("keepdims", 1))
    return reading.reshape(indices, (*x.dims[:axis], *[1] * keeps, *x.dims[axis + 1 :]))
