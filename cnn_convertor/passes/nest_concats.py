"""Lets a concatenation read an earlier one in place of the maps that it begins with, too."""

from __future__ import annotations

from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Concat


def nest_concats(graph: Graph) -> Graph:
    """[a, b], [a, b, c] -> [a, b], [[a, b], c], along one axis.

    A map has one place in memory. Flat, `a` and `b` are copied for the second concatenation; nested, the first lies in the
    second. Takes time in proportion to the number of all inputs.
    """
    steps: dict[tuple[int, str], int] = {}  # a sequence of inputs, without and with its last one
    whole: dict[int, str] = {}  # sequence -> the first concatenation of it
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.op, Concat):
            sequence = ~node.op.axis
            inputs = node.inputs  # negative: the empty sequence of an axis
            for count, name in enumerate(node.inputs, 1):
                sequence = steps.setdefault((sequence, name), len(steps))
                if 1 < count < len(node.inputs) and sequence in whole:
                    inputs = (whole[sequence], *node.inputs[count:])
            whole.setdefault(sequence, node.name)
            if inputs != node.inputs:
                node = replace(node, inputs=inputs)
        nodes.append(node)
    return Graph(tuple(nodes), graph.outputs) if tuple(nodes) != graph.nodes else graph
