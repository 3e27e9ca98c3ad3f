"""The commands about memory and files of the device: audit, export, layout, plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from cnn_convertor.cli.compiled_files import audit_compiled, is_compiled
from cnn_convertor.cli.console import Console
from cnn_convertor.cli.entry import commands, with_console
from cnn_convertor.cli.grids import Column, Grid, numbered
from cnn_convertor.cli.shared_options import (
    COUNT,
    FILE,
    OUTPUT,
    WholeNumber,
    with_device,
    with_format,
    with_network,
    with_sources,
)
from cnn_convertor.config import Config
from cnn_convertor.devices.registry import DEFAULT_DEVICE, read_hardware
from cnn_convertor.errors import Origin, Problem, UsageError


@commands.command()
@click.argument("source", metavar="NAME_gen.cpp", type=FILE)
@click.argument("weights", metavar="[NAME_weights.bin]", required=False, type=FILE)
@with_device
@with_format
@with_console
def audit(console: Console, source: Path, weights: Path | None, device: str | None, **sizes: int | None) -> None:
    """Check a generated source and its weights.

    Its commands are listed. The limits are those of the device in the manifest beside the source; --device wins, and dv700 is the default.
    Of a compiled network, MODEL.nvdla, it checks the descriptors for --device.
    """
    if is_compiled(source):
        audit_compiled(console, source, weights, device, sizes)
        return
    from cnn_convertor.audit import audit
    from cnn_convertor.audit.command_checks import AuditedDevice

    name, limits = _board(source, device, sizes)
    with console.working(source.name, "audit"):
        result = audit(source, weights, AuditedDevice(**limits))
    for finding in result.findings:
        console.find(finding)
    for note in result.notes:
        console.complain("note", note)
    console.lines(result.listing.rstrip("\n").split("\n"))  # a name may have what else splits lines
    counts = f"{numbered(result.commands, 'command')}, {numbered(len(result.findings), 'finding')}"
    console.show(f"{result.name} on {name}: {counts}")


def _board(source: Path, device: str | None, sizes: Mapping[str, int | None]) -> tuple[str, dict[str, Any]]:
    """Name and limits of the device to audit for; sizes that are given win."""
    from cnn_convertor.conversion.manifest import board_of

    profile = read_hardware(device or DEFAULT_DEVICE, Path()).overridden(**sizes)
    if device is None and (known := board_of(source)):
        name, limits = known
        return name, limits | {key: value for key, value in sizes.items() if value is not None}
    return profile.name, dict(profile.of_board)


_DIGITS = 19  # a number of fewer digits fits 64 bits


def _numbers(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Parse positive numbers separated by commas or x."""
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.isdecimal() and len(part) < _DIGITS and int(part) for part in parts):
        raise click.BadParameter(f'"{text}" is not a shape like 1,3,224,224')
    return tuple(map(int, parts))


with_element = click.option("--element", metavar="TYPE", help="Type of the elements, like float16.")


@commands.group()
def layouts() -> None:
    """Describe memory layouts, convert arrays, plan memory."""


@layouts.command("list")
@click.argument("family", metavar="[FAMILY]", required=False)
@with_console
def list_layouts(console: Console, family: str | None) -> None:
    """List the named layouts.

    Without a family (plain, dv700, nvdla, bpu or cldnn), it lists all.
    """
    from cnn_convertor.layouts.names import LAYOUTS
    from cnn_convertor.layouts.nvdla.pixels import FORMATS

    rows = [(kind, layout.name, str(layout)) for kind, layout in LAYOUTS.values()]
    rows += [("nvdla", name, f"pixels: {pixels}") for name, pixels in FORMATS.items()]
    rows = [row for row in rows if family in (None, row[0])]
    if not rows:
        families = ", ".join(dict.fromkeys(kind for kind, _ in LAYOUTS.values()))
        raise UsageError.of("DV841", f'no family of layouts is called "{family}"', hint=families)
    texts = (Column("", right=False), Column("", right=False), Column("", right=False, folds=True))
    console.lines([Grid(texts, tuple(rows), indent=0)])


@layouts.command("describe")
@click.argument("name", metavar="NAME")
@click.option(
    "--shape",
    metavar="N,N,...",
    callback=_numbers,
    required=True,
    help="Shape of the array, in the order of the layout's axes.",
)
@with_element
@click.option("-o", "--output", "picture", metavar="FILE.svg", type=OUTPUT, help="Draw the memory.")
@with_console
def describe_layout(
    console: Console, name: str, shape: tuple[int, ...], element: str | None, picture: Path | None
) -> None:
    """Show where elements lie in a layout.

    It prints the formula, the size and the first elements.
    """
    from cnn_convertor.files import replacing
    from cnn_convertor.layouts.describe import describe, svg
    from cnn_convertor.layouts.names import layout_of

    memory, kind = layout_of(name), _element(element)
    console.lines(describe(memory, shape, element=kind).splitlines())
    if picture is not None:
        replacing.write(picture, svg(memory, shape, element=kind))


def _element(name: str | None) -> Any:
    from cnn_convertor.layouts.notation import element_of

    if name is not None and element_of(name) is None:
        raise UsageError.of("DV841", f'no element type is called "{name}"', hint="int8, int16, float16, float32")
    return None if name is None else element_of(name)


