"""Results of commands as lines and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cnn_convertor.cli.grids import Column, Grid, Item, counted, decibels, numbered, share
from cnn_convertor.devices.intervals import Interval, milliseconds
from cnn_convertor.escaping import visible

if TYPE_CHECKING:
    from cnn_convertor.conversion.inspection import PassListing
    from cnn_convertor.devices.facts import CalibrationEffect, StoredWeights
    from cnn_convertor.devices.target import Hardware
    from cnn_convertor.report.comparison import ReportDifference
    from cnn_convertor.report.values import ModelLayer, Report
    from cnn_convertor.trials.sweep_results import Sweep

# GitHub Actions looks for :: behind blanks, and for ##[ anywhere; Azure Pipelines and TeamCity add a word before the bracket.
_CI_COMMAND = re.compile(r"^[^\S\n]*:(?=:)|##(?=\w*\[)", re.MULTILINE)


def escape_controls(text: str) -> str:
    """Text for a terminal or a log, where names from a model do nothing but appear."""
    lines = ("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))
    return without_commands("\n".join(lines))


def without_commands(text: str) -> str:
    """Text for a log: a CI takes no line of it as a command."""
    return _CI_COMMAND.sub(lambda match: f"{match[0][:-1]}\\x{ord(match[0][-1]):02x}", text)


def labeled(title: str, rows: Sequence[tuple[str, str]]) -> list[Item]:
    """A title, and (label, value) rows; a label is not repeated."""
    labels = ["", *(label for label, _ in rows)]
    shown = tuple(
        ("" if label == before else label, value) for before, (label, value) in zip(labels[:-1], rows, strict=True)
    )
    return [title, Grid((Column("", right=False), Column("", right=False, folds=True)), shown)] if rows else [title]


# --- devices -------------------------------------------------------------------------------------------------------------

_DEVICES_SCHEMA = 2  # of the JSON form; increases when the meaning of an entry changes


def devices(profiles: Sequence[Hardware]) -> list[Item]:
    """Each device with its figures and their sources."""
    lines: list[Item] = []
    for profile in profiles:
        rows = [
            (
                profile.kinds[name].words,
                f"{figure_text(profile, name):18}  {'assumed: ' * figure.is_assumed}{figure.source}",
            )
            for name, figure in profile.figures.items()
        ]
        if profile.passed is not None:
            rows.append(("forms that passed", ", ".join(sorted(form.name.lower() for form in profile.passed))))
        lines += [*labeled(f"{profile.name}: {profile.title}", rows), ""]
    return lines[:-1]


def figure_text(hardware: Hardware, name: str) -> str:
    """The value of a figure, with its unit."""
    unit = hardware.kinds[name].unit
    match hardware.figures[name].value:
        case bool() as value:
            return "yes" if value else "no"
        case tuple() as blocks:
            return ", ".join(blocks)
        case Interval() as number:
            return f"{number.text(',.9g')} {unit}".rstrip()
        case int() as number if name not in {"revision", "wide_padding"}:
            return f"{number:,} {unit}".rstrip()
        case value:
            return str(value)


def devices_as_json(profiles: Sequence[Hardware]) -> str:
    values = {"schema": _DEVICES_SCHEMA, "devices": [profile.to_values() for profile in profiles]}
    return json.dumps(values, indent=2) + "\n"


# --- convert -------------------------------------------------------------------------------------------------------------

_STORED = ("stored as", "values", "zeros", "palette dB", "FP16 bytes", "bytes", "reason")


def weights(network: str, layers: Sequence[StoredWeights]) -> list[Item]:
    """How the weights of each layer are stored."""
    rows = [
        [
            layer.layer,
            "palette" if layer.palette else "FP16",
            *("" if layer.distinct is None else f"{layer.distinct:,}", share(layer.zeros)),
            "" if layer.sqnr is None else decibels(layer.sqnr),
            *(f"{size:,}" for size in (layer.fp16_bytes, layer.bytes)),
            layer.reason,
        ]
        for layer in layers
    ]
    before, after = (sum(sizes) for sizes in zip(*((y.fp16_bytes, y.bytes) for y in layers), strict=True))
    rows.append(["all", "", "", "", "", f"{before:,}", f"{after:,}", ""])
    return [f"{network}: weights", Grid.of("layer", _STORED, rows, folds="reason")]


def calibration(network: str, result: CalibrationEffect, *, with_layers: bool) -> list[Item]:
    """What sample inputs improved: the outputs, and each layer if requested."""
    samples = f"{numbered(result.samples, 'sample')} ({result.source})"
    judges = numbered(result.judges, "other") if result.judges else "the same"
    lines: list[Item] = [f"{network}: palettes calibrated with {samples}, against FP16 weights on {judges}"]
    rows = [[each.name, decibels(each.before), decibels(each.after)] for each in result.outputs]
    lines += [Grid.of("output", ("dB before", "dB after"), rows)] if rows else []
    if with_layers and result.layers:
        rows = [[each.name, *map(decibels, (each.before, each.after, each.limit))] for each in result.layers]
        lines.append(Grid.of("layer alone", ("dB before", "dB after", "estimated limit"), rows))
        if (worst := result.worst_layer) is not None:
            lines.append(
                f'  FP16 weights probably pay most in "{worst}"; `verify --sensitivity` measures what they bring'
            )
    return lines


def sweep(result: Sweep) -> list[Item]:
    """The variants, and which of them are on the Pareto front."""
    first, *others = result.titles
    return [
        result.network,
        Grid.of(first, others, [[cell.text for cell in row] for row in result.cells]),
        *(f"  {note}" for note in result.notes),
    ]


# --- inspect -------------------------------------------------------------------------------------------------------------

_LAYER_COLUMNS = (
    Column("layer", right=False, folds=True),
    Column("type", right=False, folds=True),
    Column("output", right=False),
    Column("parameters"),
    Column("MACs"),
    Column("runs", right=False),
    Column("how", right=False, folds=True),
    Column("steps", right=False),
)
_NAMED = 8  # layers that one hint names
_STYLES = {"refused": "red", "unknown": "yellow", "cpu": "cyan", "device+cpu": "cyan"}


def inspection(result: Report, *, verbose: bool) -> list[Item]:
    """A table of layers, their totals, and what to change. verbose: with the steps of the program, and where commands end."""
    stored = "" if result.has_weights else ", without weights"
    title = f"{result.network} ({result.framework}, {result.file}{stored}); sizes are height x width x channels"
    lines: list[Item] = [title, "", _layers(result, with_steps=verbose)]
    if verbose and result.boundaries:
        lines += ["", "Neighboring layers of the device in different commands:"]
        lines += [f"  {b.before} | {b.after}: {b.reason}" for b in result.boundaries]
    if verbose and result.work is not None:
        from cnn_convertor.report.summary import map_traffic_text

        lines += ["", text] if (text := map_traffic_text(result.work)) else []
    return [*lines, "", *_totals(result)]


def _layers(result: Report, *, with_steps: bool) -> Grid:
    columns = _LAYER_COLUMNS if with_steps else _LAYER_COLUMNS[:-1]
    rows = tuple(tuple(_layer_cells(layer))[: len(columns)] for layer in result.layers)
    return Grid(columns, rows, indent=0, styles=tuple(_STYLES.get(layer.runs, "") for layer in result.layers))


def _layer_cells(layer: ModelLayer) -> list[str]:
    """What the columns say of a layer, including the one for -v."""
    sizes = ["x".join(map(str, shape if shape[:2] != (1, 1) else shape[2:])) for shape in layer.outputs]
    named = zip(layer.output_names or [""] * len(sizes), sizes, strict=True)
    outputs = ", ".join(f"{name} {size}" if name else size for name, size in named)
    names = [layer.name, layer.type, f"{'~' * layer.guessed}{outputs}"]
    costs = [counted(layer.parameters), counted(layer.macs)]
    return [*names, *costs, layer.runs, layer.how, ", ".join(map(str, layer.steps))]


def _totals(result: Report) -> Iterator[str]:
    """The sums over the layers, and what to change."""
    from cnn_convertor.report.summary import shares

    assert result.work is not None
    known = " known" if any(layer.macs is None for layer in result.layers) else ""
    rows = (
        ("layers", f"{len(result.layers)}"),
        ("parameters", f"{result.parameters:,}"),
        ("MACs", f"{result.macs:,}{known}"),
        ("commands", f"{result.work.commands}"),
        ("CPU layers", f"{result.work.cpu_layers}"),
        *((("time", shares(result)),) if result.commands else ()),
    )
    yield from (f"  {label:10}  {value}" for label, value in rows)
    yield ""
    if any(layer.guessed for layer in result.layers):
        yield "~ is a guess: a layer before it cannot be read. Values that depend on it are unknown."
    yield from map(str, result.normalizations)
    if not result.problems:
        yield "It can be converted, as far as is known before its weights are packed."
        return
    yield "It cannot be converted. What to change:"
    for change in result.changes:
        more = [f"and {len(change.layers) - _NAMED} more"] * (len(change.layers) > _NAMED)
        yield f"  {change.code}  {', '.join((*change.layers[:_NAMED], *more))}: {change.hint}"


_COSTS = ("step", "runs", "cycles", "input", "operand", "output", "weights", "bound", "us")
_SHOWN = 40  # characters of the layers of a command


def costs(result: Report) -> list[Item]:
    """What each command and each layer on the CPU costs, and all together. Sizes in bytes."""
    rows = []
    for number, step in enumerate(result.steps):
        if (e := step.cost) is None:
            continue
        layers = ", ".join(step.layers)
        numbers = (e.cycles, e.input_bytes, e.operand_bytes, e.output_bytes, e.weights_bytes)
        name = layers if len(layers) <= _SHOWN else f"{layers[: _SHOWN - 3]}..."
        rows.append([name, str(number), str(len(step.runs)), *map(counted, numbers), e.bound, e.usec.text(",.1f")])
    from cnn_convertor.report.summary import summary

    estimated = [value for label, value in summary(result) if label == "estimate"]
    if not rows:
        return []
    return ["", Grid.of("command", _COSTS, rows), *_ways(result), *_costs_on_cpu(result), "", *estimated]


def _ways(result: Report) -> list[Item]:
    """Why steps of the device run as they do, where the device has a choice."""
    lines: list[Item] = []
    for number, step in enumerate(result.steps):
        if step.cost is not None and step.reason:
            lines.append(f"  step {number}: {step.does}; {step.reason}")
    return ["", *lines] if lines else []


_CPU_COSTS = ("step", "function", "units", "bytes", "us")


def _costs_on_cpu(result: Report) -> list[Item]:
    rows = [
        [step.name, str(number), cost.function, f"{cost.units:,}", f"{cost.bytes:,}", cost.usec.text(",.1f")]
        for number, step in enumerate(result.steps)
        if (cost := step.cpu_cost) is not None
    ]
    return ["", Grid.of("layer on the CPU", _CPU_COSTS, rows)] if rows else []


_COMPARED = ("fusion", "commands", "CPU layers", "problems", "MB", "ms", "bound by memory")


def comparison(results: Sequence[Report]) -> list[Item]:
    """One network on several devices, or at several levels of fusion, side by side."""
    rows = []
    for r in results:
        assert r.work is not None
        cells = [r.device.fusion, str(r.work.commands), str(r.work.cpu_layers), counted(len(r.problems))]
        bound = sum(step.cost is not None and step.cost.bound == "memory" for step in r.steps)
        known = [f"{r.traffic / 1e6:,.2f}", milliseconds(r.usec), str(bound)]
        rows.append([r.device.name, *cells, *(known if r.commands else ["", "", ""])])
    notes = dict.fromkeys(f"  {r.device.name}: {r.device.provenance}" for r in results)
    return [results[0].network, Grid.of("device", _COMPARED, rows), *notes]


# --- report --------------------------------------------------------------------------------------------------------------


def differences(changes: Sequence[ReportDifference]) -> list[Item]:
    """What differs between two reports, line by line."""
    if not changes:
        return ["nothing differs from the earlier report"]
    lines: list[Item] = []
    section = ""
    for each in changes:
        if each.section != section:
            section = each.section
            lines.append(section)
        lines += [
            f"  {each.what}",
            *(f"    {sign} {text}" for sign, text in (("-", each.before), ("+", each.after)) if text),
        ]
    return lines


def passes(result: PassListing, *, verbose: bool, with_graph: bool) -> list[Item]:
    """What each pass changes, as lines; verbose: with those that change nothing, and what each requires and ensures."""
    lines: list[Item] = []
    for each in result.passes:
        change = result.changes.get(each.name)
        if change is None and not verbose:
            continue
        lines.append(each.name)
        if verbose:
            conditions = (("requires", each.requires), ("ensures", each.ensures))
            lines.append(f"  runs here: {each.reason}")
            lines += [f"  {verb}: {condition.words}" for verb, listed in conditions for condition in listed]
        if change is not None:
            lines += [f"  {sign} {line}" for sign, part in (("-", change.before), ("+", change.after)) for line in part]
    return [
        *(lines or ["no pass changes the graph"]),
        *(["graph", *(f"  {line}" for line in str(result.graph).splitlines())] if with_graph else []),
    ]
