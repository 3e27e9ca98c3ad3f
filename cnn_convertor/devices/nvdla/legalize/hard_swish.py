"""Hard swish as a product with a hard sigmoid, both of which SDP computes without a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import BinaryOp


def hard_swish(graph: Graph, node: Node) -> Iterable[Node] | None:
    """x times a hard sigmoid of x: a line, cut off at 0 and 1, and a product with the map."""
    if node.op != ops.Unary(ops.HardSwish()):
        return None
    gate = replace(node, name=graph.fresh(f"{node.name}/gate"), op=ops.Unary(ops.HardSigmoid(1 / 6, 0.5)))
    return gate, replace(node, op=ops.Binary(BinaryOp.MULTIPLY), inputs=(node.inputs[0], gate.name))
