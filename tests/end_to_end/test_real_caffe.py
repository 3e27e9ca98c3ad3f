"""The generated C++ on the emulated device gives what real Caffe gave (vectors made with BVLC Caffe)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import UnsupportedError
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import DetectionOutput
from cnn_convertor.pipeline import build, load
from cnn_convertor.trials.run import prepare
from cnn_convertor.verification import frameworks
from cnn_convertor.verification.compare import compare
from cnn_convertor.verification.framework_maps import blobs_as_maps, blobs_as_output
from verification.trials import config, network

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("compiler"),
    pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning"),
]
MODES = pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])

AT_LEAST_DB, AT_LEAST_COSINE = 45.0, 0.9999
REFUSED = {"maxpool_k1_s2_even": "DV302"}  # its last windows see nothing: Caffe gives -FLT_MAX, which FP16 cannot hold


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A network with inputs, and what Caffe gave for them.

    inputs: (1, H, W, C), by the names of the graph's inputs. outputs: Caffe's blobs, by the names of the graph's outputs.
    """

    name: str
    config: Config
    graph: Graph
    inputs: Mapping[str, Maps]
    outputs: Mapping[str, Maps]

    def check(self, output: str, values: Maps) -> None:
        """Fails when an output is not what Caffe gave."""
        shape, expected, where = self.graph.shape(output), self.outputs[output], self.graph[output].where
        assert where is not None
        if where.type == "DetectionOutput":
            shape = shape._replace(height=expected.shape[2])  # Caffe leaves out the rows without a detection
            values = values[:, : shape.height]
        expected = blobs_as_output(expected, shape)
        result = compare(f"{self.name}: {output}", values, expected)
        assert result.sqnr >= AT_LEAST_DB and result.cosine >= AT_LEAST_COSINE, result
        if all(np.all(v % 1 == 0) for v in (*self.inputs.values(), expected)):
            assert result.max_error == 0, f"whole numbers are exact: {result}"


def read(folder: Path, *, transposed: bool) -> Case:
    facts = json.loads((folder / "case.json").read_text())
    definition = folder / facts.get("prototxt", "deploy.prototxt")
    data = folder / facts.get("caffemodel", "weights.caffemodel")
    chosen = config(definition, data if data.exists() else definition, transpose_weight=transposed)
    graph = load(chosen)
    files = {name: folder / told["file"] for name, told in facts["inputs"].items()}
    blobs = {node.name: np.load(files.get(node.name, next(iter(files.values())))) for node in graph.inputs}
    results = {
        name if told["n_tops"] > 1 else told["layer"]: np.load(folder / told["file"])
        for name, told in facts["outputs"].items()
    }
    return Case(
        folder.name,
        chosen,
        graph,
        {name: blobs_as_maps(values) for name, values in blobs.items()},
        {output: results[output if output in results else where.layer]
         for output in graph.outputs if (where := graph[output].where)},
    )  # fmt: skip


def cases(folder: Path, *, transposed: bool) -> list[Case]:
    """All cases of a folder that convert; those that do not are refused for the reason that is known."""
    folders = sorted(path.parent for path in folder.glob("*/case.json"))
    for refused in (path for path in folders if path.name in REFUSED):
        with pytest.raises(UnsupportedError) as caught:
            read(refused, transposed=transposed)
        assert [problem.code for problem in caught.value.problems] == [REFUSED[refused.name]]
    return [read(path, transposed=transposed) for path in folders if path.name not in REFUSED]


def together(cases: list[Case]) -> Graph:
    """All networks as one, so that there is one program to compile."""
    nodes = [
        Node(f"{case.name}/{node.name}", node.op, tuple(f"{case.name}/{name}" for name in node.inputs))
        for case in cases
        for node in case.graph.nodes
    ]
    return Graph(tuple(nodes), tuple(f"{case.name}/{name}" for case in cases for name in case.graph.outputs))


@pytest.mark.rotating(turns=4)
@MODES
def test_single_layers(transposed: bool, shared: Path, tmp_path: Path) -> None:
    every = cases(shared / "vectors" / "caffe", transposed=transposed)
    assert len(every) == 138
    for case in every:
        build(case.graph, case.config)  # each by itself, too
    graph = together(every)
    inputs = {f"{case.name}/{name}": maps for case in every for name, maps in case.inputs.items()}
    results = dict(
        zip(graph.outputs, network(graph, tmp_path, transpose_weight=transposed).run(inputs).outputs, strict=True)
    )
    for case in every:
        for output in case.graph.outputs:
            case.check(output, results[f"{case.name}/{output}"])


@pytest.mark.rotating(turns=4)
@MODES
def test_whole_networks(transposed: bool, shared: Path, tmp_path: Path) -> None:
    every = cases(shared / "vectors" / "caffe_models", transposed=transposed)
    assert len(every) == 8
    for case in every:
        made = prepare(load(case.config), Request.of(case.config), tmp_path / case.name)
        for output, values in zip(case.graph.outputs, made.run(case.inputs).outputs, strict=True):
            case.check(output, values)


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("folder", ["caffe", "caffe_models"])
def test_verify_compares_with_what_caffe_gave(folder: str, shared: Path) -> None:
    for case in cases(shared / "vectors" / folder, transposed=True):
        reference = frameworks.run(case.config.model, case.graph, case.inputs)
        assert not reference.unjudged, case.name
        for place, output in enumerate(case.graph.outputs):
            if not isinstance(
                case.graph[output].op, DetectionOutput
            ):  # OpenCV orders rows otherwise, which does not count
                case.check(output, reference.outputs[place])
