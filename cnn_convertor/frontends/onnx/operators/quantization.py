"""Quantization of feature maps: the network is converted with the numbers before they are rounded."""

from __future__ import annotations

from cnn_convertor.errors import Problem, warn
from cnn_convertor.frontends.onnx.reading import OnnxReading, Tensor, onnx
from cnn_convertor.ir import ops


@onnx.reads(
    "QuantizeLinear", settings="saturate output_dtype precision", ignores="axis block_size", makes=[ops.Identity],
    limits="each QuantizeLinear is followed by DequantizeLinear; the rounding is left out, with a warning",
)  # fmt: skip
def read_quantize(reading: OnnxReading) -> Tensor:
    for name in ("saturate", "output_dtype", "precision"):
        reading.take(name)
    problem = "the rounding of feature maps to integers is left out: results are closer to those of the model before it"
    warn(Problem("DV310", problem, reading.node.where, "convert the model from before its quantization"))
    x = reading.input
    return reading.add(ops.Identity(), x, dims=x.dims, integers=True)._replace(quantized=True)


@onnx.reads("DequantizeLinear", ignores="axis block_size output_dtype", makes=[ops.Identity])
def read_dequantize(reading: OnnxReading) -> Tensor:
    x = reading.input
    if not x.quantized:
        raise reading.unsupported(
            "an input of integers with a scale cannot be converted", "scale it in the application"
        )
    return reading.add(ops.Identity(), x, dims=x.dims)
