"""The sections of a report's page as values: what each says, and its tables, with what their rows are sorted by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cnn_convertor.devices.facts import CalibrationEffect, Magnitudes, Step, StoredWeights
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.errors import assert_never
from cnn_convertor.report.summary import decibels
from cnn_convertor.report.values import ModelLayer, PassChange, Report
from cnn_convertor.verification.on_board import BoardLayer
from cnn_convertor.verification.results import LayerResult

if TYPE_CHECKING:
    from cnn_convertor.report.comparison import ReportDifference

_SMALLEST_NORMAL, _LARGEST = -14, 15  # powers of two of FP16's normal numbers
_NUMBER, _BARS = "number", "bars"  # classes of cells
_NUMBERS: Final = (
    "step", "runs", "cycles", "units", "bytes", "us", "parameters", "MACs", "values", "palette dB", "FP16 bytes",
    "overflow", "underflow", "SQNR dB", "alone dB", "us by the model", "ratio", "bytes by the model", "no.",
    "commands", "CPU layers", "ms", "traffic", "weights", "I/O buffer", "dB before", "dB after", "estimated limit",
)  # fmt: skip
_CLASSES: Final = {**dict.fromkeys(_NUMBERS, _NUMBER), "time": _BARS, "up to here, and alone": _BARS}  # of columns
_ANY_DECIBELS: Final = 999  # beyond what is measured: to sort "exact" and "none"


class CellBar(NamedTuple):
    """A bar in a cell. style: its length, for CSS."""

    style: str
    kind: str = ""
    title: str = ""


class TableCell(NamedTuple):
    """text: what it says. value: to sort by, if the text is not a number. kind: its class. bars: drawn after the text."""

    text: str = ""
    value: float | None = None
    kind: str = ""
    bars: tuple[CellBar, ...] = ()


class TableRow(NamedTuple):
    """step: whose details it opens. style: its class."""

    cells: tuple[TableCell, ...]
    step: int | None = None
    style: str = ""


class PageTable(NamedTuple):
    """columns: titles and classes."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[TableRow, ...]
    title: str = ""


class PageSection(NamedTuple):
    """A part of a page. key: its anchor. name: in the list of sections. changes: shown as lines that come and go."""

    key: str
    name: str
    title: str
    note: str = ""
    picture: str = ""
    tables: tuple[PageTable, ...] = ()
    changes: tuple[PassChange, ...] = ()


def compared_with(differences: Sequence[ReportDifference]) -> PageSection:
    """What differs from an earlier report."""
    columns = "section", "what", "before", "after"
    note = "" if differences else "Nothing differs."
    tables = tables_of(columns, [row_of(*each) for each in differences])
    return PageSection("compared", "Compared", "Compared with the earlier report", note, tables=tables)


def messages(report: Report) -> PageSection:
    columns = "code", "kind", "layer", "message", "what to do"
    rows = [
        row_of(each.code, TableCell(kind, kind=kind), each.layer or each.file, each.message, each.hint)
        for kind, problems in (
            ("error", report.problems),
            ("warning", report.warnings),
            ("note", report.convertible_part),
        )
        for each in problems
    ]
    return PageSection("messages", "Messages", "Messages", tables=tables_of(columns, rows))


def commands(report: Report) -> PageSection:
    has_evidence = any(step.evidence for step in report.steps)  # or the device says why it does a step as it does
    last = "evidence" if has_evidence else "why"
    columns = "step", "layers", "does", "runs", "cycles", "bytes", "us", "bound", last, "time"
    starts = (
        f"Of the time of each command, {_each(report)} us are to start and end it. " if report.command_usec.high else ""
    )
    note = (
        f"Times: {report.device.provenance}. {starts}Bars: time for arithmetic above, for memory below, "
        "with the fastest clock and memory; the longer one bounds the command."
    )
    tables = tables_of(columns, list(_commands(report.steps))) + tables_of(
        _ON_CPU, list(_on_cpu(report.steps)), "On the CPU"
    )
    return PageSection("commands", "Commands", "Commands", note, tables=tables)


def _each(report: Report) -> str:
    """What it takes to start and end a command: the same for all."""
    costs = [step.cost for step in report.steps if step.cost is not None]
    return costs[0].command_usec.text(",.3g")


def _commands(steps: Sequence[Step]) -> Iterator[TableRow]:
    """Bars: in percent of the longest time of all commands."""
    most = max((step.cost.usec.low for step in steps if step.cost is not None), default=0.0) or 1.0
    for number, step in enumerate(steps):
        if (cost := step.cost) is not None:
            bars = _bars(100 * cost.compute_usec.low / most, 100 * cost.memory_usec.low / most)
            does = _layers(step), step.does, len(step.runs), cost.cycles, cost.bytes, _time(cost.usec)
            yield row_of(number, *does, cost.bound, step.evidence or step.reason, bars, step=number)


