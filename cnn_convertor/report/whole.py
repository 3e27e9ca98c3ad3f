"""Adds to a conversion's report what takes time to collect: where layers run, what passes do, how large weights are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cnn_convertor.devices.program import Program
from cnn_convertor.devices.target import Boundary, PlannedLayer, Quantized
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes.contract import Pass
from cnn_convertor.passes.normalization import input_normalizations
from cnn_convertor.pipeline import Analysis, Observers, analyze_graph
from cnn_convertor.report import values
from cnn_convertor.report.magnitudes import MagnitudeCounter
from cnn_convertor.report.rows import ON_DEVICE, Runs, boundaries_of, rows, work_of
from cnn_convertor.report.values import Report


class ReportRecorder(NamedTuple):
    """What is recorded for a report while a network is converted."""

    passes: PassRecorder
    magnitudes: MagnitudeCounter

    @staticmethod
    def new() -> ReportRecorder:
        return ReportRecorder(PassRecorder(), MagnitudeCounter())

    @property
    def observers(self) -> Observers:
        return Observers(self.passes, self.magnitudes)


def whole_report(report: Report, analysis: Analysis, quantized: Quantized, recorder: ReportRecorder) -> Report:
    """The report of a program with all that takes time: where layers run, what the passes do, how large weights are."""
    if quantized.target != analysis.target:  # the palettes decided otherwise than planned
        recorder = recorder._replace(passes=PassRecorder())
        analysis = analyze_graph(analysis.partial, quantized.target, recorder.passes)
    sized = with_magnitudes(with_analysis(report, analysis), quantized.program, recorder.magnitudes)
    return replace(sized, passes=recorder.passes.passes(analysis.legalized.graph))


def with_analysis(report: Report, analysis: Analysis) -> Report:
    """The report with layers, where each runs, and why commands end."""
    steps = work_of(analysis.partial, analysis.steps)
    report = replace(
        report,
        layers=tuple(rows(analysis.partial, steps, analysis.problems)),
        normalizations=() if analysis.partial.problems else input_normalizations(analysis.partial.graph),
    )
    report = replace(report, work=_work(report, analysis.legalized.graph, tuple(steps.values())))
    if analysis.problems:
        return report
    assert report.work is not None, "just counted"
    moved, least = analysis.target.map_traffic(analysis.legalized)
    report = replace(report, work=report.work._replace(map_bytes=moved, least_map_bytes=least))
    return with_boundaries(report, boundaries_of(analysis.legalized, analysis.target))


def _work(report: Report, graph: Graph, steps: Sequence[PlannedLayer]) -> values.Work:
    """The sums over a report's layers, and over the steps that compute layers of the network."""
    executors = [step.type.executor for step in steps]
    return values.Work(
        commands=executors.count("device"),
        cpu_layers=executors.count("cpu"),
        layers=len(report.layers),
        refused=sum(layer.runs == Runs.REFUSED.value for layer in report.layers),
        parameters=report.parameters,
        macs=report.macs,
        macs_on_device=_macs_on_device(report, graph, steps),
        **(_times(report) if report.steps else {}),
    )


def _macs_on_device(report: Report, graph: Graph, steps: Sequence[PlannedLayer]) -> int:
    """Those of layers on the device, without what the CPU multiplies of layers that run on both."""
    macs = {layer.name: layer.macs or 0 for layer in report.layers if Runs(layer.runs) in ON_DEVICE}
    for step in steps:
        if step.type.executor != "cpu":
            continue
        for node in step.nodes:
            if node.where is not None and node.where.layer in macs:
                macs[node.where.layer] -= min(macs[node.where.layer], graph.multiplications(node))
    return sum(macs.values())


def _times(report: Report) -> dict[str, Any]:
    names = ("device_usec", "cpu_usec", "between_usec")
    parts = dict(zip(names, report.usec_by_part.values(), strict=True))
    return {"traffic_bytes": report.traffic, "usec": report.usec, **parts}


def with_boundaries(report: Report, boundaries: Sequence[Boundary]) -> Report:
    """The report with the reasons why commands end."""
    named = tuple(values.CommandBoundary(*each) for each in boundaries)
    starting: dict[str, list[int]] = {}
    for number, boundary in enumerate(named):
        starting.setdefault(boundary.before, []).append(number)

    def ends(layers: Sequence[str]) -> Iterator[str]:
        for number in sorted(number for layer in dict.fromkeys(layers) for number in starting.get(layer, ())):
            yield f"{named[number].after}: {named[number].reason}"

    steps = (step._replace(ends=tuple(ends(step.layers))) for step in report.steps)
    return replace(report, boundaries=named, steps=tuple(steps))


def with_magnitudes(report: Report, program: Program, counter: MagnitudeCounter) -> Report:
    """The report with the sizes of the weights, all of which the counter has seen."""
    packed = [weights for weights in program.weights if weights.choice is not None]
    stored = zip(report.weights, packed, strict=True)
    return replace(report, weights=tuple(each._replace(magnitudes=counter.of(weights)) for each, weights in stored))


class PassRecorder:
    """Notes what each pass changes while a graph is optimized and legalized."""

    def __init__(self) -> None:
        self.changes: list[values.PassChange] = []
        self._graph: Graph | None = None

    def __call__(self, each: Pass, before: Graph, after: Graph) -> None:
        self.changes += _change(each.name, before, after)
        self._graph = after

    def passes(self, partitioned: Graph) -> tuple[values.PassChange, ...]:
        """Every pass that changed the graph, in order. partitioned: the graph of the program."""
        assert self._graph is not None, "no passes ran"
        return (*self.changes, *_change("partition", self._graph, partitioned))


def _change(name: str, before: Graph, after: Graph) -> Iterator[values.PassChange]:
    """What a pass changed, as lines of nodes, if anything."""
    old, new = _lines(before, after), _lines(after, before)
    removed = tuple(line for node, line in old.items() if new.get(node) != line)
    added = tuple(line for node, line in new.items() if old.get(node) != line)
    if before.outputs != after.outputs:
        removed = (*removed, before.outputs_line)
        added = (*added, after.outputs_line)
    if removed or added:
        yield values.PassChange(name, removed, added)


def _lines(graph: Graph, other: Graph) -> dict[str, str]:
    """The nodes of a graph that are not the very same in the other one."""
    return {
        node.name: graph.line(node)
        for node in graph.nodes
        if node.name not in other or other[node.name] is not node or other.shape(node.name) != graph.shape(node.name)
    }
