"""Layers that normalize pixels are found, and offered as mean and scale."""

import numpy as np
import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.passes.normalization import input_normalizations

CHANNELS = 3


def scale(factor: float | list[float], shift: float | list[float] | None = None) -> ops.Scale:
    def constant(numbers: float | list[float]) -> Constant:
        return Constant.of(np.broadcast_to(np.array(numbers, np.float64), CHANNELS).copy())

    return ops.Scale(constant(factor), None if shift is None else constant(shift))


def network(*first: ops.Op) -> Graph:
    nodes = [Node("image", ops.Input(Shape(4, 4, CHANNELS)))]
    for number, op in enumerate((*first, ops.Activation(ops.Relu()))):
        nodes.append(Node(f"n{number}", op, (nodes[-1].name,)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def test_a_division_and_a_subtraction_are_mean_and_scale() -> None:
    (found,) = input_normalizations(network(scale(1 / 255), scale(1.0, -0.5), scale(2.0)))
    assert found.layers == ("n0", "n1", "n2")
    assert found.mean == pytest.approx((127.5,))
    assert found.scale == pytest.approx((2 / 255,))
    assert str(found).endswith(
        "set mean = 127.5 and scale = 0.00784314 in [INPUT], which saves their work on the device."
    )


def test_the_offer_computes_what_the_layers_compute() -> None:
    random = np.random.default_rng(0)
    factors, shifts = random.uniform(0.5, 2, (2, CHANNELS)), random.normal(size=(2, CHANNELS))
    (found,) = input_normalizations(network(*(scale(list(f), list(s)) for f, s in zip(factors, shifts, strict=True))))
    pixels = random.uniform(0, 255, (5, CHANNELS))
    expected = (pixels * factors[0] + shifts[0]) * factors[1] + shifts[1]
    np.testing.assert_allclose((pixels - np.array(found.mean)) * np.array(found.scale), expected, rtol=1e-5)
    assert "channel by channel" in str(found) and "leave mean and scale out" in str(found)


@pytest.mark.parametrize(
    "graph",
    [
        network(),
        network(ops.Activation(ops.Sigmoid()), scale(2.0)),
        network(scale([1.0, 0.0, 1.0])),
        Graph(
            (
                Node("image", ops.Input(Shape(4, 4, CHANNELS))),
                Node("a", scale(2.0), ("image",)),
                Node("b", scale(3.0), ("image",)),
            ),
            ("a", "b"),
        ),
    ],
    ids=["none", "not at the start", "a channel is lost", "another reader"],
)
def test_other_layers_are_none(graph: Graph) -> None:
    assert input_normalizations(graph) == ()


def test_layers_behind_an_output_are_left() -> None:
    nodes = network(scale(2.0), scale(3.0)).nodes
    (found,) = input_normalizations(Graph(nodes, ("n0", nodes[-1].name)))
    assert found.layers == ("n0",)
