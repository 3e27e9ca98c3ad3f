"""Chooses the layers of the program: which nodes share a command, so that maps cost the least traffic.

Every node of the device could have a command of its own. A boundary between two nodes may vanish where nobody but the second
one sees the map between them; each command that is left reads its maps from external memory and writes one there. A map has at
most one such boundary, so they form trees, and the best cut of a tree is found exactly, from the leaves to the root: the best
for a node is the best command that ends with it together with the best for what that command reads. Branches from one map to
neighboring parts of a concatenation may share a command besides; which of them do is found part by part, exactly as well.
Less traffic goes first, then fewer commands, then fewer runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cnn_convertor.devices.dv700.commands import (
    Command,
    RunAssignment,
    inputs_are_layers,
    is_view,
    joins_in_place,
    layer_type,
    run_of,
    why_own_layer,
)
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.fusion.rules import FusionRules, Path, split_runs
from cnn_convertor.devices.dv700.fusion.ub_fit import MOST_RUNS
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.memory.placement import nbytes
from cnn_convertor.devices.dv700.program import LayerType
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Add, Concat, Input, MaxPool2d, Shape


class Cost(NamedTuple):
    """What is to be small, in this order. traffic: bytes of maps that commands read and write."""

    traffic: int
    commands: int
    runs: int

    def plus(self, *others: Cost) -> Cost:
        return Cost(*map(sum, zip(self, *others, strict=True)))


NOTHING = Cost(0, 0, 0)


class PathGroup(NamedTuple):
    """Nodes that share a command: a path, or several that start from one map and end as parts of one concatenation."""

    branches: tuple[Path, ...]
    concat: Node | None = None


class Selection(NamedTuple):
    """The steps, in execution order, and the graph that they belong to: a command's parts of a concatenation have one node."""

    graph: Graph
    steps: tuple[Command, ...]


def partition(
    graph: Graph, *, palette: bool, transposed: bool, fusion: Fusion = Fusion.FULL, limits: Limits | None = None
) -> Selection:
    """The steps of a legal graph. Where maps and weights lie is decided once the rules have looked at them."""
    graph, commands = _nested(graph, FusionPlanner(graph, fusion, limits or Limits()).commands())
    position = {node.name: index for index, node in enumerate(graph.nodes)}
    made: list[tuple[int, Command]] = []
    done: set[str] = set()
    for command in commands:
        # Nodes of a path may wait for its last one, since nobody else reads them; branches need nothing but their input.
        when = min(position[path[-1].name] for path in command.branches)
        made.append((when, _step(graph, command, palette=palette, transposed=transposed)))
        done |= {node.name for node in made[-1][1].nodes}
    announce = inputs_are_layers(graph)
    made += [
        (position[node.name], Command(layer_type(graph, node), (node,), node.inputs, node.name))
        for node in graph.nodes
        if not (is_view(node) or node.name in done or (isinstance(node.op, Input) and not announce))
    ]
    return Selection(graph, tuple(step for _, step in sorted(made, key=lambda pair: pair[0])))


# --- the choice ----------------------------------------------------------------------------------------------------------


