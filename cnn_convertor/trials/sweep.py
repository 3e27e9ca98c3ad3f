"""Converts a network with every combination of some settings, and compares time, memory and precision."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cnn_convertor.config import KEYS, Config
from cnn_convertor.config.request import Request
from cnn_convertor.errors import UsageError
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.pipeline import quantize, read_whole
from cnn_convertor.report.collecting import report_of
from cnn_convertor.trials.sweep_results import Figures, Sweep, SweptVariant
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import frameworks
from cnn_convertor.workers.outcomes import Item, Outcome, attempted
from cnn_convertor.workers.processes import HERE, Workers, spread

_MOST: Final = 10_000  # combinations
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


def variants(
    ini: Path, vary: Sequence[str], *, config: Config | None = None, verified: bool = False, **options: Any
) -> tuple[Variant, ...]:
    """Every combination. vary: texts like quantization=0,1,auto. options: fields of Config that win over the ini file's.

    config: in place of what the file holds. Raises UsageError for keys and values that cannot be varied, and for errors in the
    ini file.
    """
    config = Config.of(ini, **options) if config is None else config
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


def sweep(chosen: Sequence[Variant], *, on: Workers = HERE, finished: Callable[[int], None] = lambda _: None) -> Sweep:
    """The figures of each variant. on: where the work runs. finished: called with the number of finished variants."""
    outcomes: dict[int, Outcome[Figures]] = {}
    inputs = cache(lambda: Request.of(chosen[0].config).inputs)  # all variants read the same; only a cluster asks
    items = [Item(v, ", ".join(f"{key} = {text}" for key, text in v.settings), inputs=inputs) for v in chosen]
    uses = frameworks.LIBRARIES if any(variant.verified for variant in chosen) else ()
    for number, outcome in spread(measure, items, on=on, uses=uses):
        outcomes[number] = outcome
        finished(len(outcomes))
    rows = [
        SweptVariant(dict(v.settings), outcomes[i].result, outcomes[i].problems, outcomes[i].warnings)
        for i, v in enumerate(chosen)
    ]
    all_figures = [row.figures for row in rows if row.figures is not None]
    marked = (
        row._replace(is_best=row.figures is not None and not any(map(row.figures.is_beaten_by, all_figures)))
        for row in rows
    )
    return Sweep(str(chosen[0].ini), tuple(marked))


def measure(variant: Variant) -> Outcome[Figures]:
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
