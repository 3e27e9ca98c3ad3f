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
    The quotient gets the origins of the maps before it, as these are not the framework's any more.
    """
    changed: dict[str, Node] = {}
    for node in graph.nodes:
        if isinstance(node.op, Binary) and node.op.operation is BinaryOp.DIVIDE:
            changed |= _averaged(graph, node)
    if not changed:
        return graph
    return Graph(tuple(changed.get(n.name, n) for n in graph.nodes), graph.outputs)


def _averaged(graph: Graph, quotient: Node) -> Mapping[str, Node]:
    """The nodes that change: name -> new."""
    (last, above), (other, below) = (_path(graph, name) for name in quotient.inputs)
    if last is not other or graph.is_output(last.name) or len(graph.users(last.name)) != 2:
        return {}
    if not isinstance(last.op, MatMul):
        return {}
    for name in last.inputs:
        first = graph[name]
        if isinstance(first.op, MatMul) and graph.is_private(name):
            _, count = first.op.left.size_in(graph.shape(first.inputs[0]))
            size = abs(first.op.factor) * count
            if size >= 2:
                factor = 2.0 ** -math.floor(math.log2(size))
                between = (last, *above, *below)
                origins = tuple(origin for node in (first, *between) for origin in node.origins)
                return {
                    name: replace(first, op=replace(first.op, factor=first.op.factor * factor)),
                    **{n.name: replace(n, op=_shifted(n.op, factor)) for n in between if isinstance(n.op, Scale)},
                    quotient.name: replace(quotient, origins=origins + quotient.origins, main=quotient.where),
                }
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
