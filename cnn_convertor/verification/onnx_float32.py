"""Copies an ONNX model of float16, bfloat16 or float64 in float32: onnxruntime rounds the first, and lacks operators of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from cnn_convertor.errors import Problem, UsageError
from cnn_convertor.frontends.onnx.model import OnnxModel
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.frontends.onnx.tensors import BFLOAT16, DOUBLE, FLOAT, FLOAT16

_COPIED = frozenset({FLOAT16, BFLOAT16, DOUBLE})
_ROUNDED = frozenset({FLOAT16, BFLOAT16})
_NAMES_OF_TYPES = frozenset(
    {"to", "dtype", "output_dtype", "precision", "softmax_precision", "stash_type"}
)  # attributes whose value is a type


def computes_16_bits(model: OnnxModel) -> bool:
    """Whether the network computes with 16 bits: the runtime rounds each float16, and NumPy has no arrays of bfloat16.

    Constants that only a Cast reads are stored so, and need no copy.
    """
    if any(info.type in _ROUNDED for info in (*model.inputs, *model.outputs)):
        return True
    constants = dict(model.initializers)
    for node in model.nodes:
        for name, value in node.attributes.items():
            if name in _NAMES_OF_TYPES and isinstance(value, int) and value in _ROUNDED:
                return True
            if isinstance(value, OnnxModel) and computes_16_bits(value):
                return True
            if isinstance(value, Stored) and node.type in ("Constant", "ConstantOfShape"):
                constants.update(dict.fromkeys(node.outputs, value))
        read = [constants[name] for name in node.inputs if name in constants]
        if node.type != "Cast" and any(stored.dtype == np.float16 for stored in read):
            return True
    return False


def float32_copy(path: Path, copy: Path) -> bool:
    """Write the model with float32 in place of these types; whether it has any. Raises UsageError without the onnx package."""
    try:
        import onnx
    except ImportError as error:
        problem = "`verify` runs models of float16, bfloat16 or float64 as a copy in float32, which the package onnx makes; it is not installed"
        raise UsageError(Problem("DV711", problem, hint="pip install onnx")) from error
    model = onnx.load(path)
    functions = (_types_of_nodes(function.node) for function in model.functions)
    places = chain(_types(model.graph), *functions)
    is_changed = [_change(message, field) for message, field in places]
    if any(is_changed):
        onnx.save(model, copy)
    return any(is_changed)


def _types(graph: Any) -> Iterator[tuple[Any, str]]:
    """Every message of a graph, and of those inside it, that has a type, and the name of that field."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield info.type.tensor_type, "elem_type"
    for tensor in graph.initializer:
        yield tensor, "data_type"
    yield from _types_of_nodes(graph.node)


def _types_of_nodes(nodes: Iterable[Any]) -> Iterator[tuple[Any, str]]:
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        if attribute.name in _NAMES_OF_TYPES:
            yield attribute, "i"
        for tensor in (attribute.t, *attribute.tensors):
            yield tensor, "data_type"
        for inner in (attribute.g, *attribute.graphs):
            yield from _types(inner)


def _change(message: Any, field: str) -> bool:
    """Change one message to float32; whether it is of another of the types."""
    if getattr(message, field) not in _COPIED:
        return False
    if field == "data_type":
        from onnx import numpy_helper

        values = np.asarray(numpy_helper.to_array(message)).astype(np.float32)
        message.CopyFrom(numpy_helper.from_array(values, message.name))
    else:
        setattr(message, field, FLOAT)
    return True
