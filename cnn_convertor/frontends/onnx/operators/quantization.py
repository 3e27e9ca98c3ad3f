"""Quantization of feature maps: the network is converted with the numbers before they are rounded."""

from __future__ import annotations

import numpy as np

from cnn_convertor.errors import Problem, warn
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, onnx
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.ir import ops


@onnx.reads(
    "QuantizeLinear", settings="axis saturate output_dtype precision", ignores="block_size", makes=[ops.Identity],
    limits="each QuantizeLinear is followed by DequantizeLinear; the rounding is left out, with a warning",
)  # fmt: skip
def read_quantize(reading: OnnxReading) -> OnnxTensor:
    for name in ("axis", "saturate", "output_dtype", "precision"):
        reading.take(name)
    problem = (
        "feature maps are not rounded to integers, nor limited to their range: results differ a little from the model's"
    )
    warn(Problem("DV310", problem, reading.node.where, "convert the model from before its quantization"))
    x, scale, zero = reading.input, reading.needed_stored(1, "the scale"), reading.stored(2, "the zero point")
    # The lower end of the range may be a ReLU that an optimizer has removed.
    is_relu = np.all((0 if zero is None else zero.load()) == np.iinfo(np.uint8 if zero is None else zero.dtype).min)
    op: ops.Op = ops.Activation(ops.Relu()) if is_relu else ops.Identity()
    return reading.add(op, x, dims=x.dims, integers=True)._replace(quantized=(scale, zero))


@onnx.reads("DequantizeLinear", settings="axis", ignores="block_size output_dtype", makes=[ops.Identity])
def read_dequantize(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    reading.take("axis")
    if x.quantized is None:
        raise reading.unsupported(
            "an input of integers with a scale cannot be converted", "scale it in the application"
        )
    given = (reading.needed_stored(1, "the scale"), reading.stored(2, "the zero point"))
    if not all(map(_same, given, x.quantized)):
        raise reading.unsupported(
            "the scales of QuantizeLinear and DequantizeLinear differ", "multiply by a constant instead"
        )
    return reading.add(ops.Identity(), x, dims=x.dims)


def _same(a: Stored | None, b: Stored | None) -> bool:
    """Whether both hold the same numbers. A zero point that is left out is 0."""
    first, second = (np.zeros((), np.uint8) if x is None else x.load() for x in (a, b))
    return bool(np.array_equal(np.broadcast_to(first, second.shape) if not first.any() else first, second))
