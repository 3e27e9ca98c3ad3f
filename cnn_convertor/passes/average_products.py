"""Keeps sums of products small where only their quotient matters, as in linear attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Binary, BinaryOp, Crop, MatMul, Op, Reshape, Scale, TransposeReshape

SMALLEST = 2.0**-24  # above 0, in FP16


def average_products(graph: Graph) -> Graph:
    """(product -> product) -> parts a and b -> a / b: the first product sums over pixels, which then becomes an average.

    Its factor is a power of two, so that a quotient of FP16 numbers stays. A shift of b that keeps it above 0 still does.
    """
    changed: dict[str, Op] = {}
    for node in graph.nodes:
        if isinstance(node.op, Binary) and node.op.operation is BinaryOp.DIVIDE:
            changed |= _averaged(graph, *node.inputs)
    if not changed:
        return graph
    return Graph(tuple(replace(n, op=changed.get(n.name, n.op)) for n in graph.nodes), graph.outputs)


def _averaged(graph: Graph, dividend: str, divisor: str) -> Mapping[str, Op]:
    """The operators that change: name -> new."""
    (last, above), (other, below) = _path(graph, dividend), _path(graph, divisor)
    if last is not other or graph.is_output(last.name) or len(graph.users(last.name)) != 2:
        return {}
    if not isinstance(last.op, MatMul):
        return {}
    for name in last.inputs:
        first = graph[name].op
        if isinstance(first, MatMul) and graph.is_private(name):
            _, count = first.left.size_in(graph.shape(graph[name].inputs[0]))
            size = abs(first.factor) * count
            if size >= 2:
                factor = 2.0 ** -math.floor(math.log2(size))
                scales = {
                    node.name: _shifted(node.op, factor) for node in (*above, *below) if isinstance(node.op, Scale)
                }
                return {name: replace(first, factor=first.factor * factor), **scales}
    return {}


def _path(graph: Graph, name: str) -> tuple[Node, list[Node]]:
    """The node above the named one that is more than a movement or a scale of a single reader, and those below it."""
    below: list[Node] = []
    while graph.is_private(name) and _keeps_factors((node := graph[name]).op):
        below.append(node)
        (name,) = node.inputs
    return graph[name], below


def _keeps_factors(op: Op) -> bool:
    return isinstance(op, Crop | Reshape | TransposeReshape) or (isinstance(op, Scale) and op.activation is None)


def _shifted(op: Scale, factor: float) -> Scale:
    """The scale of values that are smaller by a factor."""
    if op.shift is None:
        return op
    return replace(op, shift=op.shift.map_rows(lambda b: np.where(b > 0, np.maximum(b * factor, SMALLEST), b * factor)))
