"""A report as one HTML page, and its pictures as SVG."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import jinja2
from markupsafe import Markup

from cnn_convertor.devices.intervals import milliseconds
from cnn_convertor.errors import UsageError
from cnn_convertor.escaping import visible
from cnn_convertor.files.codec import to_json
from cnn_convertor.files.package_files import folder_of
from cnn_convertor.files.templates import environment
from cnn_convertor.report import sections
from cnn_convertor.report.pictures import BOX_HEIGHT, BOX_WIDTH, memory_picture, network_picture
from cnn_convertor.report.scatter import ScatterPoint, scatter_picture
from cnn_convertor.report.sections import PageSection, PageTable
from cnn_convertor.report.summary import shares, summary
from cnn_convertor.report.values import Report

if TYPE_CHECKING:
    from cnn_convertor.report.comparison import ReportDifference


def network_svg(report: Report, *, alone: bool = True) -> Markup:
    """The network. alone: a file of its own, not a part of a page. Raises UsageError where it cannot be laid out."""
    return _picture("network.svg.j2", report, alone=alone, network=network_picture(report))


def memory_svg(report: Report, *, alone: bool = True) -> Markup:
    """The I/O buffer over time. alone: as above."""
    return _picture("memory.svg.j2", report, alone=alone, memory=memory_picture(report))


def html_page(report: Report, *, compared: Sequence[ReportDifference] | None = None, data: str | None = None) -> str:
    """The whole report as one page, which needs nothing else.

    compared: what differs from an earlier report. data: the report as JSON, where the caller has it.
    """
    device = report.device
    return page_of(
        tuple(_sections(report, compared)),
        heading=report.network,
        title=f"{report.network}: cnn-convertor report",
        subtitle=(
            f"{report.file} ({report.framework}) for {device.name} ({device.title}), fusion {device.fusion}; "
            f"cnn-convertor {report.convertor}"
        ),
        words="layer, type, register",
        data=to_json(report) if data is None else data,
        tiles=tuple(_tiles(report)),
        summary=[row for row in summary(report) if row[0] not in _IN_TILES] if report.steps else [],
    )


def page_of(page_sections: Sequence[PageSection], *, data: str, **values: object) -> str:
    """A page that needs nothing else; everything that is filled in is escaped.

    data: JSON, for the script. values: heading, title, subtitle, words (what to search for), tiles and summary, which may miss.
    """
    script = _text("report.js")
    return _render(
        "report.html.j2",
        sections=page_sections,
        style=_style("report.css", "report_picture.css"),
        script=Markup(script),  # a file of this package
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=_script_data(data),
        **{"tiles": (), "summary": (), **values},
    )


def scatter_svg(points: Sequence[ScatterPoint], *, title: str, x_title: str, y_title: str) -> Markup:
    """A plot of points, as a part of a page."""
    values = {"title": title, "x_title": x_title, "y_title": y_title, "scatter": scatter_picture(points)}
    return _render("scatter.svg.j2", **values)


def _tiles(report: Report) -> Iterator[tuple[str, str, str]]:
    """The most important numbers: each with its words, and a class."""
    if report.steps:
        yield f"{len(report.commands)}", "commands on the device", ""
        yield f"{len(report.on_cpu)}", "layers on the CPU", ""
        yield f"{milliseconds(report.usec)} ms", f"by the model: {shares(report)}", ""
        yield f"{report.traffic / 1e6:,.2f} MB", "of memory traffic", ""
        yield f"{report.weight_bytes:,}", "bytes of weights", ""
    if (memory := report.memory) is not None:
        yield f"{memory.bytes:,}", f"bytes of I/O buffer{', proven smallest' * memory.proven}", ""
    if report.macs:
        yield f"{report.macs / 1e6:,.1f} M", "multiplications", ""
    if report.problems:
        yield f"{len(report.problems)}", "problems prevent a conversion", "error"


def _sections(report: Report, compared: Sequence[ReportDifference] | None) -> Iterator[PageSection]:
    """The sections that the report has something for, below the summary."""
    if compared is not None:
        yield sections.compared_with(compared)
    if report.problems or report.warnings:
        yield sections.messages(report)
    if report.steps:
        yield _network_section(report)
    if report.commands:
        yield sections.commands(report)
    if report.memory is not None:
        note = f"Where each feature map lies in the I/O buffer, and how long. {_MEMORY_LEGEND}"
        yield PageSection("memory", "Memory", "Memory", note, memory_svg(report, alone=False))
    if report.layers:
        yield sections.layers(report)
    if report.weights:
        yield sections.weights(report)
    if report.verified is not None:
        yield sections.errors(report)
    if report.board is not None:
        yield sections.board(report)
    if report.passes:
        yield sections.passes(report)
    yield sections.device(report)


def _network_section(report: Report) -> PageSection:
    try:
        picture = network_svg(report, alone=False)
    except UsageError as error:
        reason = "; ".join(f"{problem.message}; {problem.hint}" for problem in error.problems)
        return PageSection("network", "Network", "Network", f"This report has no picture of the network: {reason}.")
    note = (
        f"Each step is drawn below its inputs, and is named after its layer with the most multiplications. {_LEGEND} "
        "Select a step for its runs, and for the reason why its command ends there. Drag to move; Ctrl "
        "and the wheel, a pinch, + and - zoom; 0 fits."
    )
    return PageSection("network", "Network", "Network", note, picture)


def _picture(template: str, report: Report, *, alone: bool, **values: object) -> Markup:
    return _render(template, title=report.network, alone=alone, style=_style("report_picture.css"), **_BOX, **values)


def notebook_frame(report: Report) -> str:
    """The page in a frame of its own, for notebooks: their styles and scripts do not meet."""
    frame = Markup('<iframe sandbox="allow-scripts" style="width:100%;height:80vh;border:0" srcdoc="{}"></iframe>')
    return frame.format(str(html_page(report)))


def notebook_table(heading: str, note: str, tables: Sequence[PageTable]) -> str:
    """Tables in the style of a notebook."""
    return str(_render("notebook.html.j2", heading=heading, note=note, tables=tables))


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


# --- templates -----------------------------------------------------------------------------------------------------------


@cache
def _environment() -> jinja2.Environment:
    """Everything that is filled in is escaped, and control characters are made visible."""
    return environment(autoescape=True, finalize=_shown)


def _render(template: str, **values: object) -> Markup:
    return Markup(_environment().get_template(template).render(values))  # escaped by the environment


def _shown(value: Any) -> Any:
    """Text from a model without control characters, which neither HTML nor SVG can hold."""
    return visible(value) if type(value) is str else value


def _script_data(text: str) -> Markup:
    """JSON that may stand in a script element: no text in it can end the element."""
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _style(*names: str) -> Markup:
    return Markup("".join(map(_text, names)))  # files of this package


def _text(name: str) -> str:
    return (folder_of("templates") / name).read_text(encoding="utf-8")
