"""ONNX's node types in terms of the graph's operators. Importing this package fills the registry `onnx`."""

from cnn_convertor.frontends.onnx.folding import OTHERS
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
from cnn_convertor.frontends.onnx.reading import HARMLESS, onnx

__all__ = [
    "attention",
    "attributes_of",
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


def attributes_of(type: str) -> frozenset[str]:
    """Those that nodes of a type may have."""
    reader = onnx.get(type)
    return OTHERS if reader is None else HARMLESS.union(reader.settings, reader.ignores)
