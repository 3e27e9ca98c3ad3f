"""Builds a graph layer by layer, and collects every reason why a layer cannot be read."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from cnn_convertor.budget import SHARES, Budget
from cnn_convertor.errors import ConvertorError, ModelError, Origin, Problem, SettingsError, UnsupportedError
from cnn_convertor.ir.graph import Graph, Node, shape_of
from cnn_convertor.ir.ops import Input, Op, Shape

_NODE: Final = 16_000  # steps of the budget for a layer or part of one: what all of a conversion does with it
_UNKNOWN_TYPE: Final = "DV301"  # does not depend on sizes
GUESS = Shape(256, 256, 3)  # for an input of unknown size: large enough for most windows after it


def prefix_of(part: str) -> str:
    """The start of the names of a part's own parts; a layer itself has no name for this."""
    return f"{part}/" if part else ""


@dataclass(frozen=True, slots=True)
class PartialGraph:
    """The part of a network that can be read.

    graph: inputs of an unreadable layer become graph outputs; its outputs become graph inputs.
    problems: why layers cannot be read, in network order. damaged: whether a file is at fault.
    placeholders: the inputs that stand for layers that cannot be read. cut: the outputs that only such layers read.
    guessed: nodes whose shapes follow from a guess. parameters: the number of each layer's parameters, where it has some.
    """

    graph: Graph
    problems: tuple[Problem, ...]
    damaged: bool
    placeholders: frozenset[str]
    cut: frozenset[str]
    guessed: frozenset[str]
    parameters: Mapping[Origin, int]

    def require_complete(self, more: Iterable[Problem] = (), notes: Iterable[Problem] = ()) -> Graph:
        """The graph, if all of it could be read. Raises one error with its problems, more of them, and notes."""
        problems = in_network_order(self.graph, self.problems + tuple(more))
        if problems:
            raise (ModelError if self.damaged else UnsupportedError)(problems, notes)
        return self.graph


