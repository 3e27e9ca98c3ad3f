"""Sums of products whose quotient alone matters: before and after, with equal results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, MatMul, Matrices, Op, Shape
from cnn_convertor.passes.average_products import SMALLEST, average_products
from reference import ir_reference, random_networks

X = Shape(20, 4, 3)
ROWS = Matrices(3, Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)  # 3 matrices of 20x4
COLUMNS = Matrices(3, Axis.CHANNELS, Axis.WIDTH, Axis.HEIGHT)
FIRST, LAST = ops.Crop(Shape(0, 0, 0), Shape(20, 3, 3)), ops.Crop(Shape(0, 3, 0), Shape(20, 4, 3))
TINY = ops.Scale(Constant.of(np.ones(3)), Constant.of(np.array([1e-15, 2.0, -1.0])))


SUM = MatMul(COLUMNS, ROWS, ROWS)
QUOTIENT = ops.Binary(ops.BinaryOp.DIVIDE)


def attention(
    *,
    first: Op = SUM,
    below: Sequence[Op] = (LAST, TINY),
    quotient: Op = QUOTIENT,
    more: Sequence[str] = (),
) -> Graph:
    """x (x' x), of which one column divides the others. more: outputs."""
    nodes = [Node("x", ops.Input(X)), Node("a", first, ("x", "x")), Node("m", MatMul(ROWS, ROWS, ROWS), ("x", "a"))]
    nodes.append(Node("p", FIRST, ("m",)))
    for count, op in enumerate(below):
        nodes.append(Node(f"b{count}", op, ("m" if not count else f"b{count - 1}",)))
    nodes.append(Node("q", quotient, ("p", nodes[-1].name)))
    return Graph(tuple(nodes), ("q", *more))


@pytest.mark.parametrize(("factor", "averaged"), [(1.0, 1 / 16), (0.5, 1 / 16), (-3.0, -3 / 32), (0.1, 0.1 / 2)])
def test_a_sum_becomes_an_average(factor: float, averaged: float) -> None:
    graph = attention(first=MatMul(COLUMNS, ROWS, ROWS, factor))
    result = average_products(graph)
    assert result["a"].op == MatMul(COLUMNS, ROWS, ROWS, averaged)
    x = random_networks.inputs_for(graph)
    np.testing.assert_allclose(ir_reference.run(result, x)["q"], ir_reference.run(graph, x)["q"], rtol=1e-4)
    assert average_products(result) is result


def test_a_shift_keeps_the_divisor_above_zero() -> None:
    scale = average_products(attention())["b1"].op
    assert isinstance(scale, ops.Scale) and scale.shift is not None
    np.testing.assert_allclose(scale.shift.load(), [SMALLEST, 2 / 16, -1 / 16])
    assert np.float16(SMALLEST) == np.nextafter(np.float16(0), np.float16(1))


KEPT = {
    "a small sum": attention(first=MatMul(COLUMNS, ROWS, ROWS, 0.05)),
    "no quotient": attention(quotient=ops.Binary(ops.BinaryOp.SUBTRACT)),
    "another reader of the first": attention(more=["a"]),
    "another reader of the last": attention(more=["m"]),
    "another reader of a part": attention(more=["b0"]),
    "a root": attention(below=(LAST, ops.Unary(ops.Power(0.5)))),
    "an activation": attention(below=(LAST, ops.Scale(Constant.of(np.ones(3)), None, ops.Relu()))),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_more_than_a_quotient_stays(name: str) -> None:
    assert average_products(KEPT[name]) is KEPT[name]


def test_other_divisors_stay() -> None:
    nodes = (
        Node("x", ops.Input(X)), Node("y", ops.Input(Shape(20, 1, 3))), Node("a", MatMul(COLUMNS, ROWS, ROWS), ("x", "x")),
        Node("m", MatMul(ROWS, ROWS, ROWS), ("x", "a")), Node("q", ops.Binary(ops.BinaryOp.DIVIDE), ("m", "y")),
    )  # fmt: skip
    graph = Graph(nodes, ("q",))
    assert average_products(graph) is graph


def test_maps_that_are_smaller_than_the_frameworks_are_not_compared_with_them() -> None:
    graph = attention()
    named = Graph(tuple(replace(n, origins=(Origin("net", n.name, "T"),)) for n in graph.nodes), graph.outputs)
    quotient = average_products(named)["q"]
    assert [origin.layer for origin in quotient.origins] == ["a", "m", "p", "b1", "b0", "q"]
    assert quotient.where == Origin("net", "q", "T")
