"""Graphs are validated, and every change gives another valid graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Lookup, Node, describe, number_of_inputs
from cnn_convertor.ir.ops import Activation, Add, Input, Op, Pad, Padding, Pair, Relu, Shape, Window

X = Shape(4, 5, 3)
ONE_ROW = Pad(Padding(1, 0, 0, 0))


def node(name: str, op: Op, *inputs: str) -> Node:
    return Node(name, op, inputs, (Origin("net", name, type(op).__name__),))


def graph(*nodes: Node, outputs: str) -> Graph:
    return Graph((node("x", Input(X)), *nodes), tuple(outputs.split()))


def join_pads(_: Lookup, first: Node, second: Node) -> Op | None:
    match first.op, second.op:
        case Pad(padding=a), Pad(padding=b):
            return Pad(a + b)
    return None


# --- what a graph is -----------------------------------------------------------------------------------------------------


def test_a_graph_knows_shapes_users_and_inputs() -> None:
    g = graph(node("a", ONE_ROW, "x"), node("b", Add(), "a", "a"), node("c", Activation(Relu()), "a"), outputs="b c")
    assert g.shape("a") == g.shape("b") == Shape(5, 5, 3)
    assert g.users("x") == ("a",)
    assert g.users("a") == ("b", "b", "c"), "once for each reading"
    assert g.users("c") == ()
    assert g.inputs == (g["x"],)
    assert "a" in g and "d" not in g


@pytest.mark.parametrize(("outputs", "private"), [("b", True), ("a b", False)])
def test_private_nodes_have_one_user_and_are_no_output(outputs: str, private: bool) -> None:
    g = graph(node("a", ONE_ROW, "x"), node("b", Activation(Relu()), "a"), outputs=outputs)
    assert g.is_private("a") is private
    assert not g.is_private("b")


BROKEN = [
    ([node("x", ONE_ROW, "x")], "x", "duplicate node 'x'"),
    ([node("a", ONE_ROW, "b"), node("b", ONE_ROW, "x")], "a", "'a' reads 'b', which is not before it"),
    ([node("a", ONE_ROW, "x")], "b", "output 'b' is not a node"),
    ([node("a", ONE_ROW, "x")], "", "a graph without outputs"),
]


@pytest.mark.parametrize(("nodes", "outputs", "message"), BROKEN, ids=[b[2] for b in BROKEN])
def test_malformed_graphs_are_assertion_errors(nodes: list[Node], outputs: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        graph(*nodes, outputs=outputs)


def test_inputs_that_do_not_fit_are_user_errors() -> None:
    with pytest.raises(ModelError) as caught:
        graph(node("a", ONE_ROW, "x"), node("sum", Add(), "a", "x"), outputs="sum")
    assert str(caught.value) == (
        'DV202: cannot add maps of 5x5x3 and 4x5x3\n  --> net: layer "sum" (Add)\n  try: check the sizes of the layer\'s inputs'
    )


def test_a_map_without_elements_is_a_user_error() -> None:
    with pytest.raises(ModelError, match="DV202: a map of 1x1x0 has no elements"):
        graph(node("d", ops.Dense(Constant.of(np.zeros((0, 3, 4, 5))), None), "x"), outputs="d")


def test_a_wrong_number_of_inputs_is_a_user_error() -> None:
    with pytest.raises(ModelError) as caught:
        graph(node("sum", Add(), "x"), outputs="sum")
    (problem,) = caught.value.problems
    assert (problem.code, problem.message) == ("DV203", "the layer takes 2 inputs, not 1")


def test_number_of_inputs() -> None:
    assert [number_of_inputs(op) for op in (ops.Input, ops.Conv2d, ops.Add, ops.Concat, ops.Custom)] == [
        0,
        1,
        2,
        None,
        None,
    ]


# --- changing it ---------------------------------------------------------------------------------------------------------


def test_fuse_keeps_the_last_name_and_all_origins() -> None:
    g = graph(node("a", ONE_ROW, "x"), node("b", ONE_ROW, "a"), node("c", ONE_ROW, "b"), outputs="c").fuse(join_pads)
    assert str(g) == "x = Input[shape=4x5x3]() -> 4x5x3\nc = Pad[padding=3x0x0x0](x) -> 7x5x3\noutputs: c"
    assert [origin.layer for origin in g["c"].origins] == ["a", "b", "c"]
    assert g["c"].where == Origin("net", "c", "Pad")


def test_messages_name_the_layer_that_contributed_the_operator() -> None:
    def join(_: Lookup, first: Node, second: Node) -> Op | None:
        match first.op, second.op:
            case (Pad(), Activation()) | (Activation(), Pad()):
                return ONE_ROW
            case _:
                return None

    nodes = node("a", Activation(Relu()), "x"), node("b", ONE_ROW, "a"), node("c", Activation(Relu()), "b")
    joined = graph(*nodes, outputs="c").fuse(join)["c"]
    assert [origin.layer for origin in joined.origins] == ["a", "b", "c"]
    assert joined.where == Origin("net", "b", "Pad")


def test_fuse_keeps_nodes_with_other_users() -> None:
    g = graph(node("a", ONE_ROW, "x"), node("b", ONE_ROW, "a"), node("c", Activation(Relu()), "a"), outputs="b c")
    assert g.fuse(join_pads) == g


def test_fuse_leaves_outputs_in_the_middle() -> None:
    g = graph(node("a", ONE_ROW, "x"), node("b", ONE_ROW, "a"), outputs="a b")
    assert g.fuse(join_pads) == g


def test_fuse_shared_fuses_a_copy_with_each_willing_user() -> None:
    nodes = (node("a", ONE_ROW, "x"), node("b", ONE_ROW, "a"), node("c", ONE_ROW, "a"))
    g = graph(*nodes, node("d", Activation(Relu()), "a"), outputs="b c d").fuse(join_pads, shared=True)
    assert str(g).splitlines()[1:] == [
        "a = Pad[padding=1x0x0x0](x) -> 5x5x3",
        "b = Pad[padding=2x0x0x0](x) -> 6x5x3",
        "c = Pad[padding=2x0x0x0](x) -> 6x5x3",
        "d = Activation[function=Relu](a) -> 5x5x3",
        "outputs: b, c, d",
    ]


def test_fuse_shared_drops_nodes_fused_with_all_users() -> None:
    g = graph(node("a", ONE_ROW, "x"), node("b", ONE_ROW, "a"), node("c", ONE_ROW, "a"), outputs="b c")
    assert [n.name for n in g.fuse(join_pads, shared=True).nodes] == ["x", "b", "c"]
    kept = replace(g, outputs=("b", "c", "a")).fuse(join_pads, shared=True)
    assert [n.name for n in kept.nodes] == ["x", "a", "b", "c"]


def test_fuse_counts_users_of_its_copies() -> None:
    # p is private until the shared a fuses with b: then both read p, so p must not fuse into one of them.
    nodes = (
        node("p", ONE_ROW, "x"),
        node("a", ONE_ROW, "p"),
        node("b", ONE_ROW, "a"),
        node("c", Activation(Relu()), "a"),
    )
    g = graph(*nodes, outputs="b c").fuse(join_pads, shared=True)
    assert g.shape("b") == Shape(7, 5, 3)
    assert g.shape("c") == Shape(6, 5, 3)


def test_fuse_never_sees_nodes_with_several_inputs_as_second() -> None:
    seen: list[tuple[str, str]] = []

    def note(_: Lookup, first: Node, second: Node) -> Op | None:
        seen.append((first.name, second.name))
        return None

    graph(node("a", ONE_ROW, "x"), node("b", Add(), "a", "a"), node("c", ONE_ROW, "b"), outputs="c").fuse(note)
    assert seen == [("x", "a"), ("b", "c")]


def test_a_rule_can_ask_for_shapes() -> None:
    def shapes(lookup: Lookup, first: Node, second: Node) -> Op | None:
        assert lookup[first.name] is first
        return (
            Pad(Padding(lookup.shape(first.inputs[0]).height, 0, 0, 0)) if isinstance(second.op, Activation) else None
        )

    g = graph(node("a", Pad(Padding(4, 0, 0, 0)), "x"), node("b", Activation(Relu()), "a"), outputs="b")
    assert g.fuse(shapes).shape("b") == Shape(8, 5, 3)


def test_expand_replaces_a_node_by_several() -> None:
    def twice(_: Graph, node: Node) -> list[Node] | None:
        if not isinstance(node.op, Pad):
            return None
        first = replace(node, name=f"{node.name}/1")
        return [first, replace(node, inputs=(first.name,))]

    g = graph(node("a", ONE_ROW, "x"), node("b", Activation(Relu()), "a"), outputs="b a").expand(twice)
    assert [n.name for n in g.nodes] == ["x", "a/1", "a", "b"]
    assert g.shape("b") == Shape(6, 5, 3)
    assert g.outputs == ("b", "a")


def test_expand_must_keep_the_name() -> None:
    with pytest.raises(AssertionError):
        graph(node("a", ONE_ROW, "x"), outputs="a").expand(
            lambda _, n: [replace(n, name="z")] if n.name == "a" else None
        )


def test_bypass_connects_users_and_outputs_to_the_input() -> None:
    nodes = (node("a", ops.Identity(), "x"), node("b", ops.Identity(), "a"), node("c", Add(), "a", "b"))
    g = graph(*nodes, outputs="c b").bypass(["a", "b"])
    assert str(g).splitlines()[1:] == ["c = Add(x, x) -> 4x5x3", "outputs: c, x"]


def test_without_dead_keeps_inputs_and_needed_nodes() -> None:
    nodes = (node("y", Input(X)), node("a", ONE_ROW, "x"), node("b", ONE_ROW, "a"), node("c", ONE_ROW, "x"))
    g = graph(*nodes, outputs="a").without_dead()
    assert [n.name for n in g.nodes] == ["x", "y", "a"]


def test_graphs_are_immutable() -> None:
    g = graph(node("a", ONE_ROW, "x"), node("b", ONE_ROW, "a"), outputs="b")
    before = str(g)
    assert len({str(changed) for changed in (g.fuse(join_pads), g.bypass(["a"]), g.without_dead())}) == 3
    assert str(g) == before


# --- printing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (Input(X), "Input[shape=4x5x3]"),
        (Add(), "Add"),
        (Add(Relu(0.1)), "Add[activation=Relu[slope=0.1]]"),
        (ops.MaxPool2d(Window(Pair(3, 2), Pair(2, 2))), "MaxPool2d[window=kernel=3x2 stride=2x2]"),
        (ops.Conv2d(Constant.of(np.ones((2, 3, 1, 1))), None, Window(Pair(1, 1), padding=Padding(0, 1, 0, 1)), activation=Relu()),
         "Conv2d[weight=Constant(2x3x1x1) window=kernel=1x1 padding=0x1x0x1 activation=Relu]"),
        (ops.Activation(ops.PRelu(Constant.of([1.0, 2.0]))), "Activation[function=PRelu[slopes=Constant(2)]]"),
        (ops.Reshape(X, ops.Order.CHW), "Reshape[shape=4x5x3 order=Order.CHW]"),
    ],
)  # fmt: skip
def test_operators_print_fields_that_differ_from_defaults(op: Op, text: str) -> None:
    assert describe(op) == text
