"""The command that compares committed outputs with their inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cnn_convertor.cli.commands import FILE, commands, with_console, with_device
from cnn_convertor.cli.console import Console
from cnn_convertor.cli.tables import numbered
from cnn_convertor.config import Config
from cnn_convertor.errors import Origin, Problem


@commands.command()
@click.argument("inis", metavar="NET.ini...", nargs=-1, required=True, type=FILE)
@click.option("--update", is_flag=True, help="Write the outputs that differ.")
@with_device
@with_console
def check(console: Console, inis: tuple[Path, ...], update: bool, **device: Any) -> None:
    """Convert networks, and compare the result with the committed outputs; the exit code is 1 when they differ."""
    from cnn_convertor.checking import check
    from cnn_convertor.pipeline import convert

    for ini in inis:
        with console.attempt():
            config = Config.read(ini, **device)
            found = check(config)
            for difference in found:
                console.show("\n".join([f"{difference.file}:", *(f"  {line}" for line in difference.lines)]))
            if found and update:
                convert(config)
                console.note(f"{ini}: {numbered(len(found), 'file')} updated")
            elif found:
                problem = f"{numbered(len(found), 'file')} of the outputs would change"
                hint = "commit what `cnn-convertor check --update` writes, or undo the change of the input"
                console.find(Problem("DV123", problem, Origin(str(ini)), hint))
            else:
                console.note(f"{ini}: the outputs are up to date")
