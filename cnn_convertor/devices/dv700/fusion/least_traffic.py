"""A lower bound on the bytes of feature maps that commands move, found without choosing commands.

If every node has a command of its own, each map between two nodes is written and read. A map that stays inside a command saves both.
The bound subtracts the most that maps can save, as if two neighbors could share a command whenever the two alone fit it. What more
nodes need together, and that a command has at most 32 runs, is left out: no choice of commands moves less.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from cnn_convertor.devices.dv700.commands import Command, joins_in_place, joins_run
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.combining import FusionRules, Path, is_channelwise
from cnn_convertor.devices.dv700.fusion.levels import Form, Fusion
from cnn_convertor.devices.dv700.memory.placement import nbytes
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Add, Concat, Conv2d, MaxPool2d


class MapTraffic(NamedTuple):
    """Bytes of feature maps: what the commands move, and what they would move at least."""

    moved: int
    least: int

    @property
    def gap(self) -> float:
        """How much more they move than the lower bound, as a share of it."""
        return self.moved / self.least - 1 if self.least else 0.0


def map_traffic(legal: Graph, graph: Graph, steps: Sequence[Command], *, fusion: Fusion, device: Device) -> MapTraffic:
    """legal: the graph before it was partitioned into the steps; graph: the one with a node for the map of each."""
    return MapTraffic(sum(map_bytes(graph, step) for step in steps), least_map_bytes(legal, fusion, device))


def map_bytes(graph: Graph, step: Command) -> int:
    """Bytes of feature maps that a command moves, each tile's own columns only; 0 for other layers."""
    if not step.assignments:
        return 0
    starts = sum(run.external for run in step.runs)
    first, *operands = step.reads
    return starts * nbytes(graph, first) + sum(nbytes(graph, name) for name in (*operands, step.writes))


def least_map_bytes(graph: Graph, fusion: Fusion, device: Device) -> int:
    """The lower bound for a legal graph."""
    rules = FusionRules(graph, fusion, device)
    apart = sum(device.cost(graph, (graph[name],), 1).map_bytes for name in rules.on_device)
    return apart - _Savings(rules).total()


class _Saved(NamedTuple):
    """The most bytes that a node and those before it save.

    alone: when the node begins a command. plain: when its command has no addition. adding: when it has one, which is then its
    only run; None if the node cannot be in such a run.
    """

    alone: int
    plain: int
    adding: int | None

    @property
    def best(self) -> int:
        return self.plain if self.adding is None else max(self.plain, self.adding)


class _Savings:
    def __init__(self, rules: FusionRules) -> None:
        self.rules, self.graph = rules, rules.graph
        self.in_branch = self._parts()
        self.in_slices: set[str] = set()  # the nodes that slices of channels can contain, behind their convolution
        self.saved: dict[str, _Saved] = {}
        for node in self.graph.nodes:
            if node.name in rules.on_device:
                if is_channelwise((node,)) and any(self._begins_slices(before) for before in self._before(node)):
                    self.in_slices.add(node.name)
                self.saved[node.name] = self._of(node)

    def total(self) -> int:
        inner = {before.name for name in self.saved for before in self._before(self.graph[name])}
        return sum(saved.best for name, saved in self.saved.items() if name not in inner)

    def _before(self, node: Node) -> list[Node]:
        return [before for name in node.inputs if self.rules.joins(before := self.graph[name], node)]

    def _parts(self) -> set[str]:
        """The nodes that can be in one of several branches of a command, from one map to neighboring parts of a concatenation.

        More branches never need less of the unified buffer than two of them.
        """
        in_branches: set[str] = set()
        for concat in self.graph.nodes:
            if isinstance(concat.op, Concat) and joins_in_place(self.graph, concat):
                for one, other in pairwise(map(self._branch, concat.inputs)):
                    if one and other and one[0].inputs == other[0].inputs and self.rules.fit([one, other]):
                        in_branches |= {node.name for node in (*one, *other)}
        return in_branches

    def _branch(self, name: str) -> Path:
        """The whole path to a part; empty if no branch ends with it."""
        if name not in self.rules.on_device:
            return ()
        path: Path = (self.graph[name],)
        while not isinstance(path[0].op, Add) and (before := self._before(path[0])):
            path = (*before, *path)
        return () if isinstance(path[0].op, Add) else path

    def _of(self, node: Node) -> _Saved:
        before = self._before(node)
        alone = sum(self.saved[each.name].best for each in before)
        plain, adding = [alone], list[int]()
        for each in before:
            rest, saved = alone - self.saved[each.name].best, self.saved[each.name]
            if isinstance(node.op, Add):
                if joins_run((each,), node) and self.rules.allow([(each, node)]):
                    adding.append(rest + saved.alone + 2 * nbytes(self.graph, each.name))
                continue
            if saved.adding is not None and _may_join(each, node):
                adding.append(rest + saved.adding + 2 * nbytes(self.graph, each.name))
            if not isinstance(each.op, Add):
                plain.append(rest + saved.plain + self._between(each, node))
        return _Saved(alone, max(plain), max(adding, default=None))

    def _between(self, before: Node, after: Node) -> int:
        """The most bytes that the map between two neighbors saves in a command without an addition."""
        whole = 2 * nbytes(self.graph, before.name)
        if joins_run((before,), after):
            return whole if self.rules.allow([(before, after)]) else 0
        writers: list[Path] = [(before,)]
        writers += [(first, before) for first in self._before(before) if joins_run((first,), before)]
        if any(self._fit(writer, after) for writer in writers):
            return whole
        if Form.CHANNEL_SPLIT not in self.rules.allowed or after.name not in self.in_slices:
            return 0
        if before.name in self.in_slices:
            return whole
        slices = self.rules.slices((before, after))
        return max(0, whole - (slices - 1) * nbytes(self.graph, before.inputs[0])) if slices else 0

    def _begins_slices(self, node: Node) -> bool:
        """Whether a command can split the channels of the node, with more nodes behind it."""
        return node.name in self.in_slices or (isinstance(node.op, Conv2d) and not node.op.is_depthwise)

    def _fit(self, writer: Path, after: Node) -> bool:
        """Whether some command can contain a run and the one behind it."""
        in_branches = after.name in self.in_branch and Form.BRANCHES in self.rules.allowed
        forms = self.rules.forms_of_neighbors(writer, (after,), in_branches=in_branches)
        return forms is not None and forms - ({Form.CHAIN} if in_branches else set()) <= self.rules.allowed


def _may_join(before: Node, after: Node) -> bool:
    """Whether a node can be in the run of an addition, behind it."""
    return isinstance(before.op, Add) and isinstance(after.op, MaxPool2d)
