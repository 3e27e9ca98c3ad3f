"""What the program says: results on standard output, everything else on standard error."""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnn_convertor.errors import ConvertorError, ConvertorWarning, Origin, Problem, UsageError

if TYPE_CHECKING:
    from cnn_convertor.calibration import Calibration
    from cnn_convertor.devices.dv700.weights.palette_report import StoredLayer
    from cnn_convertor.inspection import Inspection, Row
    from cnn_convertor.pipeline import Progress
    from cnn_convertor.verification.compare import Comparison
    from cnn_convertor.verification.report import Verification

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130  # exit codes
DEBUG = "CNN_CONVERTOR_DEBUG"
LARGEST_HALF = 65504.0

# Model files name their layers as they like; what would steer a terminal is shown as an escape.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in b"\n\t"}


class Terminal:
    """Says things to the user: results on standard output, everything else on standard error.

    level: -1 quiet, 0 normal, 1 with the time of each step, 2 with tracebacks.
    code: what the program is to end with, the worst of what was said.
    """

    def __init__(self, level: int) -> None:
        self.code = DONE
        self._level = level
        self._debugging = level > 1 or os.environ.get(DEBUG, "0") != "0"

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Do something; what it warns of and how it fails is said, and does not leave the block."""
        failure: Exception | None = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvertorWarning)
            try:
                yield
            except BrokenPipeError:  # nobody listens any more
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, no traceback reaches a user
                failure = error
        # The same warning comes once, however many places see its reason.
        for problem in dict.fromkeys(w.message.problem for w in caught if isinstance(w.message, ConvertorWarning)):
            self.complain("warning", problem)
        for other in caught:
            if self._debugging and not isinstance(other.message, ConvertorWarning):
                _print(warnings.formatwarning(other.message, other.category, other.filename, other.lineno), err=True)
        if failure is not None:
            self._fail(failure)

    def _fail(self, error: Exception) -> None:
        if self._debugging:
            _print("".join(traceback.format_exception(error)), err=True)
        for problem in _problems(error):
            self.complain("error", problem)
        self.code = max(self.code, MISUSED if isinstance(error, UsageError) else FAILED)

    def complain(self, kind: str, problem: Problem) -> None:
        color = {"error": "red", "warning": "yellow"}[kind]
        _print(f"{click.style(kind, fg=color, bold=True)} {_tame(str(problem))}", err=True)

    def find(self, problem: Problem) -> None:
        """Tell what is wrong with something that was checked; the program ends with 1."""
        self.complain("error", problem)
        self.code = max(self.code, FAILED)

    def show(self, text: str) -> None:
        """A result that is a text already."""
        if self._level >= 0:
            _print(_tame(text.rstrip("\n")))

    def note(self, text: str) -> None:
        if self._level >= 0:
            _print(_tame(text), err=True)

    def result(
        self,
        title: str,
        rows: Sequence[tuple[str, str]],
        details: Sequence[tuple[str, str]] = (),
        *,
        verbose: bool = False,
    ) -> None:
        """A title and a table of (label, value); a label that comes again is not repeated.

        details: more rows, if verbose or with -v, each behind those of the same label.
        """
        if self._level < 0:
            return
        if verbose or self._level > 0:
            labels = list(dict.fromkeys(label for label, _ in (*rows, *details)))
            rows = sorted([*rows, *details], key=lambda row: labels.index(row[0]))
        width = max((len(label) for label, _ in rows), default=0)
        lines, before = [title], None
        for label, value in rows:
            lines.append(f"  {'' if label == before else label:{width}}  {value}")
            before = label
        _print(_tame("\n".join(lines)))

    def weights(self, network: str, layers: Sequence[StoredLayer], *, verbose: bool) -> None:
        """How the weights of each layer are stored, when some have a palette or might have one, for those who want to know."""
        if not (verbose or self._level > 0) or self._level < 0 or all(layer.distinct is None for layer in layers):
            return
        rows = [
            [
                layer.layer,
                "palette" if layer.palette else "FP16",
                *("" if layer.distinct is None else f"{layer.distinct:,}", _share(layer.zeros)),
                "" if layer.sqnr is None else _decibels(layer.sqnr),
                *(f"{size:,}" for size in (layer.fp16_bytes, layer.nbytes)),
                layer.reason.value,
            ]
            for layer in layers
        ]
        before, after = (sum(sizes) for sizes in zip(*((y.fp16_bytes, y.nbytes) for y in layers), strict=True))
        rows.append(["all", "", "", "", "", f"{before:,}", f"{after:,}", ""])
        _print(_tame("\n".join([f"{network}: weights", *(f"  {line}" for line in _table("layer", rows, _STORED))])))

    def calibration(self, network: str, result: Calibration, *, verbose: bool) -> None:
        """What sample inputs did for the palettes: for the outputs, and for each layer if that is wanted."""
        if self._level < 0:
            return
        layers = result.layers if verbose or self._level > 0 else ()
        tables = [("output", result.outputs), *([("layer", layers)] if layers else [])]
        samples = f"{result.samples} sample{'s' * (result.samples != 1)}"
        lines = [f"{network}: palettes calibrated with {samples} ({result.source}), against FP16 weights on the same"]
        for title, improvements in tables:
            rows = [[i.name, _decibels(i.before), _decibels(i.after)] for i in improvements]
            lines += [f"  {line}" for line in _table(title, rows, ("dB before", "dB after"))]
        _print(_tame("\n".join(lines)))

    def verification(self, result: Verification) -> None:
        """Show a verification; one that failed ends the program with 1, and says where to look."""
        weights = "palette weights" if result.palette else "FP16 weights"
        samples = f"{result.samples} sample{'s' * (result.samples != 1)}"
        title = f"{result.network} against {result.framework}, {weights}: {samples} ({result.inputs})"
        tables = [_table("output", [_cells(output) for output in result.outputs], _MEASURES)]
        if result.beside:
            rows = [
                [b.fp16.name, _decibels(b.fp16.sqnr), _decibels(b.palette.sqnr)]
                + [_share(share) for share in (b.fp16.top1, b.palette.top1, b.agreement)]
                for b in result.beside
            ]
            tables.append(_table("weights", rows, _BESIDE))
        if result.layers:
            causes = tuple(dict.fromkeys(c.cause for layer in result.layers for c in layer.causes))
            measures = (*_MEASURES, *(f"{cause.value} alone" for cause in causes))
            rows = [
                [f"{layer.comparison.name} ({layer.type})", *_cells(layer.comparison)[1:]]
                + [_decibels(c.sqnr) for c in layer.causes]
                for layer in result.layers
            ]
            tables.append(_table("layer", rows, measures))
        lines = [title]
        for table in tables:
            lines += [*(f"  {line}" for line in table), ""]
        jump = "" if result.first_jump is None else f'; the error jumps at the layer "{result.first_jump}"'
        if result.passed:
            lines.append(f"pass: every output has {result.min_sqnr:g} dB or more{jump}")
        else:
            self.code = max(self.code, FAILED)
            bad = ", ".join(f'"{o.name}"' for o in result.outputs if o.sqnr < result.min_sqnr)
            lines.append(f"fail: {bad} below {result.min_sqnr:g} dB{jump}")
            if not any(layer.causes for layer in result.layers):
                lines.append("--attribute shows what each layer's error comes from, docs/verify.md what to do about it")
        if self._level >= 0 or not result.passed:
            _print(_tame("\n".join(lines)))

    def data(self, text: str) -> None:
        """A result for programs, which comes even when people want to read nothing."""
        _print(text.rstrip("\n"))

    def inspection(self, result: Inspection) -> None:
        """Show a table of layers, what they come to, and what to change."""
        if self._level >= 0:
            weights = "" if result.has_weights else ", without weights"
            lines = [f"{result.network} ({result.framework}, {result.file}{weights})", ""]
            lines += _layers(result, with_steps=self._level > 0)
            if self._level > 0 and result.boundaries:
                lines += ["", "Where a command ends though the device goes on:"]
                lines += [_tame(f"  {b.before} | {b.after}: {b.reason}") for b in result.boundaries]
            lines += ["", *map(_tame, _totals(result))]
            _print("\n".join(lines))
        shown = {problem for row in result.rows for problem in row.problems}
        for problem in result.problems:
            if problem not in shown or self._level < 0:
                self.complain("error", problem)

    def judge(self, result: Inspection) -> None:
        """End with 1 when a network that was looked at cannot be converted."""
        if result.problems:
            self.code = max(self.code, FAILED)

    @contextmanager
    def progress(self, title: str, *, verbose: bool) -> Iterator[Progress]:
        """Show how far the work on `title` is: a bar on a terminal, a line for each step elsewhere."""
        timed = verbose or self._level > 0
        if self._level < 0:
            yield lambda *_: None
        elif timed or not _draws(sys.stderr):
            steps = _Steps(lambda text: _print(_tame(f"{title}: {text}"), err=True), timed=timed)
            yield steps
            steps.end()
        else:
            with _bar(title) as bar:
                yield bar


class _Steps:
    """Progress as lines: each step when it begins, or when it ends, with its time."""

    def __init__(self, say: Callable[[str], None], *, timed: bool) -> None:
        self._say = say
        self._timed = timed
        self._step = ""
        self._start = 0.0

    def __call__(self, step: str, *_: int) -> None:
        if step != self._step:
            self.end()
            self._step, self._start = step, time.perf_counter()
            if not self._timed:
                self._say(step)

    def end(self) -> None:
        if self._timed and self._step:
            self._say(f"{self._step} took {time.perf_counter() - self._start:.2f} s")


@contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(step: str, done: int, total: int) -> None:
            bar.update(task, description=f"{title}: {step}", completed=done, total=total if total > 1 else None)

        yield show


_LAYER_COLUMNS = ("layer", "type", "output", "parameters", "MACs", "runs", "how")
_NUMBERS = {"parameters", "MACs"}
_NARROWEST = 30  # characters of the column that folds
_WIDE = 10_000  # characters: where nobody looks at a screen, no line is folded
_NAMED = 8  # layers that one hint names


def _layers(result: Inspection, *, with_steps: bool) -> list[str]:
    """Lines of the table of layers, as wide as the terminal if there is one; the last column folds."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    titles = [*_LAYER_COLUMNS, *["steps"] * with_steps]
    rows = [list(map(_tame, _layer_cells(row)))[: len(titles)] for row in result.rows]
    widths = {column[0]: max(map(len, column)) for column in zip(titles, *rows, strict=True)}
    table = Table(box=None, pad_edge=False)
    for name in titles:
        folds = {"overflow": "fold"} if name == "how" else {"min_width": widths[name]}
        table.add_column(name, justify="right" if name in _NUMBERS else "left", **folds)
    for row, cells in zip(result.rows, rows, strict=True):
        style = {"refused": "red", "unknown": "yellow", "cpu": "cyan", "device+cpu": "cyan"}.get(row.runs.value, "")
        table.add_row(*map(Text, cells), style=style)
    draws = _draws(sys.stdout)
    least = sum(widths.values()) - widths["how"] + _NARROWEST + 2 * len(titles)
    width = max(shutil.get_terminal_size().columns, least) if draws else _WIDE
    page = io.StringIO()
    console = Console(file=page, width=width, force_terminal=draws, no_color="NO_COLOR" in os.environ, emoji=False)
    console.print(table)
    return [line.rstrip() for line in page.getvalue().splitlines()]


