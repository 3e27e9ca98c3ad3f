"""Nodes that multiply by a matrix."""

from __future__ import annotations

import math

import numpy as np

from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.builder import prefix_of
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.operators.elementwise import broadcast, combined, expanded, scaled, widened
from cnn_convertor.frontends.onnx.operators.shapes import constant_tensor
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, Value, as_float, onnx
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, BinaryOp, Window


@onnx.reads(
    "Gemm", settings="alpha beta transA transB", makes=[ops.Dense, ops.Conv2d, ops.MatMul, ops.Scale],
)  # fmt: skip
def read_gemm(reading: OnnxReading) -> OnnxTensor:
    a, b, c = map(reading.at, range(3))
    if not isinstance(a, OnnxTensor) or isinstance(b, OnnxTensor) or isinstance(c, OnnxTensor):
        return _gemm_of_maps(reading)
    x = reading.input
    matrix = reading.needed_stored(1, "the matrix B")
    alpha = reading.number("alpha", 1.0)
    beta = reading.number("beta", 1.0)
    if len(matrix.dims) != 2 or x.rank != 2:
        raise reading.wrong(f"Gemm takes matrices, not {x.rank} and {len(matrix.dims)} axes")
    if reading.integer("transA", 0):
        x = reading.transpose(x, (1, 0), part="transposed")
    outputs_are_rows = bool(reading.integer("transB", 0))
    bias = reading.stored(2, "C")
    rows = x.dims[0]
    columns = matrix.dims[0 if outputs_are_rows else 1]
    if bias is not None and broadcast(reading, (rows, columns), bias.dims) != (rows, columns):
        raise reading.wrong(f"C of {nchw.text_of(bias.dims)} does not fit {rows}x{columns}")
    weight = _matrix(reading, matrix, outputs_are_rows=outputs_are_rows)
    if alpha != 1.0:
        weight = weight.map_rows(lambda w: w * np.float32(alpha))
    if bias is None or bias.size in (1, *bias.dims[-1:]):
        return product(reading, x, weight, None if bias is None else _bias(reading, bias, columns, beta))
    result = product(reading, x, weight, None, part="product")
    return scaled(reading, result, None, as_float(bias.load()) * np.float32(beta))


def _gemm_of_maps(reading: OnnxReading) -> OnnxTensor:
    """alpha * A B + beta * C, where more than A depends on the network's input."""
    alpha = reading.number("alpha", 1.0)
    beta = reading.number("beta", 1.0)
    factors: list[Value] = []
    for at, word in enumerate("AB"):
        value = reading.at(at)
        turns = bool(reading.integer(f"trans{word}", 0))
        if value is None or len(value.dims) != 2:
            raise reading.wrong(f"{word} is not a matrix")
        if turns and isinstance(value, OnnxTensor):
            value = reading.transpose(value, (1, 0), part=f"transposed{word}")
        elif turns and isinstance(value, Stored):
            value = Stored.of(np.ascontiguousarray(as_float(value.load()).T))
        factors.append(value)
    added = reading.at(2)
    left, right = factors
    result = multiplied(reading, left, right, part="" if added is None and alpha == 1.0 else "product")
    if alpha != 1.0:
        result = scaled(reading, result, np.float32(alpha), None, "" if added is None else "alpha")
    if added is None:
        return result
    if isinstance(added, Stored):
        added = Stored.of(as_float(added.load()) * np.float32(beta))
    elif beta != 1.0:
        added = scaled(reading, added, np.float32(beta), None, "beta")
    if broadcast(reading, result.dims, added.dims) != result.dims:
        raise reading.wrong(f"C of {nchw.text_of(added.dims)} does not fit {nchw.text_of(result.dims)}")
    return combined(reading, BinaryOp.ADD, result, added)


@onnx.reads("MatMul", makes=[ops.Dense, ops.Conv2d, ops.MatMul, ops.Crop, ops.Scale, ops.Upsample])
def read_matmul(reading: OnnxReading) -> OnnxTensor:
    x, y = reading.at(0), reading.at(1)
    if x is None or y is None:
        raise reading.wrong("a factor is missing")
    return multiplied(reading, x, y)


def multiplied(reading: OnnxReading, x: Value, y: Value, part: str = "") -> OnnxTensor:
    """The products of the matrices of two values. Raises ModelError if both are constants, which only a damaged node has."""
    inside = prefix_of(part)
    if isinstance(x, OnnxTensor) and isinstance(y, Stored) and _is_one_matrix(y.dims) and x.rank > 1:
        x = widened(reading, x, max(x.rank, len(y.dims)), f"{inside}widened")
        return product(reading, x, _matrix(reading, y, outputs_are_rows=False), None, part)
    if isinstance(x, Stored) and isinstance(y, OnnxTensor) and _is_one_matrix(x.dims) and _is_one_matrix(y.dims):
        return _product_of_columns(reading, _matrix(reading, x, outputs_are_rows=True), y, len(x.dims), part)
    like = next((value for value in (x, y) if isinstance(value, OnnxTensor)), None)
    if like is None:
        raise reading.wrong("both factors are constants, but another input is not")
    if isinstance(x, Stored):
        x = constant_tensor(reading, like, x, f"{inside}constant0")
    if isinstance(y, Stored):
        y = constant_tensor(reading, like, y, f"{inside}constant1")
    return matrix_product(reading, x, y, part)


def _is_one_matrix(dims: Dims) -> bool:
    return len(dims) > 1 and math.prod(dims[:-2]) == 1


