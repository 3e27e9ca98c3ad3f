"""The commands about boards: devices, board probe, board kit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from cnn_convertor.cli import tables
from cnn_convertor.cli.console import Console
from cnn_convertor.cli.entry import commands, with_console
from cnn_convertor.cli.grids import numbered
from cnn_convertor.cli.shared_options import (
    FILE,
    OUT,
    with_calibration,
    with_device,
    with_inputs,
    with_network,
    with_sources,
)
from cnn_convertor.config import Config
from cnn_convertor.devices.registry import DEFAULT_DEVICE, NAMES, read_hardware


@commands.command("devices")
@click.argument("names", metavar="[NAME|FILE]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the devices as JSON.")
@with_console
def list_devices(console: Console, names: tuple[str, ...], as_json: bool) -> None:
    """List devices with their figures.

    Each figure has its source; assumed ones are marked.
    """
    profiles = [read_hardware(name, Path()) for name in names or NAMES]
    if as_json:
        console.json(tables.devices_as_json(profiles))
    else:
        console.lines(tables.devices(profiles))


@commands.group("board")
def boards() -> None:
    """Write programs for the board."""


@boards.command()
@OUT
@with_device
@with_console
def probe(console: Console, folder: Path, device: str | None, **sizes: int | None) -> None:
    """Write a program that tests a board.

    It finds out which forms of commands work there.
    """
    from cnn_convertor.devices.registry import write_probe

    profile = read_hardware(device or DEFAULT_DEVICE, Path()).overridden(**sizes)
    console.note(f"{numbered(write_probe(folder, profile), 'command')} in {folder}")


@boards.command()
@click.argument("ini", metavar="NET.ini", type=FILE)
@with_inputs
@OUT
@with_calibration
@with_sources
@with_network
@with_console
def kit(
    console: Console,
    ini: Path,
    inputs: Path | None,
    samples: int,
    seed: int,
    folder: Path,
    calibrate: Path | None,
    sources: tuple[Path, ...],
    no_custom_code: bool,
    **device: Any,
) -> None:
    """Write a folder that runs a network on a board.

    `verify --board` compares the results.
    """
    from cnn_convertor.board.kit import Inputs, write_kit

    config = Config.read(ini, calibrate=calibrate, no_custom_code=no_custom_code, **device)
    with console.progress(config.name, verbose=config.verbose) as progress:
        written = write_kit(config, folder, Inputs(inputs, samples, seed), sources=sources, progress=progress)
    console.note(f"{config.name} with {numbered(written.samples, 'sample')} in {folder}")
    settings = {"inputs": inputs, "calibrate": calibrate, **device}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items() if value is not None]
    options += [f"--source={path}" for path in sources]
    verify = shlex.join(["cnn-convertor", "verify", str(ini), *options, "--board", "RESULTS"])
    console.note(f"next: build and run it on the board, as {folder / 'README.txt'} says; then `{verify}`")
