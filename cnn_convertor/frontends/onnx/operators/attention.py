"""Nodes that are more than one product of matrices: Einsum, Attention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.arithmetic import scale_and_shift
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.operators.elementwise import broadcast, combined, expanded, hidden
from cnn_convertor.frontends.onnx.operators.products import matrix_product, multiplied
from cnn_convertor.frontends.onnx.operators.shapes import constant_tensor
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, Value, onnx
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import BinaryOp

LARGEST_MASK = 1 << 24  # elements


@onnx.reads(
    "Einsum", settings="equation", makes=[ops.MatMul, ops.TransposeReshape, ops.Conv2d],
    limits="two inputs; each letter is in two of the inputs and the output",
)  # fmt: skip
def read_einsum(reading: OnnxReading) -> OnnxTensor:
    """A product of matrices between transposes: of the letters, some are the batch, some the rows, and so on."""
    equation = _equation(reading)
    first, second = _operands(reading, equation)
    if not equation.is_product:
        text = f"{equation.x},{equation.y}->{equation.out}"
        raise reading.unsupported(f"the equation {text} cannot be converted: it sums one input alone")
    lengths = dict(zip(equation.x, first.dims, strict=True))
    for letter, length in zip(equation.y, second.dims, strict=True):
        if lengths.setdefault(letter, length) != length:
            sizes = f"{nchw.text_of(first.dims)} and {nchw.text_of(second.dims)}"
            raise reading.wrong(f"the lengths of {sizes} do not fit")
    batch = [letter for letter in equation.out if letter in equation.x and letter in equation.y]
    rows = [letter for letter in equation.out if letter not in equation.y]
    columns = [letter for letter in equation.out if letter not in equation.x]
    inner = [letter for letter in equation.x if letter not in equation.out]
    left = _arranged(reading, first, equation.x, (batch, rows, inner), lengths, "left")
    right = _arranged(reading, second, equation.y, (batch, inner, columns), lengths, "right")
    result = multiplied(reading, left, right, "product")
    axes = batch + rows + columns
    split = tuple(lengths[letter] for letter in axes)
    dims = tuple(lengths[letter] for letter in equation.out)
    return reading.permute(result, split, [axes.index(letter) for letter in equation.out], dims)


class _Equation(NamedTuple):
    """The letters of the axes of two inputs, and of the output. None has a letter twice."""

    x: str
    y: str
    out: str

    @property
    def is_product(self) -> bool:
        """Whether each letter is in two of the three or in all."""
        letters = self.x + self.y + self.out
        return all(letters.count(letter) > 1 for letter in letters)


def _equation(reading: OnnxReading) -> _Equation:
    text = reading.text("equation", "").replace(" ", "")
    operands, arrow, out = text.partition("->")
    x, comma, y = operands.partition(",")
    is_plain = bool(arrow and comma)
    for letters in (x, y, out):
        if letters and not (letters.isalpha() and len({*letters}) == len(letters)):
            is_plain = False
    if not is_plain:
        raise reading.unsupported(f"the equation {text} cannot be converted", "write it as MatMul and Transpose")
    return _Equation(x, y, out)


def _operands(reading: OnnxReading, equation: _Equation) -> list[Value]:
    values = [value for value in reading.all_inputs() if value is not None]
    ranks = [len(value.dims) for value in values]
    if len(reading.inputs) != 2 or ranks != [len(equation.x), len(equation.y)]:
        text = f"{equation.x},{equation.y}->{equation.out}"
        raise reading.wrong(f"the inputs do not fit the equation {text}")
    return values


def _arranged(
    reading: OnnxReading,
    value: Value,
    word: str,
    groups: Sequence[Sequence[str]],
    lengths: Mapping[str, int],
    part: str,
) -> Value:
    """The value with one axis for each group of letters; a batch of one is left out."""
    axes = [word.index(letter) for group in groups for letter in group]
    dims = tuple(math.prod(lengths[letter] for letter in group) for group in groups)
    if dims[0] <= 1:
        dims = dims[1:]
    if isinstance(value, Stored):
        if value.size > LARGEST_MASK:
            raise reading.unsupported(f"a constant of {value.size:,} elements cannot be converted here")
        return Stored.of(np.ascontiguousarray(value.load().transpose(axes).reshape(dims)))
    return reading.permute(value, value.dims, axes, dims, part=part)


@onnx.reads(
    "Attention",
    settings="is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap", ignores="softmax_precision",
    makes=[ops.MatMul, ops.Softmax, ops.Scale, ops.Binary, ops.Tanh],
    limits="no past keys or values; masks of numbers, or constant ones",
)  # fmt: skip
def read_attention(reading: OnnxReading) -> OnnxTensor:
    """softmax(factor * Q K' + mask) V, for each head."""
    reading.take("qk_matmul_output_mode")  # of an output that cannot be converted
    if any(reading.at(at) is not None for at in (4, 5, 6)):
        raise reading.unsupported("attention with the keys and values of earlier runs cannot be converted")
    q = _heads(reading, 0, "q_num_heads", "queries")
    k = _heads(reading, 1, "kv_num_heads", "keys")
    v = _heads(reading, 2, "kv_num_heads", "values")
    heads = q.dims[1]
    if k.dims[1] < 1 or heads % k.dims[1] or k.dims[1] != v.dims[1]:
        raise reading.wrong(f"{heads} heads of queries do not fit {k.dims[1]} of keys and {v.dims[1]} of values")
    k = _repeated(reading, k, heads, "keys_of_all")
    v = _repeated(reading, v, heads, "values_of_all")
    turned = reading.transpose(k, (0, 1, 3, 2), part="turned")
    factor = reading.number("scale", 1 / math.sqrt(q.dims[3]))
    if not factor > 0:
        raise reading.wrong(f"the scale is {factor:g}; it must be above 0")
    scores = matrix_product(reading, q, turned, "scores", factor=factor)
    if (cap := reading.number("softcap", 0.0)) > 0:
        scores = _capped(reading, scores, cap)
    if (mask := _mask(reading, scores.dims)) is not None:
        scores = combined(reading, BinaryOp.ADD, scores, mask, part="masked")
    weights = reading.add(ops.Softmax(nchw.axis_of(scores.dims, 3) or ops.Axis.WIDTH), scores, part="weights")
    query = reading.at(0)
    joins = query is not None and len(query.dims) == 3
    result = matrix_product(reading, weights, v, "heads" if joins else "")
    if not joins:
        return result
    batch, _, count, depth = result.dims
    return reading.permute(result, result.dims, (0, 2, 1, 3), (batch, count, heads * depth))


def _tensor(reading: OnnxReading, position: int, part: str) -> OnnxTensor:
    value = reading.at(position)
    if not isinstance(value, Stored):
        return reading.tensor(position)
    like = next(each for each in reading.inputs if isinstance(each, OnnxTensor))
    return constant_tensor(reading, like, value, f"{part}/constant")


def _heads(reading: OnnxReading, position: int, count_of_heads: str, part: str) -> OnnxTensor:
    """An input as (batch, heads, N, depth). count_of_heads: the attribute that has it for three axes."""
    x = _tensor(reading, position, part)
    heads = reading.integer(count_of_heads, 0)
    if x.rank not in (3, 4):
        raise reading.wrong(f"attention takes three or four axes, not {nchw.text_of(x.dims)}")
    if x.rank == 4:
        return x
    batch, count, width = x.dims
    if heads < 1 or width % heads:
        raise reading.wrong(f"{width} elements do not make {heads} heads")
    split = (batch, count, heads, width // heads)
    return reading.permute(x, split, (0, 2, 1, 3), (batch, heads, count, width // heads), part=part)


def _repeated(reading: OnnxReading, x: OnnxTensor, heads: int, part: str) -> OnnxTensor:
    """Each head several times, one after the other, so that there are as many as those of the queries."""
    batch, groups, count, depth = x.dims
    if groups == heads:
        return x
    single = reading.reshape(x, (batch, groups, 1, count, depth), part=f"{part}/single")
    wide = expanded(reading, single, (batch, groups, heads // groups, count, depth), f"{part}/wide")
    return reading.reshape(wide, (batch, heads, count, depth), part=part)


def _capped(reading: OnnxReading, scores: OnnxTensor, cap: float) -> OnnxTensor:
    channels = reading.shape(scores).channels
    small = reading.add(scale_and_shift(channels, 1 / cap), scores, part="small", dims=scores.dims)
    bounded = reading.add(ops.Activation(ops.Tanh()), small, part="bounded", dims=scores.dims)
    return reading.add(scale_and_shift(channels, cap), bounded, part="capped", dims=scores.dims)


def _mask(reading: OnnxReading, dims: Dims) -> Value | None:
    """What is added to the scores; None for nothing."""
    mask = reading.at(3)
    is_causal = bool(reading.integer("is_causal", 0))
    if isinstance(mask, OnnxTensor):
        if is_causal:
            raise reading.unsupported("a causal attention with a computed mask cannot be converted")
        return mask
    if mask is None and not is_causal:
        return None
    if (mask is not None and mask.size > LARGEST_MASK) or math.prod(dims[2:]) > LARGEST_MASK:
        raise reading.unsupported(f"a mask for {nchw.text_of(dims)} is too large")
    numbers = np.zeros(dims[2:], np.float32)
    if mask is not None:
        array = mask.load()
        numbers = np.where(array, 0, -np.inf) if array.dtype == np.bool_ else array.astype(np.float32)
        broadcast(reading, dims, numbers.shape)
    if is_causal:
        numbers = numbers + np.triu(np.full(dims[2:], -np.inf, np.float32), 1)
    numbers = hidden(numbers.astype(np.float32))
    if not np.all(np.isfinite(numbers)):
        raise reading.unsupported("a mask that hides all keys of a query cannot be converted")
    return Stored.of(numbers)
