"""Moves scales below pools, where maps are smaller and the next layer's weights may absorb them."""

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op
from cnn_convertor.passes.fold_scales import wide
from cnn_convertor.passes.swapping import Swapping, swap


def sink_scales(graph: Graph) -> Graph:
    """scale -> pool becomes pool -> scale, where the scaled map has no other user and the pooled one is no larger.

    Case 1: average pool, unless there is a shift and zeros count; case 2: max pool, by factors >= 0, if the pool or the scale
    then meets weights that absorb it.
    """

    def rule(swapping: Swapping, scale: Node, pool: Node) -> tuple[Op, Op] | None:
        if not isinstance(scale.op, ops.Scale) or scale.op.activation is not None:
            return None
        if swapping.shape(pool.name).size > swapping.shape(scale.name).size:
            return None
        factor, shift = wide(scale.op)
        match pool.op:
            case ops.AveragePool2d(activation=None, window=window, factor=given):
                commutes = (given is None and window.padding == ops.NO_PADDING) or not shift.any()
            case ops.MaxPool2d(activation=None):
                commutes = bool(np.all(factor >= 0)) and (_meets_above(swapping, scale) or _meets_below(swapping, pool))
            case _:
                commutes = False
        return (pool.op, scale.op) if commutes else None

    return swap(graph, rule)


def _meets_above(swapping: Swapping, scale: Node) -> bool:
    """Whether the pool will follow a convolution that can pool before its activation."""
    before = swapping[scale.inputs[0]]
    match before.op:
        case ops.Conv2d(activation=function) | ops.ConvTranspose2d(activation=function):
            return swapping.is_private(before.name) and ops.never_decreases(function)
        case _:
            return False


def _meets_below(swapping: Swapping, pool: Node) -> bool:
    """Whether the scale will meet weights that can absorb it."""
    if not swapping.is_private(pool.name):
        return False
    match swapping.user(pool.name).op:
        case ops.Dense():
            return True
        case ops.Conv2d(window=window):
            return window.padding == ops.NO_PADDING
        case _:
            return False
