"""Merges nodes with the same operator and the same inputs."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace

import numpy as np

from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Activation, Custom, Input

_ROWS = 64  # rows of weights compared at a time
_SAMPLE = 64  # numbers of weights that tell most operators apart


def merge_activations(graph: Graph) -> Graph:
    """Merge activations only: the sole user of a map can move into the operator above."""
    return _merge(graph, lambda node: isinstance(node.op, Activation))


def merge_identical(graph: Graph) -> Graph:
    """Users of a node read an earlier, identical one. Outputs stay: each has its own memory.

    Custom layers stay: they may have side effects.
    """
    return _merge(graph, lambda node: not isinstance(node.op, Input | Custom))


def _merge(graph: Graph, may: Callable[[Node], bool]) -> Graph:
    same: dict[str, str] = {}
    first: dict[tuple[type, tuple[str, ...]], Node] = {}  # no constant is read before a second node has the same inputs
    alike: dict[tuple[type, tuple[str, ...]], dict[object, list[Node]]] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))
        key = type(node.op), node.inputs
        if may(node) and first.setdefault(key, node) is not node:
            if key not in alike:
                alike[key] = {_sample(first[key].op): [first[key]]}
            twins = alike[key].setdefault(_sample(node.op), [])
            twin = next((other for other in twins if _are_equal(other.op, node.op)), None)
            if twin is not None and not graph.is_output(node.name):
                same[node.name] = twin.name
                continue
            twins.append(node)
        nodes.append(node)
    return Graph(tuple(nodes), graph.outputs) if same else graph


def _sample(value: object) -> object:
    """An operator, or a field of one, with a few numbers of each constant: it differs only if the operator does.

    Read once for each node, so that many layers on one input do not read all weights of each other, nor are compared with each
    other.
    """
    if isinstance(value, Constant):
        row = value.load(slice(0, 1)).reshape(-1)[:_SAMPLE]
        return value.shape, (row + np.float32(0)).tobytes()  # -0.0 equals 0.0
    if is_dataclass(value):
        return type(value), *(_sample(getattr(value, field.name)) for field in fields(value))
    return value


def _are_equal(one: object, other: object) -> bool:
    """Whether two operators, or fields of operators, are equal; constants are compared by value."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Constant) and isinstance(other, Constant):
        return one is other or _same_values(one, other)
    if is_dataclass(one):
        return all(_are_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return one == other


def _same_values(one: Constant, other: Constant) -> bool:
    if one.shape != other.shape:
        return False
    ranges = (slice(start, min(start + _ROWS, one.shape[0])) for start in range(0, one.shape[0], _ROWS))
    return all(np.array_equal(one.load(rows), other.load(rows)) for rows in ranges)
