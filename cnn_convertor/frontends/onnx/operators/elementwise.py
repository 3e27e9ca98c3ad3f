"""Arithmetic of two or more inputs, with numpy's broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.arithmetic import scale_and_shift
from cnn_convertor.frontends.builder import prefix_of
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, Value, as_float, onnx
from cnn_convertor.frontends.onnx.stored import Numbers, Stored
from cnn_convertor.frontends.readers import numbered
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, BinaryOp, Op, Pair

ARITHMETIC = {
    "Add": BinaryOp.ADD,
    "Sub": BinaryOp.SUBTRACT,
    "Mul": BinaryOp.MULTIPLY,
    "Div": BinaryOp.DIVIDE,
    "Max": BinaryOp.MAXIMUM,
    "Min": BinaryOp.MINIMUM,
    "Sum": BinaryOp.ADD,
    "Mean": BinaryOp.ADD,
}
HIDDEN = -30000.0  # added to a score, makes its weight in a softmax 0; a map in FP16 can hold it
MADE = [ops.Add, ops.Binary, ops.Scale]


@onnx.reads("Add", "Sub", "Mul", "Div", makes=[*MADE, ops.Power, ops.Upsample])
def read_arithmetic(reading: OnnxReading) -> OnnxTensor:
    if len(reading.inputs) != 2:
        raise reading.wrong(f"the node takes 2 inputs, not {len(reading.inputs)}")
    x, y = _operands(reading)
    return combined(reading, ARITHMETIC[reading.node.type], x, y)


@onnx.reads("Max", "Min", "Sum", "Mean", makes=[*MADE, ops.Clip, ops.Relu, ops.Upsample])
def read_variadic(reading: OnnxReading) -> OnnxTensor:
    operation = ARITHMETIC[reading.node.type]
    values = _operands(reading)
    values.sort(key=lambda value: isinstance(value, Stored))  # the order does not matter; the first must be a tensor
    is_mean = reading.node.type == "Mean" and len(values) > 1
    parts = numbered(operation.name.lower())
    first, *further = values
    assert isinstance(first, OnnxTensor)
    result = first
    for position, value in enumerate(further, 1):
        is_last = position == len(further) and not is_mean
        result = combined(reading, operation, result, value, part="" if is_last else next(parts))
    if is_mean:
        return reading.add(scale_and_shift(reading.shape(result).channels, 1 / len(values)), result, dims=result.dims)
    return result if further else reading.add(ops.Identity(), result)


def _operands(reading: OnnxReading) -> list[Value]:
    values = [value for value in reading.all_inputs() if value is not None]
    if len(values) != len(reading.inputs) or not values:
        raise reading.wrong("an input is missing")
    return values


def combined(reading: OnnxReading, operation: BinaryOp, x: Value, y: Value, part: str = "") -> OnnxTensor:
    """An operation of two values, of which at least one depends on the network's input."""
    if isinstance(y, Stored):
        assert isinstance(x, OnnxTensor)
        return with_constant(reading, operation, x, as_float(y.load()), swapped=False, part=part)
    if isinstance(x, Stored):
        return with_constant(reading, operation, y, as_float(x.load()), swapped=True, part=part)
    return _of_tensors(reading, operation, x, y, part)


def _of_tensors(reading: OnnxReading, operation: BinaryOp, x: OnnxTensor, y: OnnxTensor, part: str) -> OnnxTensor:
    inside = prefix_of(part)
    if x.dims == y.dims:
        op: Op = ops.Add() if operation is BinaryOp.ADD else ops.Binary(operation)
        result = reading.add(op, x, y, part=part, dims=x.dims)
        for gate, gated in ((x, y), (y, x)):
            if operation is BinaryOp.MULTIPLY and gate.gated is not None and gate.gated.node == gated.node:
                return result._replace(bounds=gate.gated.bounds)
        return result
    dims = broadcast(reading, x.dims, y.dims)
    x = widened(reading, x, len(dims), f"{inside}widened0")
    y = widened(reading, y, len(dims), f"{inside}widened1")
    merged = _merged_axes(x.dims, y.dims)
    if len(merged) > 3:
        sizes = f"{nchw.text_of(x.dims)} and {nchw.text_of(y.dims)}"
        raise reading.unsupported(f"{sizes} cannot be combined: they repeat along more than three groups of axes")
    if not (nchw.is_plain(x.dims) and nchw.is_plain(y.dims)):
        x = _with_merged(reading, x, merged, f"{inside}merged0")
        y = _with_merged(reading, y, merged, f"{inside}merged1")
    return reading.add(ops.Binary(operation), x, y, part=part, dims=dims)


def _with_merged(reading: OnnxReading, x: OnnxTensor, groups: Sequence[Sequence[int]], part: str) -> OnnxTensor:
    """x with one axis for each group of axes."""
    lengths = [math.prod(x.dims[at] for at in axes) for axes in groups]
    return reading.reshape(x, (1, *lengths), part=part)


