"""The variants of a network with their figures, as a table, a page, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from cnn_convertor.devices.facts import LEFT_OUT
from cnn_convertor.devices.intervals import Interval, milliseconds
from cnn_convertor.errors import Problem
from cnn_convertor.report.page import page_of, scatter_svg
from cnn_convertor.report.scatter import ScatterPoint
from cnn_convertor.report.sections import PageSection, TableCell, decibels_cell, row_of, tables_of
from cnn_convertor.report.summary import decibels

T = TypeVar("T")
_SCHEMA: Final = 2  # of the JSON form; increases when the meaning of an entry changes
_EXACT: Final = "exact"  # the SQNR of an output without any error
_SQNR: Final = "SQNR dB"
_TITLES: Final = ("commands", "CPU layers", "ms", "traffic", "weights", "I/O buffer", _SQNR, "")


class Figures(NamedTuple):
    """The costs of a variant. usec_low, usec_high: of the whole network, by the cost model. traffic_bytes: of commands.

    sqnr: dB of the worst output against the framework; None where it is not measured.
    """

    commands: int
    cpu_layers: int
    usec_low: float
    usec_high: float
    traffic_bytes: int
    weight_bytes: int
    io_bytes: int
    sqnr: float | None = None

    @property
    def time(self) -> str:
        """In milliseconds."""
        return milliseconds(Interval(self.usec_low, self.usec_high))

    @property
    def nbytes(self) -> int:
        """Memory on the board: weights and maps."""
        return self.weight_bytes + self.io_bytes

    def is_beaten_by(self, other: Figures) -> bool:
        """Whether the other is at least as good in time, bytes and SQNR, and better in one.

        A time is as good as another if both its ends are. An unknown SQNR counts as the worst.
        """
        own, its = ((f.usec_low, f.usec_high, f.nbytes, math.inf if f.sqnr is None else -f.sqnr) for f in (self, other))
        return all(y <= x for x, y in zip(own, its, strict=True)) and its != own


class SweptVariant(NamedTuple):
    """A variant and its figures, or why it has none. is_best: no other is better in time, bytes and SQNR together."""

    settings: Mapping[str, str]
    figures: Figures | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    is_best: bool = False

    @property
    def cells(self) -> tuple[TableCell, ...]:
        """A row of the table: the settings, then the columns of `_TITLES`; after a failure, the codes of its problems."""
        settings = self.settings.values()
        if (f := self.figures) is None:
            codes = ", ".join(dict.fromkeys(problem.code for problem in self.problems))
            return row_of(*settings, TableCell(codes, kind="error"), *[""] * (len(_TITLES) - 1)).cells
        counts = f.commands, f.cpu_layers, TableCell(f.time, f.usec_low, "number")
        sizes = f.traffic_bytes, f.weight_bytes, f.io_bytes
        return row_of(*settings, *counts, *sizes, decibels_cell(f.sqnr), "*" * self.is_best).cells

    def values(self) -> dict[str, int | float | str]:
        """The figures for other programs; nothing after a failure."""
        if self.figures is None:
            return {}
        values = self.figures._asdict()
        sqnr = "" if values["sqnr"] is None else round(values["sqnr"], 3) if math.isfinite(values["sqnr"]) else _EXACT
        return {**values, **{name: round(values[name], 3) for name in ("usec_low", "usec_high")}, "sqnr": sqnr}

    @property
    def name(self) -> str:
        return ", ".join(f"{key} = {value}" for key, value in self.settings.items())


class Sweep(NamedTuple):
    """network: its ini file. rows: in the order of the combinations; the last key varies fastest."""

    network: str
    rows: tuple[SweptVariant, ...]

    @property
    def is_measured(self) -> bool:
        """Whether any variant has an SQNR."""
        return any(row.figures is not None and row.figures.sqnr is not None for row in self.rows)

    @property
    def notes(self) -> tuple[str, str]:
        """What a star means, and units."""
        judged = "time, bytes (weights and I/O buffer) and SQNR" if self.is_measured else "time and bytes"
        return (
            f"* no other variant is better in {judged} at once",
            f"times, with CPU layers, are those of the model of costs, which {LEFT_OUT}; traffic, weights and the I/O buffer are in bytes",
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why variants cannot be converted, each once."""
        return tuple(dict.fromkeys(problem for row in self.rows for problem in row.problems))

    @property
    def titles(self) -> tuple[str, ...]:
        return _shown((*self.rows[0].settings, *_TITLES), is_measured=self.is_measured)

    @property
    def cells(self) -> tuple[tuple[TableCell, ...], ...]:
        """The rows of a table with these titles."""
        is_measured = self.is_measured
        return tuple(_shown(row.cells, is_measured=is_measured) for row in self.rows)

    @property
    def front(self) -> tuple[int, ...]:
        """The numbers of the rows on the Pareto front, the fastest first."""
        best = {i: (f.usec_low, f.usec_high) for i, (_, f, _, _, is_best) in enumerate(self.rows) if f and is_best}
        return tuple(sorted(best, key=best.__getitem__))

    def to_html(self) -> str:
        """A page of the form of a report: a plot and a table of the Pareto front, and a table of all variants."""
        return page_of(
            tuple(_sections(self)),
            heading=f"{self.network}: variants",
            title=f"{self.network}: variants",
            subtitle=self.notes[1],
            words="setting, code",
            data=self.to_json(),
        )

    def to_json(self) -> str:
        """An exact SQNR is null; one that is not measured is missing."""
        rows = [
            {
                "settings": dict(row.settings),
                "best": row.is_best,
                **{name: value if value != _EXACT else None for name, value in row.values().items() if value != ""},
                **({"problems": [str(problem) for problem in row.problems]} if row.problems else {}),
            }
            for row in self.rows
        ]
        return json.dumps({"schema": _SCHEMA, "network": self.network, "rows": rows}, indent=2) + "\n"

    def to_csv(self) -> str:
        page = io.StringIO()
        writer = csv.writer(page, lineterminator="\n")
        writer.writerow([*self.rows[0].settings, *Figures._fields, "best", "problem"])
        for row in self.rows:
            values = row.values()
            figures = [values.get(name, "") for name in Figures._fields]
            codes = " ".join(problem.code for problem in row.problems)
            writer.writerow([*row.settings.values(), *figures, int(row.is_best), codes])
        return page.getvalue()


