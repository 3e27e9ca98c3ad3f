"""Folding transposes: before and after as text, with equal results."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Padding, Reshape, Shape, TransposeReshape
from cnn_convertor.passes.fold_transposes import fold_transposes
from reference import ir_reference, random_networks

X = Shape(4, 6, 3)
VECTOR = Shape(1, 1, 72)
PIXELS_FIRST = TransposeReshape((3, 4, 6), (1, 2, 0), Shape(6, 3, 4), Order.CHW)  # Caffe's Permute 0 2 3 1
TURNED = TransposeReshape((4, 6, 3), (1, 0, 2), Shape(6, 4, 3), Order.HWC)
SHUFFLE = TransposeReshape((3, 2, 12), (1, 0, 2), Shape(2, 6, 6), Order.CHW)

FOLDED: dict[str, tuple[list[Op], list[str]]] = {
    "SSD's head": ([PIXELS_FIRST, Reshape(VECTOR, Order.CHW)], ["Reshape[shape=1x1x72 order=Order.HWC]"]),
    "SSD's head, flattened in another order": (
        [TransposeReshape((3, 4, 6), (1, 2, 0), VECTOR, Order.CHW), Reshape(VECTOR, Order.HWC)],
        ["Reshape[shape=1x1x72 order=Order.HWC]"],
    ),
    "rows of a Permute": (
        [PIXELS_FIRST, Reshape(Shape(3, 1, 24), Order.CHW)],
        ["TransposeReshape[dims=(3, 4, 6) axes=(1, 2, 0) shape=3x1x24 order=Order.CHW]"],
    ),
    "a channel shuffle by three layers": (
        [Reshape(Shape(12, 1, 6), Order.CHW), SHUFFLE, Reshape(Shape(4, 3, 6), Order.CHW)],
        ["TransposeReshape[dims=(3, 2, 12) axes=(1, 0, 2) shape=4x3x6 order=Order.CHW]"],
    ),
    "a Permute, and back": (
        [PIXELS_FIRST, TransposeReshape((4, 6, 3), (2, 0, 1), X, Order.CHW)],
        [],
    ),
    "a Permute, and another of smaller axes": (
        [PIXELS_FIRST, TransposeReshape((2, 2, 6, 3), (1, 3, 0, 2), Shape(4, 3, 6), Order.CHW)],
        ["TransposeReshape[dims=(3, 2, 2, 6) axes=(2, 0, 1, 3) shape=4x3x6 order=Order.CHW]"],
    ),
    "a Permute, a function, and back": (
        [PIXELS_FIRST, ops.Unary(ops.Power(2.0)), TransposeReshape((4, 6, 3), (2, 0, 1), X, Order.CHW)],
        ["Unary[function=Power[power=2.0]]"],
    ),
    "a Permute, a crop, and back": (
        [PIXELS_FIRST, ops.Crop(Shape(1, 1, 0), Shape(5, 3, 4), Shape(2, 1, 1)), TransposeReshape((4, 2, 2), (2, 0, 1), Shape(4, 2, 2), Order.CHW)],
        ["Crop[start=0x1x1 stop=4x5x3 stride=1x2x1]"],
    ),
    "a Permute, padding, and back": (
        [PIXELS_FIRST, ops.Pad(Padding(1, 2, 0, 0)), TransposeReshape((4, 9, 3), (2, 0, 1), Shape(4, 9, 3), Order.CHW)],
        ["Pad[padding=0x0x1x2]"],
    ),
    "rows and columns, padding, and back": (
        [TURNED, ops.Pad(Padding(1, 2, 3, 0)), TransposeReshape((9, 7, 3), (1, 0, 2), Shape(7, 9, 3), Order.HWC)],
        ["Pad[padding=3x0x1x2]"],
    ),
    "what moves nothing": (
        [TransposeReshape((3, 1, 24), (1, 0, 2), Shape(2, 4, 9), Order.HWC)],
        ["Reshape[shape=2x4x9 order=Order.HWC]"],
    ),
    "channels first, of a map that is counted the other way": (
        [TransposeReshape((4, 6, 3), (2, 0, 1), VECTOR, Order.HWC)],
        ["Reshape[shape=1x1x72 order=Order.CHW]"],
    ),
}  # fmt: skip
STAYS: dict[str, list[Op]] = {
    "another order": [PIXELS_FIRST, Reshape(VECTOR, Order.HWC)],
    "other lengths": [PIXELS_FIRST, TransposeReshape((9, 8), (1, 0), X, Order.CHW)],
    "a map": [PIXELS_FIRST],
    "padding of what was a channel": [
        PIXELS_FIRST,
        ops.Pad(Padding(0, 0, 1, 2)),
        TransposeReshape((4, 6, 6), (2, 0, 1), Shape(4, 6, 6), Order.CHW),
    ],
    "padding before nothing that moves": [PIXELS_FIRST, ops.Pad(Padding(1, 2, 0, 0)), ops.Unary(ops.Absolute())],
    "a crop of a map that is no Permute": [
        TransposeReshape((3, 2, 12), (1, 0, 2), X, Order.CHW),
        ops.Crop(Shape(1, 0, 0), X),
    ],
    "other halves": [TransposeReshape((12, 6), (1, 0), VECTOR, Order.CHW)],
}


def chain(made: list[Op]) -> Graph:
    nodes = [Node("x", ops.Input(X))]
    for op, name in zip(made, "abcdef", strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def folded(graph: Graph) -> Graph:
    """The rewritten graph, checked for equal results."""
    result = fold_transposes(graph)
    x = random_networks.inputs_for(graph)
    before, after = ir_reference.run(graph, x), ir_reference.run(result, x)
    for old, new in zip(graph.outputs, result.outputs, strict=True):
        np.testing.assert_array_equal(after[new], before[old])
    return result


@pytest.mark.parametrize("case", FOLDED)
def test_transposes_fold(case: str) -> None:
    made, expected = FOLDED[case]
    lines = [line.split(" = ")[1].rsplit("(", 1)[0] for line in str(folded(chain(made))).splitlines()[1:-1]]
    assert lines == expected


@pytest.mark.parametrize("case", STAYS)
def test_transposes_that_stay(case: str) -> None:
    graph = chain(STAYS[case])
    assert folded(graph) == graph


def test_a_transpose_with_other_users_stays() -> None:
    nodes = (
        Node("x", ops.Input(X)),
        Node("a", PIXELS_FIRST, ("x",)),
        Node("b", Reshape(Shape(3, 1, 24), Order.CHW), ("a",)),
    )
    graph = Graph(nodes, ("a", "b"))
    assert folded(graph) == graph


def test_any_permutation_of_any_axes_computes_the_same() -> None:
    for order in (Order.CHW, Order.HWC):
        for axes in itertools.permutations(range(4)):
            for shape in (VECTOR, Shape(2, 3, 12)):
                folded(chain([TransposeReshape((3, 1, 4, 6), axes, shape, order), Reshape(VECTOR, order)]))
