"""The commands that convert networks and keep the outputs: convert, check, cache."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnn_convertor.cli.console import DONE, Console
from cnn_convertor.cli.entry import commands, with_console
from cnn_convertor.cli.grids import numbered
from cnn_convertor.cli.shared_options import (
    FILE,
    OUTPUT,
    WholeNumber,
    with_calibration,
    with_format,
    with_network,
    with_workers,
)
from cnn_convertor.config import Config
from cnn_convertor.config.ini_file import ini_files
from cnn_convertor.errors import Origin, Problem, UsageError
from cnn_convertor.files import dependencies
from cnn_convertor.workers.cluster import Cluster
from cnn_convertor.workers.outcomes import Outcome
from cnn_convertor.workers.processes import HERE, Processes, Workers

if TYPE_CHECKING:
    from cnn_convertor.conversion.bulk import Converted
    from cnn_convertor.conversion.cache import Cache, Statistics


@commands.command()
@click.argument("paths", metavar="MODEL_OR_INI...", nargs=-1, required=True, type=FILE)
@with_calibration
@with_workers
@click.option("--cache", metavar="DIR", type=FILE, help="Store outputs in this folder, and reuse them.")
@click.option(
    "-o",
    "--output",
    "output_folder",
    metavar="DIR",
    type=FILE,
    help="Folder of the outputs, in place of the ini file's.",
)
@click.option(
    "--depfile", metavar="FILE", type=OUTPUT, help="Write the files that the outputs depend on, for Make and Ninja."
)
@click.option(
    "--depfile-target", metavar="FILE", type=FILE, help="The file that depends on them; by default the weights."
)
@with_network
@with_format
@with_console
def convert(
    console: Console,
    paths: tuple[Path, ...],
    on: Workers,
    cache: Path | None,
    depfile: Path | None,
    depfile_target: Path | None,
    **options: Any,
) -> None:
    """Convert networks; the default command.

    A folder or a pattern stands for the ini files in it. A model without an ini file is converted with all defaults.
    """
    from cnn_convertor.conversion.convert import check_outputs  # here, so that --help stays fast

    inis = ini_files(paths)
    _check_cluster(on, cache, depfile)
    if depfile is not None and len(inis) > 1:
        problem = "--depfile needs one NET.ini: each network depends on files of its own"
        raise UsageError.of("DV100", problem, Origin(str(depfile)), "convert the networks one after the other")
    if depfile_target is not None and depfile is None:
        raise UsageError.of("DV100", "--depfile-target needs --depfile", hint="add --depfile FILE")
    configs: list[tuple[Path, Config]] = []
    taken: dict[Path, Path] = {}
    with nullcontext(set[Path]()) if depfile is None else dependencies.recorded(options["calibrate"]) as inputs:
        for ini in inis:
            with console.attempt():
                config = Config.of(ini, **options)
                _check_apart(config, ini, taken)
                check_outputs(config)
                configs.append((ini, config))
        converted = _convert(configs, console, on=on, cache=cache)
    if depfile is not None and console.code == DONE:
        with console.attempt():
            from cnn_convertor.files import replacing

            (written,) = (done.conversion.files for done in converted)
            target = depfile_target or next(path for path in written if path.name.endswith("_weights.bin"))
            replacing.write(depfile, dependencies.depfile(target, inputs, written[0].parent, cache))
    known = sum(done.is_known for done in converted)
    if len(inis) > 1 and (known or len(converted) < len(inis)):
        from_cache = f", {known} of them from the cache" if known else ""
        console.note(f"{len(converted)} of {len(inis)} networks converted{from_cache}")


def _check_cluster(on: Workers, cache: Path | None, depfile: Path | None) -> None:
    """Reject options that need to see what a conversion reads and writes."""
    if isinstance(on, Cluster):
        if depfile is not None:
            raise UsageError.of("DV100", "--depfile does not go with --scheduler: convert the network on this computer")
        if cache is not None and on.ships:
            raise UsageError.of("DV100", "--cache does not go with --ship: the computers have no folder in common")


def _convert(
    configs: Sequence[tuple[Path, Config]], console: Console, *, on: Workers, cache: Path | None
) -> list[Converted]:
    """Convert, and print the outcomes in the order of the networks; returns those that succeed."""
    from cnn_convertor.conversion import bulk  # here, so that --help stays fast

    tasks = [bulk.ConversionJob(config, cache, console.strict) for _, config in configs]
    converted: list[Converted] = []

    def show(number: int, outcome: Outcome[Converted]) -> None:
        ini, config = configs[number]
        console.judge_outcome(outcome)
        if outcome.result is not None:
            conversion = outcome.result.conversion
            console.conversion(config.name, f"{config.name} ({ini})", conversion, verbose=config.verbose)
            converted.append(outcome.result)

    # One network is converted here, if only to spread its calibration.
    is_one = len(tasks) < 2 and (isinstance(on, Processes) or all(config.calibrate for _, config in configs))
    if is_one or on == HERE:
        for number, task in enumerate(tasks):
            with console.progress(task.config.name, verbose=task.config.verbose) as progress:
                outcome = bulk.convert_one(task, progress, on=on)
            show(number, outcome)
        return converted
    waiting: dict[int, Outcome[Converted]] = {}
    number = 0
    with console.table([config.name for _, config in configs]) as table:
        for done, outcome in bulk.convert_all(tasks, on=on, started=table.start):
            table.end(done, failed=outcome.result is None)
            waiting[done] = outcome
            while number in waiting:
                ready = waiting.pop(number)
                with table.paused(number, "failed" if ready.result is None else ready.result.how):
                    show(number, ready)
                number += 1
    return converted


def _check_apart(config: Config, ini: Path, taken: dict[Path, Path]) -> None:
    """Reject a network that would overwrite another one's files. taken: folder -> the ini file whose files go there."""
    other = taken.setdefault(config.folder.resolve(), ini)
    if other is not ini:
        problem = f'[INPUT] name: the files of "{config.name}" would replace those of {other}'
        raise UsageError.of("DV114", problem, Origin(str(ini)), "use another name or another output_folder")


