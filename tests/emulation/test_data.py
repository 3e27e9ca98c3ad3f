"""The promise of the runner: a program as data gives the bits that its generated sources give, compiled."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.codegen.kernels import MAXIMIZER, all_kernels
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.emulating import Twin, install_data
from cnn_convertor.devices.dv700.profiles import DV700, device_of
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.sources.runner_data import program_data
from cnn_convertor.emulation import build as building
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import ConvertorError
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.pipeline import quantize, read_whole
from cnn_convertor.samples import random_samples, shapes_of
from cnn_convertor.trials.run import prepare
from emulation.small_networks import small_graph
from emulation.test_byte_input import PREPARATIONS, camera
from emulation.test_classes import ZIA_C3, segmentation
from emulation.test_execution import CALLBACK
from end_to_end.test_examples_and_models import EXAMPLES, INIS, ZOO
from examples import zoo
from verification.test_cpu_layers import BATCHES, DETECTING, everything, unpooling
from verification.trials import config, network

pytestmark = pytest.mark.usefixtures("compiler")
slow = pytest.mark.slow

ON_THE_CPU: dict[str, Callable[[], Graph]] = {
    "every function": lambda: everything().graph,
    "unpooling": unpooling,
    **{f"detections {place}": lambda place=place: DETECTING[place] for place in range(len(DETECTING))},  # type: ignore[misc]
}
# name -> graph, and fields of its configuration
GRAPHS: dict[str, tuple[Callable[[], Graph], dict[str, Any]]] = {
    "two inputs": (small_graph, {}),
    "two inputs, column by column": (small_graph, {"transpose_weight": False}),
    "palettes": (small_graph, {"quantization": True}),
    "bytes": (camera, {"input": "u8", **PREPARATIONS["CP_USER_SPECIFY"]}),
    "bytes by a policy of the runtime": (camera, {"input": "u8", **PREPARATIONS["CP_DIV_255"]}),
    "maximizer": (lambda: segmentation(9), {"device": ZIA_C3}),
    "maximizer, column by column": (lambda: segmentation(9), {"device": ZIA_C3, "transpose_weight": False}),
    **{name: (graph, {}) for name, graph in ON_THE_CPU.items()},
    **{f"{name}, column by column": (graph, {"transpose_weight": False}) for name, graph in ON_THE_CPU.items()},
}
SLOW = {name for name in GRAPHS if name.partition(",")[0] in ON_THE_CPU}


def requested(**fields: Any) -> Request:
    return Request.of(config(Path("graph.keras"), **fields))


def built(graph: Graph, **fields: Any) -> Program:
    return quantize(graph, requested(**fields)).program


def assert_same_bits(compiled: EmulatedNetwork, folder: Path, request: Request, *, exact: bool = False) -> None:
    """All layers, outputs and traffic of a compiled network and of its program as data."""
    data = install_data(compiled.graph, compiled.program, folder, device=DV700)._replace(device=compiled.device)
    assert data.data is not None and data.executable != compiled.executable
    inputs = random_samples(shapes_of(compiled.graph), request.preparation, samples=2, seed=1).inputs
    expected, results = (each.run(inputs, layers=True, exact=exact) for each in (compiled, data))
    for layer, theirs, mine in zip(compiled.program.layers, expected.layers, results.layers, strict=True):
        assert theirs.tobytes() == mine.tobytes(), layer.name
    assert results.traffic == expected.traffic
    for output, values in zip(expected.outputs, results.outputs, strict=True):
        assert output.tobytes() == values.tobytes()
    together = data.run(inputs, exact=exact)  # layers in one command list
    assert [values.tobytes() for values in together.outputs] == [values.tobytes() for values in expected.outputs]


@pytest.mark.slow
@pytest.mark.rotating
@pytest.mark.parametrize("name", [pytest.param(name, marks=slow) if name in SLOW else name for name in GRAPHS])
def test_a_program_as_data_gives_the_bits_of_its_sources(name: str, tmp_path: Path) -> None:
    graph, fields = GRAPHS[name]
    compiled = network(graph(), tmp_path / "compiled", compiled=True, **fields)
    assert_same_bits(compiled, tmp_path / "data", requested(**fields))


def test_maps_in_fp32_have_the_same_bits(tmp_path: Path) -> None:
    compiled = network(small_graph(), tmp_path / "compiled", compiled=True)
    assert_same_bits(compiled, tmp_path / "data", requested(), exact=True)


def test_the_maximizer_works_only_where_there_is_one(tmp_path: Path) -> None:
    compiled = network(segmentation(9), tmp_path / "compiled", compiled=True, device=ZIA_C3)
    without = compiled._replace(device=Twin(device_of(ZIA_C3)._replace(blocks=frozenset({"conv"}))))
    assert_same_bits(without, tmp_path / "data", requested())


@slow
@pytest.mark.parametrize("ini", INIS)
def test_the_examples_give_the_same_bits(ini: str, tmp_path: Path) -> None:
    chosen = Request.of(Config.read(EXAMPLES / ini))
    assert_same_bits(prepare(read_whole(chosen), chosen, tmp_path / "compiled"), tmp_path / "data", chosen)


@pytest.mark.rotating
@slow
@pytest.mark.parametrize(
    "name",
    ["caffe_lenet", "caffe_googlenet", "caffe_ssd_mobilenet", "caffe_enet", "caffe_segnet_basic", "keras_mobilenet"],
)
def test_the_zoo_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    chosen = Request.of(Config.read(zoo.build(name, tmp_path, size=ZOO[name])))
    assert_same_bits(prepare(read_whole(chosen), chosen, tmp_path / "compiled"), tmp_path / "data", chosen)


@pytest.mark.slow
def test_the_promise_covers_every_function_of_the_runner() -> None:
    """Each function, with each struct that its template takes, is in a program that both forms run."""
    called = set()
    on_the_cpu = [built(graph) for graph in (*(everything(b).graph for b in BATCHES), unpooling(), *DETECTING)]
    for program in (*on_the_cpu, built(segmentation(9), device=ZIA_C3)):
        for call in re.findall(r"^call (.*);$", program_data(program).decode(), re.MULTILINE):
            called.add((call.partition("(")[0], re.sub(r"{.*", "", call.rpartition("y, ")[2])))
    functions = {function for function, _ in called}
    for function, struct in all_kernels().calls:
        assert (function, struct) in called if struct else function in functions, (function, struct)
    assert functions == {function for function, _ in all_kernels().calls} | {MAXIMIZER, "InPieces"}


def test_another_network_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network(small_graph(), tmp_path / "first")
    monkeypatch.setattr(building, "_compile", None)
    assert network(camera(), tmp_path / "second").executable == network(small_graph(), tmp_path / "third").executable


def test_custom_layers_are_compiled_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    custom = ops.Custom("Mine", (("more", 0.5),), Shape(2, 1, 3))
    graph = Graph((Node("in", ops.Input(Shape(1, 1, 8))), Node("mine", custom, ("in",))), ("mine",))
    (tmp_path / "mine.cpp").write_text(CALLBACK)
    with caplog.at_level(logging.INFO):
        installed = network(graph, tmp_path / "net", sources=[tmp_path / "mine.cpp"])
    assert installed.data is None
    assert "net has custom layers, whose code is C++, so it is compiled" in caplog.messages


# --- damaged files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text.replace("program 1", "program 2"), '"2" is where "1" belongs'),
        (lambda text: text[: text.rindex("end")], "it ends too early"),
        (lambda text: text + "layer 0", "it goes on after its end"),
        (lambda text: text.replace("run.conv_pad", "run.conv_pod"), '"run.conv_pod", which this runner does not know'),
        (lambda text: re.sub(r"run\.m \d+", "run.m 65536", text), "65536 does not fit its field"),
        (lambda text: re.sub(r"cmd\.w \d+", "cmd.w 4x", text), '"4x" is not a number or a constant'),
        (lambda text: text.replace("call Softmax", "call Softmix"), 'no function is called "Softmix"'),
        (lambda text: text.replace("Softmax(x, y", "Softmax(z, y"), 'no map is called "z"'),
        (lambda text: text.replace("Axes{false, false, true}", "Axes{false, true}"), '"}" is not a number'),
        (lambda text: text.replace("Axes{false, false, true}", "Axes{false, false, true, true}"), '"true" is where "}" belongs'),
        (lambda text: text.replace("layer 0 ", "output 0 layer 0 "), '"output" is before the first layer'),
        (lambda text: text.replace("run 0", "run 32", 1), "a command has too many runs"),
    ],
)  # fmt: skip
def test_damaged_data_is_refused(damage: Callable[[str], str], reason: str, tmp_path: Path) -> None:
    graph = Graph((*small_graph().nodes, Node("softmax", ops.Softmax(), ("sum",))), ("softmax",))
    made = network(graph, tmp_path)
    assert made.data is not None
    text = made.data.read_text()
    assert damage(text) != text
    made.data.write_text(damage(text))
    inputs = {node.name: np.zeros((1, *graph.shape(node.name)), np.float32) for node in graph.inputs}
    with pytest.raises(ConvertorError, match=r"DV704[\s\S]*the program's file: .*" + re.escape(reason)):
        made.run(inputs)


def test_names_of_layers_may_be_anything(tmp_path: Path) -> None:
    names = ['a "b"\n;end', "é\ud800", "layer 7 {", ""]
    nodes = [Node("x", ops.Input(Shape(2, 3, 8)))]
    for name in names:
        nodes.append(Node(name, ops.Unary(ops.Absolute()), (nodes[-1].name,)))
    graph = Graph(tuple(nodes), (nodes[-1].name,))
    program = built(graph)
    made = install_data(graph, program, tmp_path, device=DV700)
    inputs = {"x": -np.ones((1, 2, 3, 8), np.float32)}
    np.testing.assert_array_equal(made.run(inputs).outputs[0], np.ones((1, 2, 3, 8)))