def _merged_axes(x: Dims, y: Dims) -> list[list[int]]:
    """Neighboring axes along which the same of two arrays repeats, or neither; without axes of length 1 in both."""
    groups: list[tuple[int, list[int]]] = []
    for at, (a, b) in enumerate(zip(x, y, strict=True)):
        if a == b == 1:
            continue
        kind = (a > b) - (a < b)
        if groups and groups[-1][0] == kind:
            groups[-1][1].append(at)
        else:
            groups.append((kind, [at]))
    return [axes for _, axes in groups]


def broadcast(reading: OnnxReading, *shapes: Dims) -> Dims:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        sizes = " and ".join(map(nchw.text_of, shapes))
        raise reading.wrong(f"{sizes} cannot be combined", "check the sizes of the node's inputs") from None


def widened(reading: OnnxReading, x: OnnxTensor, rank: int, part: str) -> OnnxTensor:
    """With axes of length 1 at the front."""
    return x if x.rank == rank else reading.reshape(x, (1,) * (rank - x.rank) + x.dims, part=part)


# --- with constants ------------------------------------------------------------------------------------------------------


def with_constant(
    reading: OnnxReading, operation: BinaryOp, x: OnnxTensor, numbers: Numbers, *, swapped: bool, part: str = ""
) -> OnnxTensor:
    """x and a constant; swapped: the constant comes first."""
    inside = prefix_of(part)
    x = expanded_to(reading, x, numbers.shape, inside)
    dims = x.dims
    match operation:
        case BinaryOp.ADD:
            is_mask = reading.softmax_axes and {*reading.softmax_axes} <= {-1, len(dims) - 1}
            return scaled(reading, x, None, hidden(numbers) if is_mask else numbers, part)
        case BinaryOp.SUBTRACT if swapped:
            return scaled(reading, x, np.float32(-1), numbers, part)
        case BinaryOp.SUBTRACT:
            return scaled(reading, x, None, -numbers, part)
        case BinaryOp.MULTIPLY:
            return scaled(reading, x, numbers, None, part)
        case BinaryOp.DIVIDE if swapped:
            inverse = reading.add(ops.Unary(ops.Power(-1.0)), x, part=f"{inside}inverse", dims=dims)
            return scaled(reading, inverse, numbers, None, part)
        case BinaryOp.DIVIDE:
            if not np.all(numbers):
                raise reading.wrong("the node divides by zero")
            return scaled(reading, x, 1 / numbers, None, part)
        case BinaryOp.MAXIMUM | BinaryOp.MINIMUM if numbers.size and np.all(numbers == numbers.flat[0]):
            limit = float(numbers.flat[0])
            is_maximum = operation is BinaryOp.MAXIMUM
            if is_maximum and limit == 0:
                return reading.add(ops.Activation(ops.Relu()), x, part=part, dims=dims)
            clip = ops.Clip(limit, math.inf) if is_maximum else ops.Clip(-math.inf, limit)
            return reading.add(ops.Unary(clip), x, part=part, dims=dims)
        case BinaryOp.MAXIMUM | BinaryOp.MINIMUM:
            like = scaled(reading, x, np.float32(0), numbers, f"{inside}constant")
            return reading.add(ops.Binary(operation), x, like, part=part, dims=dims)
        case BinaryOp.MASK:
            raise AssertionError("a mask depends on the network's input")


def expanded_to(reading: OnnxReading, x: OnnxTensor, other: Dims, inside: str) -> OnnxTensor:
    """x repeated along the axes that broadcast against another shape. inside: what the names of its nodes begin with."""
    dims = broadcast(reading, x.dims, other)
    x = widened(reading, x, len(dims), f"{inside}widened")
    return expanded(reading, x, dims, f"{inside}expanded") if x.dims != dims else x


def hidden(numbers: Numbers) -> Numbers:
    """A mask without numbers that no map can hold, such as minus infinity, if each row shows something."""
    shows = numbers.size > 0 and bool(np.all(np.max(numbers, axis=-1 if numbers.ndim else None) > HIDDEN / 2))
    return np.maximum(numbers, np.float32(HIDDEN)) if shows else numbers


