"""Folds activations into the operators before them."""

from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import Activated, Activation, Op


def fold_activations(graph: Graph) -> Graph:
    """operator -> activation becomes one node if the operator has no activation yet."""
    return graph.fuse(_fold)


def _fold(_: Lookup, first: Node, second: Node) -> Op | None:
    if isinstance(first.op, Activated) and first.op.activation is None and isinstance(second.op, Activation):
        return replace(first.op, activation=second.op.function)
    return None
