"""ONNX's node types in terms of the graph's operators. Importing this package fills the registry `onnx`."""

from cnn_convertor.frontends.onnx.operators import (
    attention,
    conv_pool,
    elementwise,
    functions,
    indexing,
    logic,
    normalizations,
    products,
    quantization,
    reductions,
    resize,
    shapes,
)
from cnn_convertor.frontends.onnx.reading import onnx

__all__ = [
    "attention",
    "conv_pool",
    "elementwise",
    "functions",
    "indexing",
    "logic",
    "normalizations",
    "onnx",
    "products",
    "quantization",
    "reductions",
    "resize",
    "shapes",
]
