"""Makes the whole report of a network: inspects it, converts it in memory, and verifies it if that is wanted."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path

from cnn_convertor.board.comparison import verify_board
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.errors import Problem, UnsupportedError, overheard
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.pipeline import Watched, counted_weights, look, quantize, whole_report, with_look
from cnn_convertor.progress import Progress, silent
from cnn_convertor.report.collecting import Findings, message_of, outline, report_of
from cnn_convertor.report.magnitudes import MagnitudeCounter, counted
from cnn_convertor.report.values import Report
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
    with overheard() as warned:
        report, problems = _find(config, progress, verified=verified, board=board, inputs=inputs)
    return Findings.of(replace(report, warnings=tuple(map(message_of, warned.problems))), problems)


def _find(
    config: Config, progress: Progress, *, verified: bool, board: Path | None, inputs: Path | None
) -> tuple[Report, tuple[Problem, ...]]:
    """The report, still without its problems, and these."""
    progress("read", 0, 1)
    watched = Watched.new()
    seen = look(config, observe=watched.passes)
    if seen.schedule is None:
        return with_look(outline(config), seen, config), seen.problems
    graph = seen.partial.graph
    made = quantize(graph, config, progress, planned=seen.lowered(config))
    problems, magnitudes = _packed(made.program, watched.magnitudes, progress)
    progress("report", 0, 1)
    report = report_of(made.program, config, calibration=made.calibration, kept=made.kept)
    report = whole_report(report, seen, made, config, watched._replace(magnitudes=magnitudes))
    if problems:
        return report, problems
    if board is not None:
        report = replace(report, board=verify_board(config, board, inputs=inputs, progress=progress))
    if not verified:
        return report, ()
    with temporary_folder() as folder:  # in place of that of the outputs, which a report does not judge
        apart = replace(config, output_folder=folder)
        found = verify(apart, graph=graph, made=made, inputs=inputs, layers=True, progress=progress)
    return replace(report, verified=found), ()


def _packed(
    program: Program, counter: MagnitudeCounter, progress: Progress
) -> tuple[tuple[Problem, ...], MagnitudeCounter]:
    """What prevents the weights from being packed, and how large they are. The packed weights are not kept."""
    try:
        pieces = encode_all(program.weights, transposed=program.transposed, observe=counter)
        deque(counted_weights(pieces, program, progress), maxlen=0)
    except UnsupportedError as error:  # the counter has not seen all weights
        return error.problems, counted(program)
    return (), counter
