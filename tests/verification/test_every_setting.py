"""Caffe's layers in every setting, and at the limits of those that have some, on the emulated device."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.frontends.caffe import CAFFE
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Conv2d, ConvTranspose2d, Dense
from cnn_convertor.verification.compare import compare
from examples.caffemodel import write
from frontends.caffe.test_every_setting import CASES, Case, inputs_of
from frontends.caffe.test_limits import ROWS, definition
from frontends.loading import load_caffe
from reference import ir_reference
from verification.trials import network

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

AT_LEAST_DB = 45.0


def together(graphs: Sequence[Graph], given: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """All graphs as one network, compiled once for each order in memory: outputs that are not what the graph means."""
    nodes: list[Node] = []
    outputs: list[str] = []
    inputs: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for number, (graph, values) in enumerate(zip(graphs, given, strict=True)):
        prefix = f"{number}/"
        halves = {name: np.asarray(x, np.float16).astype(np.float64) for name, x in values.items()}
        results = ir_reference.run(graph, halves)
        nodes += [Node(prefix + n.name, n.op, tuple(prefix + i for i in n.inputs), n.origins) for n in graph.nodes]
        inputs |= {prefix + name: x[None].astype(np.float32) for name, x in halves.items()}
        outputs += [prefix + name for name in graph.outputs]
        expected |= {prefix + name: results[name][None] for name in graph.outputs}
    wrong = []
    for transposed in (True, False):
        trial = network(Graph(tuple(nodes), tuple(outputs)), folder / str(transposed), transpose_weight=transposed)
        got = trial.run(inputs).outputs
        compared = [compare(name, values, expected[name]) for name, values in zip(outputs, got, strict=True)]
        wrong += [f"{transposed}: {result}" for result in compared if not result.sqnr >= AT_LEAST_DB]
    return wrong


def read(case: Case, folder: Path) -> Graph:
    (folder / "net.prototxt").write_text(case.definition)
    write(folder / "net.caffemodel", [("l", "Any", case.blobs)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_caffe(folder / "net.prototxt", folder / "net.caffemodel")


@pytest.mark.rotating(turns=4)
def test_every_setting_of_caffe_on_the_device(tmp_path: Path) -> None:
    """test_layers.py shows that the graphs give what is worked out by hand."""
    graphs = []
    for number, case in enumerate(CASES):
        (folder := tmp_path / str(number)).mkdir()
        graphs.append(read(case, folder))
    assert together(graphs, [inputs_of(graph) for graph in graphs], tmp_path) == []


def with_weights(graph: Graph) -> Graph:
    """A graph that was read without weights, with some."""
    random = np.random.default_rng(0)

    def filled(op: Any) -> Any:
        told = {field.name: getattr(op, field.name) for field in fields(op)}
        absent = {name: value for name, value in told.items() if isinstance(value, Constant)}
        return replace(op, **{name: Constant.of(random.normal(size=value.shape) / 4) for name, value in absent.items()})

    nodes = (replace(node, op=filled(node.op)) if is_convolved(node) else node for node in graph.nodes)
    return Graph(tuple(nodes), graph.outputs)


def is_convolved(node: Node) -> bool:
    return isinstance(node.op, Conv2d | ConvTranspose2d | Dense)


@pytest.mark.rotating
def test_the_last_values_that_the_device_takes_give_what_they_should(tmp_path: Path) -> None:
    graphs = []
    for limit, type in ROWS:
        if limit.code.startswith("DV4") or not limit.code or limit.setting.startswith("kernel"):
            path = tmp_path / "net.prototxt"
            path.write_text(definition(limit, type, limit.accepted))
            graphs.append(with_weights(CAFFE.read(path, None).require_complete()))
    assert len(graphs) > 40
    given = [inputs_of(graph) for graph in graphs]
    assert together(graphs, given, tmp_path) == []
