"""Makes the whole report of a network: inspects it, converts it in memory, and verifies it if that is wanted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

from cnn_convertor import __version__
from cnn_convertor.config import Config
from cnn_convertor.errors import ConvertorWarning, Problem
from cnn_convertor.inspection import Inspection, Row, look
from cnn_convertor.ir.graph import Graph, describe
from cnn_convertor.passes import PASSES
from cnn_convertor.pipeline import DeviceOptions, Legalized, Progress, lower_schedule, quantize
from cnn_convertor.report import values
from cnn_convertor.report.collecting import device_of, magnitudes, message_of, report_of
from cnn_convertor.report.values import Report
from cnn_convertor.samples import Preparation
from cnn_convertor.trials import verify
from cnn_convertor.verification.compare import Comparison
from cnn_convertor.verification.results import Verification


def report_on(config: Config, progress: Progress = lambda *_: None, *, verified: bool = False) -> Report:
    """The report of a network, and of what prevents a conversion. verified: compare it with its framework, too.

    Raises ConvertorError when a file cannot be read at all. Warnings are in the report, and are issued as well.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvertorWarning)
        report = _report_on(config, progress, verified=verified)
    found: dict[Problem, None] = {}
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
        if isinstance(warning.message, ConvertorWarning):
            found |= dict.fromkeys(warning.message.problems)
    return replace(report, warnings=tuple(map(message_of, found)))


def _report_on(config: Config, progress: Progress, *, verified: bool) -> Report:
    progress("inspect", 0, 1)
    seen = look(config)
    inspected = seen.inspection(config.name)
    if seen.schedule is None:
        return _inspected(_empty(config), inspected)
    graph, target = seen.partial.graph, DeviceOptions.of(config)
    planned = lower_schedule(graph, config.name, seen.legalized, seen.schedule, target)
    program, calibration, kept = quantize(graph, config, progress, planned=planned)
    report = _inspected(report_of(program, config, calibration=calibration, kept=kept), inspected)
    progress("weights", 0, 1)
    packed = [weights for weights in program.weights if weights.choice is not None]
    stored = zip(report.weights, packed, strict=True)
    report = replace(
        report,
        weights=tuple(replace(each, magnitudes=magnitudes(weights)) for each, weights in stored),
        passes=tuple(_passes(graph, seen.legalized)),
    )
    if not verified:
        return report
    progress("verify", 0, 1)
    return replace(report, verified=verified_of(verify(config, graph=graph, layers=True)))


def _empty(config: Config) -> Report:
    """What is known of a network that cannot be converted."""
    preparation = Preparation.of(config)
    return Report(
        schema=values.SCHEMA,
        convertor=__version__,
        network=config.name,
        file=config.definition.name,
        framework=config.origin.title,
        device=device_of(config.profile, fusion=config.fusion, transposed=config.transpose_weight),
        preprocessing=values.Preprocessing(preparation.channel_order, preparation.mean, preparation.scale),
    )


def _inspected(report: Report, inspected: Inspection) -> Report:
    boundaries = tuple(values.Boundary(*each) for each in inspected.boundaries)
    return replace(
        report,
        problems=tuple(map(message_of, inspected.problems)),
        layers=tuple(map(_layer, inspected.rows)),
        boundaries=boundaries,
        steps=tuple(
            replace(
                step,
                ends=tuple(f"{b.after}: {b.reason}" for b in boundaries if b.before in step.layers),
            )
            for step in report.steps
        ),
    )


def _layer(row: Row) -> values.ModelLayer:
    return values.ModelLayer(
        name=row.origin.layer,
        type=row.origin.type,
        outputs=tuple(tuple(shape) for shape in row.outputs),
        parameters=row.parameters,
        macs=row.macs,
        runs=row.runs.value,
        how=row.how,
        steps=row.steps,
    )


# --- passes --------------------------------------------------------------------------------------------------------------


def _passes(graph: Graph, legalized: Legalized) -> Iterator[values.Pass]:
    """Every rewrite that changes the graph, in order; those for the device as one."""
    for rewrite in PASSES:
        after = rewrite(graph)
        if change := _change(_words(rewrite), graph, after):
            yield change
        graph = after
    if change := _change("legalize for the device", graph, legalized.graph):
        yield change


def _words(rewrite: Callable[[Graph], Graph]) -> str:
    return rewrite.__name__.replace("_", " ")


def _change(name: str, before: Graph, after: Graph) -> values.Pass | None:
    """What a rewrite changed, as lines of nodes; None if nothing."""
    old, new = _lines(before), _lines(after)
    removed = tuple(line for node, line in old.items() if new.get(node) != line)
    added = tuple(line for node, line in new.items() if old.get(node) != line)
    return values.Pass(name, removed, added) if removed or added else None


def _lines(graph: Graph) -> dict[str, str]:
    return {
        node.name: f"{node.name} = {describe(node.op)}({', '.join(node.inputs)}) -> {graph.shape(node.name)}"
        for node in graph.nodes
    }


# --- verification --------------------------------------------------------------------------------------------------------


def verified_of(result: Verification) -> values.Verified:
    """A verification as a part of the report."""
    return values.Verified(
        framework=result.framework,
        inputs=result.inputs,
        samples=result.samples,
        min_sqnr=result.min_sqnr,
        passed=result.passed,
        first_jump=result.first_jump,
        outputs=tuple(_error(output, "") for output in result.outputs),
        layers=tuple(
            replace(_error(layer.comparison, layer.type), causes=tuple((c.cause.value, c.sqnr) for c in layer.causes))
            for layer in result.layers
        ),
    )


def _error(found: Comparison, kind: str) -> values.MapError:
    return values.MapError(found.name, kind, found.sqnr, found.max_error, ())
