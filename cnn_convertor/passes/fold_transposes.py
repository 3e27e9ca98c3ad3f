"""Fuses consecutive transposes, and turns transposes that move no data into reshapes."""

import math
from collections.abc import Iterable
from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import Op, Order, Reshape, Shape, TransposeReshape


def fold_transposes(graph: Graph) -> Graph:
    """Case 1: transpose -> reshape; case 2: reshape -> transpose; case 3: transpose -> transpose; all in one order.
    Then case 4: a transpose that moves no data; case 5: a transpose to a vector in the other order (SSD's heads), which is a
    reshape in that order.
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
    order = op.order
    if len(dims) > 1:
        if (dims, axes) != (_halves(graph.shape(node.inputs[0]), order), (1, 0)) or not op.shape.is_vector:
            return None
        order = Order.HWC if order is Order.CHW else Order.CHW
    return (replace(node, op=Reshape(op.shape, order)),)


def _halves(x: Shape, order: Order) -> tuple[int, int]:
    """A map as a matrix in the given order: (channels, pixels) or (pixels, channels)."""
    pixels = x.height * x.width
    return (x.channels, pixels) if order is Order.CHW else (pixels, x.channels)


def _plain(op: TransposeReshape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dims and axes without axes of length 1, with axes that stay together merged."""
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
