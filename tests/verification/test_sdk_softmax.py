"""softmax = sdk: LT_SOFTMAX gives the network's result on the emulated device, in the forms that the real runtime has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.devices.program import LayerType
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Op, Pair, Shape, Window
from cnn_convertor.verification.compare import sqnr
from reference import ir_reference
from verification.trials import NAME, network

SHAPE = Shape(4, 6, 8)


def softmaxes() -> Graph:
    """Over every axis of maps of few and of many channels, over a vector, at the end and in the middle."""
    random = np.random.default_rng(0)
    nodes = [Node("x", ops.Input(SHAPE))]

    def add(name: str, op: Op, source: str) -> str:
        nodes.append(Node(name, op, (source,)))
        return name

    def convolution(channels: int, inputs: int) -> Op:
        return ops.Conv2d(Constant.of(random.normal(size=(channels, inputs, 1, 1))), None, Window(Pair(1, 1)))

    outputs = []
    for channels in (5, 19):
        for axis in Axis:
            name = f"{axis.name.lower()} of {channels}"
            outputs.append(add(name, ops.Softmax(axis), add(f"{name}, conv", convolution(channels, 8), "x")))
    middle = add("middle", ops.Softmax(), add("before", convolution(12, 8), "x"))
    outputs.append(add("after", convolution(3, 12), middle))
    dense = ops.Dense(Constant.of(random.normal(size=(10, *(SHAPE[i] for i in (2, 0, 1)))) / 10), None)
    outputs.append(add("classes", ops.Softmax(), add("logits", dense, "x")))
    return Graph(tuple(nodes), tuple(outputs))


@pytest.mark.parametrize("transposed", [False, True])
def test_the_softmax_of_the_sdk_gives_the_result_of_the_network(tmp_path: Path, transposed: bool) -> None:
    graph = softmaxes()
    trial = network(graph, tmp_path, transpose_weight=transposed, softmax="sdk")
    assert sum(layer.type is LayerType.SOFTMAX for layer in trial.program.layers) == 8
    assert audit(tmp_path / f"{NAME}_gen.cpp", tmp_path / f"{NAME}_weights.bin").findings == ()
    x = np.random.default_rng(1).normal(size=(2, *SHAPE)).astype(np.float16).astype(np.float32)
    results = trial.run({"x": x}).outputs
    for sample in range(2):
        values = ir_reference.run(graph, {"x": x[sample].astype(np.float64)})
        for name, result in zip(graph.outputs, results, strict=True):
            assert result[sample].shape == values[name].shape
            assert sqnr(result[sample], values[name]) > 55, name
