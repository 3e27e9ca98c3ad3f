"""Small ONNX networks, written and read on the spot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.frontends.frontend import ReadOptions
from cnn_convertor.frontends.nchw import shape_of
from cnn_convertor.frontends.onnx import ONNX
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Input
from reference import ir_reference

onnx = pytest.importorskip("onnx", reason="networks are written with the onnx package")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

Array = NDArray[Any]


@dataclass(frozen=True)
class Network:
    """nodes: what onnx.helper.make_node makes. inputs: name -> values. constants: initializers."""

    nodes: Sequence[Any]
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array | np.generic]
    opset: int = 21

    def write(self, path: Path, outputs: Sequence[str] = (), **more: Any) -> Path:
        names = outputs or [self.nodes[-1].output[0]]
        kind = onnx.TensorProto
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in self.inputs.items()
        ]
        results = [helper.make_tensor_value_info(name, kind.FLOAT, None) for name in names]
        constants = [numpy_helper.from_array(np.asarray(x), name) for name, x in self.constants.items()]
        graph = helper.make_graph(list(self.nodes), "net", inputs, results, constants)
        opsets = [helper.make_opsetid("", self.opset)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(path), **more)
        return path


def to_map(values: Array, axes: str = "") -> Array:
    """An array as the map that holds it. axes: those of an input, behind the batch."""
    if axes == "HWC" and values.ndim == 4:
        return np.asarray(values[0], np.float64)
    height, width, channels = shape_of(values.shape)
    return np.asarray(values, np.float64).reshape(channels, height, width).transpose(1, 2, 0)


def results_of(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """What the IR reference gives for arrays: maps."""
    maps = {node.name: to_map(inputs[node.name], node.op.axes) for node in graph.inputs if isinstance(node.op, Input)}
    found = ir_reference.run(graph, maps)
    return [found[name] for name in graph.outputs]


def load(path: Path, **options: Any) -> Graph:
    return ONNX.read(path, path, ReadOptions(**options)).require_complete()


def agreeing(network: Network, path: Path, tolerance: float = 1e-4) -> Graph:
    """The network's graph, which computes what onnxruntime does."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
    network.write(path)
    (wanted,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, network.inputs)
    graph = load(path)
    (found,) = results_of(graph, network.inputs)
    np.testing.assert_allclose(found, to_map(wanted), rtol=tolerance, atol=tolerance)
    return graph


def with_open_sizes(path: Path, *dims: int | str) -> Path:
    """The file with another shape of its input x; a text is an open size."""
    model = onnx.load(path)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims))
    onnx.save(model, path)
    return path
