"""Makes moves of elements few and plain: moves that follow each other are one, and a move that only counts anew is a reshape."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import Op, Order, Reshape, Shape, TransposeReshape


def fold_transposes(graph: Graph) -> Graph:
    """Case 1: rearrange -> reshape; case 2: reshape -> rearrange; case 3: rearrange -> rearrange; all in one order.
    Then case 4: a rearrange that moves nothing; case 5: one that gives a vector in the other order (SSD's heads: a map's
    elements, pixel by pixel), which is a reshape in that order.
    """
    return graph.fuse(_fold).expand(_as_reshape)


def _fold(_: Lookup, first: Node, second: Node) -> Op | None:
    match first.op, second.op:
        case TransposeReshape(order=order, shape=shape) as before, Reshape() as after if after.order is order or (
            shape.is_vector and after.shape.is_vector
        ):
            return replace(before, shape=after.shape)
        case Reshape(order=order), TransposeReshape() as after if after.order is order:
            return after
        case TransposeReshape(order=order) as before, TransposeReshape() as after if after.order is order:
            lengths = tuple(before.dims[axis] for axis in before.axes)
            if lengths != after.dims:
                return None
            return replace(after, dims=before.dims, axes=tuple(before.axes[axis] for axis in after.axes))
        case _:
            return None


def _as_reshape(graph: Graph, node: Node) -> Iterable[Node] | None:
    op = node.op
    if not isinstance(op, TransposeReshape):
        return None
    dims, axes = _plain(op)
    if len(dims) == 1:
        return (replace(node, op=Reshape(op.shape, op.order)),)
    if (dims, axes) == (_halves(graph.shape(node.inputs[0]), op.order), (1, 0)) and op.shape.is_vector:
        other = Order.HWC if op.order is Order.CHW else Order.CHW
        return (replace(node, op=Reshape(op.shape, other)),)
    return None


def _halves(x: Shape, order: Order) -> tuple[int, int]:
    """A map's elements as the order counts them: channels by pixels, or pixels by channels."""
    pixels = x.height * x.width
    return (x.channels, pixels) if order is Order.CHW else (pixels, x.channels)


def _plain(op: TransposeReshape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dims and axes without axes of one element, and with those as one that stay together."""
    moved = [axis for axis in op.axes if op.dims[axis] != 1]
    rank = {axis: place for place, axis in enumerate(sorted(moved))}
    runs: list[list[int]] = []
    for axis in moved:
        if runs and rank[axis] == rank[runs[-1][-1]] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    lengths = {run[0]: math.prod(op.dims[axis] for axis in run) for run in runs}
    heads = sorted(lengths)
    return tuple(lengths[head] for head in heads) or (1,), tuple(heads.index(run[0]) for run in runs)
