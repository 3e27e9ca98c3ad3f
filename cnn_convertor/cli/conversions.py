"""The commands that convert networks: convert, check."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnn_convertor import dependencies
from cnn_convertor.cli.console import DONE, Console
from cnn_convertor.cli.parameters import FILE, with_calibration, with_device
from cnn_convertor.cli.program import commands, with_console
from cnn_convertor.cli.tables import numbered
from cnn_convertor.config import Config
from cnn_convertor.errors import Origin, Problem, UsageError

if TYPE_CHECKING:
    from cnn_convertor.report import Report


@commands.command()
@click.argument("inis", metavar="NET.ini...", nargs=-1, required=True, type=FILE)
@with_calibration
@click.option(
    "--output-folder",
    metavar="DIR",
    type=FILE,
    help="Folder of the outputs, in place of the ini file's.",
)
@click.option(
    "--depfile",
    metavar="FILE",
    type=FILE,
    help="Write the files that the outputs depend on, for Make and Ninja.",
)
@click.option(
    "--depfile-target",
    metavar="FILE",
    type=FILE,
    help="What depends on them, in place of the weights' file.",
)
@with_device
@with_console
def convert(
    console: Console,
    inis: tuple[Path, ...],
    calibrate: Path | None,
    output_folder: Path | None,
    depfile: Path | None,
    depfile_target: Path | None,
    **device: Any,
) -> None:
    """Convert networks; the default command."""
    if depfile is not None and len(inis) > 1:
        problem = "--depfile needs one NET.ini: each network depends on files of its own"
        raise UsageError.of("DV100", problem, Origin(str(depfile)), "convert the networks one after the other")
    configs: list[tuple[Path, Config]] = []
    written: list[Path] = []
    converted = 0
    with nullcontext(set[Path]()) if depfile is None else dependencies.recorded() as inputs:
        for ini in inis:
            with console.attempt():
                config = Config.read(ini, calibrate=calibrate, output_folder=output_folder, **device)
                _check_apart(config, ini, configs)
                configs.append((ini, config))
        for ini, config in configs:
            with console.attempt():
                report = _convert(config, console)
                console.conversion(config.name, f"{config.name} ({ini})", report, verbose=config.verbose)
                written += report.files
                converted += 1
    if depfile is not None and console.code == DONE:
        with console.attempt():
            from cnn_convertor.files import replace_all

            target = depfile_target or next(path for path in written if path.name.endswith("_weights.bin"))
            replace_all(depfile.parent, {depfile.name: dependencies.depfile(target, inputs, written[0].parent)})
    if len(inis) > 1 and converted < len(inis):
        console.note(f"{converted} of {len(inis)} networks converted")


def _convert(config: Config, console: Console) -> Report:
    # Imported here, so that --help stays fast.
    from cnn_convertor.pipeline import convert

    with console.progress(config.name, verbose=config.verbose) as progress:
        return convert(config, progress)


def _check_apart(config: Config, ini: Path, others: Sequence[tuple[Path, Config]]) -> None:
    """Reject a network that would overwrite another one's files."""
    for other, its in others:
        if (its.output_folder.resolve(), its.name) == (config.output_folder.resolve(), config.name):
            problem = f'[INPUT] name: the files of "{config.name}" would replace those of {other}'
            raise UsageError.of("DV114", problem, Origin(str(ini)), "use another name or another output_folder")


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
