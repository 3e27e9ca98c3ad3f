"""Decides which nodes can share a command, and says why others cannot."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from cnn_convertor.devices.dv700.commands import WITH_PACKED, is_view, joins_run, layer_type, run_of
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.forms import forms_of
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.fusion.tiling import RunGeometry
from cnn_convertor.devices.dv700.fusion.ub_fit import geometry, why_alone, why_apart
from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK
from cnn_convertor.devices.dv700.runs import Run
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Add, AveragePool2d, Conv2d, Dense, MaxPool2d, PRelu, Upsample

Path: TypeAlias = tuple[Node, ...]  # each node reads the one before it; an addition, as either of its inputs


class _Sized(NamedTuple):
    """A run, what it takes of the unified buffer in the middle and at the end of a branch, and why it must be alone."""

    run: Run
    inner: RunGeometry
    last: RunGeometry
    why_alone: str | None


class FusionRules:
    """What the commands of a graph can do at a level of fusion. on_device: the names of the nodes that run on the device."""

    def __init__(self, graph: Graph, fusion: Fusion, device: Device) -> None:
        self.graph, self.fusion, self.limits = graph, fusion, device.limits
        self.allowed, self.possible, self.device = device.forms[fusion], device.forms[Fusion.FULL], device.name
        workers = (node for node in graph.nodes if not is_view(node))
        self.on_device = {node.name for node in workers if layer_type(graph, node) is LayerType.CONV}
        self._sized: dict[tuple[str, ...], _Sized] = {}

    def joins(self, before: Node, after: Node) -> bool:
        """Whether the map between two neighbors may stay inside a command: only the second one reads it, in device order.

        Weights that the CPU packs are for the first run of a command.
        """
        on_device = (
            before.name in self.on_device and after.name in self.on_device and not isinstance(after.op, WITH_PACKED)
        )
        in_device_order = not isinstance(after.op, Dense) or self.graph.shape(before.name).is_vector
        return on_device and in_device_order and self.graph.is_private(before.name)

    def allow(self, branches: Sequence[Path]) -> bool:
        """Whether a single command can do the work of the branches."""
        return not self.why_not(branches)

    def why_not(self, branches: Sequence[Path]) -> str:
        """Why no single command does the work of the branches; empty when one does."""
        sized = self._sizes(branches)
        if sized is None:
            return "PReLU slopes travel with the kernels of a convolution"
        adds = any(isinstance(node.op, Add) for path in branches for node in path)
        return self._conflict(sized, adds=adds) or self._excluded(sized, adds=adds)

    def may_share(self, branches: Sequence[Path]) -> bool:
        """Whether some command contains the branches, perhaps with more beside them. More never need less of the unified buffer."""
        sized = self._sizes(branches)
        if sized is None or self._conflict(sized, adds=False):
            return False
        forms = forms_of([[one.run for one in runs] for runs in sized], adds=False, limits=self.limits)
        return set(forms) - {Form.CHANNEL_SPLIT} <= self.allowed  # other branches can mix channels

    def slices(self, path: Path) -> int | None:
        """The least number of branches, each with a slice of the channels, that do the work of a path in a single command.

        None if no number does. Each branch computes its channels from all of the command's input.
        """
        if not can_split(path):
            return None
        runs = [self.run(nodes) for nodes in split_runs(path)]
        for count in range(2, self.limits.max_runs // len(runs) + 1):
            parts = slices_of_channels(runs[-1].output.channels, count)
            if len(parts) == count and parts[-1].stop - parts[-1].start > 1:  # one channel has no depthwise convolution
                sized = [self._sliced(runs, part) for part in parts]
                if not (self._conflict(sized, adds=False) or self._excluded(sized, adds=False)):
                    return count
        return None

    def _sliced(self, runs: Sequence[Run], part: slice) -> list[_Sized]:
        """The runs of a branch that computes some channels. Their weights are still those of all channels."""
        channels = part.stop - part.start
        return [
            self._sized_run(
                replace(
                    run,
                    input=run.input._replace(channels=channels) if index else run.input,
                    output=run.output._replace(channels=channels),
                )
            )
            for index, run in enumerate(runs)
        ]

    def _conflict(self, branches: Sequence[Sequence[_Sized]], *, adds: bool) -> str:
        """Why the runs of the branches cannot share the unified buffer; empty if they can."""
        if sum(map(len, branches)) == 1:
            return ""
        if adds:
            return "an addition is the only run of its command"
        alone = (sized.why_alone for runs in branches for sized in runs)
        sizes = [sized.last if sized is runs[-1] else sized.inner for runs in branches for sized in runs]
        return next(filter(None, alone), None) or why_apart(branches[0][0].run.input, sizes, self.limits) or ""

    def _excluded(self, branches: Sequence[Sequence[_Sized]], *, adds: bool) -> str:
        """The form of command that the level of fusion or the device excludes, in a sentence; empty if there is none."""
        forms = forms_of([[sized.run for sized in runs] for runs in branches], adds=adds, limits=self.limits)
        form = next((form for form in forms if form not in self.allowed), None)
        if form is None:
            return ""
        excludes = f"fusion = {self.fusion.value}" if form in self.possible else f"the device {self.device}"
        return f"{excludes} excludes {form.words}"

    def run(self, nodes: Path) -> Run:
        """The run of some nodes. It has no palette; sizes do not depend on that."""
        return self._size(nodes).run

    def _sizes(self, branches: Sequence[Path]) -> list[list[_Sized]] | None:
        """The runs of each branch; None if PReLU slopes have no kernels to travel with."""
        split = [split_runs(path) for path in branches]
        if any(_has_stray_slopes(nodes) for runs in split for nodes in runs):
            return None
        return [[self._size(nodes) for nodes in runs] for runs in split]

    def _size(self, nodes: Path) -> _Sized:
        names = tuple(node.name for node in nodes)
        if names not in self._sized:
            self._sized[names] = self._sized_run(run_of(self.graph, nodes, transposed=False))
        return self._sized[names]

    def _sized_run(self, run: Run) -> _Sized:
        inner, last = (geometry(run, external=external) for external in (False, True))
        return _Sized(run, inner, last, why_alone(run, self.limits))


def split_runs(path: Path) -> tuple[Path, ...]:
    """The nodes of each run of a path, as many in one run as the device can do."""
    runs: list[Path] = []
    for node in path:
        if runs and joins_run(runs[-1], node):
            runs[-1] = (*runs[-1], node)
        else:
            runs.append((node,))
    return tuple(runs)


def can_split(path: Path) -> bool:
    """Whether a path of several runs can be computed in slices of channels: only a convolution at its start mixes them."""
    first, *rest = path
    if not isinstance(first.op, Conv2d) or first.op.is_depthwise or not is_channelwise(rest):
        return False
    runs = split_runs(path)
    return len(runs) > 1 and not any(map(_has_stray_slopes, runs))


def is_channelwise(path: Sequence[Node]) -> bool:
    """Whether the nodes of a path compute each channel by itself."""
    return all(
        isinstance(node.op, MaxPool2d | AveragePool2d | Upsample)
        or (isinstance(node.op, Conv2d) and node.op.is_depthwise)
        for node in path
    )


def slices_of_channels(channels: int, count: int) -> list[slice]:
    """At most so many slices of whole chunks; the last one may be smaller."""
    size = -(-channels // (CHUNK * count)) * CHUNK
    return [slice(start, min(start + size, channels)) for start in range(0, channels, size)]


def _has_stray_slopes(nodes: Path) -> bool:
    """Whether a run has PReLU slopes but no kernels, in whose stream slopes stand."""
    slopes = any(isinstance(getattr(node.op, "activation", None), PRelu) for node in nodes)
    return slopes and not hasattr(nodes[0].op, "weight")