def _shown(cells: tuple[T, ...], *, is_measured: bool) -> tuple[T, ...]:
    """A row without the column of the SQNR, unless it is measured."""
    hidden = len(cells) - len(_TITLES) + _TITLES.index(_SQNR)
    return cells if is_measured else (*cells[:hidden], *cells[hidden + 1 :])


# --- the page ------------------------------------------------------------------------------------------------------------


def _sections(sweep: Sweep) -> Iterator[PageSection]:
    """The sections that the sweep has something for."""
    numbers = {row: number for number, row in enumerate(sweep.front, 1)}
    titles, cells = ("no.", *sweep.titles[:-1]), [row[:-1] for row in sweep.cells]  # without the stars
    if numbers:
        note = (
            f"Red, with numbers that the table below names: {sweep.notes[0].removeprefix('* ')}. Gray: the other variants. "
            "The plot has the shorter ends of the times."
        )
        tables = tables_of(titles, [row_of(number, *cells[row]) for row, number in numbers.items()])
        yield PageSection("front", "Pareto front", "Pareto front", note, _plot(sweep, numbers), tables)
    rows = [row_of(numbers.get(i), *row, style="best" * (i in numbers)) for i, row in enumerate(cells)]
    yield PageSection("variants", "Variants", "All variants", tables=tables_of(titles, rows))
    if sweep.problems:
        problems = [row_of(TableCell(problem.code, kind="error"), str(problem)) for problem in sweep.problems]
        yield PageSection("problems", "Problems", "Problems", tables=tables_of(("code", "problem"), problems))


def _plot(sweep: Sweep, numbers: Mapping[int, int]) -> str:
    """Time and memory of each variant. numbers: of the rows on the front."""
    known = {number: (row, row.figures) for number, row in enumerate(sweep.rows) if row.figures is not None}
    unit, size = ("MB", 1e6) if max(f.nbytes for _, f in known.values()) >= 1e6 else ("kB", 1e3)
    points = []
    for number, (row, f) in known.items():
        sqnr = "" if f.sqnr is None else f", {decibels(f.sqnr)} dB"
        name = f"{row.name}: {f.time} ms, {f.nbytes:,} bytes{sqnr}"
        points.append(ScatterPoint(f.usec_low / 1e3, f.nbytes / size, name, str(numbers.get(number, ""))))
    return scatter_svg(
        points,
        title=sweep.network,
        x_title="time of all commands by the model, shorter end, ms",
        y_title=f"weights and I/O buffer, {unit}",
    )