def scaled(
    reading: OnnxReading, x: OnnxTensor, factor: Numbers | np.floating | None, shift: Numbers | None, part: str = ""
) -> OnnxTensor:
    """x * factor + shift. The arrays fit the axes of x, which do not change."""
    inside = prefix_of(part)
    arrays: list[Numbers] = []
    longer: set[int] = set()  # axes along which the numbers differ
    for numbers in (1.0 if factor is None else factor, shift):
        if numbers is not None:
            array = np.asarray(numbers, np.float32)
            array = array.reshape((1,) * (x.rank - array.ndim) + array.shape)
            longer.update(axis for axis, size in enumerate(array.shape) if size > 1)
            arrays.append(array)
    channels = {axis for axis in range(x.rank) if nchw.axis_of(x.dims, axis) is Axis.CHANNELS}
    if longer <= channels and len(channels) <= 1:
        op = scale_and_shift(reading.shape(x).channels, *(array.reshape(-1) for array in arrays))
        return reading.add(op, x, part=part, dims=x.dims)
    first, last = min(longer), max(longer)
    size = math.prod(x.dims[first : last + 1])
    if size < math.prod(x.dims):
        within = (1,) * first + x.dims[first : last + 1] + (1,) * (x.rank - last - 1)
        every = [np.broadcast_to(array, within).reshape(-1) for array in arrays]
        runs = (math.prod(x.dims[:first]), size, math.prod(x.dims[last + 1 :]))
        return along_channels(reading, x, runs, lambda: scale_and_shift(size, *every), part)
    every = [np.broadcast_to(array, x.dims).reshape(-1) for array in arrays]
    vector = reading.reshape(x, (1, size), part=f"{inside}counted_elements")
    vector = reading.add(scale_and_shift(size, *every), vector, part=f"{inside}scaled")
    return reading.reshape(vector, x.dims, part=part)


def expanded(reading: OnnxReading, x: OnnxTensor, dims: Dims, part: str = "") -> OnnxTensor:
    """Repeated along axes of length 1, to dims of the same number of axes."""
    longer = [axis for axis, (n, target) in enumerate(zip(x.dims, dims, strict=True)) if n != target]
    if not longer:
        return reading.add(ops.Identity(), x, part=part, dims=dims)
    inside = prefix_of(part)
    for axis in longer:
        name = part if axis == longer[-1] else f"{inside}axis{axis}"
        wide = nchw.with_length(x.dims, axis, dims[axis])
        counted = (1, *nchw.around(x.dims, axis))
        flat = reading.reshape(x, counted, part=f"{inside}counted{axis}")
        x = reading.add(ops.Upsample(Pair(dims[axis], 1)), flat, part=name, dims=wide)
    return x


# --- functions with a parameter that broadcasts --------------------------------------------------------------------------


@onnx.reads("Pow", makes=[ops.Power, ops.Identity], limits="a constant exponent, the same for all")
def read_pow(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    exponents = reading.numbers(1, "the exponent")
    if exponents is None or not exponents.size or not np.all(exponents == exponents.flat[0]):
        raise reading.unsupported("powers with different exponents cannot be converted")
    dims = broadcast(reading, x.dims, exponents.shape)
    if dims != x.dims:
        raise reading.unsupported("an exponent of more elements than the input cannot be converted")
    exponent = float(exponents.flat[0])
    return reading.add(ops.Identity() if exponent == 1 else ops.Unary(ops.Power(exponent)), x, dims=dims)


@onnx.reads("PRelu", makes=[ops.PRelu, ops.Relu, ops.Scale, ops.Add], limits="constant slopes")
def read_prelu(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    stored = reading.needed_stored(1, "the slope")
    dims = (1,) * (x.rank - len(stored.dims)) + stored.dims
    longer = [axis for axis, size in enumerate(dims) if size > 1]
    if len(dims) > x.rank or any(dims[axis] != x.dims[axis] for axis in longer):
        raise reading.wrong(f"slopes of {nchw.text_of(stored.dims)} do not fit {nchw.text_of(x.dims)}")
    if not longer:
        slope = float(reading.constant(stored, (1,), "slope").load()[0])
        return reading.add(ops.Activation(ops.Relu(slope)), x, dims=x.dims)
    if len(longer) > 1:
        positive = reading.add(ops.Activation(ops.Relu()), x, part="positive", dims=x.dims)
        negative = scaled(reading, x, np.float32(-1), None, "negated")
        negative = reading.add(ops.Activation(ops.Relu()), negative, part="negative", dims=x.dims)
        negative = scaled(reading, negative, -as_float(stored.load()), None, "sloped")
        return reading.add(ops.Add(), positive, negative, dims=x.dims)
    slopes = reading.constant(stored, (stored.size,), "slope")
    return on_channels(reading, x, longer[0], lambda: ops.Activation(ops.PRelu(slopes)))


def on_channels(reading: OnnxReading, x: OnnxTensor, axis: int, op: Callable[[], Op]) -> OnnxTensor:
    """An operator on channels, along any axis of the array: the axis becomes the channels, and is moved back."""
    if nchw.is_plain(x.dims) and nchw.axis_of(x.dims, axis) is Axis.CHANNELS:
        return reading.add(op(), x)
    return along_channels(reading, x, nchw.around(x.dims, axis), op)


def along_channels(
    reading: OnnxReading, x: OnnxTensor, runs: tuple[int, int, int], op: Callable[[], Op], part: str = ""
) -> OnnxTensor:
    """An operator on channels, which are the middle one of three runs of axes: they are moved to the front, and back."""
    before, size, after = runs
    inside = prefix_of(part)
    first = reading.permute(x, runs, (1, 0, 2), (1, size, before, after), part=f"{inside}channels_first")
    result = reading.add(op(), first, part=f"{inside}on_channels")
    return reading.permute(result, (size, before, after), (1, 0, 2), x.dims, part=part)