class FusionPlanner:
    """The best commands of a graph. best: node -> the least cost of all that ends with it, in its tree; how: its command."""

    def __init__(self, graph: Graph, fusion: Fusion, limits: Limits) -> None:
        self.graph, self.possible = graph, FusionRules(graph, fusion, limits)
        self.best: dict[str, Cost] = {}
        self.how: dict[str, Path] = {}
        for node in graph.nodes:
            if node.name in self.possible.device:
                self._choose(node)

    def commands(self) -> list[PathGroup]:
        """The commands that together cost least, in no order."""
        found: list[PathGroup] = []
        grouped: set[str] = set()
        for node in self.graph.nodes:
            if isinstance(node.op, Concat):
                for group in self._groups(node):
                    found.append(PathGroup(group, node))
                    grouped |= {path[-1].name for path in group}
        for node in self.graph.nodes:
            if node.name in self.possible.device and node.name not in grouped and self._next(node) is None:
                found += map(PathGroup, self._cut(node))
        return found

    def cost(self, path: Path) -> Cost:
        """What a command of one branch costs."""
        inside = {node.name for node in path[:-1]}
        reads = [name for node in path for name in node.inputs if name not in inside]
        return Cost(sum(nbytes(self.graph, name) for name in (*reads, path[-1].name)), 1, len(split_runs(path)))

    def _before(self, node: Node) -> list[Node]:
        """What stands before the node across boundaries that may vanish."""
        return [before for name in node.inputs if self.possible.joins(before := self.graph[name], node)]

    def _next(self, node: Node) -> Node | None:
        """The node behind the boundary that may vanish."""
        users = self.graph.users(node.name)
        return next((after for name in users if self.possible.joins(node, after := self.graph[name])), None)

    def _others(self, path: Path) -> list[Node]:
        """What stands before the path across boundaries that may vanish, but do not."""
        inside = {node.name for node in path}
        return [before for node in path for before in self._before(node) if before.name not in inside]

    def _choose(self, last: Node) -> None:
        """Find the best command that ends with the node, the shortest first."""
        paths: list[Path] = [(last,)]
        for path in paths:
            possible = self.possible.why_not([path]) is None
            if possible:
                self._try(path)
            # What does not fit grows no smaller with more in front of it, unless that joins the run of an addition or a max pool.
            grows = possible or isinstance(path[0].op, Add | MaxPool2d)
            if grows and not any(isinstance(node.op, Add) for node in path[1:]):
                paths += [(before, *path) for before in self._before(path[0])]

    def _try(self, path: Path) -> None:
        """Take the path for the command that ends with its last node, if that is the best so far."""
        name, others = path[-1].name, self._others(path)
        if all(other.name in self.best for other in others):
            cost = self.cost(path).plus(*(self.best[other.name] for other in others))
            if name not in self.best or cost < self.best[name]:
                self.best[name], self.how[name] = cost, path

    def _cut(self, root: Node) -> Iterator[tuple[Path, ...]]:
        """The commands of the best cut of the tree that ends with the node."""
        ends = [root]
        while ends:
            end = ends.pop()
            assert end.name in self.how, f"{end.name!r} has no command: slopes travel with kernels"
            path = self.how[end.name]
            yield (path,)
            ends += self._others(path)

    # --- branches ---

    def _groups(self, concat: Node) -> list[tuple[Path, ...]]:
        """Which branches to neighboring parts of a concatenation share a command: those for which that is best."""
        if not joins_in_place(self.graph, concat):
            return []
        branches = [self._branch(name) for name in concat.inputs]
        heads = [branch and self._head(branch) for branch in branches]
        costs, groups = [NOTHING], [list[tuple[Path, ...]]()]
        for end, name in enumerate(concat.inputs, 1):
            alone = self.best[name] if branches[end - 1] else NOTHING
            options = [(costs[-1].plus(alone), groups[-1])]
            for start in range(end - 2, -1, -1):
                group = [branch for branch in branches[start:end] if branch]
                if heads[start] is None or heads[start] != heads[end - 1] or len(group) > MOST_RUNS:
                    break
                if self.possible.why_not(group) is None:
                    together = NOTHING.plus(*map(self.cost, group))._replace(commands=1)
                    options.append((costs[start].plus(together), [*groups[start], tuple(group)]))
            cost, group_list = min(options, key=lambda option: option[0])
            costs.append(cost)
            groups.append(group_list)
        return groups[-1]

    def _branch(self, name: str) -> Path | None:
        """The whole path to a part of a concatenation from the map that it starts with; None when it is not one."""
        graph, node = self.graph, self.graph[name]
        if node.name not in self.possible.device or why_own_layer(graph, node) is not None:
            return None
        path: Path = (node,)
        while before := self._before(path[0]):
            path = (*before, *path)
        return None if any(isinstance(node.op, Add) for node in path) else path

    def _head(self, branch: Path) -> tuple[str, Shape]:
        """The map that the branch starts from, and how it is seen there: branches that share a command do so alike."""
        return branch[0].inputs[0], self.possible.run(split_runs(branch)[0]).input


# --- steps ---------------------------------------------------------------------------------------------------------------


def _nested(graph: Graph, commands: Iterable[PathGroup]) -> tuple[Graph, list[PathGroup]]:
    """The graph with a concatenation for every command that joins some parts of a larger one, and the commands with them."""
    made: list[PathGroup] = []
    nodes = {node.name: node for node in graph.nodes}
    inner: dict[str, list[Node]] = {}  # the concatenation -> those that stand before it
    for command in commands:
        if command.concat is not None and len(command.branches) < len(command.concat.inputs):
            outer, parts = nodes[command.concat.name], tuple(path[-1].name for path in command.branches)
            concat = Node(graph.fresh(f"{outer.name}/{parts[0]}"), Concat(), parts)
            start = outer.inputs.index(parts[0])
            inputs = (*outer.inputs[:start], concat.name, *outer.inputs[start + len(parts) :])
            nodes[outer.name] = replace(outer, inputs=inputs)
            inner.setdefault(outer.name, []).append(concat)
            command = PathGroup(command.branches, concat)
        made.append(command)
    ordered = [n for node in nodes.values() for n in (*inner.get(node.name, ()), node)]
    return (Graph(tuple(ordered), graph.outputs) if inner else graph), made


def _step(graph: Graph, command: PathGroup, *, palette: bool, transposed: bool) -> Command:
    """What the command does."""
    shares = []
    for path in command.branches:
        for nodes in split_runs(path):
            external = nodes[-1] is path[-1]
            run = run_of(graph, nodes, palette=palette, transposed=transposed, external=external)
            shares.append(RunAssignment(nodes, run))
    nodes = tuple(node for path in command.branches for node in path)
    head = nodes[0]
    if command.concat is None:
        inside = {node.name for node in nodes}
        operands = (name for node in nodes[1:] for name in node.inputs if name not in inside)
        return Command(LayerType.CONV, nodes, (*head.inputs, *operands), nodes[-1].name, tuple(shares))
    parts = tuple(path[-1].name for path in command.branches)
    return Command(LayerType.CONV, (*nodes, command.concat), head.inputs, command.concat.name, tuple(shares), parts)
