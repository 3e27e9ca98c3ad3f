"""The lower bound on feature maps is the least where nothing is in the way, and never more (test_least_cost.py)."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.devices.dv700.fusion.least_traffic import map_traffic
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.devices.target import MapTraffic
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window

MAP = 8 * 8 * 8 * 2  # bytes of a map of 8 channels


def conv(out: int, channels: int) -> Op:
    return ops.Conv2d(Constant.of(np.ones((out, channels, 1, 1))), None, Window(Pair(1, 1)))


def depthwise(channels: int, stride: int = 1) -> Op:
    window = Window(Pair(3, 3), Pair(stride, stride), padding=Padding(1, 1, 1, 1))
    return ops.Conv2d(Constant.of(np.ones((channels, 1, 3, 3))), None, window, channels)


def graph(*rows: tuple[str, Op, str], outputs: str, channels: int = 8) -> Graph:
    nodes = [Node(name, op, tuple(reads.split())) for name, op, reads in rows]
    return Graph((Node("x", ops.Input(Shape(8, 8, channels))), *nodes), tuple(outputs.split()))


CHAIN = graph(("a", conv(8, 8), "x"), ("b", conv(8, 8), "a"), outputs="b")
SLICES = graph(("a", conv(32, 8), "x"), ("b", depthwise(32), "a"), outputs="b")
SUM = graph(("a", conv(8, 8), "x"), ("b", conv(8, 8), "a"), ("s", ops.Add(), "b x"), outputs="s")
# a and b fit a command in slices, b and c as a chain; all three do not.
EITHER = graph(
    ("a", conv(32, 16), "x"), ("b", depthwise(32, 2), "a"), ("c", conv(8, 32), "b"), outputs="c", channels=16
)
NO_CONVOLUTION = graph(
    ("p", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), "x"), ("b", depthwise(64), "p"), outputs="b", channels=64
)
CASES = {
    "a chain": (CHAIN, Fusion.FULL, 655_360, MapTraffic(2 * MAP, 2 * MAP)),
    "no chain is allowed": (CHAIN, Fusion.DOCUMENTED, 655_360, MapTraffic(4 * MAP, 4 * MAP)),
    "slices read the input for each": (SLICES, Fusion.FULL, 4608, MapTraffic((4 + 4) * MAP, (4 + 4) * MAP)),
    "an addition is the only run": (SUM, Fusion.FULL, 655_360, MapTraffic(5 * MAP, 5 * MAP)),
    "slices need a convolution": (NO_CONVOLUTION, Fusion.FULL, 8192, MapTraffic(14 * MAP, 14 * MAP)),
    "one of two, not both": (EITHER, Fusion.FULL, 6000, MapTraffic(25 * MAP // 4, 25 * MAP // 4)),
}


@pytest.mark.parametrize(("network", "fusion", "ub_size", "expected"), CASES.values(), ids=CASES)
def test_what_commands_move_and_the_least(network: Graph, fusion: Fusion, ub_size: int, expected: MapTraffic) -> None:
    device = DV700._replace(limits=Limits(ub_size=ub_size))
    made, steps = partition(network, device, transposed=True, fusion=fusion)
    assert map_traffic(network, made, steps, fusion=fusion, device=device) == expected
