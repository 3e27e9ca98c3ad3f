"""Functions of a concatenation as functions of its parts, where the operation that writes a part has them on the fly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Op


def into_parts(graph: Graph, node: Node) -> Iterable[Node] | None:
    """Only where a convolution writes each part, and nothing else reads parts and whole."""
    if not isinstance(node.op, ops.Unary | ops.Activation | ops.Scale) or not graph.is_private(node.inputs[0]):
        return None
    whole = graph[node.inputs[0]]
    if not isinstance(whole.op, ops.Concat) or whole.op.axis is not Axis.CHANNELS:
        return None
    if not all(isinstance(graph[part].op, ops.Conv2d) and graph.is_private(part) for part in whole.inputs):
        return None
    nodes = []
    first = 0
    for number, part in enumerate(whole.inputs):
        count = graph.shape(part).channels
        op = _of_channels(node.op, first, first + count)
        nodes.append(replace(node, name=graph.fresh(f"{node.name}/part{number}"), op=op, inputs=(part,)))
        first += count
    joined = tuple(each.name for each in nodes)
    return [*nodes, replace(node, op=ops.Concat(), inputs=joined)]


def _of_channels(op: Op, first: int, stop: int) -> Op:
    rows = np.arange(first, stop)
    match op:
        case ops.Scale(factor=factor, shift=shift, activation=function):
            return ops.Scale(
                factor.take_rows(rows),
                None if shift is None else shift.take_rows(rows),
                None if function is None else ops.for_channels(function, rows),
            )
        case ops.Activation(function=function):
            return ops.Activation(ops.for_channels(function, rows))
        case _:
            return op
