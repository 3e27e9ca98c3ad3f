"""Moves element-wise operators up into the nodes above them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Shape

T = TypeVar("T")


class Hoisted(NamedTuple):
    """The changes that replace a hoisted operator. ops: node -> its new operator.

    between: (node, position) -> an operator to insert before that input of the node. passed: nodes that stay, and whose
    outputs change.
    """

    ops: Mapping[str, Op]
    between: Mapping[tuple[str, int], Op]
    passed: tuple[str, ...] = ()

    def plus(self, other: Hoisted) -> Hoisted:
        return Hoisted({**self.ops, **other.ops}, {**self.between, **other.between}, self.passed + other.passed)

    def past(self, *nodes: str) -> Hoisted:
        return self._replace(passed=self.passed + nodes)


NO_CHANGE = Hoisted({}, {})

Search: TypeAlias = Generator[tuple[str, T], Hoisted | None, Hoisted | None]
"""Looks for the changes at one node. Yields (node, what to apply there) for each node above it, and is sent the changes there."""


def search(start: Callable[[str, T], Search[T]], name: str, by: T, variant: Callable[[T], Hashable]) -> Hoisted | None:
    """The changes that apply `by` to the named node; None if impossible. Networks may be deeper than calls may nest.

    variant: memoization key of a search state at a node.
    """
    answers: dict[tuple[str, Hashable], Hoisted | None] = {}
    running = [((name, variant(by)), start(name, by))]  # each waits for the answer of the next
    answer: Hoisted | None = None
    while running:
        state, steps = running[-1]
        try:
            above, needed = steps.send(answer)
        except StopIteration as end:
            answer = answers[state] = end.value
            running.pop()
            continue
        asked = (above, variant(needed))
        answer = answers.get(asked)
        if asked not in answers:
            running.append((asked, start(above, needed)))
    return answer


def hoist_into_parts(graph: Editing, concat: Node, by: Callable[[slice], T], part: Callable[[slice], Op]) -> Search[T]:
    """Apply by(channels) to each input of a concatenation, or else insert part(channels) before it."""
    ops: dict[str, Op] = {}
    between: dict[tuple[str, int], Op] = {}
    passed = [concat.name]
    start = 0
    for position, name in enumerate(concat.inputs):
        channels = slice(start, start := start + graph.shape(name).channels)
        hoisted = yield name, by(channels)
        if hoisted is None:
            between[concat.name, position] = part(channels)
        else:
            ops.update(hoisted.ops)
            between.update(hoisted.between)
            passed += hoisted.passed
    return Hoisted(ops, between, tuple(passed))


class Editing:
    """A graph from which nodes are removed, each in a time that does not depend on the size of the graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes = {node.name: node for node in graph.nodes}
        # Inserted nodes come before the node that reads them, in the order of their insertion.
        self._places = {node.name: (at, math.inf) for at, node in enumerate(graph.nodes)}
        self._shapes = {node.name: graph.shape(node.name) for node in graph.nodes}
        self._users = {node.name: Counter(graph.users(node.name)) for node in graph.nodes}
        self._outputs = graph.outputs
        self._names_of_outputs = set(graph.outputs)
        self._inserted = 0
        self._is_changed = False

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    def shape(self, name: str) -> Shape:
        return self._shapes[name]

    def is_private(self, name: str) -> bool:
        """Whether exactly one node, and no output, uses the named node."""
        users = self._users[name]
        return len(users) == 1 and users.total() == 1 and name not in self._names_of_outputs

    def done(self) -> Graph:
        """The graph as it is now."""
        if not self._is_changed:
            return self._graph
        nodes = sorted(self._nodes.values(), key=lambda node: self._places[node.name])
        return Graph(tuple(nodes), self._outputs)

    def remove(self, gone: Node, hoisted: Hoisted) -> None:
        """Remove the hoisted node `gone`; the node above it, which nothing else uses, takes its name.

        Every node that changes gets the origins of `gone`: its output is no longer that of its own layer alone.
        """
        (above,) = gone.inputs
        assert self.is_private(above)
        self._is_changed = True
        for (reader, position), op in hoisted.between.items():
            self._insert(self._nodes[reader], position, op, gone)
        for name in dict.fromkeys((above, *hoisted.ops, *hoisted.passed)):
            node = self._nodes[name]
            op = hoisted.ops.get(name, node.op)
            self._nodes[name] = replace(node, op=op, origins=node.origins + gone.origins, main=node.where)
        self._nodes[gone.name] = replace(self._nodes.pop(above), name=gone.name)
        self._places[gone.name] = self._places.pop(above)
        for name in set(self._nodes[gone.name].inputs):
            self._users[name][gone.name] = self._users[name].pop(above)
        del self._users[above]

    def bypass(self, gone: Node) -> None:
        """Remove a node with one input; users and outputs read that input instead."""
        (source,) = gone.inputs
        self._is_changed = True
        del self._nodes[gone.name], self._users[source][gone.name]
        for user, uses in self._users.pop(gone.name).items():
            node = self._nodes[user]
            inputs = tuple(source if name == gone.name else name for name in node.inputs)
            self._nodes[user] = replace(node, inputs=inputs)
            self._users[source][user] += uses
        if gone.name in self._names_of_outputs:
            self._outputs = tuple(source if name == gone.name else name for name in self._outputs)
            self._names_of_outputs = set(self._outputs)

    def _insert(self, reader: Node, position: int, op: Op, gone: Node) -> None:
        """Insert an operator, made from `gone`, before one input of a node."""
        source = reader.inputs[position]
        name = f"{gone.name}/{position}"
        while name in self._nodes:
            name += "'"
        self._inserted += 1
        self._nodes[name] = Node(name, op, (source,), gone.origins, gone.where)
        self._places[name] = (self._places[reader.name][0], self._inserted)
        self._shapes[name] = self._shapes[source]
        inputs = (*reader.inputs[:position], name, *reader.inputs[position + 1 :])
        self._nodes[reader.name] = replace(reader, inputs=inputs)
        self._users[name] = Counter([reader.name])
        self._users[source] += Counter([name])
        self._users[source] -= Counter([reader.name])
