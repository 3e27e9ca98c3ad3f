"""What one command can do: which neighbors it can join, and why it cannot do the work of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from cnn_convertor.devices.dv700.commands import is_view, joins_run, layer_type, run_of
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.fusion.tiling import RunGeometry
from cnn_convertor.devices.dv700.fusion.ub_fit import geometry, why_alone, why_apart
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.program import LayerType, Run
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Add, Dense, PRelu

Path: TypeAlias = tuple[Node, ...]  # each node reads the one before it; an addition, as either of its inputs


class _Unit(NamedTuple):
    """A run, what it counts for the unified buffer within a branch and at its end, and why it must be alone."""

    run: Run
    inner: RunGeometry
    last: RunGeometry
    why_alone: str | None


class FusionRules:
    """What commands can do in a graph. device: the names of the nodes that run on it."""

    def __init__(self, graph: Graph, fusion: Fusion, limits: Limits) -> None:
        self.graph, self.fusion, self.limits = graph, fusion, limits
        workers = (node for node in graph.nodes if not is_view(node))
        self.device = {node.name for node in workers if layer_type(graph, node) is LayerType.CONV}
        self._units: dict[tuple[str, ...], _Unit] = {}

    def joins(self, before: Node, after: Node) -> bool:
        """Whether the boundary between neighbors may vanish: the second one alone sees the map, as it lies."""
        on_device = before.name in self.device and after.name in self.device
        as_it_lies = not isinstance(after.op, Dense) or self.graph.shape(before.name).is_vector
        return on_device and as_it_lies and self.graph.is_private(before.name)

    def why_not(self, branches: Sequence[Path]) -> str | None:
        """Why no command does the work of the branches; None when one does."""
        runs = [split for path in branches for split in split_runs(path)]
        if any(_has_stray_slopes(nodes) for nodes in runs):
            return "PReLU slopes travel with the kernels of a convolution"
        adds = any(isinstance(node.op, Add) for path in branches for node in path)
        if len(runs) == 1:
            allowed = self.fusion is Fusion.FULL or not adds or len(runs[0]) == 1
            return None if allowed else f"fusion = {self.fusion.value}: an addition has a command of its own"
        if adds:
            return "an addition is the only run of its command"
        if self.fusion is Fusion.NONE or (self.fusion is Fusion.CONSERVATIVE and len(runs) > len(branches)):
            return f"fusion = {self.fusion.value}: one run after another needs a command of its own"
        alone = (reason for nodes in runs if (reason := self._unit(nodes).why_alone) is not None)
        if (reason := next(alone, None)) is not None:
            return reason
        given = [
            self._unit(nodes).last if nodes[-1] is path[-1] else self._unit(nodes).inner
            for path in branches
            for nodes in split_runs(path)
        ]
        return why_apart(self.run(runs[0]).input, given, self.limits)

    def run(self, nodes: Path) -> Run:
        """The run of some nodes, as far as sizes go."""
        return self._unit(nodes).run

    def _unit(self, nodes: Path) -> _Unit:
        names = tuple(node.name for node in nodes)
        if names not in self._units:
            run = run_of(self.graph, nodes, palette=False, transposed=False)
            inner, last = (geometry(run, external=external) for external in (False, True))
            self._units[names] = _Unit(run, inner, last, why_alone(run, self.limits))
        return self._units[names]


def split_runs(path: Path) -> tuple[Path, ...]:
    """The nodes of each run of a path, as many in one run as the device can do."""
    runs: list[Path] = []
    for node in path:
        if runs and joins_run(runs[-1], node):
            runs[-1] = (*runs[-1], node)
        else:
            runs.append((node,))
    return tuple(runs)


def _has_stray_slopes(nodes: Path) -> bool:
    """Whether a run has PReLU slopes, but no kernels to travel with."""
    slopes = any(isinstance(getattr(node.op, "activation", None), PRelu) for node in nodes)
    return slopes and not hasattr(nodes[0].op, "weight")
