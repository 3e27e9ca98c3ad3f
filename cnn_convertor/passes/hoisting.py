"""Moves an element-wise operator up: what stands above it does its work, and it is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op


class Hoisted(NamedTuple):
    """What an operator becomes. ops: node -> its operator from now on.

    between: (node, position) -> an operator between the node and that input of its, which cannot do the work itself.
    """

    ops: Mapping[str, Op]
    between: Mapping[tuple[str, int], Op]

    def plus(self, other: Hoisted) -> Hoisted:
        return Hoisted({**self.ops, **other.ops}, {**self.between, **other.between})


NO_CHANGE = Hoisted({}, {})


def without(graph: Graph, gone: Node, hoisted: Hoisted) -> Graph:
    """The graph in which the node before the one that is gone gives its output, under its name.

    What takes part in the work of the layer has its origin, too: alone, it does not give what its own layer gave.
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
        nodes.append(replace(node, inputs=tuple(inputs)))
    return Graph(tuple(nodes), graph.outputs)