def _layer_cells(row: Row) -> list[str]:
    """What the columns say of a layer, the one for -v included."""
    outputs = ", ".join(str(shape.channels) if shape.is_vector else str(shape) for shape in row.outputs)
    names = [row.origin.layer, row.origin.type, f"{'~' * row.guessed}{outputs}"]
    costs = [_counted(row.parameters), _counted(row.macs)]
    return [*names, *costs, row.runs.value, row.how, ", ".join(map(str, row.steps))]


def _counted(number: int | None) -> str:
    return "?" if number is None else f"{number:,}" if number else ""


def _totals(result: Inspection) -> Iterator[str]:
    """What the layers come to, and what to change."""
    share = result.share_on_device
    which = "those known" if any(row.macs is None for row in result.rows) else "them"
    on_device = "" if share is None else f" ({share:.1%} of {which} on the device)"
    rows = (
        ("layers", f"{len(result.rows)}"),
        ("parameters", f"{result.parameters:,}"),
        ("MACs", f"{result.macs:,}{on_device}"),
        ("commands", f"{result.commands}"),
        ("CPU layers", f"{result.cpu_layers}"),
    )
    yield from (f"  {label:10}  {value}" for label, value in rows)
    yield ""
    if any(row.guessed for row in result.rows):
        yield "~ is a guess, since a layer before it cannot be read; what depends on its size is not known."
    if not result.problems:
        yield "It can be converted, as far as is known before its weights are packed."
        return
    yield "It cannot be converted. What to change:"
    for change in result.changes:
        more = [f"and {len(change.layers) - _NAMED} more"] * (len(change.layers) > _NAMED)
        yield f"  {change.code}  {', '.join((*change.layers[:_NAMED], *more))}: {change.hint}"


