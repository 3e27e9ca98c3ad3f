"""Nodes that multiply by a matrix."""

from __future__ import annotations

import math

import numpy as np

from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.onnx.operators.elementwise import broadcast, scaled, widened
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, as_float, onnx
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, Window


@onnx.reads(
    "Gemm", settings="alpha beta transA transB", makes=[ops.Dense, ops.Conv2d],
    limits="B and C: constants",
)  # fmt: skip
def read_gemm(reading: OnnxReading) -> OnnxTensor:
    x, matrix = reading.input, reading.needed_stored(1, "the matrix B")
    alpha, beta = reading.number("alpha", 1.0), reading.number("beta", 1.0)
    if len(matrix.dims) != 2 or x.rank != 2:
        raise reading.wrong(f"Gemm takes matrices, not {x.rank} and {len(matrix.dims)} axes")
    if reading.integer("transA", 0):
        x = reading.permute(x, x.dims, (1, 0), x.dims[::-1], part="transposed")
    outputs_are_rows = bool(reading.integer("transB", 0))
    bias = reading.stored(2, "C")
    rows, columns = x.dims[0], matrix.dims[0 if outputs_are_rows else 1]
    if bias is not None and broadcast(reading, (rows, columns), bias.dims) != (rows, columns):
        raise reading.wrong(f"C of {nchw.text_of(bias.dims)} does not fit {rows}x{columns}")
    weight = _matrix(reading, matrix, outputs_are_rows=outputs_are_rows)
    if alpha != 1.0:
        weight = weight.map_rows(lambda w: w * np.float32(alpha))
    if bias is None or bias.size in (1, *bias.dims[-1:]):
        return product(reading, x, weight, None if bias is None else _bias(reading, bias, columns, beta))
    result = product(reading, x, weight, None, part="product")
    return scaled(reading, result, None, as_float(bias.load()) * np.float32(beta))


@onnx.reads("MatMul", makes=[ops.Dense, ops.Conv2d], limits="the second input: a constant matrix")
def read_matmul(reading: OnnxReading) -> OnnxTensor:
    x, matrix = reading.input, reading.needed_stored(1, "the matrix B")
    if len(matrix.dims) != 2 and math.prod(matrix.dims[:-2]) != 1:
        raise reading.unsupported("a product with several matrices cannot be converted")
    if len(matrix.dims) < 2 or x.rank < 2:
        raise reading.unsupported("a product with a vector cannot be converted", "give it two axes")
    x = widened(reading, x, max(x.rank, len(matrix.dims)), "widened")
    return product(reading, x, _matrix(reading, matrix, outputs_are_rows=False), None)


def product(reading: OnnxReading, x: OnnxTensor, weight: Constant, bias: Constant | None, part: str = "") -> OnnxTensor:
    """x * weight.T + bias, along the last axis of x. weight: (O, I)."""
    inside = f"{part}/" if part else ""
    outputs, inputs = weight.shape
    if x.dims[-1] != inputs:
        raise reading.wrong(f"a matrix for {inputs} inputs meets {x.dims[-1]}")
    rows, dims = math.prod(x.dims[:-1]), (*x.dims[:-1], outputs)
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


def _matrix(reading: OnnxReading, stored: Stored, *, outputs_are_rows: bool) -> Constant:
    """The weights (outputs, inputs)."""
    rows, columns = stored.dims[-2:]
    matrix = reading.constant(stored, (rows, columns))
    return matrix if outputs_are_rows else Constant((columns, rows), lambda rows: matrix.load().T[rows])


def _bias(reading: OnnxReading, stored: Stored, columns: int, beta: float) -> Constant:
    constant = reading.constant(stored, (stored.size,), "bias")
    every = Constant((columns,), lambda rows: np.broadcast_to(constant.load(), (columns,))[rows])
    return every if beta == 1.0 else every.map_rows(lambda b: b * np.float32(beta))
