"""Nodes that take elements at constant positions, or replace them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.builder import prefix_of
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.folds.index_folds import element_positions, gather_nd
from cnn_convertor.frontends.onnx.operators.elementwise import broadcast, combined, scaled, with_constant
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, Value, as_float, onnx, whole_numbers
from cnn_convertor.frontends.onnx.stored import Numbers, Stored
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import BinaryOp

MOST_INDICES = 1 << 16  # that the generated sources list for a layer
LARGEST = 1 << 24  # elements of an array whose positions are counted
NOWHERE = -1  # the index of the filling number
MAKES = [ops.Gather, ops.Reshape]


def at_positions(
    reading: OnnxReading, x: OnnxTensor, positions: Numbers, part: str = "", filling: float = 0.0
) -> OnnxTensor:
    """The elements of x at these positions, counted in row-major order, as an array of the dims of positions.

    NOWHERE gives the filling number. The operator lists only what its rows do: each of the first parts of x alike, and
    elements that stay neighbors together.
    """
    if not positions.size:
        raise reading.unsupported("a result without elements cannot be converted")
    size = math.prod(x.dims)
    inside = prefix_of(part)
    alike = equal_parts(positions, size)
    one_part = positions.reshape(alike, -1)[0]
    together = block_length(one_part, size // alike)
    starts = one_part[::together]
    rows = np.where(starts < 0, NOWHERE, starts // together)
    if rows.size > MOST_INDICES:
        raise reading.unsupported(f"{rows.size:,} elements without a regular order are more than {MOST_INDICES:,}")
    split = (1, alike, size // alike // together, together)
    array = reading.reshape(x, split, part=f"{inside}elements")
    gather = ops.Gather(rows=tuple(map(int, rows)), filling=filling)
    taken = reading.add(
        gather, array, part=f"{inside}places", dims=(1, alike, rows.size, together), integers=x.integers
    )
    return reading.reshape(taken, positions.shape, part=part)


def equal_parts(positions: Numbers, size: int) -> int:
    """How many equal parts of x give as many equal parts of the result, each in the same way: the most.

    Of each such number its divisors are such numbers, and of two their least common multiple, so primes are tried.
    """
    count = 1
    for prime in _prime_factors(math.gcd(positions.size, size)):
        parts = positions.reshape(count * prime, -1)
        step = size // (count * prime)
        first = parts[:1]
        starts = np.arange(count * prime)[:, None] * step
        if np.array_equal(parts, np.where(first < 0, NOWHERE, first + starts)):
            count *= prime
    return count


def _prime_factors(number: int) -> list[int]:
    factors = []
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor:
            divisor += 1
        else:
            factors.append(divisor)
            number //= divisor
    return factors if number == 1 else [*factors, number]


def block_length(positions: Numbers, size: int) -> int:
    """The length of the longest blocks of x that stay blocks: it divides where runs of neighbors begin, here and in x."""
    before = positions[:-1]
    after = positions[1:]
    begins = np.flatnonzero(np.where(after < 0, before >= 0, (before < 0) | (after != before + 1))) + 1
    sources = positions[np.append(0, begins)]
    return int(np.gcd.reduce([math.gcd(positions.size, size), *begins, *sources[sources >= 0]]))


def _indices(reading: OnnxReading) -> Numbers:
    numbers = reading.needed_stored(1, "the indices").load()
    if numbers.dtype.kind not in "iu" or not numbers.ndim:
        raise reading.wrong("the indices are not an array of integers")
    return numbers


def _checked(reading: OnnxReading, function: Callable[[], Numbers]) -> Numbers:
    """What a function gives that knows the indices are wrong."""
    try:
        return function()
    except (ValueError, IndexError) as error:
        raise reading.wrong(f"the indices do not fit: {error}") from None


def _check_size(reading: OnnxReading, dims: Dims) -> None:
    if math.prod(dims) > LARGEST:
        raise reading.unsupported(f"positions in a map of {math.prod(dims):,} elements cannot be converted")


def _counted(reading: OnnxReading, dims: Dims) -> Numbers:
    """The place of each element."""
    _check_size(reading, dims)
    return np.arange(math.prod(dims)).reshape(dims)


@onnx.reads("GatherND", settings="batch_dims", makes=MAKES, limits="constant indices")
def read_gather_nd(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    indices = _indices(reading)
    batch_axes = reading.integer("batch_dims", 0)
    if not 0 <= batch_axes < min(x.rank, indices.ndim):
        raise reading.wrong(f"{batch_axes} axes of batches do not exist")
    counted = _counted(reading, x.dims)
    _check_size(reading, indices.shape[:-1] + x.dims[batch_axes + indices.shape[-1] :])
    return at_positions(reading, x, _checked(reading, lambda: gather_nd(counted, indices, batch_axes)))


@onnx.reads("GatherElements", settings="axis", makes=MAKES, limits="constant indices")
def read_gather_elements(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    indices = _indices(reading)
    axis = reading.axis_in(x.dims, reading.integer("axis", 0))
    counted = _counted(reading, x.dims)
    return at_positions(reading, x, _checked(reading, lambda: counted[element_positions(x.dims, indices, axis)]))


@onnx.reads("Trilu", settings="upper", makes=MAKES, limits="a constant diagonal")
def read_trilu(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    diagonal = reading.integers_at(1, "the diagonal") or [0]
    if x.rank < 2:
        raise reading.wrong("a vector has no triangles")
    triangle = np.triu if reading.integer("upper", 1) else np.tril
    nearest = min(max(diagonal[0], -max(x.dims)), max(x.dims))  # further out, nothing changes
    return at_positions(reading, x, np.asarray(triangle(_counted(reading, x.dims) + 1, nearest)) - 1)


# --- parts of two arrays -------------------------------------------------------------------------------------------------


def _overlaid(reading: OnnxReading, x: Value, x_positions: Numbers, y: Value, y_positions: Numbers) -> OnnxTensor:
    """Elements of x at their positions, and elements of y where x has none."""
    if isinstance(x, Stored):
        assert isinstance(y, OnnxTensor)
        return _overlaid(reading, y, y_positions, x, x_positions)
    if isinstance(y, OnnxTensor):
        kept = at_positions(reading, x, x_positions, "kept")
        return reading.add(ops.Add(), kept, at_positions(reading, y, y_positions, "replaced"), dims=kept.dims)
    numbers = as_float(y.load()).reshape(-1)[y_positions]
    replaced = x_positions < 0
    values = np.unique(numbers[replaced])
    if len(values) <= 1:
        return at_positions(reading, x, x_positions, filling=float(values[0]) if len(values) else 0.0)
    if not np.all(np.isfinite(values)):
        raise reading.unsupported("constants that are partly infinite cannot replace elements")
    kept = at_positions(reading, x, x_positions, "kept")
    return with_constant(reading, BinaryOp.ADD, kept, np.where(replaced, numbers, 0), swapped=False)


@onnx.reads("ScatterND", "ScatterElements", "Scatter", settings="axis reduction", makes=[*MAKES, ops.Add, ops.Scale, ops.Identity],
            limits="constant indices, each once; reduction: none")  # fmt: skip
def read_scatter(reading: OnnxReading) -> OnnxTensor:
    x, updates = reading.at(0), reading.at(2)
    if x is None or updates is None:
        raise reading.wrong("an input is missing")
    if reading.text("reduction", "none") != "none":
        raise reading.unsupported("a scatter that computes cannot be converted")
    indices = _indices(reading)
    counted = _counted(reading, x.dims)
    if reading.node.type == "ScatterND":
        positions = _checked(reading, lambda: gather_nd(counted, indices, 0))
    else:
        axis = reading.axis_in(x.dims, reading.integer("axis", 0))
        positions = _checked(reading, lambda: counted[element_positions(x.dims, indices, axis)])
    if positions.shape != updates.dims:
        raise reading.wrong(f"updates of {nchw.text_of(updates.dims)} do not fit {nchw.text_of(positions.shape)}")
    if not positions.size and isinstance(x, OnnxTensor):
        return reading.add(ops.Identity(), x, dims=x.dims, integers=x.integers)
    if np.unique(positions).size < positions.size:
        raise reading.unsupported("a scatter that writes elements more than once cannot be converted")
    new_positions = np.full(x.dims, NOWHERE)
    new_positions.reshape(-1)[positions] = np.arange(positions.size).reshape(positions.shape)
    return _overlaid(reading, x, np.where(new_positions < 0, counted, NOWHERE), updates, new_positions)


@onnx.reads(
    "Where", makes=[*MAKES, ops.Add, ops.Scale, ops.Binary], limits="a computed condition chooses no infinite constant"
)
def read_where(reading: OnnxReading) -> OnnxTensor:
    """A constant condition is a matter of positions; a computed one is 1 or 0 for each element."""
    condition, x, y = (reading.at(position) for position in range(3))
    if condition is None or x is None or y is None:
        raise reading.wrong("an input is missing")
    integers = whole_numbers(x, y)
    if isinstance(condition, OnnxTensor):
        return _chosen(reading, condition, x, y)._replace(integers=integers)
    dims = broadcast(reading, condition.dims, x.dims, y.dims)
    _check_size(reading, dims)
    is_x = np.broadcast_to(condition.load() != 0, dims)
    x_positions, y_positions = (np.broadcast_to(_counted(reading, value.dims), dims) for value in (x, y))
    chosen = _overlaid(reading, x, np.where(is_x, x_positions, NOWHERE), y, np.where(is_x, NOWHERE, y_positions))
    return chosen._replace(integers=integers)


def _chosen(reading: OnnxReading, condition: OnnxTensor, x: Value, y: Value) -> OnnxTensor:
    otherwise = scaled(reading, condition, np.float32(-1), np.ones(1), "otherwise")
    chosen = _where_true(reading, condition, x, "if_true")
    replaced = _where_true(reading, otherwise, y, "if_false")
    return combined(reading, BinaryOp.ADD, chosen, replaced)


def _where_true(reading: OnnxReading, mask: OnnxTensor, x: Value, part: str) -> OnnxTensor:
    """x where the mask is 1, and 0 where it is 0."""
    if isinstance(x, OnnxTensor):
        return combined(reading, BinaryOp.MASK, x, mask, part=part)
    numbers = as_float(x.load())
    if not np.all(np.isfinite(numbers)):
        raise reading.unsupported("an infinite constant cannot be chosen by a computed condition")
    return with_constant(reading, BinaryOp.MULTIPLY, mask, numbers, swapped=False, part=part)
