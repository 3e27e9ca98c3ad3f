"""Folds reshapes into the reshape or fully connected layer after them."""

from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import Dense, Op, Order, Reshape
from cnn_convertor.passes.canonicalize import joined_reshapes


def fold_reshapes(graph: Graph) -> Graph:
    """Case 1: reshape -> reshape in the same order; case 2: flatten -> dense."""
    return graph.fuse(_fold, shared=True)


def _fold(lookup: Lookup, first: Node, second: Node) -> Op | None:
    match first.op, second.op:
        case Reshape() as before, Reshape() as after:
            return joined_reshapes(before, after)
        case Reshape(order=order, shape=shape), Dense() as after if shape.is_vector and order is not Order.MEMORY:
            height, width, channels = lookup.shape(first.inputs[0])
            row = (channels, height, width)
            if order is Order.CHW:
                weight = after.weight.map_rows(lambda w: w.reshape(-1, *row), row)
            else:
                weight = after.weight.map_rows(
                    lambda w: w.reshape(-1, height, width, channels).transpose(0, 3, 1, 2), row
                )
            return replace(after, weight=weight)
        case _:
            return None