_ON_CPU: Final = ("step", "layers", "does", "function", "units", "bytes", "us", "why on the CPU")


def _on_cpu(steps: Sequence[Step]) -> Iterator[TableRow]:
    for number, step in enumerate(steps):
        if (cost := step.cpu_cost) is not None:
            numbers = cost.units, cost.bytes, _time(cost.usec)
            yield row_of(number, _layers(step), step.does, cost.function, *numbers, step.reason, step=number)


def layers(report: Report) -> PageSection:
    columns = "layer", "type", "output", "parameters", "MACs", "runs on", "how", "steps"
    rows = [_layer(layer, has_steps=bool(report.steps)) for layer in report.layers]
    ends = [row_of(*each) for each in report.boundaries]
    tables = tables_of(columns, rows) + tables_of(("before", "after", "reason"), ends, "Where commands end")
    return PageSection("layers", "Layers", "Layers of the model", tables=tables)


def _layer(layer: ModelLayer, *, has_steps: bool) -> TableRow:
    shapes = ", ".join("x".join(map(str, shape)) for shape in layer.outputs)
    numbers = _count(layer.parameters, "?"), _count(layer.macs, "?")
    runs = TableCell(layer.runs, kind=layer.runs)
    steps = ", ".join(map(str, layer.steps))
    last = layer.steps[-1] if layer.steps and has_steps else None
    return row_of(layer.name, layer.type, shapes, *numbers, runs, layer.how, steps, step=last)


def weights(report: Report) -> PageSection:
    sizes = "values", "palette dB", "FP16 bytes", "bytes", "overflow", "underflow"
    columns = "layer", "step", "stored as", "reason", *sizes, "magnitudes"
    note = "Magnitudes by powers of two, counts on a logarithmic scale; red: beyond FP16's normal numbers."
    tables = tables_of(columns, [*map(_stored, report.weights)])
    if report.calibration is not None and report.calibration.layers:
        tables += _calibrated(report.calibration)
    return PageSection("weights", "Weights", "Weights", note, tables=tables)


def _calibrated(effect: CalibrationEffect) -> tuple[PageTable, ...]:
    """What the palette of each layer costs the outputs by itself."""
    rows = [row_of(each.name, *map(decibels_cell, (each.before, each.after, each.limit))) for each in effect.layers]
    title = "What the outputs keep if only this layer has a palette, as gradients predict it."
    if effect.worst_layer is not None:
        title += f" FP16 weights probably pay most in {effect.worst_layer}."
    return tables_of(("layer", "dB before", "dB after", "estimated limit"), rows, title)


def _stored(weights: StoredWeights) -> TableRow:
    counted = weights.magnitudes
    lost = (None, None) if counted is None else (counted.overflow, counted.underflow)
    drawn = TableCell(kind="histogram", bars=() if counted is None else tuple(_columns(counted)))
    form = "palette" if weights.palette else "FP16"
    sizes = weights.distinct, decibels_cell(weights.sqnr), weights.fp16_bytes, weights.bytes
    return row_of(weights.layer, weights.step, form, weights.reason, *sizes, *lost, drawn, step=weights.step)


def _columns(magnitudes: Magnitudes) -> Iterator[CellBar]:
    """A bar for each power of two; heights in percent of the tallest."""
    most = math.log1p(max(magnitudes.counts, default=1) or 1)
    for power, count in enumerate(magnitudes.counts, start=magnitudes.first):
        outside = "" if _SMALLEST_NORMAL <= power <= _LARGEST else "outside"
        yield CellBar(f"height:{100 * math.log1p(count) / most:.1f}%", outside, f"2^{power}: {count:,}")


def errors(report: Report) -> PageSection:
    """The errors of a verification along the network: of a map, and of its layer alone."""
    verified = report.verified
    assert verified is not None, "nothing was verified"
    columns = "layer", "type", "SQNR dB", "alone dB", "up to here, and alone", "causes alone"
    jump = f" The error jumps at {verified.first_jump}." if verified.first_jump else ""
    note = (
        f"Compared with {verified.framework} on {verified.samples} samples ({verified.inputs}): {_passed(verified.passed)}, "
        f"{verified.min_sqnr:g} dB wanted.{jump} The longer a bar, the smaller the error: blue with the errors of all layers "
        "before, red of the layer alone, which then reads the framework's maps."
    )
    rows = [_error(each) for each in verified.layers or (LayerResult(output, "") for output in verified.outputs)]
    return PageSection("errors", "Errors", "Errors along the network", note, tables=tables_of(columns, rows))


