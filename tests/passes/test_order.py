"""The place of each pass matters: a network comes out worse with it at an end of the order; and what passes promise, holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Op, Order, Pair, Shape, Window
from cnn_convertor.passes import NO_DEAD_NODES, NO_IDENTITIES, PASSES, optimize
from cnn_convertor.passes.contract import CHECK, Condition, Pass, changed, run_passes
from cnn_convertor.pipeline import passes_of
from passes.graphs import ALL_SIDES, PAD, RELU, SIGMOID, chain, conv, scale, some
from passes.test_fuse_hard_swish import hard_swish

X = Shape(16, 16, 3)
SAME = conv(padding=ALL_SIDES)
POINTWISE = ops.Conv2d(some(3, 3, 1, 1), None, Window(Pair(1, 1)))
UNIT_DECONV = ops.ConvTranspose2d(some(3, 3, 1, 1), None, Window(Pair(1, 1)))
AVERAGE = ops.AveragePool2d(Window(Pair(2, 2), Pair(2, 2)))
HALF = ops.Scale(Constant.of(np.full(3, 0.5)))
FLAT = Shape(1, 1, X.size)

TURN = ops.TransposeReshape((3, 16, 16), (0, 2, 1), X, Order.CHW)
PLANES = ops.Matrices(3, Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)
ONE = PLANES._replace(number=1)
HALVES = (ops.Crop(Shape(0, 0, 0), Shape(16, 8, 3)), ops.Crop(Shape(0, 8, 0), Shape(16, 16, 3)))


def part(channel: int) -> Op:
    return ops.Crop(Shape(0, 0, channel), Shape(16, 16, channel + 1))


def norm(channels: int = 3) -> Op:
    return ops.BatchNorm(some(channels), Constant.of(np.ones(channels)), None, some(channels), 1e-3)


def added(shift: float) -> Op:
    return ops.Scale(Constant.of(np.ones(3)), Constant.of(np.full(3, shift)))


def net(outputs: str, *nodes: tuple[str, Op, str]) -> Graph:
    """Nodes after the input x: name, operator, names of inputs."""
    made = (Node(name, op, tuple(inputs.split())) for name, op, inputs in nodes)
    return Graph((Node("x", ops.Input(X)), *made), tuple(outputs.split()))


def line(*made: Op) -> Graph:
    return chain(*made, shape=X)


class Place(NamedTuple):
    """operators: those after all passes, with "+" before an activation, "*" before a factor; not so with the pass moved `to` the first or last place."""

    name: str
    to: str
    graph: Graph
    operators: str


PLACES = [
    Place("remove-identities", "last", line(conv(), ops.Identity(), norm()), "Conv2d"),
    Place(
        "fold-boxes", "last",
        net("d", ("l", ops.Dense(some(4, 3, 16, 16), None), "x"), ("c", ops.Dense(some(2, 3, 16, 16), None), "x"),
            ("p", ops.PriorBox(Pair(1, 1), Pair(16, 16), (9.0,), (), (), False, (0.1, 0.1, 0.2, 0.2), 16.0, 16.0, 0.5), ""),
            ("d", ops.DetectionOutput(2, 0, True, ops.BoxCode.CORNER, False, 0.5, -1, 1.0, 0.1, 9), "l c p")),
        "Dense Dense DetectionInBoxes",
    ),
    Place("fuse-hard-swish", "last", hard_swish("x * (gate / 6)"), "Conv2d Unary"),
    Place("batch-norms-to-scales", "last", line(conv(), norm(), RELU), "Conv2d+Relu"),
    Place(
        "clamp-shifts", "last",
        net("e", ("s", added(1e9), "x"), ("p", SIGMOID, "s"), ("t", added(np.inf), "x"), ("q", SIGMOID, "t"), ("e", ops.Add(), "p q")),
        "Scale+Sigmoid Add",
    ),
    Place(
        "differences-to-sums", "last",
        net("d", ("a", conv(), "x"), ("b", conv(), "x"), ("d", ops.Binary(ops.BinaryOp.SUBTRACT), "a b")), "Conv2d Conv2d Add",
    ),
    Place("deconvolutions-to-convolutions", "last", line(conv(), UNIT_DECONV, norm(), AVERAGE), "Conv2d AveragePool2d Conv2d"),
    Place("drop-clips", "last", line(SAME, RELU, ops.Unary(ops.Clip(0.0, 1.0)), conv()), "Conv2d Unary Conv2d"),
    Place("drop-channels", "first", line(conv(6), norm(6), ops.Crop(Shape(0, 0, 0), Shape(14, 14, 3)), conv()), "Conv2d Conv2d"),
    Place(
        "fold-transposes", "last",
        line(SAME, ops.TransposeReshape(tuple(X), (2, 0, 1), FLAT, Order.HWC), ops.Dense(some(2, X.size, 1, 1), None)), "Conv2d Dense",
    ),
    Place(
        "hoist-crops", "last",
        net("m", ("a", TURN, "x"), ("b", part(0), "a"), ("c", part(1), "a"), ("m", ops.MatMul(ONE, ONE, ONE), "b c")),
        "Crop Crop MatMul",
    ),
    Place(
        "fold-products", "first",
        net("m", ("a", ops.Reshape(FLAT, Order.CHW), "x"), ("b", TURN, "a"), ("m", ops.MatMul(PLANES, PLANES, PLANES), "b x")),
        "MatMul",
    ),
    Place(
        "average-products", "first",
        net("d", ("a", ops.MatMul(PLANES, PLANES, PLANES), "x x"), ("b", TURN, "a"), ("m", ops.MatMul(PLANES, PLANES, PLANES), "b x"),
            ("p", HALVES[0], "m"), ("q", HALVES[1], "m"), ("d", ops.Binary(ops.BinaryOp.DIVIDE), "p q")),
        "MatMul*0.0625 MatMul Crop Crop Binary",
    ),
    Place(
        "sink-reshapes", "last",
        line(SAME, ops.Reshape(FLAT, Order.HWC), RELU, ops.Dense(some(2, X.size, 1, 1), None)), "Conv2d+Relu Dense",
    ),
    Place(
        "merge-activations", "last",
        net("p q", ("c", SAME, "x"), ("r", RELU, "c"), ("s", RELU, "c"), ("p", conv(), "r"), ("q", conv(), "s")),
        "Conv2d+Relu Conv2d Conv2d",
    ),
    Place(
        "nest-concats", "last",
        net("p m", ("a", SAME, "x"), ("b", SAME, "x"), ("c", SAME, "x"), ("p", ops.Concat(), "a b"), ("q", ops.Concat(), "a b c"), ("m", scale(channels=9), "q")),
        "Conv2d Conv2d Concat Scale Concat",
    ),
    Place("fold-scales", "first", line(SAME, RELU, scale(), AVERAGE, conv()), "Conv2d+Relu AveragePool2d Conv2d"),
    Place("hoist-scales", "last", line(SAME, RELU, HALF, AVERAGE, RELU), "Conv2d+Relu AveragePool2d+Relu"),
    Place("sink-scales", "last", line(SAME, RELU, scale(), AVERAGE, conv()), "Conv2d+Relu AveragePool2d Conv2d"),
    Place(
        "fold-activations", "first",
        net("r", ("a", SAME, "x"), ("b", SAME, "x"), ("c", ops.Concat(), "a b"), ("n", scale(channels=6), "c"), ("r", RELU, "n")),
        "Conv2d+Relu Conv2d+Relu Concat",
    ),
    Place("hoist-activations", "last", line(conv(), PAD, RELU, ops.MaxPool2d(Window(Pair(3, 3)))), "Conv2d+Relu MaxPool2d"),
    Place("swap-pool-conv", "first", line(conv(), POINTWISE, norm(), AVERAGE), "Conv2d AveragePool2d Conv2d"),
    Place("fold-padding", "first", line(conv(), PAD, RELU, ops.MaxPool2d(Window(Pair(3, 3)))), "Conv2d+Relu MaxPool2d"),
    Place(
        "fold-reshapes", "first",
        line(SAME, ops.Reshape(FLAT, Order.HWC), RELU, ops.Dense(some(2, X.size, 1, 1), None)), "Conv2d+Relu Dense",
    ),
    Place(
        "merge-identical", "first",
        net("e", ("a", SAME, "x"), ("s", scale(), "a"), ("b", SAME, "x"), ("t", scale(), "b"), ("e", ops.Add(), "s t")),
        "Conv2d Conv2d Add",
    ),
]  # fmt: skip


def operators(graph: Graph) -> str:
    nodes = [node.op for node in graph.nodes if not isinstance(node.op, ops.Input)]
    functions = (getattr(op, "activation", None) for op in nodes)
    return " ".join(
        type(op).__name__
        + ("" if function is None else f"+{type(function).__name__}")
        + (f"*{op.factor:g}" if isinstance(op, ops.MatMul) and op.factor != 1 else "")
        for op, function in zip(nodes, functions, strict=True)
    )


def without_conditions(passes: Sequence[Pass]) -> list[Pass]:
    return [each._replace(requires=(), ensures=()) for each in passes]


def moved(name: str, to: str) -> Sequence[Pass]:
    """The passes with all runs of one rewrite but the last as they are, and that one at an end."""
    (pass_of,) = (each.rewrite for each in PASSES if each.name == name)
    last = max(position for position, each in enumerate(PASSES) if each.rewrite == pass_of)
    others = [*PASSES[:last], *PASSES[last + 1 :]]
    return [PASSES[last], *others] if to == "first" else [*others, PASSES[last]]


@pytest.mark.parametrize("place", PLACES, ids=[row.name for row in PLACES])
def test_a_pass_does_more_in_its_place(place: Place) -> None:
    assert operators(optimize(place.graph)) == place.operators
    elsewhere = operators(run_passes(without_conditions(moved(place.name, place.to)), place.graph))
    assert elsewhere != place.operators, f"the network comes out the same with {place.name} in the {place.to} place"


def test_the_place_of_each_pass_is_tested() -> None:
    rewrites = {each.name: each.rewrite for each in PASSES}
    tried = {rewrites[row.name] for row in PLACES}
    assert {*rewrites.values()} - tried == {Graph.without_dead}, "PLACES needs a row"


# --- conditions ----------------------------------------------------------------------------------------------------------

EVERY = passes_of(Dv700(DV700, Fusion.FULL, transposed=True, uses_sdk_softmax=True))


def test_each_pass_has_a_name_of_its_own_a_reason_and_something_that_it_ensures() -> None:
    assert len({each.name for each in EVERY}) == len(EVERY)
    assert [each.name for each in EVERY if not (each.reason and each.ensures)] == []


def test_what_a_pass_requires_an_earlier_one_ensures() -> None:
    ensured: list[Condition] = []
    for each in EVERY:
        assert [condition.words for condition in each.requires if condition not in ensured] == [], each.name
        ensured += each.ensures


def test_each_condition_of_a_pass_for_all_devices_can_be_broken() -> None:
    """By a network of PLACES, before the pass, or by twins."""
    twins = net("e", ("a", SAME, "x"), ("b", SAME, "x"), ("e", ops.Add(), "a b"))
    broken = set()
    for graph in (*(place.graph for place in PLACES), twins):
        for each in PASSES:
            broken |= {condition.words for condition in each.ensures if list(condition.broken(graph))}
            graph = each.rewrite(graph)
    dead = net("a", ("a", RELU, "x"), ("b", RELU, "x"))
    assert list(NO_DEAD_NODES.broken(dead)) == ["b"]
    whole = {condition.words for each in PASSES for condition in each.ensures} - broken - {NO_DEAD_NODES.words}
    assert not whole, "PLACES needs a network that breaks it before the pass"


def test_a_promise_that_a_pass_breaks_is_a_defect() -> None:
    lazy = Pass("lazy", lambda graph: graph, "none", (NO_IDENTITIES,))
    early = Pass("early", lambda graph: graph, "none", (), (NO_IDENTITIES,))
    graph = line(ops.Identity())
    with pytest.raises(AssertionError, match="lazy ensures that no node is an identity, but see 'a'"):
        run_passes([lazy], graph)
    with pytest.raises(AssertionError, match="early requires that no node is an identity, but see 'a'"):
        run_passes([early], graph)
    assert run_passes([early], line(RELU)) == line(RELU)


def test_nothing_is_checked_unless_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = Pass("lazy", lambda graph: graph, "none", (NO_IDENTITIES,))
    monkeypatch.delenv(CHECK)
    assert run_passes([lazy], line(ops.Identity())) == line(ops.Identity())
    with pytest.raises(AssertionError, match="lazy ensures"):
        run_passes([lazy], line(ops.Identity()), checks=True)


def test_an_output_of_another_name_is_a_change() -> None:
    graph = net("a", ("a", RELU, "x"), ("b", RELU, "x"))
    assert changed(graph, replace(graph, outputs=("b",))) == ["a"]
    assert changed(graph, graph) == []
