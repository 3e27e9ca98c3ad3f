"""Why a step of NVDLA ends where another one reads its map."""

from __future__ import annotations

import pytest

from cnn_convertor.devices.nvdla.accelerator import NvdlaAccelerator
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Pair, Shape, Window
from cnn_convertor.pipeline import legalize_graph
from reference.ir_reference import conv
from reference.registry import SAME

FULL = NvdlaAccelerator(NvdlaHardware("nvdla-full"))
FIRST = conv(16, 16, 3, 3, padding=SAME)
POOL = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)))


@pytest.mark.parametrize(
    ("second", "fuses", "reason"),
    [
        (FIRST, True, "a convolution reads memory"),
        (ops.LocalResponseNorm(5, 1e-4, 0.75, 1.0), True, "only functions of elements and pools follow on the fly"),
        (POOL, False, "its map is written in bands, or fusion is off"),
        (ops.MaxPool2d(Window(Pair(2, 2), Pair(3, 3))), True, "the pool does not read its map whole"),
    ],
)
def test_each_boundary_has_its_reason(second: Op, fuses: bool, reason: str) -> None:
    target = FULL if fuses else FULL.unfused
    (row,) = target.boundaries(legalize_graph(chain(FIRST, second), target))
    assert (row.before, row.after, row.reason) == ("n0", "n1", reason)


def chain(*operators: Op) -> Graph:
    nodes = [Node("x", ops.Input(Shape(6, 6, 16)))]
    for number, op in enumerate(operators):
        nodes.append(Node(f"n{number}", op, (nodes[-1].name,)))
    return Graph(tuple(nodes), (nodes[-1].name,))
