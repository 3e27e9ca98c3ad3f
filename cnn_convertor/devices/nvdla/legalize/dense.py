"""Fully connected layers as convolutions whose kernel is the whole map."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Window

LARGEST_KERNEL: Final = 32  # rows and columns


def dense_to_convolutions(_graph: Graph, node: Node) -> Iterable[Node] | None:
    op = node.op
    if not isinstance(op, ops.Dense):
        return None
    _, _, height, width = op.weight.shape
    if max(height, width) > LARGEST_KERNEL:
        return None
    return (replace(node, op=ops.Conv2d(op.weight, op.bias, Window(Pair(height, width)), activation=op.activation)),)