def _error(each: LayerResult) -> TableRow:
    """Bars: in percent of 100 dB."""
    comparison = each.comparison
    causes = "; ".join(f"{cause.cause.value}: {decibels(cause.sqnr)} dB" for cause in each.causes)
    bars = _bars(*(0.0 if ratio is None else min(100.0, max(0.0, ratio)) for ratio in (comparison.sqnr, each.alone)))
    return row_of(comparison.name, each.type, decibels_cell(comparison.sqnr), decibels_cell(each.alone), bars, causes)


def board(report: Report) -> PageSection:
    """What a kit measured, beside the model."""
    comparison = report.board
    assert comparison is not None, "no board ran"
    times = "us", "us by the model", "ratio", "bytes", "bytes by the model"
    columns = "step", "layers", "does", *times, "computes", "SQNR dB"
    usec = "not measured" if comparison.whole.usec is None else f"{comparison.whole.usec:,} us"
    note = (
        f"{comparison.device}: {comparison.samples} samples ({comparison.inputs}), {_passed(comparison.passed)}. All commands: {usec} "
        f"({comparison.modelled.usec.text(',.1f')} by the model); the CPU: {comparison.cpu_usec:,} us; changes between them: {comparison.between_usec:,} us."
    )
    tables = tables_of(
        columns,
        [_on_board(number, *each) for number, each in enumerate(zip(comparison.layers, report.steps, strict=True))],
    )
    return PageSection("board", "Board", "On the board, beside the model", note, tables=tables)


def _on_board(number: int, layer: BoardLayer, step: Step) -> TableRow:
    """ratio: of the measured time to the model's."""
    measured, modelled = layer.measured, layer.modelled
    known = measured.usec is not None and modelled.usec.low > 0
    ratio = (measured.usec / modelled.usec).text(".2f") if known and measured.usec is not None else ""
    times = measured.usec, _time(modelled.usec), TableCell(ratio, kind=_NUMBER)
    computes = "the same" if layer.is_same else TableCell("something else", kind="error")
    rest = measured.nbytes, modelled.bytes, computes, decibels_cell(layer.framework)
    return row_of(number, _layers(step), step.does, *times, *rest, step=number)


def passes(report: Report) -> PageSection:
    note = "The passes that changed the graph, in order."
    return PageSection("passes", "Passes", "Passes", note, changes=report.passes)


def device(report: Report) -> PageSection:
    rows = [
        row_of(figure.name, f"{figure.value} {figure.unit}", f"{'assumed: ' * figure.assumed}{figure.source}")
        for figure in report.device.figures
    ]
    return PageSection("device", "Device", "Device", tables=tables_of(("figure", "value", "source"), rows))


# --- tables --------------------------------------------------------------------------------------------------------------


def tables_of(columns: Sequence[str], rows: Sequence[TableRow], title: str = "") -> tuple[PageTable, ...]:
    """A table, if it has rows."""
    return (PageTable(tuple((name, _CLASSES.get(name, "")) for name in columns), tuple(rows), title),) if rows else ()


def row_of(*cells: str | int | TableCell | None, step: int | None = None, style: str = "") -> TableRow:
    """Cells of texts and of numbers; None: a number that is not known. step: whose details the row opens. style: its class."""
    return TableRow(tuple(map(_cell, cells)), step, style)


def _cell(content: str | int | TableCell | None) -> TableCell:
    match content:
        case TableCell():
            return content
        case str():
            return TableCell(content)
        case int() | None:
            return _count(content)
        case _:
            assert_never(content)


def _count(number: int | None, unknown: str = "") -> TableCell:
    return TableCell(unknown, 0, _NUMBER) if number is None else TableCell(f"{number:,}", number, _NUMBER)


def _time(usec: Interval) -> TableCell:
    return TableCell(usec.text(",.1f"), usec.low, _NUMBER)


def decibels_cell(ratio: float | None) -> TableCell:
    value = -_ANY_DECIBELS - 1 if ratio is None else max(-_ANY_DECIBELS, min(_ANY_DECIBELS, ratio))
    return TableCell(decibels(ratio), value, _NUMBER)


def _bars(first: float, second: float) -> TableCell:
    """Two bars, one below the other, of so many percent."""
    return TableCell(kind=_BARS, bars=(CellBar(f"width:{first:.2f}%"), CellBar(f"width:{second:.2f}%", "memory")))


def _layers(step: Step) -> str:
    return ", ".join(step.layers) or step.name


def _passed(passed: bool) -> str:
    return "passed" if passed else "not passed"
