"""Graphs of chains of operators, their texts, and checks that rewritten ones compute the same."""

from __future__ import annotations

import numpy as np

from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from reference import ir_reference, random_networks

RANDOM = np.random.default_rng(0)


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


def chain(*ops_: Op, outputs: str = "", shape: Shape = Shape(4, 6, 3)) -> Graph:
    """A chain of nodes a, b, c, ...; by default the last is the output."""
    nodes = [Node("x", ops.Input(shape))]
    for op, name in zip(ops_, "abcdefgh", strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name),)))
    return Graph(tuple(nodes), tuple(outputs.split()) or (nodes[-1].name,))


def text(graph: Graph) -> list[str]:
    """One line per node except the input, abbreviated, and the outputs."""
    return [line for line in str(graph).splitlines() if " = Input" not in line]


def conv(
    out: int = 3, padding: Padding = ops.NO_PADDING, activation: ops.Function | None = None, bias: bool = False
) -> Op:
    window = Window(Pair(3, 3), padding=padding)
    return ops.Conv2d(some(out, 3, 3, 3), some(out) if bias else None, window, activation=activation)


def scale(shift: bool = True, channels: int = 3) -> Op:
    return ops.Scale(some(channels), some(channels) if shift else None)


RELU = ops.Activation(ops.Relu())


SIGMOID = ops.Activation(ops.Sigmoid())


ALL_SIDES = Padding(1, 1, 1, 1)


PAD = ops.Pad(ALL_SIDES)


CONV = "Conv2d[weight=Constant(3x3x3x3)"


def same(graph: Graph, rewritten: Graph) -> None:
    """Both compute the same outputs."""
    x = random_networks.inputs_for(graph)
    before, after = ir_reference.run(graph, x), ir_reference.run(rewritten, x)
    for old, new in zip(graph.outputs, rewritten.outputs, strict=True):
        assert_near(after[new], before[old])


def assert_near(value: ir_reference.Array, expected: ir_reference.Array) -> None:
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4 * max(1e-3, np.abs(expected).max()))
