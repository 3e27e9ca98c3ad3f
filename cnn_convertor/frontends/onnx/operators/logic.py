"""Comparisons, and functions of truth values, which are 1 or 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cnn_convertor.frontends.builder import prefix_of
from cnn_convertor.frontends.onnx.operators.elementwise import combined, expanded_to, scaled
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, Value, as_float, onnx
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import BinaryOp

TRUTH = (0, 1)  # the range of truth values


def exceeds(reading: OnnxReading, x: Value, y: Value, part: str = "") -> OnnxTensor:
    """Whether x > y. The difference of two FP16 numbers has the right sign: it is never rounded to 0."""
    inside = prefix_of(part)
    if isinstance(y, Stored) and isinstance(x, OnnxTensor) and (limit := _same_number(y)) is not None:
        wide = expanded_to(reading, x, y.dims, inside)
        return reading.add(ops.Unary(ops.Threshold(limit)), wide, part=part, dims=wide.dims, integers=TRUTH)
    if isinstance(x, Stored) and isinstance(y, OnnxTensor) and (limit := _same_number(x)) is not None:
        wide = expanded_to(reading, y, x.dims, inside)
        negated = scaled(reading, wide, np.float32(-1), None, f"{inside}negated")
        return reading.add(ops.Unary(ops.Threshold(-limit)), negated, part=part, dims=wide.dims, integers=TRUTH)
    difference = combined(reading, BinaryOp.SUBTRACT, x, y, part=f"{inside}difference")
    return reading.add(ops.Unary(ops.Threshold()), difference, part=part, dims=difference.dims, integers=TRUTH)


def _same_number(stored: Stored) -> float | None:
    """The number of a constant whose numbers are all the same."""
    numbers = as_float(stored.load())
    return float(numbers.flat[0]) if numbers.size and np.all(numbers == numbers.flat[0]) else None


def differ(reading: OnnxReading, x: Value, y: Value, part: str = "") -> OnnxTensor:
    """Whether x is more than y, or less."""
    inside = prefix_of(part)
    more = exceeds(reading, x, y, f"{inside}more")
    less = exceeds(reading, y, x, f"{inside}less")
    return combined(reading, BinaryOp.MAXIMUM, more, less, part=part)


def _not(reading: OnnxReading, x: OnnxTensor) -> OnnxTensor:
    return scaled(reading, x, np.float32(-1), np.ones(1))


COMPARISONS: Mapping[str, Callable[[OnnxReading, Value, Value], OnnxTensor]] = {
    "Greater": exceeds,
    "Less": lambda reading, x, y: exceeds(reading, y, x),
    "GreaterOrEqual": lambda reading, x, y: _not(reading, exceeds(reading, y, x, "less")),
    "LessOrEqual": lambda reading, x, y: _not(reading, exceeds(reading, x, y, "more")),
    "Equal": lambda reading, x, y: _not(reading, differ(reading, x, y, "differ")),
    "And": lambda reading, x, y: combined(reading, BinaryOp.MULTIPLY, x, y),
    "Or": lambda reading, x, y: combined(reading, BinaryOp.MAXIMUM, x, y),
    "Xor": differ,
}


@onnx.reads(*COMPARISONS, makes=[ops.Binary, ops.Scale, ops.Threshold])
def read_comparison(reading: OnnxReading) -> OnnxTensor:
    x, y = reading.at(0), reading.at(1)
    if x is None or y is None:
        raise reading.wrong("an input is missing")
    return COMPARISONS[reading.node.type](reading, x, y)._replace(integers=TRUTH)


@onnx.reads("Not", makes=[ops.Scale])
def read_not(reading: OnnxReading) -> OnnxTensor:
    return _not(reading, reading.input)._replace(integers=TRUTH)


@onnx.reads("IsNaN", makes=[ops.Binary, ops.Scale, ops.Threshold])
def read_is_nan(reading: OnnxReading) -> OnnxTensor:
    """Every number is more than -1 or less than 1; NaN is neither."""
    x = reading.input
    above_minus_1 = ops.Unary(ops.Threshold(-1.0))
    negated = scaled(reading, x, np.float32(-1), None, "negated")
    more = reading.add(above_minus_1, x, part="more")
    less = reading.add(above_minus_1, negated, part="less")
    return _not(reading, combined(reading, BinaryOp.MAXIMUM, more, less, part="number"))._replace(integers=TRUTH)
