"""Swaps neighboring nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Shape


@dataclass(frozen=True, slots=True)
class Swapping:
    """A graph whose nodes are changing places: names and edges stay, operators and shapes move."""

    graph: Graph
    nodes: dict[str, Node]
    shapes: dict[str, Shape]

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def shape(self, name: str) -> Shape:
        return self.shapes[name]

    def is_private(self, name: str) -> bool:
        return self.graph.is_private(name)

    def user(self, name: str) -> Node:
        """The only user of a private node."""
        return self.nodes[self.graph.users(name)[0]]


Rule: TypeAlias = Callable[[Swapping, Node, Node], tuple[Op, Op] | None]


def swap(graph: Graph, rule: Rule) -> Graph:
    """first -> second becomes second -> first: rule(swapping, first, second) -> the operators in their new order, or None.

    Repeated until the rule applies nowhere. Both nodes then compute the second one's layer together, so the last one gets both
    origins.
    """
    swapping = Swapping(
        graph, {node.name: node for node in graph.nodes}, {node.name: graph.shape(node.name) for node in graph.nodes}
    )
    is_changed = False
    for name in swapping.nodes:
        while (first := _swapped(swapping, name, rule)) is not None:
            name = first
            is_changed = True
    return Graph(tuple(swapping.nodes.values()), graph.outputs) if is_changed else graph


def _swapped(swapping: Swapping, name: str, rule: Rule) -> str | None:
    """Swap a node with the one before it; gives its new name, or None if the rule does not apply."""
    second = swapping[name]
    if len(second.inputs) != 1 or not swapping.is_private(second.inputs[0]):
        return None
    first = swapping[second.inputs[0]]
    operators = rule(swapping, first, second)
    if operators is None:
        return None
    before, after = operators
    swapping.nodes[first.name] = replace(second, name=first.name, op=before, inputs=first.inputs)
    swapping.nodes[name] = replace(
        first, name=name, op=after, inputs=(first.name,), origins=first.origins + second.origins, main=first.where
    )
    swapping.shapes[first.name] = before.output_shape(*map(swapping.shape, first.inputs))
    return first.name
