"""Adds to a conversion's report what takes time to find: where layers run, what passes do, how large weights are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from cnn_convertor.devices.dv700.fusion.boundaries import Boundary
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.ir.graph import Graph, describe
from cnn_convertor.passes import PASSES
from cnn_convertor.report import values
from cnn_convertor.report.magnitudes import MagnitudeCounter
from cnn_convertor.report.rows import Row
from cnn_convertor.report.values import Report


def with_layers(report: Report, rows: Iterable[Row], boundaries: Sequence[Boundary]) -> Report:
    """The report with the framework's layers, and the reasons why commands end."""
    named = tuple(values.CommandBoundary(*each) for each in boundaries)
    steps = (
        replace(step, ends=tuple(f"{b.after}: {b.reason}" for b in named if b.before in step.layers))
        for step in report.steps
    )
    return replace(report, layers=tuple(map(_layer, rows)), boundaries=named, steps=tuple(steps))


def _layer(row: Row) -> values.ModelLayer:
    return values.ModelLayer(
        name=row.origin.layer,
        type=row.origin.type,
        outputs=row.outputs,
        parameters=row.parameters,
        macs=row.macs,
        runs=row.runs.value,
        how=row.how,
        steps=row.steps,
    )


def with_magnitudes(report: Report, program: Program, counter: MagnitudeCounter) -> Report:
    """The report with the sizes of the weights, all of which the counter has seen."""
    packed = [weights for weights in program.weights if weights.choice is not None]
    stored = zip(report.weights, packed, strict=True)
    return replace(report, weights=tuple(replace(each, magnitudes=counter.of(weights)) for each, weights in stored))


def with_passes(report: Report, graph: Graph, legal: Graph) -> Report:
    """The report with what the passes change. graph: as it was read; legal: as it was legalized."""
    return replace(report, passes=tuple(_passes(graph, legal)))


def _passes(graph: Graph, legal: Graph) -> Iterator[values.Pass]:
    """Every rewrite that changes the graph, in order; those for the device as one."""
    for rewrite in PASSES:
        after = rewrite(graph)
        if change := _change(_words(rewrite), graph, after):
            yield change
        graph = after
    if change := _change("legalize for the device", graph, legal):
        yield change


def _words(rewrite: Callable[[Graph], Graph]) -> str:
    return rewrite.__name__.replace("_", " ")


def _change(name: str, before: Graph, after: Graph) -> values.Pass | None:
    """What a rewrite changed, as lines of nodes; None if nothing."""
    old, new = _lines(before, after), _lines(after, before)
    removed = tuple(line for node, line in old.items() if new.get(node) != line)
    added = tuple(line for node, line in new.items() if old.get(node) != line)
    return values.Pass(name, removed, added) if removed or added else None


def _lines(graph: Graph, other: Graph) -> dict[str, str]:
    """The nodes of a graph that are not the very same in the other one."""
    return {
        node.name: f"{node.name} = {describe(node.op)}({', '.join(node.inputs)}) -> {graph.shape(node.name)}"
        for node in graph.nodes
        if node.name not in other or other[node.name] is not node or other.shape(node.name) != graph.shape(node.name)
    }
