"""Networks whose framework rounds maps to 8 bits are judged map by map, on the numbers that their integers stand for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Activation, Conv2d
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.bounds import left_by_rounding
from cnn_convertor.verification.onnx_integers import Integers, integers_of
from frontends.onnx.networks import Network, helper, load, onnx
from verification.trials import config

pytest.importorskip("onnxruntime", reason="onnxruntime computes the results")
pytestmark = pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
needs_compiler = pytest.mark.usefixtures("compiler")

SCALES = {"x": 0.01, "a": 0.02, "b": 0.05, "v": 0.01, "w": 0.02}
make = helper.make_node


def steps(name: str, *, of: str = "") -> list[Any]:
    """Rounding to integers, and back."""
    names = [f"{name}_scale", f"{name}_zero"]
    return [
        make("QuantizeLinear", [of or name, *names], [f"{name}_q"]),
        make("DequantizeLinear", [f"{name}_q", *names], [f"{name}_d"]),
    ]


def with_steps() -> Network:
    nodes = [
        *steps("x"), make("DequantizeLinear", ["v_q", "v_scale", "w_zero"], ["v"]),
        make("Conv", ["x_d", "v", "bias"], ["c"], pads=[1, 1, 1, 1]), make("Relu", ["c"], ["a"]), *steps("a"),
        make("DequantizeLinear", ["w_q", "w_scale", "w_zero"], ["w"]),
        make("Conv", ["a_d", "w"], ["b"]), *steps("b"),
    ]  # fmt: skip
    return Network(nodes, {"x": np.zeros((1, 4, 9, 8), np.float32)}, constants())


def with_integers() -> Network:
    nodes = [
        make("QuantizeLinear", ["x", "x_scale", "x_zero"], ["x_q"]),
        make("QLinearConv", ["x_q", "x_scale", "x_zero", "v_q", "v_scale", "w_zero", "a_scale", "a_zero", "integers"],
             ["a_q"], pads=[1, 1, 1, 1]),
        make("QLinearConv", ["a_q", "a_scale", "a_zero", "w_q", "w_scale", "w_zero", "b_scale", "b_zero"], ["b_q"]),
        make("DequantizeLinear", ["b_q", "b_scale", "b_zero"], ["b_d"]),
    ]  # fmt: skip
    return Network(nodes, {"x": np.zeros((1, 4, 9, 8), np.float32)}, constants())


def constants() -> dict[str, Any]:
    random = np.random.default_rng(7)
    kernels = {"v_q": (12, 4, 3, 3), "w_q": (6, 12, 1, 1)}
    values: dict[str, Any] = {n: random.integers(-80, 80, dims).astype(np.int8) for n, dims in kernels.items()}
    values |= {f"{name}_scale": np.float32(scale) for name, scale in SCALES.items()}
    values |= {"x_zero": np.uint8(128), "a_zero": np.uint8(0), "b_zero": np.uint8(128), "w_zero": np.int8(0)}
    integers = random.integers(-5000, 5000, 12).astype(np.int32)
    return values | {"bias": integers.astype(np.float32) * np.float32(1e-4), "integers": integers}


NETWORKS = {"steps": with_steps, "integers": with_integers}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    return config(NETWORKS[request.param]().write(tmp_path / "net.onnx"), output_folder=tmp_path)


@needs_compiler
def test_a_right_network_passes(network: Config) -> None:
    result = verify(network)
    (output,) = result.outputs
    assert result.passed and result.judged_maps >= 2
    assert output.allowed == 20.0, "the device does not round to 8 bits"
    assert not result.by_sqnr_alone


@needs_compiler
@pytest.mark.parametrize("types", [[], ["Transpose", "Unsqueeze", "Cast"]], ids=["last", "moved"])
def test_an_output_of_integers_is_judged_as_the_numbers_that_they_stand_for(types: list[str], tmp_path: Path) -> None:
    network, name = with_integers(), "b_q"
    nodes = [*network.nodes[:-1]]
    for type in types:
        inputs, attributes = [name], {"Cast": {"to": onnx.TensorProto.INT32}}.get(type, {})
        name = f"{name}_{type}"
        nodes.append(make(type, [*inputs, "first"] if type == "Unsqueeze" else inputs, [name], **attributes))
    constants = {**network.constants, "first": np.array([0])}
    path = Network(nodes, network.inputs, constants).write(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32 if types else onnx.TensorProto.UINT8
    onnx.save(model, path)
    result = verify(config(path, output_folder=tmp_path), samples=2)
    assert result.passed and not result.by_sqnr_alone and result.outputs[0].sqnr > 30


@needs_compiler
def test_ranges_that_limit_nothing_are_judged_as_the_others(tmp_path: Path) -> None:
    """Of x * hard_sigmoid(x), where the range of the hard sigmoid follows from that of x."""
    scales = {
        "g_scale": np.float32(1 / 255),
        "g_zero": np.uint8(0),
        "m_scale": np.float32(0.02),
        "m_zero": np.uint8(128),
    }
    nodes = [
        *steps("x"), make("DequantizeLinear", ["v_q", "v_scale", "w_zero"], ["v"]),
        make("Conv", ["x_d", "v", "bias"], ["b"], pads=[1, 1, 1, 1]), *steps("b"),
        make("HardSigmoid", ["b_d"], ["g"], alpha=1 / 6), *steps("g"), make("Mul", ["b_d", "g_d"], ["m"]), *steps("m"),
        make("DequantizeLinear", ["w_q", "w_scale", "w_zero"], ["w"]), make("Conv", ["m_d", "w"], ["y"]),
    ]  # fmt: skip
    inputs = {"x": np.zeros((1, 4, 9, 8), np.float32)}
    path = Network(nodes, inputs, constants() | scales).write(tmp_path / "net.onnx")
    assert sum(isinstance(node.op, Activation) for node in load(path).nodes) == 4, "of x, b, m and the hard sigmoid"
    result = verify(config(path, output_folder=tmp_path))
    assert result.passed and result.judged_maps >= 4


def changed(graph: Graph, number: int, factor: float) -> Graph:
    """One filter of the convolution of a number is scaled."""
    found = [node for node in graph.nodes if isinstance(node.op, Conv2d)]
    node = found[number]
    assert isinstance(node.op, Conv2d)
    weights = node.op.weight.load().copy()
    weights[1] *= factor
    other = replace(node, op=replace(node.op, weight=Constant.of(weights)))
    return Graph(tuple(other if each is node else each for each in graph.nodes), graph.outputs)


@needs_compiler
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("factor", [0.0, 0.9, 1.1])
def test_a_changed_filter_is_found(network: Config, number: int, factor: float) -> None:
    assert network.definition is not None
    assert not verify(network, graph=changed(load(network.definition), number, factor)).passed


@needs_compiler
def test_scales_that_depend_on_the_input_are_said_not_to_be_judged(tmp_path: Path) -> None:
    nodes = [
        make("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), make("ConvInteger", ["q", "v_q", "z", "w_zero"], ["i"]),
        make("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT), make("Mul", ["s", "v_scale"], ["t"]), make("Mul", ["f", "t"], ["y"]),
    ]  # fmt: skip
    path = Network(nodes, {"x": np.zeros((1, 4, 9, 8), np.float32)}, constants()).write(tmp_path / "net.onnx")
    result = verify(config(path, output_folder=tmp_path), min_sqnr=25.0)
    assert result.judged_maps == 0 and "depends on the input" in result.by_sqnr_alone["y"]


def test_integers_stand_for_numbers(tmp_path: Path) -> None:
    from cnn_convertor.frontends.onnx.model import read_model

    known = integers_of(read_model(with_integers().write(tmp_path / "net.onnx")))
    assert {name: (round(float(each.scale), 3), each.zero) for name, each in known.items()} == {
        "x_q": (0.01, 128),
        "a_q": (0.02, 0),
        "b_q": (0.05, 128),
    }
    found = Integers(np.float32(0.5), 128).numbers(np.array([0, 128, 255], np.uint8))
    assert np.array_equal(found, [-64.0, 0.0, 63.5])


def test_what_rounding_to_integers_leaves_follows_from_the_steps_of_the_maps() -> None:
    fine = np.arange(-128, 128, dtype=np.float32) * np.float32(0.1)
    coarse = np.array([0, 1, 1, 0], np.float32)  # of which a step of 1 leaves little
    other = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    assert left_by_rounding([other]) == np.inf
    assert left_by_rounding([coarse, other]) == pytest.approx(10 * np.log10(0.5 / (0.5**2 / 3)), abs=1e-3)
    assert 48 < left_by_rounding([fine]) < 49 and left_by_rounding([fine, coarse]) < left_by_rounding([coarse])
