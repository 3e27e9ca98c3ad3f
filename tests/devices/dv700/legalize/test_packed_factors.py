"""Products with a factor for each channel are the device's where that takes less time, and no change of side comes on top."""

from __future__ import annotations

import pytest

from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Shape
from devices.dv700.legal import legalize
from reference.ir_reference import conv

SHAPE = Shape(40, 56, 16)
CONV = conv(4, 16, 1, 1)
PRODUCT = ops.Binary(ops.BinaryOp.MULTIPLY)
SWISH = ops.Unary(ops.Swish(1.0))
PACKED = ["OnCpu[op=PackedFactors]", "ScaledBy"]


def product(
    *reading: Op, inputs: tuple[str, str] = ("x", "s"), shape: Shape = SHAPE, factors: Shape | None = None
) -> Graph:
    """A product of two inputs, and what reads it."""
    nodes = [
        Node("x", ops.Input(shape)),
        Node("s", ops.Input(factors or Shape(1, 1, shape.channels))),
        Node("p", PRODUCT, inputs),
        *(Node(f"r{number}", op, ("p",)) for number, op in enumerate(reading)),
    ]
    return Graph(tuple(nodes), tuple(node.name for node in nodes[3:]) or ("p",))


def operators(graph: Graph, fusion: Fusion = Fusion.FULL) -> list[str]:
    legal = legalize(graph, DV700, transposed=True, fusion=fusion)
    return [
        legal.line(node).split(" = ")[1].split("(")[0] for node in legal.nodes if not isinstance(node.op, ops.Input)
    ]


@pytest.mark.parametrize("inputs", [("x", "s"), ("s", "x")])
def test_the_device_multiplies_what_it_reads(inputs: tuple[str, str]) -> None:
    assert operators(product(CONV, CONV, inputs=inputs))[:2] == PACKED


def test_the_device_multiplies_what_it_multiplies_again() -> None:
    nodes = (*product().nodes, Node("q", PRODUCT, ("s", "p")), Node("end", CONV, ("q",)))
    assert operators(Graph(nodes, ("end",)))[:4] == PACKED * 2


@pytest.mark.parametrize("fusion", [Fusion.NONE, Fusion.PROVEN, Fusion.DOCUMENTED])
def test_no_board_has_passed_the_form_yet(fusion: Fusion) -> None:
    assert operators(product(CONV), fusion)[0] == "OnCpu[op=Binary[operation=BinaryOp.MULTIPLY]]"


@pytest.mark.parametrize(
    "graph",
    [
        product(),
        product(SWISH),
        product(SWISH, CONV),
        product(CONV, shape=Shape(7, 7, 16)),
        product(CONV, factors=Shape(1, 1, 1)),
        product(CONV, factors=Shape(40, 56, 1)),
        product(CONV, factors=SHAPE),
        product(CONV, shape=Shape(1, 1, 16)),
        product(CONV, shape=Shape(1025, 20, 16)),
    ],
    ids=["an output", "read by the CPU", "read by both", "small", "of one factor", "of pixels", "of maps", "of vectors", "too high"],
)  # fmt: skip
def test_the_cpu_keeps_other_products(graph: Graph) -> None:
    assert not {*PACKED} & {*operators(graph)}
