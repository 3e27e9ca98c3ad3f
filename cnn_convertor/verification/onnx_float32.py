"""Copies an ONNX model of bfloat16 or float64 in float32, since onnxruntime has few operators of these types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cnn_convertor.errors import Problem, UsageError
from cnn_convertor.frontends.onnx.model import OnnxModel
from cnn_convertor.frontends.onnx.tensors import BFLOAT16, DOUBLE, FLOAT

_COPIED = frozenset({BFLOAT16, DOUBLE})
_NAMES_OF_TYPES = frozenset({"to", "dtype", "output_dtype", "stash_type"})  # attributes whose value is a type


def computes_bfloat16(model: OnnxModel) -> bool:
    """Whether an input or a result is of a type for which NumPy, and so onnxruntime's interface, has no arrays."""
    kinds = (node.attributes.get("to") for node in model.nodes)
    return any(info.type == BFLOAT16 for info in model.inputs) or BFLOAT16 in kinds


def float32_copy(path: Path, copy: Path) -> bool:
    """Write the model with float32 in place of both types; whether it has any. Raises UsageError without the onnx package."""
    try:
        import onnx
    except ImportError as error:
        problem = "`verify` runs models of bfloat16 or float64 as a copy in float32, which the package onnx makes; it is not installed"
        raise UsageError(Problem("DV711", problem, hint="pip install onnx")) from error
    model = onnx.load(path)
    is_changed = [_change(tensor, type) for tensor, type in _types(model.graph)]
    if any(is_changed):
        onnx.save(model, copy)
    return any(is_changed)


def _types(graph: Any) -> Iterator[tuple[Any, str]]:
    """Every message of a graph, and of those inside it, that has a type, and the name of that field."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield info.type.tensor_type, "elem_type"
    for tensor in graph.initializer:
        yield tensor, "data_type"
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
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
