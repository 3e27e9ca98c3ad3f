"""Gives a reshape to what follows it: a fully connected layer takes the map as it lies, whatever order it was counted in."""

from __future__ import annotations

from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import Dense, Op, Order, Reshape


def fold_reshapes(graph: Graph) -> Graph:
    """Case 1: reshape -> reshape in the same order; case 2: flatten -> dense."""
    return graph.fuse(_fold, shared=True)


def _fold(lookup: Lookup, first: Node, second: Node) -> Op | None:
    match first.op, second.op:
        case Reshape(order=order), Reshape() as after if after.order is order or first.op.shape.is_vector:
            # a vector counts the same in every order, so the first reshape alone decides how the map is taken apart
            return replace(after, order=order) if _same_from_vector(after, order) else None
        case Reshape(order=order, shape=shape), Dense() as after if shape.is_vector:
            height, width, channels = lookup.shape(first.inputs[0])
            match order:
                case Order.CHW:
                    weight = after.weight.map_rows(
                        lambda w: w.reshape(-1, channels, height, width), (channels, height, width)
                    )
                case Order.HWC:
                    weight = after.weight.map_rows(
                        lambda w: w.reshape(-1, height, width, channels).transpose(0, 3, 1, 2),
                        (channels, height, width),
                    )
                case Order.MEMORY:
                    return None  # only after a graph is fitted to a device
            return replace(after, weight=weight)
        case _:
            return None


def _same_from_vector(after: Reshape, order: Order) -> bool:
    """Whether `after` gives the same in its own order and in the other one."""
    return after.order is order or after.shape.is_vector
