"""Moves an element-wise operator up into the nodes above it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op


class Hoisted(NamedTuple):
    """The changes that replace a hoisted operator. ops: node -> its new operator.

    between: (node, position) -> an operator to insert before that input of the node.
    """

    ops: Mapping[str, Op]
    between: Mapping[tuple[str, int], Op]

    def plus(self, other: Hoisted) -> Hoisted:
        return Hoisted({**self.ops, **other.ops}, {**self.between, **other.between})


NO_CHANGE = Hoisted({}, {})


def hoist_into_parts(
    graph: Graph, concat: Node, hoist: Callable[[str, slice], Hoisted | None], part: Callable[[slice], Op]
) -> Hoisted:
    """Hoist into each input of a concatenation: hoist(input, channels), or else part(channels) inserted before it."""
    result, start = NO_CHANGE, 0
    for position, name in enumerate(concat.inputs):
        channels = slice(start, start := start + graph.shape(name).channels)
        made = hoist(name, channels)
        result = result.plus(Hoisted({}, {(concat.name, position): part(channels)}) if made is None else made)
    return result


def without(graph: Graph, gone: Node, hoisted: Hoisted) -> Graph:
    """The graph without the hoisted node `gone`; the node above it takes its name.

    Every node that changes gets the origins of `gone`: its output is no longer that of its own layer alone.
    """
    (below,) = gone.inputs
    nodes: list[Node] = []
    for node in graph.nodes:
        if node is gone:
            continue
        inputs = list(node.inputs)
        for position, name in enumerate(node.inputs):
            if (op := hoisted.between.get((node.name, position))) is not None:
                inputs[position] = graph.fresh(f"{gone.name}/{position}")
                nodes.append(Node(inputs[position], op, (name,), gone.origins, gone.where))
        if node.name == below or node.name in hoisted.ops:
            node = replace(
                node,
                name=gone.name if node.name == below else node.name,
                op=hoisted.ops.get(node.name, node.op),
                origins=node.origins + gone.origins,
                main=node.where,
            )
        nodes.append(node if node.inputs == tuple(inputs) else replace(node, inputs=tuple(inputs)))
    return Graph(tuple(nodes), graph.outputs)
