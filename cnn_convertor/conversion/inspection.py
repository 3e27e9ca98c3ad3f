"""Inspects a network without converting it: where each layer runs, and what prevents a conversion."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from cnn_convertor.config import Config, is_model
from cnn_convertor.config.request import Request
from cnn_convertor.errors import ModelError, Problem, UnsupportedError, captured_warnings
from cnn_convertor.files.codec import as_text, to_values
from cnn_convertor.frontends.unsupported_formats import explain
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes.contract import Pass, run_passes
from cnn_convertor.pipeline import Analysis, analyze, load, passes_of
from cnn_convertor.report.collecting import Findings, message_of, outline, report_of
from cnn_convertor.report.values import SCHEMA, PassChange, Report
from cnn_convertor.report.whole import PassRecorder, with_analysis


def inspect(source: Config | str | Path, **device: Any) -> Report:
    """Inspect the network of a configuration, an ini file or a model file (.h5, .hdf5, .keras, .json, .prototxt).

    A .prototxt or .json needs no weights. device: options of Config, such as device, fusion and ub_size, where `source` is a file.
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
    return Findings.of(report, problems, analysis.notes)


def _planned(analysis: Analysis, request: Request) -> tuple[Report, tuple[Problem, ...]]:
    """The report of the program with FP16 weights; if there is none, the problems of the network or of the input."""
    if analysis.schedule is None:
        return outline(request), analysis.problems
    try:
        program = analysis.lowered(request.name)
        if request.preparation.is_whole:
            program = request.target.with_byte_input(program, request.preparation.of_every_byte())
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
    passes = passes_of(Request.of(config).target)
    if until is not None:
        passes = passes[: [each.name for each in passes].index(until) + 1]
    recorder = PassRecorder()
    graph = run_passes(passes, load(config), recorder, checks=True)
    return PassListing(passes, {change.name: change for change in recorder.changes}, graph)


# --- JSON ----------------------------------------------------------------------------------------------------------------

# Entries of a report that need packed weights, recorded passes or runs.
_OF_REPORTS_ALONE: Final = frozenset(
    ("weight_bytes", "weights", "palette_command_bytes", "calibration", "kept", "passes", "verified", "board", "notes")
)


def inspections_as_json(reports: Sequence[Report]) -> str:
    """Inspections of one network, for several devices or levels of fusion, in the form of reports."""
    return as_text({"schema": SCHEMA, "inspections": [_entries(report) for report in reports]})


def inspection_as_json(report: Report) -> str:
    """An inspection: a part of what `report --json` writes."""
    return as_text(_entries(report))


def _entries(report: Report) -> dict[str, Any]:
    return {name: item for name, item in to_values(report).items() if name not in _OF_REPORTS_ALONE}
