"""The commands that describe a model and its conversion: report, passes, init."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnn_convertor.cli.console import Console
from cnn_convertor.cli.entry import commands, save, with_console
from cnn_convertor.cli.shared_options import FILE, OUTPUT, with_calibration, with_network
from cnn_convertor.config import Config
from cnn_convertor.errors import Origin, UsageError, did_you_mean

if TYPE_CHECKING:
    from cnn_convertor.report.values import Report


@commands.command()
@click.argument("ini", metavar="MODEL_OR_INI", type=FILE)
@click.option("--html", metavar="FILE", type=OUTPUT, help="Write the report as one self-contained page.")
@click.option("--json", "json_file", metavar="FILE", type=OUTPUT, help="Write the report as JSON (docs/report.md).")
@click.option("--svg", "network_file", metavar="FILE", type=OUTPUT, help="Draw the network as SVG.")
@click.option("--memory-svg", "memory_file", metavar="FILE", type=OUTPUT, help="Draw the I/O buffer over time as SVG.")
@click.option("--compare", "earlier", metavar="OLD.json", type=FILE, help="Show what differs from an earlier report.")
@click.option("--verify", "verified", is_flag=True, help="Compare with the framework, too, layer by layer.")
@click.option("--board", metavar="DIR", type=FILE, help="Show a kit's measurements on the board beside the model.")
@click.option(
    "--inputs", metavar="PATH", type=FILE, help="Inputs for --verify, or those of the kit; by default random."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@with_calibration
@with_network
@with_console
def report(
    console: Console,
    ini: Path,
    html: Path | None,
    json_file: Path | None,
    network_file: Path | None,
    memory_file: Path | None,
    earlier: Path | None,
    verified: bool,
    board: Path | None,
    inputs: Path | None,
    opens: bool,
    calibrate: Path | None,
    **device: Any,
) -> None:
    """Show the result of a conversion.

    The report has steps, costs, memory and weights. The exit code is 1 when the network cannot be converted, or when
    --verify or --board finds that it computes something else.
    """
    from cnn_convertor.cli.overview import find
    from cnn_convertor.files.codec import to_json
    from cnn_convertor.report.comparison import differences
    from cnn_convertor.report.page import html_page, memory_svg, network_svg

    if opens and html is None:
        raise UsageError.of("DV100", "--open needs --html: it opens that file")
    if inputs is not None and not verified and board is None:
        raise UsageError.of("DV100", "--inputs goes with --verify or --board alone, which run the network")
    config = Config.of(ini, calibrate=calibrate, **device)
    old = None if earlier is None else earlier_report(earlier)
    with console.progress(config.name, verbose=config.verbose) as progress:
        current, problems, notes = find(config, progress, verified=verified, board=board, inputs=inputs)
    compared = None if old is None else differences(old, current)
    data = to_json(current)
    save(json_file, data)
    if html is not None:
        save(html, html_page(current, compared=compared, data=data))
    drawn = {network_file: network_svg, memory_file: memory_svg} if current.steps else {}
    for path, draw in drawn.items():
        if path is not None:
            save(path, draw(current))
    written = [path for path in (html, json_file, *drawn) if path is not None]
    console.report(current, problems, notes, written, compared)
    if opens and html is not None:
        click.launch(html.resolve().as_uri())


def earlier_report(path: Path) -> Report:
    from cnn_convertor.files import json_files
    from cnn_convertor.files.codec import from_values
    from cnn_convertor.report.values import SCHEMA, Report

    hint = "give a file that `report --json` wrote"
    try:
        values = json_files.load(path)
        match values:  # first, as another form has other entries
            case {"schema": int(form)} if form != SCHEMA:
                problem = f"the report has schema {form}, not {SCHEMA}"
                raise UsageError.of("DV161", problem, Origin(str(path)), f"{hint} with this version")
        return from_values(Report, values)
    except ValueError as error:
        raise UsageError.of("DV161", f"this is not a report: {error}", Origin(str(path)), hint) from None


@commands.command()
@click.argument("ini", metavar="MODEL_OR_INI", type=FILE)
@click.option("--until", metavar="NAME", help="Stop after this pass, and show the whole graph.")
@with_network
@with_console
def passes(console: Console, ini: Path, until: str | None, **device: Any) -> None:
    """Show what each pass changes in the graph of a network.

    Each pass rewrites the graph: first those for all devices, then those for this one. Lines with - are nodes before a pass,
    lines with + after it. -v also shows the passes that change nothing, why each has its place, and what each requires and
    ensures.
    """
    from cnn_convertor.config.request import Request
    from cnn_convertor.conversion.inspection import list_passes
    from cnn_convertor.pipeline import passes_of

    config = Config.of(ini, **device)
    names = [each.name for each in passes_of(Request.of(config).target)]
    if until is not None and until not in names:
        problem = f'there is no pass "{until}"{did_you_mean(until, names)}'
        raise UsageError.of("DV100", problem, hint=f"the passes are {', '.join(names)}")
    with console.working(config.name, "passes"):
        listing = list_passes(config, until)
    console.passes(listing, with_graph=until is not None)


@commands.command()
@click.argument("model", metavar="MODEL", type=FILE)
@click.option("-o", "--output", metavar="NET.ini", type=OUTPUT, help="The ini file; by default standard output.")
@with_console
def init(console: Console, model: Path, output: Path | None) -> None:
    """Write an ini file for a model.

    It has every key with its meaning. If the model normalizes its input, mean and scale are guessed.
    """
    from cnn_convertor.conversion.first_ini import first_ini

    with console.working(model.name, "read"):
        text = first_ini(model, output)
    if output is None:
        console.data(text)
        return
    save(output, text)
    guessed = "; see the lines with `guessed`" * ("; guessed: " in text)
    missing = "; see the line with `to be set`" * ("; to be set: " in text)
    console.note(f"{output} is written{guessed}{missing}")
