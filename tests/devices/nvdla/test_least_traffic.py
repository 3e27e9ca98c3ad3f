"""The least traffic of maps: by hand for small networks, and never more than what steps move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnn_convertor.devices.nvdla.accelerator import NvdlaAccelerator
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import legalize_graph
from reference import random_networks
from reference.ir_reference import conv
from reference.registry import SAME

FUSED = NvdlaAccelerator(NvdlaHardware("nvdla-full"))
CONVOLUTION = replace(conv(16, 16, 3, 3, padding=SAME), activation=ops.Relu())
MAP = 4 * 6 * 16 * 2  # bytes


def residual(*outputs: str) -> Graph:
    """A sum of two branches, a function with a table, and a pool to a quarter."""
    nodes = (
        Node("x", ops.Input(Shape(4, 6, 16))),
        Node("left", CONVOLUTION, ("x",)),
        Node("right", conv(16, 16, 1, 1), ("x",)),
        Node("sum", ops.Add(), ("left", "right")),
        Node("swish", ops.Unary(ops.Swish()), ("sum",)),
        Node("pool", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), ("swish",)),
    )
    return Graph(nodes, outputs)


@pytest.mark.parametrize(
    ("outputs", "least"),
    [
        (("pool",), 4 * MAP + MAP // 4),  # x twice, one branch written and read
        (("pool", "sum"), 6 * MAP + MAP // 4),  # the sum written, and read for the function
    ],
)
def test_what_one_chain_could_have_moves_nothing(outputs: tuple[str, ...], least: int) -> None:
    fused = FUSED.map_traffic(legalize_graph(residual(*outputs), FUSED))
    apart = FUSED.unfused.map_traffic(legalize_graph(residual(*outputs), FUSED.unfused))
    assert fused == (least, least)
    assert apart.least == least < apart.moved


@pytest.mark.parametrize("seed", range(40))
def test_no_steps_move_less(seed: int) -> None:
    make = random_networks.network_of_blocks if seed % 2 else random_networks.network
    for target in (FUSED, FUSED._replace(fusion=Fusion.NONE)):
        traffic = target.map_traffic(legalize_graph(make(seed, 12), target))
        assert 0 < traffic.least <= traffic.moved or traffic.moved == 0
