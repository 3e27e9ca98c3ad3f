"""Partitions a graph into commands so that they move the fewest bytes of feature maps.

Two nodes may share a command if only the second one reads the map between them. Each map has at most one such reader, so the
edges between these nodes form trees. Dynamic programming finds the best cut of each tree, from the leaves to the root: the best
for a node is the best command that ends with it, plus the best for what that command reads. Branches from one map to
neighboring parts of a concatenation may share a command as well; a second dynamic program over the parts groups them.
A path that starts with a convolution and then treats each channel by itself can also be several branches of one command, each
with a slice of the channels: then the maps between fit the unified buffer, and the command reads its input for each slice.
Bytes of feature maps count first, then the number of commands, then the number of runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cnn_convertor.devices.dv700.commands import (
    WITH_PACKED,
    Command,
    RunAssignment,
    inputs_are_layers,
    is_view,
    joins_in_place,
    layer_type,
    run_of,
    why_own_layer,
)
from cnn_convertor.devices.dv700.device import Cost, Device
from cnn_convertor.devices.dv700.fusion.combining import (
    FusionRules,
    Path,
    is_channelwise,
    slices_of_channels,
    split_runs,
)
from cnn_convertor.devices.dv700.runs import Run
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Add, Concat, Conv2d, Input, MaxPool2d, Shape, for_channels, with_outputs

NOTHING = Cost(0, 0, 0)


class PathGroup(NamedTuple):
    """The nodes of one command: a path, or several paths from one map to parts of one concatenation.

    slices: in how many branches, each with a slice of the channels, the command computes a path.
    """

    branches: tuple[Path, ...]
    concat: Node | None = None
    slices: int = 1


class Partition(NamedTuple):
    """The layers of the program, in execution order, and the graph with a node for the map that each writes."""

    graph: Graph
    steps: tuple[Command, ...]


def partition(graph: Graph, device: Device, *, transposed: bool, fusion: Fusion = Fusion.FULL) -> Partition:
    """The layers of the program of a legal graph, with FP16 weights; maps and weights have no offsets yet."""
    graph, groups = _nested(*_split(graph, FusionPlanner(graph, fusion, device).groups()))
    position = {node.name: index for index, node in enumerate(graph.nodes)}
    commands: list[tuple[int, Command]] = []
    done: set[str] = set()
    for group in groups:
        # A path can run as late as its last node, which alone is read outside; branches need nothing but their input.
        when = min(position[path[-1].name] for path in group.branches)
        commands.append((when, _command(graph, group, transposed=transposed)))
        done |= {node.name for node in commands[-1][1].nodes}
    announce = inputs_are_layers(graph)
    commands += [
        (position[node.name], Command(layer_type(graph, node), (node,), node.inputs, node.name))
        for node in graph.nodes
        if not (is_view(node) or node.name in done or (isinstance(node.op, Input) and not announce))
    ]
    return Partition(graph, tuple(step for _, step in sorted(commands, key=lambda pair: pair[0])))


# --- planning ------------------------------------------------------------------------------------------------------------


class FusionPlanner:
    """Plans commands. best: node -> the least cost of its subtree; how: node -> the command that ends with it, and its slices."""

    def __init__(self, graph: Graph, fusion: Fusion, device: Device) -> None:
        self.graph, self.device, self.rules = graph, device, FusionRules(graph, fusion, device)
        self.best: dict[str, Cost] = {}
        self.how: dict[str, tuple[Path, int]] = {}
        for node in graph.nodes:
            if node.name in self.rules.on_device:
                self._choose(node)

    def groups(self) -> list[PathGroup]:
        """The groups of paths with the least total cost, in no order."""
        groups: list[PathGroup] = []
        grouped: set[str] = set()
        for concat, branches in self._concats():
            for group in self._groups(concat, branches):
                groups.append(PathGroup(group, concat))
                grouped |= {path[-1].name for path in group}
        for root in self._roots():
            if root.name not in grouped:
                groups += self._cut(root)
        return groups

    def least_map_bytes(self) -> int:
        """A lower bound on the bytes of feature maps: no choice of commands moves less.

        The best cut of each tree, as if each branch could share a command with the neighbor that suits it best. Which groups
        of branches exclude each other, and that a group has at most 32 runs, is left out.
        """
        least = {root.name: self.best[root.name].map_bytes for root in self._roots()}
        for _, branches in self._concats():
            for one, other in pairwise(branches):
                if one and other and self._head(one) == self._head(other) and self.rules.may_share([one, other]):
                    for branch in (one, other):
                        least[branch[-1].name] = min(least[branch[-1].name], self.cost(branch).map_bytes)
        return sum(least.values())

    def cost(self, path: Path) -> Cost:
        """The cost of a command with one branch."""
        return self.device.cost(self.graph, path, 1)

    def _roots(self) -> list[Node]:
        """The last node of each tree."""
        return [n for n in self.graph.nodes if n.name in self.rules.on_device and self._next(n) is None]

    def _before(self, node: Node) -> list[Node]:
        """The nodes before this one that could share its command."""
        return [before for name in node.inputs if self.rules.joins(before := self.graph[name], node)]

    def _next(self, node: Node) -> Node | None:
        """The node after this one that could share its command."""
        users = self.graph.users(node.name)
        return next((after for name in users if self.rules.joins(node, after := self.graph[name])), None)

    def _others(self, path: Path) -> list[Node]:
        """The nodes before the path that could share its command, and do not."""
        inside = {node.name for node in path}
        return [before for node in path for before in self._before(node) if before.name not in inside]

    def _choose(self, last: Node) -> None:
        """Find the best command that ends with the node. Tries shorter ones first."""
        paths: list[Path] = [(last,)]
        for path in paths:
            fits = self.rules.allow([path])
            if slices := 1 if fits else self.rules.slices(path):
                self._try(path, slices)
            # A path that does not fit never fits with more in front, unless an addition or a max pool joins the run before it,
            # or a convolution whose channels can be split.
            grows = fits or isinstance(path[0].op, Add | MaxPool2d) or is_channelwise(path)
            most = self.device.limits.max_runs + 1
            if len(path) > most and len(split_runs(path)) > most:
                continue  # joining runs saves one, which is not enough
            if grows and not any(isinstance(node.op, Add) for node in path[1:]):
                paths += [(before, *path) for before in self._before(path[0])]

    def _try(self, path: Path, slices: int) -> None:
        """Take the path, in slices, as the command that ends with its last node if it is the best so far."""
        name, others = path[-1].name, self._others(path)
        if all(other.name in self.best for other in others):
            cost = self.device.cost(self.graph, path, slices).plus(*(self.best[other.name] for other in others))
            if name not in self.best or cost < self.best[name]:
                self.best[name], self.how[name] = cost, (path, slices)

    def _cut(self, root: Node) -> Iterator[PathGroup]:
        """The commands of the best cut of the tree with this root."""
        ends = [root]
        while ends:
            end = ends.pop()
            assert end.name in self.how, f"{end.name!r} has no command: slopes travel with kernels"
            path, slices = self.how[end.name]
            yield PathGroup((path,), slices=slices)
            ends += self._others(path)

    # --- branches ---

    def _concats(self) -> Iterator[tuple[Node, list[Path | None]]]:
        """The concatenations whose parts commands can write in place, with the branch to each part."""
        for node in self.graph.nodes:
            if isinstance(node.op, Concat) and joins_in_place(self.graph, node):
                yield node, [self._branch(name) for name in node.inputs]

    def _groups(self, concat: Node, branches: Sequence[Path | None]) -> list[tuple[Path, ...]]:
        """The branches to neighboring parts of a concatenation that share commands at the least cost."""
        heads = [branch and self._head(branch) for branch in branches]
        costs, groups = [NOTHING], [list[tuple[Path, ...]]()]
        for end, name in enumerate(concat.inputs, 1):
            alone = self.best[name] if branches[end - 1] else NOTHING
            options = [(costs[-1].plus(alone), groups[-1])]
            for start in range(end - 2, -1, -1):
                group = [branch for branch in branches[start:end] if branch]
                too_many = len(group) > self.device.limits.max_runs
                if heads[start] is None or heads[start] != heads[end - 1] or too_many:
                    break
                if self.rules.allow(group):
                    together = NOTHING.plus(*map(self.cost, group))._replace(commands=1)
                    options.append((costs[start].plus(together), [*groups[start], tuple(group)]))
            cost, group_list = min(options, key=lambda option: option[0])
            costs.append(cost)
            groups.append(group_list)
        return groups[-1]

    def _branch(self, name: str) -> Path | None:
        """The whole path to a part of a concatenation; None if the part has no branch that can share a command."""
        graph, node = self.graph, self.graph[name]
        if node.name not in self.rules.on_device or why_own_layer(graph, node) is not None:
            return None
        path: Path = (node,)
        while before := self._before(path[0]):
            path = (*before, *path)
        return None if any(isinstance(node.op, (Add, *WITH_PACKED)) for node in path) else path

    def _head(self, branch: Path) -> tuple[str, Shape]:
        """The map that the branch reads, and its shape there. Branches that share a command have equal ones."""
        return branch[0].inputs[0], self.rules.run(split_runs(branch)[0]).input


# --- layers --------------------------------------------------------------------------------------------------------------


def _split(graph: Graph, groups: Iterable[PathGroup]) -> tuple[Graph, list[PathGroup]]:
    """The graph with nodes for each slice of the channels, where a command computes these apart, and the groups with them."""
    result: list[PathGroup] = []
    instead: dict[str, list[Node]] = {}  # node -> what replaces it
    for group in groups:
        if group.slices > 1:
            (path,) = group.branches
            branches = tuple(_branches(graph, path, group.slices))
            concat = replace(path[-1], op=Concat(), inputs=tuple(branch[-1].name for branch in branches))
            instead |= {node.name: [] for node in path}
            instead[concat.name] = [*(node for branch in branches for node in branch), concat]
            group = PathGroup(branches, concat, group.slices)
        result.append(group)
    nodes = [new for node in graph.nodes for new in instead.get(node.name, [node])]
    return (Graph(tuple(nodes), graph.outputs) if instead else graph), result


def _branches(graph: Graph, path: Path, count: int) -> Iterator[Path]:
    """A path for each slice of the channels of a path."""
    for part in slices_of_channels(graph.shape(path[-1].name).channels, count):
        rows, inputs = np.arange(part.start, part.stop), path[0].inputs
        branch: list[Node] = []
        for node in path:
            op = node.op
            if isinstance(op, Conv2d):
                op = replace(with_outputs(op, rows), groups=len(rows) if op.is_depthwise else 1)
            elif isinstance(op, MaxPool2d) and op.activation is not None:
                # Its slopes travel with the kernels before it.
                op = replace(op, activation=for_channels(op.activation, rows))
            branch.append(replace(node, name=graph.fresh(f"{node.name}/channels{part.start}"), op=op, inputs=inputs))
            inputs = (branch[-1].name,)
        yield tuple(branch)


def _nested(graph: Graph, groups: Iterable[PathGroup]) -> tuple[Graph, list[PathGroup]]:
    """The graph with a node for each command that writes some parts of a larger concatenation, and the groups with these."""
    result: list[PathGroup] = []
    nodes = {node.name: node for node in graph.nodes}
    inner: dict[str, list[Node]] = {}  # concatenation -> its inner ones
    for group in groups:
        if group.concat is not None and len(group.branches) < len(group.concat.inputs):
            outer = nodes[group.concat.name]
            parts = tuple(path[-1].name for path in group.branches)
            concat = Node(graph.fresh(f"{outer.name}/{parts[0]}"), Concat(), parts)
            start = outer.inputs.index(parts[0])
            inputs = (*outer.inputs[:start], concat.name, *outer.inputs[start + len(parts) :])
            nodes[outer.name] = replace(outer, inputs=inputs)
            inner.setdefault(outer.name, []).append(concat)
            group = PathGroup(group.branches, concat)
        result.append(group)
    ordered = [n for node in nodes.values() for n in (*inner.get(node.name, ()), node)]
    return (Graph(tuple(ordered), graph.outputs) if inner else graph), result


def _command(graph: Graph, group: PathGroup, *, transposed: bool) -> Command:
    """The command of a group of paths."""
    assignments, first = [], 0
    for path in group.branches:
        for nodes in split_runs(path):
            external = nodes[-1] is path[-1]
            run = run_of(graph, nodes, transposed=transposed, external=external)
            if group.concat is not None and group.slices > 1:
                run = _slice_of(run, first, graph.shape(group.concat.name).channels)
            assignments.append(RunAssignment(nodes, run))
        first += assignments[-1].run.output.channels
    nodes = tuple(node for path in group.branches for node in path)
    head = nodes[0]
    if group.concat is None:
        inside = {node.name for node in nodes}
        operands = (name for node in nodes[1:] for name in node.inputs if name not in inside)
        reads = (head.inputs[0], *operands, *head.inputs[1:])
        return Command(LayerType.CONV, nodes, reads, nodes[-1].name, tuple(assignments))
    parts = tuple(path[-1].name for path in group.branches)
    return Command(
        LayerType.CONV, (*nodes, group.concat), head.inputs, group.concat.name, tuple(assignments), parts, group.slices
    )


def _slice_of(run: Run, first: int, whole: int) -> Run:
    """The run, whose kernels are those of some channels of a convolution. first: of them; whole: how many there are."""
    if run.convolution is None:
        return run
    weights = replace(run.convolution.weights, first=first, whole=whole)
    return replace(run, convolution=replace(run.convolution, weights=weights))
