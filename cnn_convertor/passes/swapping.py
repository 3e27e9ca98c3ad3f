"""Swaps neighboring nodes."""

from collections.abc import Callable
from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op


def swap(graph: Graph, rule: Callable[[Node, Node], tuple[Op, Op] | None]) -> Graph:
    """first -> second becomes second -> first: rule(first, second) -> the operators in their new order, or None.

    Both nodes then compute the second one's layer together, so the last one gets both origins. `first` may already have
    been swapped.
    """
    moved: dict[str, Node] = {}
    for second in graph.nodes:
        if len(second.inputs) != 1:
            continue
        first = moved.get(second.inputs[0], graph[second.inputs[0]])
        if graph.is_private(first.name) and (ops := rule(first, second)) is not None:
            origins = first.origins + second.origins
            moved[first.name] = replace(second, name=first.name, op=ops[0], inputs=first.inputs)
            moved[second.name] = replace(
                first, name=second.name, op=ops[1], inputs=(first.name,), origins=origins, main=first.where
            )
    return Graph(tuple(moved.get(node.name, node) for node in graph.nodes), graph.outputs) if moved else graph
