"""Inspects a network without converting it: where each layer runs, and what prevents a conversion."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cnn_convertor.config import Config, is_model
from cnn_convertor.config.request import DeviceOptions, Request
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.errors import ModelError, Problem, UnsupportedError, captured_warnings
from cnn_convertor.frontends import FRONTENDS
from cnn_convertor.frontends.unsupported_formats import explain
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes.contract import Pass, run_passes
from cnn_convertor.pipeline import Analysis, analyze, load, with_input
from cnn_convertor.report.collecting import Findings, message_of, outline, report_of
from cnn_convertor.report.form import to_values
from cnn_convertor.report.rows import Runs
from cnn_convertor.report.values import Message, ModelLayer, PassChange, Report
from cnn_convertor.report.whole import PassRecorder, with_analysis

SCHEMA = 2  # of the JSON form; increases when the meaning of an entry changes


def inspect(source: Config | str | Path, **device: Any) -> Report:
    """Inspect the network of a configuration, an ini file or a model file (.h5, .hdf5, .keras, .prototxt).

    A .prototxt needs no weights. device: options of Config, such as device, fusion and ub_size, where `source` is a file.
    Raises ConvertorError when a file cannot be read at all; what is wrong with single layers is in the report.
    """
    return find(source, **device).report


def find(source: Config | str | Path, **device: Any) -> Findings:
    """What `inspect` finds, and the problems with the paths of files."""
    if not isinstance(source, Config):
        path = Path(source)
        if problem := explain(path):
            raise ModelError(problem)
        if is_model(path) and path.exists():
            return _find(Config.of(path, **device), path.stem, with_weights=False)
        source = Config.read(path, **device)
    return _find(source, source.name, with_weights=True)


def compare(
    source: str | Path, *, devices: Sequence[str | None], levels: Sequence[str | None], **options: Any
) -> tuple[Findings, ...]:
    """Inspect a network for each device at each level of fusion, both as the ini file names them; None: the ini file's."""
    return tuple(find(source, device=device, fusion=level, **options) for device in devices for level in levels)


def _find(config: Config, network: str, *, with_weights: bool) -> Findings:
    request = Request.of(config)
    with captured_warnings() as warned:
        analysis = analyze(request, with_weights=with_weights)
        planned, problems = _planned(analysis, request)
        report = with_analysis(planned, analysis)
    report = replace(
        report,
        network=network,
        has_weights=with_weights or not request.model.may_lack_weights,
        warnings=tuple(map(message_of, warned.problems)),
    )
    return Findings.of(report, problems)


def _planned(analysis: Analysis, request: Request) -> tuple[Report, tuple[Problem, ...]]:
    """The report of the program with FP16 weights; if there is none, the problems of the network or of the input."""
    if analysis.schedule is None:
        return outline(request), analysis.problems
    try:
        program = with_input(analysis.lowered(request.name), request.preparation)
    except UnsupportedError as error:
        return outline(request), error.problems
    return report_of(program, request), ()


# --- passes --------------------------------------------------------------------------------------------------------------


class PassListing(NamedTuple):
    """passes: those that ran, in order. changes: of those that changed the graph, by name. graph: after the last one."""

    passes: tuple[Pass, ...]
    changes: Mapping[str, PassChange]
    graph: Graph


def list_passes(config: Config, until: str | None = None) -> PassListing:
    """Run the passes on a network, up to a named one, and check what each requires and ensures.

    Raises ConvertorError for a network that cannot be read.
    """
    passes = DeviceOptions.of(config).passes
    if until is not None:
        passes = passes[: [each.name for each in passes].index(until) + 1]
    recorder = PassRecorder()
    graph = run_passes(passes, load(config), recorder, checks=True)
    return PassListing(passes, {change.name: change for change in recorder.changes}, graph)


# --- JSON ----------------------------------------------------------------------------------------------------------------


def inspection_as_json(report: Report) -> str:
    """An inspection as docs/report.md describes it."""
    return json.dumps(_values(report), indent=2) + "\n"


def inspections_as_json(reports: Sequence[Report]) -> str:
    """Inspections of one network for several devices or levels of fusion."""
    return json.dumps({"schema": SCHEMA, "inspections": list(map(_values, reports))}, indent=2) + "\n"


def _values(report: Report) -> dict[str, Any]:
    assert report.work is not None
    share = report.share_on_device
    return {
        "schema": SCHEMA,
        "network": report.network,
        "device": report.device.name,
        "fusion": report.device.fusion,
        "file": report.file,
        "framework": next(frontend.name for frontend in FRONTENDS if frontend.title == report.framework),
        "has_weights": report.has_weights,
        "layers": [_layer_values(layer, report.problems) for layer in report.layers],
        "totals": {
            "layers": len(report.layers),
            "refused": sum(layer.runs == Runs.REFUSED.value for layer in report.layers),
            "parameters": report.parameters,
            "macs": report.macs,
            "macs_on_device": report.macs_on_device,
            "share_on_device": None if share is None else round(share, 6),
            "commands": report.work.commands,
            "cpu_layers": report.work.cpu_layers,
            "traffic_bytes": None if report.problems else report.traffic,
            "usec": None if report.problems else _rounded(report.usec),
        },
        "boundaries": to_values(report.boundaries),
        "normalizations": to_values(report.normalizations),
        "problems": to_values(report.problems),
        "costs": {"provenance": report.device.provenance, "commands": list(_costs(report))},
    }


def _layer_values(layer: ModelLayer, problems: Sequence[Message]) -> dict[str, Any]:
    own = [{"code": p.code, "message": p.message, "hint": p.hint} for p in problems if p.layer == layer.name]
    values: Mapping[str, Any] = to_values(layer)
    return {**{name: values[name] for name in _LAYER}, "problems": own}


_LAYER = ("name", "type", "outputs", "guessed", "parameters", "macs", "runs", "how", "steps")


def _rounded(usec: Interval) -> dict[str, float]:
    return {"low": round(usec.low, 3), "high": round(usec.high, 3)}


_COST = ("cycles", "input_bytes", "operand_bytes", "output_bytes", "weights_bytes", "bytes", "bound")


def _costs(report: Report) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(report.steps):
        if step.cost is not None:
            times = {name: _rounded(getattr(step.cost, name)) for name in ("command_usec", "usec")}
            cost = {**{name: getattr(step.cost, name) for name in _COST}, **times}
            yield {"step": number, "layers": list(step.layers), "runs": len(step.runs), **cost}
