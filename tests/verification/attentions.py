"""Networks with attention, and a device whose CPU takes long for its products."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Matrices, Shape, Window

RANDOM = np.random.default_rng(0)
PLANES = (Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)
ADD = ops.Binary(ops.BinaryOp.ADD)


def slow_products() -> Profile:
    """A device whose CPU takes long for products of maps."""
    return replace(read_profile("dv700", Path()), functions={"MatMul": 1e5})


def conv(channels: int, out: int) -> ops.Conv2d:
    weights = RANDOM.normal(size=(out, channels, 1, 1)) / np.sqrt(channels)
    return ops.Conv2d(Constant.of(weights), None, Window(ops.ONE))


def attention(tokens: int, heads: int, depth: int, *, masked: bool = False, factor: float = 0.3) -> Graph:
    """softmax(factor * Q K' + mask) V of each head, between convolutions. The scores are planes, as in ONNX."""
    width = heads * depth
    inside = Matrices(heads, Axis.CHANNELS, Axis.WIDTH, Axis.CHANNELS)
    turned = inside._replace(rows=Axis.CHANNELS, columns=Axis.WIDTH)
    planes = Matrices(heads, *PLANES)
    scores = "s"
    nodes = [
        Node("x", ops.Input(Shape(1, tokens, width))),
        *(Node(name, conv(width, width), ("x",)) for name in "qkv"),
        Node("s", ops.MatMul(inside, turned, planes, factor), ("q", "k")),
    ]
    if masked:
        nodes += [Node("m", ops.Input(Shape(tokens, tokens, 1))), Node("masked", ADD, ("s", "m"))]
        scores = "masked"
    nodes += [
        Node("p", ops.Softmax(Axis.WIDTH), (scores,)),
        Node("o", ops.MatMul(planes, inside, inside), ("p", "v")),
        Node("end", conv(width, width), ("o",)),
    ]
    return Graph(tuple(nodes), ("end",))