def _product_of_columns(reading: OnnxReading, weight: Constant, y: OnnxTensor, rank: int, part: str) -> OnnxTensor:
    """weight * y: the columns of y are pixels of a convolution of 1x1. weight: (O, I)."""
    inside = prefix_of(part)
    outputs, inputs = weight.shape
    rows, columns = y.dims[-2:]
    if rows != inputs:
        raise reading.wrong(f"a matrix for {inputs} inputs meets {rows}")
    kernels = weight.map_rows(lambda w: w.reshape(-1, inputs, 1, 1), (inputs, 1, 1))
    pixels = reading.reshape(y, (1, inputs, columns), part=f"{inside}columns")
    result = reading.add(ops.Conv2d(kernels, None, Window(ONE)), pixels, part=f"{inside}product")
    ones = (1,) * (max(rank, y.rank) - 2)
    return reading.reshape(result, (*ones, outputs, columns), part=part)


def matrix_product(
    reading: OnnxReading, x: OnnxTensor, y: OnnxTensor, part: str = "", *, factor: float = 1.0
) -> OnnxTensor:
    """The products of the matrices in the last two axes, times a factor. A vector is a row on the left, a column on the right."""
    inside = prefix_of(part)
    if not x.rank or not y.rank:
        raise reading.wrong("a factor has no axes")
    is_row, is_column = x.rank == 1, y.rank == 1
    if is_row:
        x = reading.reshape(x, (1, *x.dims), part=f"{inside}row")
    if is_column:
        y = reading.reshape(y, (*y.dims, 1), part=f"{inside}column")
    if x.dims[-1] != y.dims[-2]:
        raise reading.wrong(f"matrices of {nchw.text_of(x.dims)} and {nchw.text_of(y.dims)} do not fit")
    batch = broadcast(reading, x.dims[:-2], y.dims[:-2])
    x = _for_all(reading, x, batch, f"{inside}batch0")
    y = _for_all(reading, y, batch, f"{inside}batch1")
    rows = x.dims[-2:-1]
    columns = y.dims[-1:]
    dims = batch + rows + columns
    shown = batch + (() if is_row else rows) + (() if is_column else columns)
    op = ops.MatMul(nchw.matrices_of(x.dims), nchw.matrices_of(y.dims), nchw.matrices_of(dims), factor)
    if shown == dims:
        return reading.add(op, x, y, part=part, dims=dims)
    return reading.reshape(reading.add(op, x, y, part=f"{inside}product", dims=dims), shown, part=part)


def _for_all(reading: OnnxReading, x: OnnxTensor, batch: Dims, part: str) -> OnnxTensor:
    """x with a matrix for each element of the batch, unless one is for all."""
    x = widened(reading, x, len(batch) + 2, f"{part}/widened")
    return x if math.prod(x.dims[:-2]) == 1 else expanded(reading, x, batch + x.dims[-2:], part)


def product(reading: OnnxReading, x: OnnxTensor, weight: Constant, bias: Constant | None, part: str = "") -> OnnxTensor:
    """x * weight.T + bias, along the last axis of x. weight: (O, I)."""
    inside = prefix_of(part)
    outputs, inputs = weight.shape
    if x.dims[-1] != inputs:
        raise reading.wrong(f"a matrix for {inputs} inputs meets {x.dims[-1]}")
    rows = math.prod(x.dims[:-1])
    dims = (*x.dims[:-1], outputs)
    if rows == 1:
        height, width, channels = reading.shape(x)
        shape = (channels, height, width)
        dense = ops.Dense(weight.map_rows(lambda w: w.reshape(-1, *shape), shape), bias)
        return reading.add(dense, x, part=part, dims=dims)
    # One product for each row: the rows become pixels, and the product a convolution of 1x1.
    kernels = weight.map_rows(lambda w: w.reshape(-1, inputs, 1, 1), (inputs, 1, 1))
    pixels = reading.permute(x, (rows, inputs), (1, 0), (1, inputs, rows), part=f"{inside}rows")
    result = reading.add(ops.Conv2d(kernels, bias, Window(ONE)), pixels, part=f"{inside}product")
    return reading.permute(result, (outputs, rows), (1, 0), dims, part=part)


def product_along(
    reading: OnnxReading, x: OnnxTensor, axis: int, weight: Constant, part: str = "", *, rows: str, sums: str
) -> OnnxTensor:
    """x * weight.T, along any axis of x. weight: (O, I). rows, sums: names of the parts before the result."""
    order = [*(at for at in range(x.rank) if at != axis), axis]
    result = product(reading, reading.transpose(x, order, part=rows), weight, None, part=sums)
    return reading.transpose(result, [order.index(at) for at in range(x.rank)], part=part)


def _matrix(reading: OnnxReading, stored: Stored, *, outputs_are_rows: bool) -> Constant:
    """The weights (outputs, inputs)."""
    rows, columns = stored.dims[-2:]
    matrix = reading.constant(stored, (rows, columns))
    return matrix if outputs_are_rows else matrix.swap_axes()


def _bias(reading: OnnxReading, stored: Stored, columns: int, beta: float) -> Constant:
    constant = reading.constant(stored, (stored.size,), "bias")
    every = Constant((columns,), lambda rows: np.broadcast_to(constant.load(), (columns,))[rows])
    return every if beta == 1.0 else every.map_rows(lambda b: b * np.float32(beta))
