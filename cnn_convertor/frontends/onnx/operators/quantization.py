"""Quantization of feature maps: the network is converted with the numbers before they are rounded."""

from __future__ import annotations

from typing import Any

import numpy as np

from cnn_convertor.errors import Problem, warn
from cnn_convertor.frontends.arithmetic import range_of
from cnn_convertor.frontends.onnx.operators.elementwise import scaled
from cnn_convertor.frontends.onnx.quant_params import QuantParams, quant_params_of
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, Value, onnx
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.ir import ops

_ROUNDING = "feature maps are not rounded to integers: results differ a little from the model's"
_UNROUNDED = "convert the model from before its quantization"


@onnx.reads(
    "QuantizeLinear", settings="axis saturate output_dtype block_size", ignores="precision",
    makes=[ops.Scale, ops.Relu6, ops.Clip],
    limits="DequantizeLinear follows, or the output is the numbers before it; the rounding is left out, with a warning; no blocks",
)  # fmt: skip
def read_quantize(reading: OnnxReading) -> OnnxTensor:
    warn(Problem("DV310", _ROUNDING, reading.node.where, _UNROUNDED))
    reading.take("saturate")  # of 8-bit floating point
    params = _quant_params(reading)
    if params.scale.min() <= 0 or not np.isfinite(params.scale).all():
        raise reading.wrong("a scale is not above 0")
    clipped = _clipped(reading, params)
    return clipped._replace(integers=range_of(params.type), quantized=params)


@onnx.reads("DynamicQuantizeLinear", makes=[ops.Identity], limits="followed by products and types that move numbers")
def read_dynamic_quantize(reading: OnnxReading) -> list[Value]:
    """The scale follows from the numbers, so these stay as they are, as integers of the scale 1 that are not rounded."""
    warn(Problem("DV310", _ROUNDING, reading.node.where, _UNROUNDED))
    params = QuantParams(np.array(1.0), np.array(0.0), np.dtype(np.uint8))
    x = reading.add(ops.Identity(), reading.input, dims=reading.input.dims)
    quantized = x._replace(integers=range_of(params.type), quantized=params)
    return [quantized, Stored.of(np.array(1, np.float32)), Stored.of(np.array(0, params.type))]


@onnx.reads(
    "DequantizeLinear",
    settings="axis block_size",
    ignores="output_dtype",
    makes=[ops.Identity, ops.Scale],
    limits="no blocks",
)
def read_dequantize(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    if x.quantized is None:
        params = _quant_params(reading, _type_of_zero(reading))
        return scaled(reading, x, params.scale, -params.zero * params.scale)
    if not _quant_params(reading, x.quantized.type).is_same(x.quantized):
        raise reading.unsupported(
            "the scales of QuantizeLinear and DequantizeLinear differ", "multiply by a constant instead"
        )
    return reading.add(ops.Identity(), x, dims=x.dims)._replace(gated=x.gated)


def _type_of_zero(reading: OnnxReading) -> np.dtype[Any]:
    """Of the integers that an input of the network holds; the type makes no difference where no zero point is given."""
    zero = reading.numbers(2, "the zero point")
    return np.dtype(np.uint8) if zero is None else zero.dtype


def _quant_params(reading: OnnxReading, type: np.dtype[Any] | None = None) -> QuantParams:
    """type: of the integers of a DequantizeLinear."""
    names = ("axis", "block_size", *(["output_dtype"] if type is None else []))
    attributes = {name: reading.take(name) for name in names if name in reading.attributes}
    scale = reading.numbers(1, "the scale")
    zero = reading.numbers(2, "the zero point")
    try:
        return quant_params_of(reading.input.dims, scale, zero, attributes, type)
    except ValueError as error:
        raise reading.unsupported(f"the quantization cannot be converted: {error}") from None


# Integers of 8 bits are steps of 1/255 of the range; FP16 is finer than that in 0..6.
FINE = 1


def _clipped(reading: OnnxReading, params: QuantParams) -> OnnxTensor:
    """The input, limited to the range of the integers: that may be an activation which an optimizer has removed.

    As a ReLU6 between scales, which commands have; of finer integers, as a clip. Nothing limits numbers that are known to be
    within half a step of the range: rounding, which is left out, would change them as much.
    """
    x = reading.input
    low = params.low
    high = params.high
    half = params.scale / 2
    if x.bounds is not None and np.all(low - half <= x.bounds[0]) and np.all(x.bounds[1] <= high + half):
        # A factor of 1 joins the layer before it, whose map is then the rounded one that `verify` compares.
        return scaled(reading, x, np.float32(1), None)._replace(bounds=x.bounds, gated=x.gated)
    if params.type.itemsize > FINE and np.any(low != 0):
        if low.size > 1:
            raise reading.unsupported(f"{low.size} ranges of {params.type} cannot be converted")
        clipped = reading.add(ops.Unary(ops.Clip(float(low), float(high))), x, dims=x.dims)
        return clipped._replace(bounds=(float(low), float(high)))
    factor = 6 / (high - low)
    is_relu = not np.any(low)
    sixfold = scaled(reading, x, factor, None if is_relu else -low * factor, "sixfold")
    clipped = reading.add(ops.Activation(ops.Relu6()), sixfold, part="clipped", dims=x.dims)
    limited = scaled(reading, clipped, 1 / factor, None if is_relu else low)
    return limited._replace(bounds=(float(low.min()), float(high.max())))
