"""Makes the whole report of a network: inspects it, converts it in memory, and verifies it if that is wanted."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path

from cnn_convertor.board.board_comparison import verify_board
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.target import Quantized
from cnn_convertor.errors import Problem, UnsupportedError, captured_warnings
from cnn_convertor.pipeline import analyze, counted_weights, quantize
from cnn_convertor.progress import Progress, silent
from cnn_convertor.report.collecting import Findings, message_of, outline, report_of
from cnn_convertor.report.magnitudes import MagnitudeCounter, counted
from cnn_convertor.report.values import Report
from cnn_convertor.report.whole import ReportRecorder, whole_report, with_analysis
from cnn_convertor.trials.verify import verify


def report_on(
    config: Config,
    progress: Progress = silent,
    *,
    verified: bool = False,
    board: Path | None = None,
    inputs: Path | None = None,
) -> Report:
    """The report of a network, and of what prevents a conversion.

    verified: compare it with its framework, too. board: a folder in which a kit stored its results. inputs: for both, in
    place of random images.
    Raises ConvertorError when a file cannot be read at all. Warnings are in the report, and are issued as well.
    """
    return find(config, progress, verified=verified, board=board, inputs=inputs).report


def find(
    config: Config,
    progress: Progress = silent,
    *,
    verified: bool = False,
    board: Path | None = None,
    inputs: Path | None = None,
) -> Findings:
    """What `report_on` finds, and the problems with the paths of files."""
    with captured_warnings() as warned:
        report, problems, notes = _find(config, progress, verified=verified, board=board, inputs=inputs)
    return Findings.of(replace(report, warnings=tuple(map(message_of, warned.problems))), problems, notes)


def _find(
    config: Config, progress: Progress, *, verified: bool, board: Path | None, inputs: Path | None
) -> tuple[Report, tuple[Problem, ...], tuple[Problem, ...]]:
    """The report, still without its problems and the notes on them, and these."""
    progress("read", 0, 1)
    request, recorder = Request.of(config), ReportRecorder.new()
    analysis = analyze(request, observe=recorder.passes)
    if analysis.schedule is None:
        return with_analysis(outline(request), analysis), analysis.problems, analysis.notes
    graph = analysis.partial.graph
    quantized = quantize(graph, request, progress, plans=analysis.plans(request.name))
    problems, magnitudes = _packed(quantized, recorder.magnitudes, progress)
    progress("report", 0, 1)
    recorder = recorder._replace(magnitudes=magnitudes)
    report = report_of(quantized.program, request, calibration=quantized.calibration, budget=quantized.budget)
    report = whole_report(report, analysis, quantized, recorder)
    if problems:
        return report, problems, ()
    if board is not None:
        report = replace(report, board=verify_board(config, board, inputs=inputs, progress=progress))
    if not verified:
        return report, (), ()
    verification = verify(config, graph=graph, quantized=quantized, inputs=inputs, layers=True, progress=progress)
    return replace(report, verified=verification), (), ()


def _packed(
    quantized: Quantized, counter: MagnitudeCounter, progress: Progress
) -> tuple[tuple[Problem, ...], MagnitudeCounter]:
    """What prevents the weights from being packed, and how large they are. The packed weights are not kept."""
    try:
        pieces = quantized.target.pack(quantized.program, counter)
        deque(counted_weights(pieces, quantized.program, progress), maxlen=0)
    except UnsupportedError as error:  # the counter has not seen all weights
        return error.problems, counted(quantized.program)
    return (), counter
