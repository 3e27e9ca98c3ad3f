"""Prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnn_convertor.cli import grids, problems, tables, verdicts
from cnn_convertor.cli.bar import MOMENT, RareLines, TimedSteps, bar
from cnn_convertor.cli.grids import Item
from cnn_convertor.cli.problems import Complaint
from cnn_convertor.cli.tables import escape_controls, without_commands
from cnn_convertor.errors import Problem
from cnn_convertor.progress import silent
from cnn_convertor.workers.outcomes import DEBUG, Attempt, Outcome

if TYPE_CHECKING:
    from cnn_convertor.cli.live import LiveTable
    from cnn_convertor.conversion.convert import ConvertedNetwork
    from cnn_convertor.conversion.inspection import PassListing
    from cnn_convertor.progress import Progress
    from cnn_convertor.report.comparison import ReportDifference
    from cnn_convertor.report.values import Report
    from cnn_convertor.trials.sweep_results import Sweep
    from cnn_convertor.verification.on_board import BoardVerification
    from cnn_convertor.verification.results import Verification

DONE, FAILED, MISUSED = 0, 1, 2  # exit codes
ENDED = 128  # exit code of a signal: this and its number


def called() -> str:
    """How this program was called: its installed command, a script, or a module."""
    script = Path(sys.argv[0]).name
    if script == "__main__.py":
        return "python -m cnn_convertor"
    return f"python {script}" if script.endswith(".py") else script


class Console:
    """Prints for one command, and collects its exit code.

    level: -1 quiet, 0 normal, 1 with the time of each step, 2 with tracebacks. strict: warnings are errors.
    form: of problems, one of problems.FORMATS. code: the exit code, the worst of what was printed.
    """

    def __init__(self, level: int, *, strict: bool = False, form: str = problems.TEXT) -> None:
        self.code = DONE
        self._form = form
        self._complaints: list[Complaint] = []
        self._level = level
        self.strict = strict
        self._debugging = level > 1 or os.environ.get(DEBUG, "0") != "0"

    @property
    def is_for_programs(self) -> bool:
        """Whether problems are for other programs, which show the place of each."""
        return self._form != problems.TEXT

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Run a block; print its warnings and its error, which does not leave the block.

        With --strict the first warning ends the block, so that it writes no files.
        """
        with Attempt(strict=self.strict) as attempt:
            yield
        self.judge_outcome(attempt.outcome)

    def judge_outcome(self, outcome: Outcome[Any]) -> None:
        """Print the warnings and the problems of an outcome."""
        self._complain_of_all("warning", outcome.warnings)
        if self._debugging:
            for text in (*outcome.python_warnings, outcome.trace):
                _print(escape_controls(text), err=True)
        self._complain_of_all("error", outcome.problems)
        for problem in outcome.notes:
            self.complain("note", problem)
        if outcome.problems:
            self.code = max(self.code, MISUSED if outcome.is_misuse else FAILED)

    def _complain_of_all(self, kind: str, many: Sequence[Problem]) -> None:
        """Print problems; for a reader, each cause once."""
        for problem in many if self.is_for_programs else problems.by_cause(many):
            self.complain(kind, problem)

    def complain(self, kind: str, problem: Problem) -> None:
        """Print a problem; commands in its hint call the program as this one was called."""
        problem = replace(problem, hint=problem.hint.replace("cnn-convertor ", f"{called()} "))
        complaint = Complaint(kind, problem)
        if self._form == problems.TEXT:
            color = {"error": "red", "warning": "yellow", "note": "cyan"}[kind]
            _print(f"{click.style(kind, fg=color, bold=True)} {escape_controls(str(problem))}", err=True)
        elif self._form == problems.GITHUB:
            _print(problems.as_annotation(complaint), err=True)
        else:
            self._complaints.append(complaint)

    def close(self) -> None:
        """Print what is printed as a whole."""
        if self._form in problems.DOCUMENTS:
            self.json(problems.as_document(self._form, self._complaints))

    def find(self, problem: Problem) -> None:
        """Print what is wrong with something that was checked; the exit code is then 1."""
        self.complain("error", problem)
        self.fail()

    def show(self, text: str) -> None:
        """Print a result, a text."""
        if self._level >= 0:
            _print(escape_controls(text.rstrip("\n")))

    def markdown(self, text: str) -> None:
        """Print Markdown: formatted on a terminal, as it is elsewhere."""
        if sys.stdout.isatty():
            from rich.console import Console as Terminal  # here, as these take long to import
            from rich.markdown import Markdown

            Terminal().print(Markdown(text))
        else:
            self.data(text)

    def lines(self, items: Iterable[Item]) -> None:
        """Print a result of lines and tables, within the width of a terminal."""
        if self._level >= 0:
            _print_lines(items)

    def data(self, text: str) -> None:
        """Print a result for programs, even with -q."""
        _print(text.rstrip("\n"))

    def json(self, text: str) -> None:
        """Print JSON, even with -q. Names in it begin no command to a CI."""
        self.data(text.replace("##", "#\\u0023"))

    def note(self, text: str) -> None:
        if self._level >= 0:
            _print(escape_controls(text), err=True)

    @contextmanager
    def notes(self) -> Iterator[None]:
        """Print what the package logs in a block: when something begins that takes long, such as a compilation."""
        logger, handler = logging.getLogger("cnn_convertor"), _Notes(self.note)
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.setLevel(level)
            logger.removeHandler(handler)

    def result(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        self.lines(tables.labeled(title, rows))

    def conversion(self, network: str, title: str, converted: ConvertedNetwork, *, verbose: bool) -> None:
        """Print what a conversion made; if verbose, or with -v, also how weights are stored and further details."""
        from cnn_convertor.report.summary import details, summary

        verbose = verbose or self._level > 0
        report = converted.report
        if report.calibration is not None:
            self.lines(tables.calibration(network, report.calibration, with_layers=verbose))
        if verbose and any(weights.distinct is not None for weights in report.weights):
            self.lines(tables.weights(network, report.weights))
        rows = [*summary(report), *(("files", str(path)) for path in converted.files)]
        if verbose:
            more = details(report)
            labels = list(dict.fromkeys(label for label, _ in (*rows, *more)))
            rows = sorted([*rows, *more], key=lambda row: labels.index(row[0]))
        self.result(title, rows)

    def report(
        self,
        findings: Report,
        problems: Sequence[Problem],
        notes: Sequence[Problem],
        files: Sequence[Path],
        compared: Sequence[ReportDifference] | None,
    ) -> None:
        """Print a report's summary, its files, its verifications, and what differs from an earlier report.

        The exit code is 1 if the network cannot be converted, or does not pass.
        """
        from cnn_convertor.report.summary import summary

        self._complain_of_all("error", problems)
        if problems:
            self.fail()
        for problem in notes:
            self.complain("note", problem)
        rows = [*(summary(findings) if findings.steps else ()), *(("files", str(path)) for path in files)]
        if rows:
            self.result(findings.network, rows)
        if findings.verified is not None:
            self.verification(findings.verified)
        if findings.board is not None:
            self.board_verification(findings.board)
        if compared is not None:
            self.lines(tables.differences(compared))

    def verification(self, result: Verification, ini: Path | None = None) -> None:
        """Print a verification; the exit code is 1 unless it passed. ini: what was verified, for other programs."""
        from cnn_convertor.trials.verify import stale_problem

        self._judge(verdicts.verification(result), ini, None if result.passed else verdicts.verdict(result))
        for each in result.stale_files:
            self.find(stale_problem(each))

    def board_verification(self, result: BoardVerification, ini: Path | None = None) -> None:
        """Print how a board compares; the exit code is 1 unless it passed. ini: what was verified, for other programs."""
        self._judge(verdicts.board_verification(result), ini, None if result.passed else verdicts.board_verdict(result))

    def _judge(self, lines: Iterable[Item], ini: Path | None, failure: str | None) -> None:
        """Print lines, even with -q if there is a failure, which is a problem for other programs."""
        if self._form not in problems.DOCUMENTS and (self._level >= 0 or failure is not None):
            _print_lines(lines)
        if failure is not None:
            self.fail()
            if self.is_for_programs:
                from cnn_convertor.trials.verify import failure_problem

                self.complain("error", failure_problem(failure, ini))

    def sweep(self, result: Sweep) -> None:
        """Print a comparison of variants, and why some of them cannot be converted; the exit code is then 1."""
        self.lines(tables.sweep(result))
        for problem in dict.fromkeys(problem for row in result.rows for problem in row.warnings):
            self.complain("warning", problem)
        for problem in result.problems:
            self.find(problem)

    def inspection(self, result: Report, problems: Sequence[Problem], notes: Sequence[Problem]) -> None:
        """Print an inspection, the problems that do not belong to one layer, and the notes."""
        self.lines(tables.inspection(result, verbose=self._level > 0))
        shown = {layer.name for layer in result.layers} if self._level >= 0 else set()
        self._complain_of_all("error", [p for p in problems if p.where is None or p.where.layer not in shown])
        for problem in notes:
            self.complain("note", problem)

    def passes(self, result: PassListing, *, with_graph: bool) -> None:
        """Print what passes change; with -v, also what they require and ensure."""
        self.lines(tables.passes(result, verbose=self._level > 0, with_graph=with_graph))

    def fail(self) -> None:
        """Set the exit code to 1, at least."""
        self.code = max(self.code, FAILED)

    @contextmanager
    def table(self, names: Sequence[str]) -> Iterator[LiveTable | _Lines]:
        """Show the networks being converted: a table of the current ones on a terminal, otherwise a line for each."""
        if self._level < 0 or not _draws(sys.stderr):
            yield _Lines(names, self.note)
            return
        from cnn_convertor.cli.live import LiveTable

        with LiveTable([escape_controls(name) for name in names]).shown() as table:
            yield table

    @contextmanager
    def progress(self, title: str, *, verbose: bool = False) -> Iterator[Progress]:
        """Show the progress of `title` once it takes longer than a moment: a bar on a terminal; with -v a line for each step."""

        def say(text: str) -> None:
            self.note(f"{title}: {text}")

        if self._level < 0:
            yield silent
        elif verbose or self._level > 0:
            steps = TimedSteps(say)
            yield steps
            steps.end()
        elif _draws(sys.stderr):
            with bar(title, moment=MOMENT) as state:
                yield state
        else:
            yield RareLines(say)

    @contextmanager
    def working(self, title: str, step: str) -> Iterator[None]:
        """Show a step whose progress is unknown."""
        with self.progress(title) as progress:
            progress(step, 0, 1)
            yield


class _Lines:
    """In place of LiveTable, where no terminal shows one: a line for each network that is done, in their order."""

    def __init__(self, names: Sequence[str], say: Callable[[str], None]) -> None:
        self._names = names
        self._say = say

    def start(self, number: int) -> None:
        pass

    def end(self, number: int, *, failed: bool) -> None:
        pass

    @contextmanager
    def paused(self, number: int, how: str) -> Iterator[None]:
        self._say(f"{self._names[number]}: {how}")
        yield


class _Notes(logging.Handler):
    """Passes what the package logs on as text."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())


def _print_lines(items: Iterable[Item]) -> None:
    if _draws(sys.stdout):
        _print(without_commands(grids.fitted(items, shutil.get_terminal_size().columns)))
    else:
        _print(escape_controls(grids.plain(items)))


def _draws(stream: Any) -> bool:
    return stream is not None and bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def _print(text: str, *, err: bool = False) -> None:
    click.echo(text, err=err, color=False if os.environ.get("NO_COLOR") else None)
