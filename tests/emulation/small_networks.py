"""A small network with its inputs, and devices with other limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Order, Padding, Pair, Shape, Window

needs_compiler = pytest.mark.usefixtures("compiler")


def random(*shape: int, seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(size=shape)


def with_limits(**limits: Any) -> Device:
    return DV700._replace(limits=Limits(**limits))


def dense_blocks(blocks: int = 2, layers: int = 3) -> Graph:
    """As in DenseNet: each layer of a block reads the maps of all before it. Later blocks lie where earlier ones lay."""

    def conv(outputs: int, inputs: int, kernel: int, seed: int) -> ops.Conv2d:
        around = kernel // 2
        window = Window(Pair(kernel, kernel), padding=Padding(around, around, around, around))
        weights = random(outputs, inputs, kernel, kernel, seed=seed) / (kernel * inputs**0.5)
        return ops.Conv2d(Constant.of(weights), None, window, activation=ops.Relu())

    nodes, last, channels = [Node("image", ops.Input(Shape(8, 6, 8)))], "image", 8
    for block in range(blocks):
        nodes.append(Node(f"stem{block}", conv(16, channels, 3, block), (last,)))
        last, channels = f"stem{block}", 16
        for layer in range(layers):
            name, seed = f"{block}_{layer}", 10 + layers * block + layer
            nodes.append(Node(f"narrow{name}", conv(16, channels, 1, seed), (last,)))
            nodes.append(Node(f"grow{name}", conv(8, 16, 3, seed + 50), (f"narrow{name}",)))
            nodes.append(Node(f"joined{name}", ops.Concat(), (last, f"grow{name}")))
            last, channels = f"joined{name}", channels + 8
    nodes.append(Node("out", conv(5, channels, 1, 99), (last,)))
    return Graph(tuple(nodes), ("out",))


def small_graph() -> Graph:
    """Two inputs; outputs of every kind: chunked, narrow, a vector, a vector that is read as a map."""
    conv = ops.Conv2d(
        Constant.of(random(20, 3, 3, 3)), Constant.of(random(20)), Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))
    )
    narrow = ops.Conv2d(Constant.of(random(5, 20, 1, 2, seed=1) / 4), None, Window(Pair(1, 2)), activation=ops.Relu())
    dense = ops.Dense(Constant.of(random(24, 20, 5, 4, seed=2) / 20), None)
    return Graph(
        (
            Node("image", ops.Input(Shape(5, 4, 3))),
            Node("more", ops.Input(Shape(5, 4, 20))),
            Node("conv", conv, ("image",)),
            Node("sum", ops.Add(), ("conv", "more")),
            Node("narrow", narrow, ("sum",)),
            Node("dense", dense, ("sum",)),
            Node("map", ops.Reshape(Shape(2, 4, 3), Order.HWC), ("dense",)),
        ),
        ("sum", "narrow", "map"),
    )
