"""The parts of the device take effect wherever a network is converted for it."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.device import Cost
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import UnsupportedError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import legalize_graph, plan
from devices.dv700.legal import legalize


def two_convolutions(size: int = 3) -> Graph:
    weight = Constant.of(np.ones((8, 8, size, size), np.float32))
    convolution = ops.Conv2d(weight, None, Window(Pair(size, size)))
    nodes = Node("x", ops.Input(Shape(16, 16, 8))), Node("a", convolution, ("x",)), Node("b", convolution, ("a",))
    return Graph(nodes, ("b",))


def commands(options: Dv700) -> int:
    return sum(step.assignments != () for step in legalize_graph(two_convolutions(), options).steps)


FULL = Dv700(DV700, Fusion.FULL, transposed=False)


def test_the_forms_of_the_device_decide_what_a_level_of_fusion_allows() -> None:
    plain = DV700._replace(forms={**DV700.forms, Fusion.FULL: frozenset({Form.RUN})})
    assert commands(FULL) + 1 == commands(FULL._replace(device=plain))


def test_the_costs_of_the_device_decide_what_shares_a_command() -> None:
    dear = DV700._replace(cost=lambda _graph, path, _slices: Cost(len(path) ** 2, 1, 1))
    assert commands(FULL) + 1 == commands(FULL._replace(device=dear))


def test_the_rules_of_the_device_decide_what_it_refuses() -> None:
    of_padding = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2), padding=Padding(2, 0, 2, 0)))
    graph = Graph((Node("x", ops.Input(Shape(4, 4, 8))), Node("pool", of_padding, ("x",))), ("pool",))
    with pytest.raises(UnsupportedError, match="DV416"):
        plan(graph, "net", FULL)
    plan(graph, "net", FULL._replace(device=DV700._replace(rules=())))


def test_the_limits_of_the_device_decide_how_networks_are_rewritten() -> None:
    graph = two_convolutions(5)
    small = DV700._replace(limits=DV700.limits._replace(max_kernel_size=3))
    nodes = [len(legalize(graph, device, transposed=False).nodes) for device in (DV700, small)]
    assert nodes[0] < nodes[1]