_STORED = ("stored as", "values", "zeros", "palette dB", "FP16 bytes", "bytes", "because")
_BESIDE = ("FP16 dB", "palette dB", "FP16 top-1", "palette top-1", "agreement")
_MEASURES = ("SQNR dB", "cosine", "max error", "mean error", "top-1", "largest")


def _cells(comparison: Comparison) -> list[str]:
    """One line of a verification; a magnitude beyond FP16's is marked."""
    c = comparison
    largest = f"{c.largest:.4g}{' > 65504' * (c.largest > LARGEST_HALF)}"
    return [
        c.name,
        _decibels(c.sqnr),
        f"{c.cosine:.7f}",
        f"{c.max_error:.2g}",
        f"{c.mean_error:.2g}",
        _share(c.top1),
        largest,
    ]


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _decibels(ratio: float) -> str:
    return {math.inf: "exact", -math.inf: "none"}.get(ratio, f"{ratio:.1f}")


def _table(first: str, rows: Sequence[Sequence[str]], measures: Sequence[str]) -> list[str]:
    """Lines of aligned columns, under their titles; the first is aligned left."""
    lines = [[first, *measures], *([*row, *[""] * (1 + len(measures) - len(row))] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in lines
    ]


def _draws(stream: Any) -> bool:
    return stream is not None and bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def _print(text: str, *, err: bool = False) -> None:
    click.echo(text, err=err, color=False if os.environ.get("NO_COLOR") else None)


def _tame(text: str) -> str:
    return text.translate(_CONTROLS)


def _problems(error: Exception) -> tuple[Problem, ...]:
    """What to tell the user of an exception."""
    match error:
        case ConvertorError():
            return error.problems
        case OSError(errno=int(), filename=name):
            return (Problem("DV113", f"the system says: {error.strerror}", Origin(str(name)) if name else None),)
        case MemoryError():
            hint = "check the network's sizes; convert for a smaller input, or where there is more memory"
            return (Problem("DV113", "there is not enough memory", hint=hint),)
        case _:
            hint = f"report this, please, with the ini file and what {DEBUG}=1 in the environment shows"
            message = f"internal error, {type(error).__name__}: {error} ({_culprit(error)})"
            return (Problem("DV000", message, hint=hint),)


def _culprit(error: Exception) -> str:
    """The last line of this package that an exception came through, as file:line."""
    package = Path(__file__).parents[1]
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(package)]
    return f"{Path(ours[-1].filename).relative_to(package.parent).as_posix()}:{ours[-1].lineno}"
