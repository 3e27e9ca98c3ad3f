"""Products of matrices that read and write maps as they are: before and after as text, with equal results."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Crop, MatMul, Matrices, Op, Order, Reshape, Shape, TransposeReshape
from cnn_convertor.passes.fold_products import fold_products
from cnn_convertor.passes.hoist_crops import hoist_crops
from cnn_convertor.passes.movement import cut
from reference import ir_reference, random_networks

X = Shape(5, 1, 12)  # 12 channels of 5 pixels
HEADS = TransposeReshape((3, 4, 5), (0, 2, 1), Shape(5, 4, 3), Order.CHW)  # 3 matrices of 5x4
PLANES = Matrices(3, Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)
TURNED = Matrices(3, Axis.CHANNELS, Axis.WIDTH, Axis.HEIGHT)
HALF = ops.Scale(Constant.of(np.full(3, 0.5)))
QUARTER = ops.Scale(Constant.of(np.full(12, 0.25)))
UNEVEN = ops.Scale(Constant.of(np.array([0.5, 2, 1])))


def product(left: list[Op], right: list[Op], after: list[Op], op: MatMul) -> Graph:
    """x through the operators on the left and on the right, their product, and what comes after."""
    nodes, ends = [Node("x", ops.Input(X))], []
    for side, chain in (("l", left), ("r", right)):
        last = "x"
        for count, each in enumerate(chain):
            nodes.append(Node(f"{side}{count}", each, (last,)))
            last = nodes[-1].name
        ends.append(last)
    nodes.append(Node("m", op, tuple(ends)))
    for count, each in enumerate(after):
        nodes.append(Node(f"a{count}", each, (nodes[-1].name,)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes[1:]]


def same(graph: Graph, result: Graph) -> Graph:
    """The rewritten graph, checked for equal results."""
    x = random_networks.inputs_for(graph)
    before, after = ir_reference.run(graph, x), ir_reference.run(result, x)
    for old, new in zip(graph.outputs, result.outputs, strict=True):
        np.testing.assert_allclose(after[new], before[old], rtol=1e-12)
    return result


FOLDED: dict[str, tuple[list[Op], list[Op], list[Op], MatMul]] = {
    "heads from channels": ([HEADS], [HEADS], [], MatMul(PLANES, TURNED, PLANES)),
    "scaled heads": ([HEADS, HALF], [QUARTER, HEADS], [HALF], MatMul(PLANES, TURNED, PLANES)),
    "other axes": (
        [HEADS, TransposeReshape((3, 5, 4), (2, 0, 1), Shape(3, 5, 4), Order.CHW)], [HEADS], [],
        MatMul(Matrices(3, Axis.HEIGHT, Axis.WIDTH, Axis.CHANNELS), TURNED, PLANES),
    ),
    "heads to channels": (
        [HEADS], [HEADS], [TransposeReshape((3, 4, 4), (0, 2, 1), Shape(4, 1, 12), Order.CHW)], MatMul(TURNED, PLANES, PLANES),
    ),
    "a result without some axes": ([HEADS], [HEADS], [Reshape(Shape(15, 5, 1), Order.CHW)], MatMul(PLANES, TURNED, PLANES)),
}  # fmt: skip


@pytest.mark.parametrize("case", FOLDED)
def test_products_take_transposes(case: str) -> None:
    graph = product(*FOLDED[case])
    assert kinds(same(graph, fold_products(graph))) == ["MatMul"]


STAYS: dict[str, tuple[list[Op], list[Op], list[Op], MatMul]] = {
    "factors that differ": ([HEADS, UNEVEN], [HEADS, UNEVEN], [UNEVEN], MatMul(PLANES, TURNED, PLANES)),
    "rows of several runs": (
        [HEADS], [HEADS], [Reshape(Shape(1, 1, 75), Order.HWC)], MatMul(PLANES, TURNED, PLANES),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STAYS)
def test_other_operators_stay(case: str) -> None:
    graph = product(*STAYS[case])
    last = type(STAYS[case][2][-1]).__name__
    assert kinds(same(graph, fold_products(graph)))[-2:] == ["MatMul", last]


def split(*parts: Crop) -> Graph:
    moves = TransposeReshape((3, 4, 5), (0, 2, 1), Shape(5, 4, 3), Order.CHW)
    nodes = (
        Node("x", ops.Input(X)),
        Node("t", moves, ("x",)),
        *(Node(f"p{at}", crop, ("t",)) for at, crop in enumerate(parts)),
    )
    return Graph(nodes, tuple(node.name for node in nodes[2:]))


def test_crops_of_whole_runs_go_above_a_transpose() -> None:
    graph = split(Crop(Shape(0, 0, 0), Shape(5, 4, 1)), Crop(Shape(0, 0, 1), Shape(5, 4, 3)))
    assert kinds(same(graph, hoist_crops(graph))) == ["Crop", "TransposeReshape"] * 2


@pytest.mark.parametrize(
    "crop",
    [
        Crop(Shape(0, 1, 0), Shape(5, 4, 3)),  # the second run of the channels
        Crop(Shape(0, 0, 0), Shape(5, 4, 3), Shape(1, 1, 2)),
        Crop(Shape(1, 0, 1), Shape(5, 4, 3)),
    ],
)
def test_other_crops_stay_and_keep_the_rest(crop: Crop) -> None:
    graph = split(Crop(Shape(0, 0, 0), Shape(5, 4, 1)), crop)
    assert hoist_crops(graph) == graph


def test_axes_are_cut_where_both_have_ends() -> None:
    assert cut([6, 4], [2, 12]) == [[2, 3], [4]]
    assert cut([1, 6], [6]) == [[], [6]]
    assert cut([4, 6], [6, 4]) is None