def in_network_order(graph: Graph, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems, each once: first those without a layer, then layer by layer."""
    layers = dict.fromkeys(origin.layer for node in graph.nodes for origin in node.origins)
    positions = {layer: position for position, layer in enumerate(layers)}

    def position(problem: Problem) -> int:
        return -1 if problem.where is None else positions.get(problem.where.layer, -1)

    return tuple(sorted(dict.fromkeys(problems), key=position))


class Builder:
    """The graph under construction: unique names, shapes, and all problems in one error.

    A layer that cannot be read gets a placeholder (its output is assumed to look like its first input), so that later layers
    are checked, too. Problems with their sizes are not reported, since they may follow from the guess. Behind an input of unknown
    size, only types that cannot be read are.
    """

    def __init__(self) -> None:
        self._budget = Budget.of("layers")
        self._nodes: list[Node] = []
        self._shapes: dict[str, Shape] = {}
        self._alike: dict[str, int] = {}  # name -> the last number that made it unique
        self._guessed: set[str] = set()
        self._behind_unknown: set[str] = set()  # inputs of unknown size, and what follows from them
        self._placeholders: set[str] = set()
        self._cut: list[str] = []  # inputs of layers that cannot be read
        self._problems: list[Problem] = []
        self._damaged = False
        self._own_names: dict[str, str] = {}
        self._parameters: dict[Origin, dict[Hashable, int]] = {}

    def add(self, name: str, op: Op, inputs: Sequence[str], origin: Origin) -> str:
        """Append a node; returns its name, made unique.

        Raises ModelError when the inputs do not fit, and an error that ends the reading when the budget is spent.
        """
        if self._budget.is_spent:
            problem = f"the network has more than {SHARES['layers'] // _NODE:,} layers and parts of layers"
            raise ConvertorError.of("DV304", problem, origin, "convert its parts one by one")
        self._budget.spend(_NODE)
        unique = name
        while unique in self._shapes:
            self._alike[name] = self._alike.get(name, 1) + 1
            unique = f"{name}#{self._alike[name]}"
        node = Node(unique, op, tuple(inputs), (origin,))
        self._shapes[unique] = shape_of(node, self._shapes)
        self._nodes.append(node)
        if any(i in self._guessed for i in inputs):
            self._guessed.add(unique)
        if not self._behind_unknown.isdisjoint(inputs):
            self._behind_unknown.add(unique)
        return unique

    def shape(self, name: str) -> Shape:
        return self._shapes[name]

    def name_outputs(self, layer: Origin, outputs: Sequence[tuple[str, str]]) -> None:
        """Keep what the framework calls the outputs of the layer that was just read: (node, name).

        A node that stands for several outputs keeps the first name. Nodes of other layers keep theirs.
        """
        nodes_of_layer = {node.name for node in takewhile(lambda node: node.origins == (layer,), reversed(self._nodes))}
        for node, name in outputs:
            if name and node in nodes_of_layer - self._placeholders:
                self._own_names.setdefault(node, name)

    def is_guessed(self, name: str) -> bool:
        """Whether the shape follows from a placeholder."""
        return name in self._guessed

    def is_placeholder(self, name: str) -> bool:
        """Whether the node stands for a layer that cannot be read."""
        return name in self._placeholders

    def count(self, origin: Origin, array: Hashable, shape: Sequence[int]) -> None:
        """Count an array of parameters, once for all calls of its layer."""
        self._parameters.setdefault(origin, {})[array] = math.prod(shape)

    def report(self, error: ConvertorError) -> None:
        """Keep an error's problems for the end."""
        self._damaged |= isinstance(error, ModelError)
        self._problems.extend(error.problems)

    def read(
        self,
        inputs: Sequence[str],
        read: Callable[[], Sequence[str]],
        placeholder: tuple[str, Origin],
        shape: Shape | None = None,
        channels: Callable[[], int | None] = lambda: None,
    ) -> Sequence[str]:
        """Names of a layer's outputs: those that read() gives, or a placeholder when it raises an error, which is kept.

        shape: the placeholder's, where the file gives it. channels: else its channels; None for those of the first input.
        """
        before = len(self._nodes)
        origins = dict[Origin, None]()
        try:
            return read()
        except UnsupportedError as error:
            problems = error.problems
            if not self._behind_unknown.isdisjoint(inputs):
                problems = tuple(problem for problem in problems if problem.code == _UNKNOWN_TYPE)
            self._problems.extend(problems)
            origins = dict.fromkeys(problem.where for problem in problems if problem.where and problem.where.layer)
        except ModelError as error:
            if isinstance(error, SettingsError) or not any(name in self._guessed for name in inputs):
                self.report(error)
        for node in self._nodes[before:]:
            del self._shapes[node.name]
            self._guessed.discard(node.name)
            self._behind_unknown.discard(node.name)
        del self._nodes[before:]
        name, origin = placeholder
        guess = self._shapes[inputs[0]] if inputs else GUESS
        if shape is None:
            guess = guess._replace(channels=channels() or guess.channels)
        unique = self.add(name, Input(shape or guess), (), origin)
        # What is wrong may be a constant that the layer reads, which is not a node.
        origins = {each: None for each in origins if each.layer != origin.layer}
        self._nodes[-1] = replace(self._nodes[-1], origins=(*origins, origin))
        self._placeholders.add(unique)
        if shape is None:
            self._guessed.add(unique)
            if not inputs or not self._behind_unknown.isdisjoint(inputs):
                self._behind_unknown.add(unique)
        self._cut += inputs
        return [unique]

    def finish(self, outputs: Sequence[str]) -> PartialGraph:
        """The network, as far as it could be read."""
        cut = frozenset(self._cut) - {*outputs}
        if self._problems:
            outputs = self._reachable_outputs(outputs)
        parameters = {origin: sum(sizes.values()) for origin, sizes in self._parameters.items()}
        return PartialGraph(
            Graph(tuple(replace(n, own_name=self._own_names.get(n.name, "")) for n in self._nodes), tuple(outputs)),
            tuple(dict.fromkeys(self._problems)),  # a layer with several calls reports its problems for each
            self._damaged,
            frozenset(self._placeholders),
            cut,
            frozenset(self._guessed),
            parameters,
        )

    def _reachable_outputs(self, outputs: Sequence[str]) -> list[str]:
        """The outputs and what was cut off, without inputs and placeholders, unless nothing else is left."""
        inputs = {node.name for node in self._nodes if isinstance(node.op, Input)}
        names = dict.fromkeys((*outputs, *self._cut))
        return [name for name in names if name not in inputs] or list(names)
