"""Products of maps are the device's where that takes less time, with packing, moves and changes of side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnn_convertor.devices.dv700.commands import WITH_PACKED
from cnn_convertor.devices.dv700.legalize.packed_products import arranged, packing_of
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Matrices, Op, Shape
from devices.dv700.legal import legalize
from reference.ir_reference import conv

HEADS = Matrices(2, Axis.CHANNELS, Axis.WIDTH, Axis.CHANNELS)
TURNED = HEADS._replace(rows=Axis.CHANNELS, columns=Axis.WIDTH)
PLANES = Matrices(2, Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)
APART = Matrices(2, Axis.HEIGHT, Axis.WIDTH, Axis.CHANNELS)


def attention(*between: tuple[str, Op, str], tokens: int = 250, depth: int = 64, end: str = "p") -> Graph:
    """Scores, what follows them, and the mean of the values by what is named `end`."""
    width = 2 * depth
    nodes = [
        Node("x", ops.Input(Shape(1, tokens, width))),
        *(Node(name, conv(width, width, 1, 1), ("x",)) for name in "qkv"),
        Node("s", ops.MatMul(HEADS, TURNED, PLANES, 0.125), ("q", "k")),
        *(Node(name, op, tuple(reads.split())) for name, op, reads in between),
        Node("o", ops.MatMul(PLANES, HEADS, HEADS), (end, "v")),
        Node("end", conv(width, width, 1, 1), ("o",)),
    ]
    return Graph(tuple(nodes), ("end",))


SOFTMAX = ("p", ops.Softmax(Axis.WIDTH), "s")


def words(graph: Graph, fusion: Fusion = Fusion.FULL) -> list[str]:
    legal = legalize(graph, DV700, transposed=True, fusion=fusion)
    kinds = []
    for node in legal.nodes:
        op = node.op.op if isinstance(node.op, ops.OnCpu) else node.op
        kinds.append(type(op).__name__)
    return kinds


def test_each_head_has_its_commands_and_its_softmax() -> None:
    found = words(attention(SOFTMAX))
    counts = {name: found.count(name) for name in ("PackedMatrices", "TimesPacked", "Softmax", "MatMul", "Crop")}
    assert counts == {"PackedMatrices": 2, "TimesPacked": 4, "Softmax": 2, "MatMul": 0, "Crop": 0}


@pytest.mark.parametrize("fusion", [Fusion.NONE, Fusion.PROVEN, Fusion.DOCUMENTED])
def test_other_levels_leave_products_to_the_cpu(fusion: Fusion) -> None:
    found = words(attention(SOFTMAX), fusion)
    assert (found.count("MatMul"), found.count("TimesPacked")) == (2, 0)


def test_small_products_stay_on_the_cpu() -> None:
    graph = attention(SOFTMAX, tokens=4, depth=8)
    assert words(graph).count("MatMul") == 2
    assert packing_of(graph, DV700, Fusion.FULL).graph is graph


@pytest.mark.parametrize(("most", "is_there"), [((1024, 200), True), ((1, 249), False)], ids=["wide", "too large"])
def test_maps_that_are_too_wide_have_more_rows_on_the_device(most: tuple[int, int], is_there: bool) -> None:
    limits = DV700.limits._replace(max_height=most[0], max_width=most[1])
    graph = attention(SOFTMAX)
    assert bool(packing_of(graph, DV700._replace(limits=limits), Fusion.FULL).products) is is_there
    legal = legalize(graph, DV700._replace(limits=limits), transposed=True, fusion=Fusion.FULL)
    shapes = {legal.shape(node.name)[:2] for node in legal.nodes if isinstance(node.op, ops.TimesPacked)}
    assert shapes == ({(2, 125)} if is_there else set())


@pytest.mark.parametrize(
    ("between", "end", "apart"),
    [
        ([SOFTMAX], "p", {"s", "p"}),
        ([("f", ops.Unary(ops.Swish(1.0)), "s"), ("p", ops.Softmax(Axis.HEIGHT), "f")], "p", {"s", "f", "p"}),
        ([], "s", {"s"}),
        ([("p", ops.Binary(ops.BinaryOp.ADD), "s s")], "p", set()),
        ([SOFTMAX, ("t", ops.Binary(ops.BinaryOp.ADD), "p s")], "t", set()),
    ],
    ids=["softmax", "functions", "products alone", "a sum", "read twice"],
)
def test_what_holds_matrices_between_two_products(
    between: list[tuple[str, Op, str]], end: str, apart: set[str]
) -> None:
    graph = attention(*between, end=end)
    found = arranged(graph)
    assert found.apart == apart
    if apart:
        product = found.graph["o"].op
        assert isinstance(product, ops.MatMul) and product.left == APART
        assert found.graph.shape("s") == Shape(2, 250, 250)
    assert [type(node.op) for node in found.graph.nodes] == [type(node.op) for node in graph.nodes]


def test_a_product_by_what_is_turned_sums_up_channels() -> None:
    """softmax(S)' V: the rows of the scores become channels."""
    graph = attention(SOFTMAX)
    turned = ops.MatMul(PLANES._replace(rows=Axis.WIDTH, columns=Axis.HEIGHT), HEADS, HEADS)
    found = arranged(Graph(tuple(replace(n, op=turned) if n.name == "o" else n for n in graph.nodes), graph.outputs))
    scores, softmax, product = (found.graph[name].op for name in "spo")
    assert isinstance(scores, ops.MatMul) and scores.result == APART._replace(rows=Axis.CHANNELS, columns=Axis.WIDTH)
    assert isinstance(product, ops.MatMul) and product.left == APART
    assert softmax == ops.Softmax(Axis.WIDTH)


def test_changes_of_side_that_cost_more_than_they_save() -> None:
    dear = DV700._replace(change_usec=lambda *nbytes: DV700.change_usec(*nbytes) * 1e6)
    legal = legalize(attention(SOFTMAX), dear, transposed=True, fusion=Fusion.FULL)
    products = [node.name for node in legal.nodes if isinstance(node.op, WITH_PACKED)]
    assert all(name.startswith("o/") for name in products)  # V is packed where the CPU works anyway
