"""The place of each pass matters: with the pass at another end of the order, a network comes out worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Pair, Shape, Window
from cnn_convertor.passes import PASSES, canonicalize, optimize
from cnn_convertor.passes.drop_channels import drop_channels
from cnn_convertor.passes.fold_activations import fold_activations
from cnn_convertor.passes.fold_padding import fold_padding
from cnn_convertor.passes.fold_reshapes import fold_reshapes
from cnn_convertor.passes.fold_scales import fold_scales
from cnn_convertor.passes.fold_transposes import fold_transposes
from cnn_convertor.passes.fuse_hard_swish import fuse_hard_swish
from cnn_convertor.passes.hoist_activations import hoist_activations
from cnn_convertor.passes.hoist_scales import hoist_scales
from cnn_convertor.passes.merge_identical import merge_activations, merge_identical
from cnn_convertor.passes.sink_scales import sink_scales
from cnn_convertor.passes.swap_pool_conv import swap_pool_conv
from passes.test_passes import ALL_SIDES, PAD, RELU, chain, conv, hard_swish, scale, some

X = Shape(16, 16, 3)
SAME = conv(padding=ALL_SIDES)
POINTWISE = ops.Conv2d(some(3, 3, 1, 1), None, Window(Pair(1, 1)))
AVERAGE = ops.AveragePool2d(Window(Pair(2, 2), Pair(2, 2)))
HALF = ops.Scale(Constant.of(np.full(3, 0.5)))
FLAT = Shape(1, 1, X.size)


def norm(channels: int = 3) -> Op:
    return ops.BatchNorm(some(channels), Constant.of(np.ones(channels)), None, some(channels), 1e-3)


def net(outputs: str, *nodes: tuple[str, Op, str]) -> Graph:
    """Nodes after the input x: name, operator, names of inputs."""
    made = (Node(name, op, tuple(inputs.split())) for name, op, inputs in nodes)
    return Graph((Node("x", ops.Input(X)), *made), tuple(outputs.split()))


def line(*made: Op) -> Graph:
    return chain(*made, shape=X)


class Place(NamedTuple):
    """made: the operators after all passes, with "+" before an activation; not so with the last run of the pass moved `to`."""

    rewrite: Callable[[Graph], Graph]
    to: str
    graph: Graph
    made: str


PLACES = [
    Place(canonicalize.remove_identities, "last", line(conv(), ops.Identity(), norm()), "Conv2d"),
    Place(fuse_hard_swish, "last", hard_swish("x * (gate / 6)"), "Conv2d Unary"),
    Place(canonicalize.batch_norms_to_scales, "last", line(conv(), norm(), RELU), "Conv2d+Relu"),
    Place(
        canonicalize.differences_to_sums, "last",
        net("d", ("a", conv(), "x"), ("b", conv(), "x"), ("d", ops.Binary(ops.BinaryOp.SUBTRACT), "a b")), "Conv2d Conv2d Add",
    ),
    Place(drop_channels, "first", line(conv(6), norm(6), ops.Crop(Shape(0, 0, 0), Shape(14, 14, 3)), conv()), "Conv2d Conv2d"),
    Place(
        fold_transposes, "last",
        line(SAME, ops.TransposeReshape(tuple(X), (2, 0, 1), FLAT, Order.HWC), ops.Dense(some(2, X.size, 1, 1), None)), "Conv2d Dense",
    ),
    Place(
        canonicalize.sink_reshapes, "last",
        line(SAME, ops.Reshape(FLAT, Order.HWC), RELU, ops.Dense(some(2, X.size, 1, 1), None)), "Conv2d+Relu Dense",
    ),
    Place(
        merge_activations, "last",
        net("p q", ("c", SAME, "x"), ("r", RELU, "c"), ("s", RELU, "c"), ("p", conv(), "r"), ("q", conv(), "s")),
        "Conv2d+Relu Conv2d Conv2d",
    ),
    Place(fold_scales, "first", line(SAME, RELU, scale(), AVERAGE, conv()), "Conv2d+Relu AveragePool2d Conv2d"),
    Place(hoist_scales, "last", line(SAME, RELU, HALF, AVERAGE, RELU), "Conv2d+Relu AveragePool2d+Relu"),
    Place(sink_scales, "last", line(SAME, RELU, scale(), AVERAGE, conv()), "Conv2d+Relu AveragePool2d Conv2d"),
    Place(
        fold_activations, "first",
        net("r", ("a", SAME, "x"), ("b", SAME, "x"), ("c", ops.Concat(), "a b"), ("n", scale(channels=6), "c"), ("r", RELU, "n")),
        "Conv2d+Relu Conv2d+Relu Concat",
    ),
    Place(hoist_activations, "last", line(conv(), PAD, RELU, ops.MaxPool2d(Window(Pair(3, 3)))), "Conv2d+Relu MaxPool2d"),
    Place(swap_pool_conv, "first", line(conv(), POINTWISE, norm(), AVERAGE), "Conv2d AveragePool2d Conv2d"),
    Place(fold_padding, "first", line(conv(), PAD, RELU, ops.MaxPool2d(Window(Pair(3, 3)))), "Conv2d+Relu MaxPool2d"),
    Place(
        fold_reshapes, "first",
        line(SAME, ops.Reshape(FLAT, Order.HWC), RELU, ops.Dense(some(2, X.size, 1, 1), None)), "Conv2d+Relu Dense",
    ),
    Place(
        merge_identical, "first",
        net("e", ("a", SAME, "x"), ("s", scale(), "a"), ("b", SAME, "x"), ("t", scale(), "b"), ("e", ops.Add(), "s t")),
        "Conv2d Conv2d Add",
    ),
]  # fmt: skip


def made(graph: Graph) -> str:
    nodes = [node.op for node in graph.nodes if not isinstance(node.op, ops.Input)]
    functions = (getattr(op, "activation", None) for op in nodes)
    return " ".join(
        type(op).__name__ + ("" if function is None else f"+{type(function).__name__}")
        for op, function in zip(nodes, functions, strict=True)
    )


def moved(rewrite: Callable[[Graph], Graph], to: str) -> Sequence[Callable[[Graph], Graph]]:
    last = max(place for place, other in enumerate(PASSES) if other == rewrite)
    others = [*PASSES[:last], *PASSES[last + 1 :]]
    return [rewrite, *others] if to == "first" else [*others, rewrite]


@pytest.mark.parametrize("place", PLACES, ids=[row.rewrite.__name__ for row in PLACES])
def test_a_pass_does_more_in_its_place(place: Place) -> None:
    assert made(optimize(place.graph)) == place.made
    assert (
        made(reduce(lambda graph, rewrite: rewrite(graph), moved(place.rewrite, place.to), place.graph)) != place.made
    )


def test_the_place_of_each_pass_is_tested() -> None:
    assert set(PASSES) - {row.rewrite for row in PLACES} == {Graph.without_dead}, "PLACES needs a row"
