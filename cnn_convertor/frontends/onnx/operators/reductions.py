"""Nodes that reduce axes, and softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.arithmetic import whole_map
from cnn_convertor.frontends.builder import prefix_of
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.operators.elementwise import scaled
from cnn_convertor.frontends.onnx.operators.products import product_along
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, onnx
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Axis, BinaryOp, Reduction

LONGEST_SUM = 1 << 11  # elements of a running sum, whose triangle of weights has the square of it
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
    *REDUCTIONS, settings="axes keepdims noop_with_empty_axes",
    makes=[ops.Reduce, ops.AveragePool2d, ops.MaxPool2d, ops.Absolute, ops.Power],
    limits="axes: constant; of more than four axes: neighbors only",
)  # fmt: skip
def read_reduction(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    listed = reading.integers_of("axes", 1)
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


@onnx.reads(
    "Softmax", "LogSoftmax", settings="axis",
    makes=[ops.Softmax, ops.Reduce, ops.Binary, ops.Exponential, ops.Logarithm],
)  # fmt: skip
def read_softmax(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    axis = reading.axis_in(x.dims, reading.integer("axis", 1 if reading.opset < 13 else -1))
    if reading.opset < 13 and math.prod(x.dims[axis + 1 :]) > 1:  # over all axes from this one on
        flat = reading.reshape(x, (math.prod(x.dims[:axis]), math.prod(x.dims[axis:])), part="flat")
        return reading.reshape(_softmax(reading, flat, 1, "softmax"), x.dims)
    return _softmax(reading, x, axis)


def _softmax(reading: OnnxReading, x: OnnxTensor, axis: int, part: str = "") -> OnnxTensor:
    inside = prefix_of(part)
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


@onnx.reads("ArgMax", "ArgMin", settings="axis keepdims select_last_index", makes=[ops.ArgMax, ops.Scale])
def read_arg_max(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    axis = reading.axis_in(x.dims, reading.integer("axis", 0))
    last = bool(reading.integer("select_last_index", 0))
    if reading.node.type == "ArgMin":
        x = scaled(reading, x, np.float32(-1), None, "negated")
    indices = _top(reading, x, axis, ops.ArgMax(None, last_of_equals=last), "argmax")
    length = (1,) if reading.integer("keepdims", 1) else ()
    return reading.reshape(indices, x.dims[:axis] + length + x.dims[axis + 1 :])


@onnx.reads("TopK", settings="axis largest sorted k", makes=[ops.ArgMax, ops.Scale], limits="a constant count; sorted")
def read_top(reading: OnnxReading) -> list[OnnxTensor]:
    x = reading.input
    counts = reading.integers_at(1, "the count") if reading.opset > 9 else [reading.integer("k", 0)]
    axis = reading.axis_in(x.dims, reading.integer("axis", -1))
    if not counts or not 1 <= counts[0] <= x.dims[axis]:
        raise reading.wrong(f"{counts} of {x.dims[axis]} elements are asked for")
    reading.take("sorted")  # in any order, so also in descending order
    largest = bool(reading.integer("largest", 1))
    signed = x if largest else scaled(reading, x, np.float32(-1), None, "negated")
    dims = nchw.with_length(x.dims, axis, counts[0])
    results = []
    for at, (name, needed) in enumerate(zip(reading.node.outputs, reading.needed, strict=True)):
        if not needed:
            results.append(OnnxTensor("", dims))
            continue
        top = _top(reading, signed, axis, ops.ArgMax(None, counts[0], values=at == 0), f"top{at}")
        if at == 0 and not largest:
            top = scaled(reading, top, np.float32(-1), None, "lowest")
        results.append(reading.add(ops.Identity(), top, name=name, dims=dims, integers=top.integers))
    return results


def _top(reading: OnnxReading, x: OnnxTensor, axis: int, op: ops.ArgMax, part: str) -> OnnxTensor:
    """The operator along an axis, which gets the length of its count."""
    counted, (on,) = reading.on_map_axes(x, [axis], part)
    lengths = tuple(op.count if nchw.axis_of(counted.dims, at) is on else n for at, n in enumerate(counted.dims))
    indices = None if op.values else (0, x.dims[axis] - 1)
    top = reading.add(replace(op, axis=on), counted, part=f"{part}/map", dims=lengths, integers=indices)
    return reading.reshape(top, nchw.with_length(x.dims, axis, op.count), part=part)


@onnx.reads("CumSum", settings="exclusive reverse", makes=[ops.Conv2d, ops.Dense], limits="a constant axis")
def read_cumsum(reading: OnnxReading) -> OnnxTensor:
    """A product with a triangle of ones."""
    x = reading.input
    axes = reading.integers_at(1, "the axis")
    if not axes:
        raise reading.wrong("the axis is missing")
    axis = reading.axis_in(x.dims, axes[0])
    size = x.dims[axis]
    if size > LONGEST_SUM:
        raise reading.unsupported(f"running sums of {size:,} elements are longer than {LONGEST_SUM:,}")
    ones = np.tri(size, k=-1 if reading.integer("exclusive", 0) else 0, dtype=np.float32)
    weight = Constant.of(ones[::-1, ::-1] if reading.integer("reverse", 0) else ones)
    return product_along(reading, x, axis, weight, rows="moved", sums="sums")
