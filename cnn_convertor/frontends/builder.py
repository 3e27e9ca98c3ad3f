"""Grows a graph layer by layer and gathers every reason why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cnn_convertor.errors import ConvertorError, ModelError, Origin, Problem, UnsupportedError
from cnn_convertor.ir.graph import Graph, Node, shape_of
from cnn_convertor.ir.ops import Identity, Input, Op, Shape


class Builder:
    """What the frontends share: unique names, shapes as they become known, and all problems in one error.

    A layer that cannot be read gets a stand-in (its output is guessed to look like its first input), so that the layers
    after it are looked at too; what is wrong with their sizes then is not reported, since it may follow from the guess.
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._shapes: dict[str, Shape] = {}
        self._guessed: set[str] = set()
        self._problems: list[Problem] = []
        self._damaged = False

    def add(self, name: str, op: Op, inputs: Sequence[str], origin: Origin) -> str:
        """Append a node; returns its name, made unique. Raises ModelError when the inputs do not fit."""
        unique, count = name, 1
        while unique in self._shapes:
            count += 1
            unique = f"{name}#{count}"
        node = Node(unique, op, tuple(inputs), (origin,))
        self._shapes[unique] = shape_of(node, self._shapes)
        self._nodes.append(node)
        if any(i in self._guessed for i in inputs):
            self._guessed.add(unique)
        return unique

    def shape(self, name: str) -> Shape:
        return self._shapes[name]

    def is_guessed(self, name: str) -> bool:
        """Whether the shape follows from a stand-in."""
        return name in self._guessed

    def report(self, error: ConvertorError) -> None:
        """Keep an error's problems for the end."""
        self._damaged |= isinstance(error, ModelError)
        self._problems.extend(error.problems)

    def read(
        self, inputs: Sequence[str], read: Callable[[], Sequence[str]], stand_in: tuple[str, Origin]
    ) -> Sequence[str]:
        """Names of a layer's outputs: what read() gives, or one stand-in when it raises a ConvertorError, which is kept."""
        before = len(self._nodes)
        try:
            return read()
        except UnsupportedError as error:
            self.report(error)
        except ModelError as error:
            if not any(name in self._guessed for name in inputs):
                self.report(error)
        for node in self._nodes[before:]:
            del self._shapes[node.name]
        del self._nodes[before:]
        name, origin = stand_in
        unique = self.add(name, Identity() if inputs else Input(Shape(1, 1, 1)), inputs[:1], origin)
        self._guessed.add(unique)
        return [unique]

    def finish(self, outputs: Sequence[str]) -> Graph:
        """The graph; raises one error with every problem met on the way."""
        if self._problems:
            once = dict.fromkeys(self._problems)  # a layer that is called several times has them several times
            raise (ModelError if self._damaged else UnsupportedError)(once)
        return Graph(tuple(self._nodes), tuple(outputs))
