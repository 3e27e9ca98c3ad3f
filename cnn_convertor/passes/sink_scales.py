"""Moves scales below pools, where maps are smaller and the weights of the next layer may take them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import (
    NO_PADDING,
    AveragePool2d,
    Conv2d,
    ConvTranspose2d,
    Dense,
    MaxPool2d,
    Scale,
    never_decreases,
)
from cnn_convertor.passes.fold_scales import wide


def sink_scales(graph: Graph) -> Graph:
    """scale -> pool becomes pool -> scale, where nobody else sees the scaled map and the result is no larger.

    Case 1: average pool, unless there is a shift and zeros are counted; case 2: max pool, by factors that are not below zero,
    where the pool meets weights on one of its sides.
    """
    moved: dict[str, Node] = {}
    for pool in graph.nodes:
        if len(pool.inputs) != 1:
            continue
        scale = moved.get(pool.inputs[0], graph[pool.inputs[0]])
        if graph.is_private(scale.name) and _commutes(graph, scale, pool):
            # two nodes work on the pool's layer, the last of which has its output
            moved[scale.name] = replace(pool, name=scale.name, inputs=scale.inputs)
            origins = scale.origins + pool.origins
            moved[pool.name] = replace(scale, name=pool.name, inputs=(scale.name,), origins=origins, main=scale.where)
    return Graph(tuple(moved.get(node.name, node) for node in graph.nodes), graph.outputs) if moved else graph


def _commutes(graph: Graph, scale: Node, pool: Node) -> bool:
    """Whether scaling after the pool gives the same, and is worth it."""
    if not isinstance(scale.op, Scale) or scale.op.activation is not None:
        return False
    if graph.shape(pool.name).size > graph.shape(pool.inputs[0]).size:
        return False
    factor, shift = wide(scale.op)
    match pool.op:
        case AveragePool2d(activation=None, window=window, factor=given):
            return (given is None and window.padding == NO_PADDING) or not shift.any()
        case MaxPool2d(activation=None):
            return bool(np.all(factor >= 0)) and (_meets_above(graph, scale) or _meets_below(graph, pool))
        case _:
            return False


def _meets_above(graph: Graph, scale: Node) -> bool:
    """Whether the pool will follow a convolution that may take the maximum before its activation."""
    before = graph[scale.inputs[0]]
    match before.op:
        case Conv2d(activation=function) | ConvTranspose2d(activation=function):
            return graph.is_private(before.name) and never_decreases(function)
        case _:
            return False


def _meets_below(graph: Graph, pool: Node) -> bool:
    """Whether the scale will meet weights that can take it."""
    if not graph.is_private(pool.name):
        return False
    match graph[graph.users(pool.name)[0]].op:
        case Dense():
            return True
        case Conv2d(window=window):
            return window.padding == NO_PADDING
        case _:
            return False
