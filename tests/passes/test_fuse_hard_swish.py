"""A composed hard swish becomes one operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.passes.fuse_hard_swish import fuse_hard_swish
from passes.graphs import ALL_SIDES, RANDOM, conv
from reference import ir_reference


def hard_swish(
    order: str, *, three: float = 3.0, six: float = 6.0, one: float = 1.0, other: str = "x", outputs: str = ""
) -> Graph:
    """x * relu6(x + 3) / 6 in several orders; other: the other factor."""

    def all(value: float) -> Constant:
        return Constant.of(np.full(3, value))

    plus = ops.Scale(all(1.0), all(three))
    sixth = ops.Scale(all(1 / six))
    times = ops.Binary(ops.BinaryOp.MULTIPLY)
    nodes = [
        Node("in", ops.Input(Shape(4, 6, 3))),
        Node("x", conv(padding=ALL_SIDES), ("in",)),
        Node("plus", plus, ("x",)),
        Node("relu6", ops.Activation(ops.Relu6()), ("plus",)),
    ]
    nodes += {
        "x * (gate / 6)": [Node("gate", sixth, ("relu6",)), Node("y", times, (other, "gate"))],
        "x * (gate / 6 * 1)": [
            Node("sixth", sixth, ("relu6",)),
            Node("gate", ops.Scale(all(one)), ("sixth",)),
            Node("y", times, (other, "gate")),
        ],
        "(gate / 6) * x": [Node("gate", sixth, ("relu6",)), Node("y", times, ("gate", other))],
        "(x * gate) / 6": [Node("gate", times, (other, "relu6")), Node("y", sixth, ("gate",))],
    }[order]
    return Graph(tuple(nodes), tuple(outputs.split()) or ("y",))


@pytest.mark.parametrize("order", ["x * (gate / 6)", "x * (gate / 6 * 1)", "(gate / 6) * x", "(x * gate) / 6"])
def test_a_composed_hard_swish_becomes_one_operator(order: str) -> None:
    before = hard_swish(order)
    after = fuse_hard_swish(before)
    assert [node.name for node in after.nodes] == ["in", "x", "y"] and after["y"].op == ops.Unary(ops.HardSwish())
    given = {"in": RANDOM.normal(size=(4, 6, 3)) * 3}
    expected, got = (ir_reference.run(graph, given)["y"] for graph in (before, after))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_shared_parts_of_a_hard_swish_stay() -> None:
    after = fuse_hard_swish(hard_swish("x * (gate / 6)", outputs="relu6 y"))
    assert [node.name for node in after.nodes] == ["in", "x", "plus", "relu6", "y"]


@pytest.mark.parametrize("changed", [{"three": 2.5}, {"six": 5.0}, {"one": 0.5}, {"other": "plus"}], ids=str)
def test_lookalikes_of_a_hard_swish_stay(changed: dict[str, Any]) -> None:
    graph = hard_swish("x * (gate / 6 * 1)", **changed)
    assert fuse_hard_swish(graph) == graph
