"""Runs an ONNX model with onnxruntime, or else with the reference of the onnx package, and gives every layer's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.emulation.run import Maps
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.model import OnnxModel, ValueInfo, read_model
from cnn_convertor.frontends.onnx.tensors import TYPES

Numbers: TypeAlias = NDArray[Any]
Run: TypeAlias = Callable[[Mapping[str, Numbers]], list[Numbers]]

GRAPH, OUTPUT, NAME = 7, 12, 1  # fields of ModelProto, GraphProto, ValueInfoProto


def open_runner(path: Path, layers: Sequence[str]) -> Run:
    """A function from a model's inputs to the named values. Raises ImportError without any runtime."""
    try:
        import onnxruntime
    except ImportError:
        return _reference(path, layers)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )  # every layer keeps its output
    options.log_severity_level = 4
    folder = str(path.parent.resolve())
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    content = with_outputs(path.read_bytes(), layers)
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda inputs: list(session.run(list(layers), dict(inputs)))


def _reference(path: Path, layers: Sequence[str]) -> Run:
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    model.MergeFromString(with_outputs(b"", layers))
    evaluator = ReferenceEvaluator(model)
    return lambda inputs: list(evaluator.run(list(layers), dict(inputs)))


def with_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """A serialized model with more outputs. Protobuf joins the parts of a message that are given one after the other."""
    outputs = (_field(OUTPUT, _field(NAME, name.encode())) for name in names)
    return model + _field(GRAPH, b"".join(outputs))


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def layers_of(path: Path) -> list[str]:
    """The model's values, each named as the layer that computes it."""
    model = read_model(path)
    known = {info.name for info in model.outputs}
    return [
        node.outputs[0] for node in model.nodes if node.outputs and node.outputs[0] and node.outputs[0] not in known
    ]


def inputs_of(model: OnnxModel, maps: Mapping[str, Maps], sample: int) -> dict[str, Numbers]:
    """One sample as the arrays that the model takes. maps: input -> (N, H, W, C)."""
    infos = {info.name: info for info in model.inputs}
    return {name: _as_array(values[sample], infos[name]) for name, values in maps.items()}


def _as_array(values: Maps, info: ValueInfo) -> Numbers:
    channels_first = np.ascontiguousarray(values.transpose(2, 0, 1))
    return channels_first.reshape(_dims(info, channels_first.shape)).astype(TYPES[info.type])


def _dims(info: ValueInfo, sizes: Dims) -> Dims:
    """The input's dims, where sizes that the file leaves open are those of the map (C, H, W)."""
    given = info.dims or ()
    if len(given) == 4:
        return (1, *sizes)
    return tuple(n or 1 for n in given)
