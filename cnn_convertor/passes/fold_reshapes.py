"""Folds reshapes into the reshape or fully connected layer after them."""

from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import Dense, Op, Order, Reshape


def fold_reshapes(graph: Graph) -> Graph:
    """Case 1: reshape -> reshape in the same order; case 2: flatten -> dense."""
    return graph.fuse(_fold, shared=True)


def _fold(lookup: Lookup, first: Node, second: Node) -> Op | None:
    match first.op, second.op:
        case Reshape(order=order, shape=shape), Reshape() as after if after.order is order or (
            shape.is_vector and after.shape.is_vector  # vectors are the same in every order
        ):
            return replace(after, order=order)
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
