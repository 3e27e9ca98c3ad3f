"""Converts a network with every combination of some settings, and compares time, memory and precision."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cnn_convertor.config import KEYS, Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.estimate import LEFT_OUT
from cnn_convertor.devices.intervals import Interval, milliseconds
from cnn_convertor.errors import Problem, UsageError
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.pipeline import quantize, read_whole
from cnn_convertor.report.collecting import report_of
from cnn_convertor.report.page import styled_page
from cnn_convertor.report.summary import decibels
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import frameworks
from cnn_convertor.workers.outcomes import Ending, attempted
from cnn_convertor.workers.processes import HERE, Workers, spread

_SCHEMA: Final = 2  # of the JSON form; increases when the meaning of an entry changes
_MOST: Final = 10_000  # combinations
EXACT: Final = "exact"  # the SQNR of an output without any error
_SQNR: Final = "SQNR dB"
TITLES: Final = ("commands", "CPU layers", "ms", "traffic", "weights", "I/O buffer", _SQNR, "")
VARIED: Final = (
    "quantization",
    "quantization_threshold",
    "quantization_output_sqnr",
    "transpose_weight",
    "input",
    "device",
    "fusion",
    "softmax",
)


class Variant(NamedTuple):
    """One combination, as a value for any process. config: shared by all variants of the ini file.

    settings: key -> text, as the user writes it; values: key -> its value. verified: also measure the SQNR.
    """

    ini: Path
    config: Config
    settings: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, Any], ...]
    verified: bool = False


class Figures(NamedTuple):
    """The costs of a variant. usec_low, usec_high, traffic_bytes: of all commands, by the cost model.

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
    def cells(self) -> tuple[str, ...]:
        """A row of the table: the settings, then the columns of `TITLES`; after a failure, the codes of its problems."""
        settings = tuple(self.settings.values())
        if (f := self.figures) is None:
            codes = ", ".join(dict.fromkeys(problem.code for problem in self.problems))
            return (*settings, codes, *[""] * (len(TITLES) - 1))
        sizes = (f"{size:,}" for size in (f.traffic_bytes, f.weight_bytes, f.io_bytes))
        counts = (str(f.commands), str(f.cpu_layers), milliseconds(Interval(f.usec_low, f.usec_high)))
        return (*settings, *counts, *sizes, decibels(f.sqnr), "*" * self.is_best)

    def shown(self) -> dict[str, int | float | str]:
        """The figures for other programs; nothing after a failure."""
        if self.figures is None:
            return {}
        values = self.figures._asdict()
        sqnr = "" if values["sqnr"] is None else round(values["sqnr"], 3) if math.isfinite(values["sqnr"]) else EXACT
        return {**values, **{name: round(values[name], 3) for name in ("usec_low", "usec_high")}, "sqnr": sqnr}


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
            f"* no other variant is better in {judged} together",
            f"times are those of the model of costs, which {LEFT_OUT}; traffic, weights and the I/O buffer are in bytes",
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why variants cannot be converted, each once."""
        return tuple(dict.fromkeys(problem for row in self.rows for problem in row.problems))

    @property
    def titles(self) -> tuple[str, ...]:
        return self._shown((*self.rows[0].settings, *TITLES))

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The rows of a table with these titles."""
        return tuple(self._shown(row.cells) for row in self.rows)

    def _shown(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        """A row without the column of the SQNR, unless it is measured."""
        hidden = len(cells) - len(TITLES) + TITLES.index(_SQNR)
        return cells if self.is_measured else (*cells[:hidden], *cells[hidden + 1 :])

    def to_html(self) -> str:
        """A self-contained page with the table; the Pareto front has stars and is bold."""
        return styled_page("sweep.html.j2", sweep=self, settings=len(self.rows[0].settings))

    def to_json(self) -> str:
        """An exact SQNR is null; one that is not measured is missing."""
        rows = [
            {
                "settings": dict(row.settings),
                "best": row.is_best,
                **{name: value if value != EXACT else None for name, value in row.shown().items() if value != ""},
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
            shown = row.shown()
            figures = [shown.get(name, "") for name in Figures._fields]
            codes = " ".join(problem.code for problem in row.problems)
            writer.writerow([*row.settings.values(), *figures, int(row.is_best), codes])
        return page.getvalue()


def variants(ini: Path, vary: Sequence[str], *, verified: bool = False, **options: Any) -> tuple[Variant, ...]:
    """Every combination. vary: texts like quantization=0,1,auto. options: fields of Config that win over the ini file's.

    Raises UsageError for keys and values that cannot be varied, and for errors in the ini file.
    """
    config = Config.read(ini, **options)
    choices: dict[str, dict[str, Any]] = {}
    for text in vary:
        key, equals, texts = text.partition("=")
        if not equals or key not in VARIED or key in choices:
            reason = "each key once" if key in choices else f"one of {', '.join(VARIED)}"
            raise UsageError.of(
                "DV128", f"--vary {text}: expected KEY=VALUE,..., {reason}", hint="--vary quantization=0,1"
            )
        choices[key] = {each.strip(): _parsed(key, each.strip(), ini) for each in texts.split(",")}
    if (count := math.prod(map(len, choices.values()))) > _MOST:
        raise UsageError.of("DV128", f"--vary: {count:,} combinations, more than {_MOST:,}", hint="vary fewer values")
    combinations = (tuple(zip(choices, texts, strict=True)) for texts in itertools.product(*choices.values()))
    return tuple(
        Variant(ini, config, settings, tuple((key, choices[key][text]) for key, text in settings), verified)
        for settings in combinations
    )


def _parsed(name: str, text: str, ini: Path) -> Any:
    """The value of a key. Raises UsageError."""
    key = next(key for key in KEYS if key.name == name)
    try:
        return key.kind.parse(text, ini.parent)
    except (ValueError, OSError):
        raise UsageError.of("DV128", f'--vary {name}: expected {key.kind.expected}, not "{text}"') from None


def sweep(given: Sequence[Variant], *, on: Workers = HERE, ended: Callable[[int], None] = lambda _: None) -> Sweep:
    """The figures of each variant. on: where the work runs. ended: called with the number of finished variants."""
    outcomes: dict[int, Ending[Figures]] = {}
    reads = cache(lambda: Request.of(given[0].config).inputs)  # all variants read the same; only a cluster asks
    names = [", ".join(f"{key} = {text}" for key, text in variant.settings) for variant in given]
    uses = frameworks.LIBRARIES if any(variant.verified for variant in given) else ()
    for number, outcome in spread(
        measure, given, names=names, on=on, preload=[__name__], uses=uses, reads=lambda _: reads()
    ):
        outcomes[number] = outcome
        ended(len(outcomes))
    rows = [
        SweptVariant(dict(v.settings), outcomes[i].result, outcomes[i].problems, outcomes[i].warnings)
        for i, v in enumerate(given)
    ]
    all_figures = [row.figures for row in rows if row.figures is not None]
    marked = (
        row._replace(is_best=row.figures is not None and not any(map(row.figures.is_beaten_by, all_figures)))
        for row in rows
    )
    return Sweep(str(given[0].ini), tuple(marked))


def measure(variant: Variant) -> Ending[Figures]:
    """The figures of a variant, in memory: nothing is written."""
    return attempted(lambda: _figures(variant))


def _figures(variant: Variant) -> Figures:
    config = replace(variant.config, **dict(variant.values))
    request = Request.of(config)
    program = quantize(read_whole(request), request).program
    report = report_of(program, request)
    figures = Figures(
        commands=len(report.commands),
        cpu_layers=len(report.on_cpu),
        usec_low=report.usec.low,
        usec_high=report.usec.high,
        traffic_bytes=report.traffic,
        weight_bytes=report.weight_bytes,
        io_bytes=program.io_bytes,
    )
    if not variant.verified:
        return figures
    with temporary_folder() as folder:  # apart from the outputs of other settings
        result = verify(replace(config, output_folder=folder))
    is_judged = not result.unverified and all(layer.is_verified for layer in result.unjudged)
    return figures._replace(sqnr=result.least_sqnr if is_judged else None)
