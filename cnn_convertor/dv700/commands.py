"""What one command can do: which neighbours it can join, and why it cannot do the work of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from cnn_convertor.dv700.fitting import why_apart
from cnn_convertor.dv700.fusion import Fusion
from cnn_convertor.dv700.limits import Limits
from cnn_convertor.dv700.program import LayerType, Run
from cnn_convertor.dv700.steps import is_view, joins_run, layer_type, run_of
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Add, Dense, PRelu

Path: TypeAlias = tuple[Node, ...]  # each node reads the one before it; an addition, as either of its inputs


class Possible:
    """What commands can do in a graph. device: the names of the nodes that run on it."""

    def __init__(self, graph: Graph, fusion: Fusion, limits: Limits) -> None:
        self.graph, self.fusion, self.limits = graph, fusion, limits
        workers = (node for node in graph.nodes if not is_view(node))
        self.device = {node.name for node in workers if layer_type(graph, node) is LayerType.CONV}
        self._runs: dict[tuple[str, ...], Run] = {}

    def joins(self, before: Node, after: Node) -> bool:
        """Whether the boundary between neighbours may vanish: the second one alone sees the map, as it lies."""
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
        given = [
            replace(self.run(nodes), external=nodes[-1] is path[-1]) for path in branches for nodes in split_runs(path)
        ]
        return why_apart(given, self.limits)

    def run(self, nodes: Path) -> Run:
        """The run of some nodes, as far as sizes go."""
        names = tuple(node.name for node in nodes)
        if names not in self._runs:
            self._runs[names] = run_of(self.graph, nodes, palette=False, transposed=False)
        return self._runs[names]


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
