"""A report as one HTML page, and its pictures as SVG."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import jinja2
from markupsafe import Markup

from cnn_convertor.escaping import visible
from cnn_convertor.places import place_of
from cnn_convertor.report.comparison import ReportDifference
from cnn_convertor.report.form import to_values
from cnn_convertor.report.layering import can_place
from cnn_convertor.report.pictures import (
    BOX_HEIGHT,
    BOX_WIDTH,
    memory_picture,
    network_picture,
)
from cnn_convertor.report.summary import decibels, summary
from cnn_convertor.report.values import BoardStep, Magnitudes, Report, Step, StoredWeights
from cnn_convertor.verification.results import LayerResult

_SMALLEST_NORMAL, _LARGEST = -14, 15  # powers of two of FP16's normal numbers


def network_svg(report: Report) -> str:
    """The network. Raises UsageError without the library that lays it out."""
    return _picture("network.svg.j2", report, network=network_picture(report))


def memory_svg(report: Report) -> str:
    """The I/O buffer over time."""
    return _picture("memory.svg.j2", report, memory=memory_picture(report))


def _picture(template: str, report: Report, **values: object) -> str:
    style = Markup(_text("report_picture.css"))  # a file of this package
    shown = {"title": report.network, "alone": True, "style": style, **_BOX, **values}
    return _environment().get_template(template).render(shown)


def html_page(report: Report, *, compared: Sequence[ReportDifference] | None = None) -> str:
    """The whole report as one page, which needs nothing else. compared: what differs from an earlier report."""
    script = _text("report.js")
    values = {
        "report": report,
        "title": report.network,
        "alone": False,
        "summary": [row for row in summary(report) if row[0] not in _IN_TILES],
        "share": _percent(report.macs_on_device, report.macs),
        "network": network_picture(report) if report.steps and can_place() else None,
        "memory": None if report.memory is None else memory_picture(report),
        "bars": tuple(_bars(report.steps)),
        "weights": tuple(map(_weights_row, report.weights)),
        "errors": tuple(_errors(report)),
        "board": tuple(_board_rows(report)),
        "compared": compared,
        "style": Markup(_text("report.css") + _text("report_picture.css")),  # files of this package
        "script": Markup(script),  # a file of this package
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "data": Markup(_data(report)),  # escaped there
        **_BOX,
    }
    return _environment().get_template("report.html.j2").render(values)


def styled_page(template: str, **values: object) -> str:
    """Another page in this style; everything that is filled in is escaped."""
    return _environment().get_template(template).render(style=Markup(_text("report.css")), **values)


def notebook_frame(report: Report) -> str:
    """The page in a frame of its own, for notebooks: their styles and scripts do not meet."""
    frame = Markup('<iframe sandbox="allow-scripts" style="width:100%;height:80vh;border:0" srcdoc="{}"></iframe>')
    return frame.format(html_page(report))


_IN_TILES: Final = {"device commands", "I/O buffer"}  # rows of the summary that the page has elsewhere
_LEGEND: Final = (
    "Blue: on the device; orange: on the CPU; green: written by the application; gray: nothing to compute. The redder a "
    "step, the longer its command takes."
)
_MEMORY_LEGEND: Final = "Offset in bytes across, steps down; green: input or output; dashed: a concatenation in place, whose parts lie inside."
_BOX: Final = {
    "box_width": BOX_WIDTH,
    "box_height": BOX_HEIGHT,
    "legend": _LEGEND,
    "memory_legend": _MEMORY_LEGEND,
}


def _data(report: Report) -> str:
    """The report as JSON that may stand in a script element: no text in it can end the element."""
    text = json.dumps(to_values(report), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class _Bar(NamedTuple):
    """A command's times in percent of the longest of all commands."""

    step_number: int
    step: Step
    compute: float
    memory: float


def _bars(steps: Sequence[Step]) -> Iterator[_Bar]:
    most = max((step.cost.usec for step in steps if step.cost is not None), default=0.0) or 1.0
    for number, step in enumerate(steps):
        if (cost := step.cost) is not None:
            yield _Bar(number, step, 100 * cost.compute_usec / most, 100 * cost.memory_usec / most)


class _Column(NamedTuple):
    """One power of two: height in percent of the tallest. outside: of the normal numbers of FP16."""

    height: float
    outside: bool
    title: str


class _WeightsRow(NamedTuple):
    weights: StoredWeights
    decibels: str
    columns: tuple[_Column, ...]


def _weights_row(weights: StoredWeights) -> _WeightsRow:
    columns = () if weights.magnitudes is None else tuple(_columns(weights.magnitudes))
    return _WeightsRow(weights, decibels(weights.sqnr), columns)


def _columns(magnitudes: Magnitudes) -> Iterator[_Column]:
    most = max(magnitudes.counts, default=1) or 1
    for power, count in enumerate(magnitudes.counts, start=magnitudes.first):
        outside = not _SMALLEST_NORMAL <= power <= _LARGEST
        yield _Column(100 * math.log1p(count) / math.log1p(most), outside, f"2^{power}: {count:,}")


class _Error(NamedTuple):
    """A map's error, and that of its layer alone. width, width_alone: in percent of 100 dB."""

    layer: str
    type: str
    decibels: str
    alone: str
    width: float
    width_alone: float
    causes: str


def _errors(report: Report) -> Iterator[_Error]:
    verified = report.verified
    if verified is None:
        return
    for each in verified.layers or (LayerResult(output, "") for output in verified.outputs):
        found = each.comparison
        causes = "; ".join(f"{cause.cause.value}: {decibels(cause.sqnr)} dB" for cause in each.causes)
        widths = _width(found.sqnr), _width(each.alone)
        yield _Error(found.name, each.type, decibels(found.sqnr), decibels(each.alone), *widths, causes)


class _BoardRow(NamedTuple):
    """A step on the board. ratio: of the measured time to the model's, as text."""

    board: BoardStep
    step: Step
    ratio: str
    decibels: str


def _board_rows(report: Report) -> Iterator[_BoardRow]:
    for each in () if report.board is None else report.board.steps:
        ratio = f"{each.usec / each.model_usec:.2f}" if each.usec is not None and each.model_usec else ""
        yield _BoardRow(each, report.steps[each.step], ratio, decibels(each.sqnr))


def _width(ratio: float | None) -> float:
    return 0.0 if ratio is None else min(100.0, max(0.0, ratio))


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


# --- templates -----------------------------------------------------------------------------------------------------------


@cache
def _environment() -> jinja2.Environment:
    """Everything that is filled in is escaped, and control characters are made visible."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(place_of("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: Any) -> Any:
    """Text from a model without control characters, which neither HTML nor SVG can hold."""
    return visible(value) if type(value) is str else value


def _text(name: str) -> str:
    return (place_of("templates") / name).read_text(encoding="utf-8")
