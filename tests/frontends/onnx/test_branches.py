"""The branch of an If whose condition is known becomes a part of the network."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.onnx.model import DEEPEST
from cnn_convertor.ir import ops
from cnn_convertor.trials.verify import verify
from frontends.onnx.networks import Network, agreeing, helper, load, numpy_helper

make = helper.make_node
RANDOM = np.random.default_rng(28)
X = RANDOM.standard_normal((1, 4, 6, 8)).astype(np.float32)
YES, NO = np.array([True]), np.array(False)


def body(nodes: list[Any], output: str = "", **constants: Any) -> Any:
    name = output or nodes[-1].output[0]
    results = [helper.make_empty_tensor_value_info(name)]
    return helper.make_graph(
        nodes, "body", [], results, [numpy_helper.from_array(x, key) for key, x in constants.items()]
    )


def choice(condition: str, then: Any, other: Any, output: str = "y") -> Any:
    return make("If", [condition], [output], then_branch=then, else_branch=other)


RELU, ABS = body([make("Relu", ["x"], ["t"])]), body([make("Abs", ["x"], ["t"])])


@pytest.mark.parametrize("condition", [YES, NO])
def test_a_condition_of_the_file(condition: np.ndarray[Any, Any], tmp_path: Path) -> None:
    graph = agreeing(Network([choice("c", RELU, ABS)], {"x": X}, {"c": condition}), tmp_path / "net.onnx")
    assert any(isinstance(node.op, ops.Activation) for node in graph.nodes) == bool(condition.any())


@pytest.mark.parametrize("length", [1, 2])
def test_an_axis_is_squeezed_if_its_length_is_one(length: int, tmp_path: Path) -> None:
    """x.squeeze(axis), as PyTorch exports it."""
    squeeze = body([make("Squeeze", ["r", "axes"], ["t"])], axes=np.array([0]))
    nodes = [
        make("Relu", ["x"], ["r"]), make("Shape", ["r"], ["dims"]), make("Gather", ["dims", "axis"], ["size"]),
        make("Equal", ["size", "one"], ["c"]), choice("c", squeeze, body([make("Identity", ["r"], ["t"])]), "z"),
        make("Neg", ["z"], ["y"]),
    ]  # fmt: skip
    agreeing(Network(nodes, {"x": X}, {"axis": np.int64(0), "one": np.int64(length)}), tmp_path / "net.onnx")


def test_branches_inside_each_other_and_names_that_come_again(tmp_path: Path) -> None:
    inner = choice("c", body([make("Mul", ["t", "k"], ["u"])], k=np.float32(3)), body([make("Abs", ["x"], ["w"])]), "v")
    nodes = [
        choice("c", body([make("Relu", ["x"], ["t"]), inner]), ABS, "a"),
        choice("d", ABS, body([make("Add", ["a", "k"], ["t"])], k=np.float32(5)), "b"),
        make("Add", ["a", "b"], ["y"]),
    ]
    agreeing(Network(nodes, {"x": X}, {"c": YES, "d": NO}), tmp_path / "net.onnx")


def test_a_branch_reads_the_middle_of_an_idiom(tmp_path: Path) -> None:
    nodes = [
        make("Sigmoid", ["x"], ["s"]), make("Mul", ["x", "s"], ["m"]),
        choice("c", body([make("Neg", ["s"], ["t"])]), ABS, "z"), make("Add", ["m", "z"], ["y"]),
    ]  # fmt: skip
    agreeing(Network(nodes, {"x": X}, {"c": YES}), tmp_path / "net.onnx")


def test_an_idiom_inside_a_branch(tmp_path: Path) -> None:
    swish = body([make("Sigmoid", ["x"], ["s"]), make("Mul", ["x", "s"], ["m"])])
    graph = agreeing(Network([choice("c", swish, ABS)], {"x": X}, {"c": YES}), tmp_path / "net.onnx")
    assert len(graph.nodes) <= 3  # the input, Swish, and the output's own name


def test_a_branch_of_constants(tmp_path: Path) -> None:
    one, two = (body([make("Constant", [], ["t"], value_float=value)]) for value in (1.0, 2.0))
    agreeing(
        Network([choice("c", one, two, "k"), make("Mul", ["x", "k"], ["y"])], {"x": X}, {"c": NO}), tmp_path / "n.onnx"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_a_branch_is_verified(tmp_path: Path) -> None:
    path = Network([choice("c", RELU, ABS, "z"), make("Neg", ["z"], ["y"])], {"x": X}, {"c": YES}).write(
        tmp_path / "net.onnx"
    )
    assert verify(Config.of(path), samples=1).passed


def _nested(depth: int) -> Any:
    inner = RELU
    for _ in range(depth):
        inner = body([choice("c", inner, ABS, "t")])
    return inner


NAN = make("Constant", [], ["f"], value_float=math.nan)
REFUSED: dict[str, tuple[list[Any], str]] = {
    "a condition that the image decides": (
        [make("ReduceMax", ["x"], ["m"], keepdims=0), make("Cast", ["m"], ["b"], to=9), choice("b", RELU, ABS)], "DV301",
    ),
    "no branch": ([make("If", ["c"], ["y"], else_branch=ABS)], "DV206"),
    "a branch that is a number": ([make("If", ["c"], ["y"], then_branch=1, else_branch=ABS)], "DV206"),
    "an unknown attribute": (
        [make("If", ["c"], ["y"], then_branch=RELU, else_branch=ABS, strange=1)], "DV302",
    ),
    "several conditions": ([choice("many", RELU, ABS)], "DV206"),
    "a condition that cannot be computed": (
        [make("Constant", [], ["i"], value_ints=[9]), make("Gather", ["c", "i"], ["b"]), choice("b", RELU, ABS)], "DV206",
    ),
    "more outputs than the branch has": ([make("If", ["c"], ["z", "y"], then_branch=RELU, else_branch=ABS)], "DV302"),
    "a branch that reads what is not there": ([choice("c", body([make("Relu", ["no"], ["t"])]), ABS)], "DV212"),
    "a branch that takes a name from outside": ([choice("c", body([make("Relu", ["x"], ["x"])]), ABS)], "DV212"),
    "a branch that cannot be computed": (
        [choice("c", body([NAN, make("Gather", ["c", "f"], ["t"])]), ABS, "k"), make("Mul", ["x", "k"], ["y"])], "DV206",
    ),
    "an unknown type inside": ([choice("c", body([make("NonMaxSuppression", ["x"], ["t"])]), ABS)], "DV301"),
    "a type of ours inside": ([choice("c", body([make("Focus", ["x"], ["t"], blocksize=1)]), ABS)], "DV301"),
    "too deep": ([choice("c", _nested(DEEPEST), ABS)], "DV201"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_refused(name: str, tmp_path: Path) -> None:
    nodes, code = REFUSED[name]
    path = Network(nodes, {"x": X}, {"c": YES, "many": np.array([True, True])}).write(tmp_path / "net.onnx", ["y"])
    with pytest.raises(ConvertorError) as raised:
        load(path)
    assert code in {problem.code for problem in raised.value.problems}, raised.value


def test_a_damaged_branch_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    content = Network([choice("c", _nested(3), ABS)], {"x": X}, {"c": YES}).write(path).read_bytes()
    refused = 0
    for at in range(300):
        damaged = bytearray(content)
        for _ in range(at % 3 + 1):
            damaged[RANDOM.integers(len(damaged))] = RANDOM.integers(256)
        path.write_bytes(damaged)
        try:
            load(path)
        except ConvertorError:
            refused += 1
    assert 50 < refused < 300