def _moves(name: str, text: str, **plain: str) -> None:
    """Add a command that reads a file in one layout and writes it in another. plain: the side with a default, and which."""

    def which(option: str, side: str, help_text: str) -> Callable[..., Any]:
        default = plain.get(side)
        return click.option(
            option,
            side,
            metavar="NAME",
            help=help_text,
            required=default is None,
            default=default,
            show_default=default is not None,
        )

    @layouts.command(name, help=text)
    @which("--from", "source_layout", "The layout of the input.")
    @which("--to", "to", "The layout of the output.")
    @click.option(
        "--shape", metavar="N,N,...", callback=_numbers, help="Shape of the input, in the order of its layout's axes."
    )
    @with_element
    @click.argument("source", metavar="IN", type=FILE)
    @click.argument("target", metavar="OUT", type=OUTPUT)
    @with_console
    def move(
        console: Console,
        source_layout: str,
        to: str,
        shape: tuple[int, ...] | None,
        element: str | None,
        source: Path,
        target: Path,
    ) -> None:
        from cnn_convertor.files.replacing import write
        from cnn_convertor.layouts import array_files

        before = array_files.form_of(source_layout)
        after = array_files.form_of(to)
        with console.working(source.name, "rearrange"):
            array = array_files.rearranged(
                array_files.read(source, before, shape or (), _element(element)), before, after
            )
            write(target, (array_files.contents(target, array, after),))


_moves("pack", "Pack an array, IN.npy, into memory, OUT.bin.", source_layout="NCHW")
_moves(
    "unpack",
    "Unpack memory, IN.bin, into an array, OUT.npy.\n\nThe array has the given --shape and --element.",
    to="NCHW",
)
_moves(
    "convert",
    "Move an array from one layout into another.\n\nFiles that end in .npy hold arrays, others memory.",
    source_layout="NCHW",
)


@layouts.command()
@click.argument("ini", metavar="NET.ini", type=FILE)
@click.option(
    "--target",
    metavar="NAME",
    required=True,
    help="nvdla-fp16, nvdla-int16, nvdla-int8 (each with :image,winograd,compressed or some of these), nvdla-small, nvdla-large, "
    "cldnn:FORMAT[,FORMAT...], bpu[:ALIGN], bpu:x3 or dv700.",
)
@click.option(
    "-o", "--output", metavar="DIR", required=True, type=FILE, help="Folder of the surfaces and manifest.json."
)
@click.option("--inputs", "input_file", metavar="FILE", type=FILE, help="Image or array to write as the input map.")
@click.option("--element", metavar="TYPE", help="For cldnn and bpu: float32, float16, int16 or int8.")
@click.option("--run", is_flag=True, help="Also write the output maps of the emulated device.")
@with_sources
@with_network
@with_console
def export(
    console: Console,
    ini: Path,
    target: str,
    output: Path,
    input_file: Path | None,
    element: str | None,
    run: bool,
    sources: tuple[Path, ...],
    **device: Any,
) -> None:
    """Write weights and maps for accelerators.

    They have the memory formats of NVDLA, clDNN, BPU or DV700.
    """
    from cnn_convertor.export import export

    config = Config.read(ini, **device)
    with console.progress(config.name, verbose=config.verbose) as progress:
        result = export(
            config, target, output, input_file=input_file, element=element, run=run, sources=sources, progress=progress
        )
    console.result(f"{config.name} for {target}", [*result.summary, ("manifest", str(result.files[-1]))])


@layouts.command()
@click.argument("table", metavar="FILE.csv", type=FILE)
@click.option("--capacity", metavar="N", type=WholeNumber(0), help="Exit with 1 if the plan needs more than N.")
@click.option("--alignment", metavar="N", type=COUNT, default=1, show_default=True, help="Offsets are multiples of N.")
@click.option(
    "--nodes",
    metavar="N",
    type=WholeNumber(0),
    default=20_000,
    show_default=True,
    help="Limit of the search, in nodes.",
)
@click.option("-o", "--output", metavar="OUT.csv", type=OUTPUT, help="Table with offsets; by default standard output.")
@with_format
@with_console
def plan(console: Console, table: Path, capacity: int | None, alignment: int, nodes: int, output: Path | None) -> None:
    """Find offsets for a table of buffers.

    Its columns are id,lower,upper,size; live ranges are half-open.
    """
    from cnn_convertor.files import replacing
    from cnn_convertor.memory import planning
    from cnn_convertor.memory import table as tables

    buffers = tables.load(table)
    with console.working(table.name, "plan"):
        result = planning.plan(buffers, alignment=alignment, nodes=nodes, enough=capacity or 0)
    text = tables.write(buffers, result.offsets)
    if output is None:
        console.show(text)
    else:
        replacing.write(output, text)
    console.note(f"{table}: {len(buffers)} buffers in {result}")
    if capacity is not None and result.size > capacity:
        reason = f"{result.size:,} is the smallest plan found, {capacity:,} is the capacity"
        hint = "no plan is smaller" if result.proven else "use a larger --nodes"
        if result.lower_bound > capacity:
            hint = f"use a capacity of at least {result.lower_bound:,}: no plan is smaller"
        console.find(Problem("DV120", reason, Origin(str(table)), hint))