@commands.command()
@click.argument("inis", metavar="NET.ini...", nargs=-1, required=True, type=FILE)
@click.option("--update", is_flag=True, help="Write the outputs that differ.")
@with_network
@with_format
@with_console
def check(console: Console, inis: tuple[Path, ...], update: bool, **device: Any) -> None:
    """Compare committed outputs with new ones.

    The exit code is 1 when they differ, as files of a conversion with --calibrate do.
    """
    from cnn_convertor.conversion.checking import check, unknown_files
    from cnn_convertor.conversion.convert import convert
    from cnn_convertor.files.dependencies import unrecorded

    for ini in ini_files(inis):
        with console.attempt():
            config = Config.read(ini, **device)
            # The outputs are compared with new ones, which may replace them.
            with console.progress(config.name, verbose=config.verbose) as progress, unrecorded():
                differences = check(config, progress)
            if strangers := unknown_files(config):
                console.note(f"{ini}: no conversion writes these files of the output folder: {', '.join(strangers)}")
            for difference in differences:
                console.show("\n".join([f"{difference.file}:", *(f"  {line}" for line in difference.lines)]))
            if differences and update:
                convert(config)
                console.note(f"{ini}: {numbered(len(differences), 'file')} updated")
            elif differences:
                problem = f"{numbered(len(differences), 'file')} of the outputs would change"
                update_it = f"cnn-convertor check --update {shlex.quote(str(ini))}"
                hint = (
                    f"commit what `{update_it}` writes, or undo the change of the input; if the files were calibrated, "
                    "`verify` with the same --calibrate compares them"
                )
                places = [(problem, Origin(str(ini)))]
                if console.is_for_programs:  # which show each file
                    places = [
                        (f"this file would change: {each.lines[0]}", Origin(str(each.file), line=each.line))
                        for each in differences
                    ]
                for message, where in places:
                    console.find(Problem("DV123", message, where, hint))
            else:
                console.note(f"{ini}: the outputs are up to date")


@commands.group("cache")
def caches() -> None:
    """Show, clear or prune caches."""


@caches.command()
@click.argument("folder", metavar="DIR", type=FILE)
@with_console
def stats(console: Console, folder: Path) -> None:
    """Show the size of a cache."""
    console.show(_size(_cache(folder).statistics()))


@caches.command()
@click.argument("folder", metavar="DIR", type=FILE)
@with_console
def clear(console: Console, folder: Path) -> None:
    """Remove everything from a cache."""
    console.note(f"removed: {_size(_cache(folder).clear())}")


@caches.command()
@click.argument("folder", metavar="DIR", type=FILE)
@click.option(
    "--size", metavar="BYTES", type=WholeNumber(0), required=True, help="Largest size of the cache afterwards."
)
@with_console
def prune(console: Console, folder: Path, size: int) -> None:
    """Remove the least recently used conversions from a cache."""
    console.note(f"removed: {_size(_cache(folder).prune(size))}")


def _cache(folder: Path) -> Cache:
    from cnn_convertor.conversion.cache import Cache

    cache = Cache(folder)
    cache.require()
    return cache


def _size(statistics: Statistics) -> str:
    return f"{numbered(statistics.entries, 'conversion')}, {statistics.bytes:,} bytes"
