"""Functions of the CPU that follow each other take a map in pieces, where no other layer reads the maps between them."""

import pytest

from cnn_convertor.devices.dv700.commands import COPY
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Pair, Shape, Window
from devices.dv700.legalize.test_legalize import legal, text

SWISH, HARD, MULTIPLY = ops.Unary(ops.Swish(1.0)), ops.Unary(ops.HardSwish()), ops.Binary(ops.BinaryOp.MULTIPLY)
MEAN = ops.AveragePool2d(Window(Pair(9, 9)))
INPUTS = {"x": (9, 9, 11), "c": (1, 1, 11), "p": (9, 9, 1), "r": (9, 1, 11), "v": (1, 1, 11)}


def net(outputs: str, *rows: tuple[str, Op, str]) -> Graph:
    nodes = [Node(name, op, tuple(inputs.split())) for name, op, inputs in rows]
    read = {name for node in nodes for name in node.inputs}
    inputs = [Node(name, ops.Input(Shape(*shape))) for name, shape in INPUTS.items() if name in read]
    return Graph((*inputs, *nodes), tuple(outputs.split()))


def joined(graph: Graph) -> dict[str, tuple[tuple[str, ...], list[tuple[int, ...]]]]:
    """Node in pieces -> its inputs, and what each of its steps reads."""
    return {
        node.name: (node.inputs, [step.reads for step in node.op.op.steps])
        for node in legal(graph).nodes
        if isinstance(node.op, ops.OnCpu) and isinstance(node.op.op, ops.InPieces)
    }


def test_functions_are_joined() -> None:
    product = net("z", ("a", SWISH, "x"), ("b", MULTIPLY, "c a"), ("d", HARD, "b"), ("z", COPY, "d"))
    assert joined(product) == {"d": (("x", "c"), [(0,), (1, 2), (3,)])}
    branches = net("z", ("a", SWISH, "x"), ("b", HARD, "x"), ("d", MULTIPLY, "a b"), ("z", COPY, "d"))
    assert joined(branches) == {"d": (("x",), [(0,), (0,), (2, 1)])}
    mean = net("z", ("a", SWISH, "x"), ("b", MULTIPLY, "a p"), ("m", MEAN, "b"), ("z", HARD, "m"))
    assert joined(mean) == {"m": (("x", "p"), [(0,), (2, 1), (3,)])}
    square = net("z", ("a", SWISH, "x"), ("b", MULTIPLY, "a c"), ("d", MULTIPLY, "a b"), ("z", COPY, "d"))
    assert joined(square) == {"d": (("x", "c"), [(0,), (2, 1), (2, 3)])}
    assert joined(net("z", ("a", SWISH, "x"), ("b", ops.Unary(ops.Round()), "a"), ("z", COPY, "b"))) == {}
    assert "x" not in joined(net("z", ("a", SWISH, "x"), ("z", COPY, "a")))


@pytest.mark.parametrize(
    "graph",
    [
        net("z y", ("a", SWISH, "x"), ("b", HARD, "a"), ("z", COPY, "b"), ("y", MULTIPLY, "a c")),
        net("z", ("a", SWISH, "x"), ("z", HARD, "a")),
        net("z a", ("a", SWISH, "x"), ("b", HARD, "a"), ("z", COPY, "b")),
        net("z", ("a", SWISH, "x"), ("b", MULTIPLY, "a r"), ("z", COPY, "b")),
        net("z", ("a", SWISH, "v"), ("b", HARD, "a"), ("z", COPY, "b")),
        net("z", ("a", MULTIPLY, "c p"), ("b", HARD, "a"), ("z", COPY, "b")),
        net("z", ("a", SWISH, "p"), ("b", MULTIPLY, "a x"), ("z", COPY, "b")),
        net("z", ("a", SWISH, "x"), ("b", ops.AveragePool2d(Window(Pair(8, 9)))  , "a"), ("z", HARD, "b")),
    ],
    ids=[
        "another layer reads the map", "the result is an output", "the map is an output", "one row is repeated",
        "a vector", "no input is whole", "the map grows", "the mean of a part",
    ],
)  # fmt: skip
def test_other_functions_are_not(graph: Graph) -> None:
    assert joined(graph) == {}


def excited(size: int = 16, outputs: str = "z") -> Graph:
    """A map, its mean, and their product, all of the CPU."""
    mean = ops.AveragePool2d(Window(Pair(9, 9)))
    nodes = [
        Node("x", ops.Input(Shape(9, 9, size))),
        Node("a", SWISH, ("x",)), Node("m", mean, ("a",)), Node("s", HARD, ("m",)), Node("b", MULTIPLY, ("a", "s")),
        Node("z", COPY, ("b",)),
    ]  # fmt: skip
    return Graph(tuple(nodes), tuple(outputs.split()))


def test_the_pass_that_writes_a_map_takes_its_mean() -> None:
    assert text(legal(excited()))[:4] == [
        (
            "a/with its average = OnCpu[op=InPieces[steps=Unary[function=Swish](0) AveragePool2d[window=kernel=9x9](1) "
            "keeps_map=True]](x) -> 1x1x1312"
        ),
        "a/with its average/map = ChannelSlice[first=0 count=1296](a/with its average) -> 1x1x1296",
        "a = Reshape[shape=9x9x16 order=Order.MEMORY](a/with its average/map) -> 9x9x16",
        "m = ChannelSlice[first=1296 count=16](a/with its average) -> 1x1x16",
    ]
    for other in (excited(11), excited(outputs="z m"), excited(outputs="z a")):
        assert joined(other) == {}


def test_without_fusion_each_function_writes_its_map() -> None:
    assert not any(" InPieces" in line or "=InPieces" in line for line in text(legal(excited(), fusion=Fusion.NONE)))


def test_it_says_what_it_does() -> None:
    graph = net("z", ("a", SWISH, "x"), ("b", HARD, "a"), ("z", COPY, "b"))
    assert (
        text(legal(graph))[0]
        == "b = OnCpu[op=InPieces[steps=Unary[function=Swish](0) Unary[function=HardSwish](1)]](x) -> 9x9x11"
    )
