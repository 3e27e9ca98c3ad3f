"""Options that several commands share, and their types, with plain error messages."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from typing import Any

import click

from cnn_convertor.cli.problems import FORMATS, TEXT
from cnn_convertor.files.dependencies import identity_of
from cnn_convertor.workers.cluster import Cluster
from cnn_convertor.workers.pool import limited
from cnn_convertor.workers.processes import Processes


class WholeNumber(click.IntRange):
    """A whole number of at least `least`."""

    def __init__(self, least: int) -> None:
        super().__init__(least)
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f'"{value}" is not a whole number of at least {self.least}', param, ctx)


class Number(click.types.FloatParamType):
    """Any number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            if math.isnan(number := super().convert(value, param, ctx)):
                raise click.BadParameter("")
        except click.BadParameter:
            self.fail(f'"{value}" is not a number', param, ctx)
        return number


class Address(click.types.StringParamType):
    """Where a Dask scheduler listens."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"(tcp|tls)://[^/\s]+:\d{1,5}", value):
            self.fail(f'"{value}" is not an address like tcp://host:8786 or tls://host:8786', param, ctx)
        return str(value)


class File(click.Path):
    """A file or a folder; not an empty text, which Python takes for the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("a path is empty", param, ctx)
        return super().convert(value, param, ctx)


class Output(File):
    """A file that the command writes, apart from all others that it names."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value and isinstance(value, str) and (value.endswith(os.sep) or Path(value).is_dir()):
            self.fail(f'"{value}" is a folder: name a file in it', param, ctx)
        return super().convert(value, param, ctx)


FILE = File()
OUTPUT = Output()
COUNT = WholeNumber(1)
ADDRESS = Address()
OUT = click.option(
    "-o", "--output", "folder", metavar="DIR", required=True, type=FILE, help="Folder to copy to the board."
)
with_calibration = click.option(
    "--calibrate",
    metavar="PATH",
    type=FILE,
    help="Fit palettes, or tables of functions, to sample inputs: a .npz or .npy file, an image, or a folder of them.",
)
with_sources = click.option(
    "--source",
    "sources",
    metavar="FILE.cpp",
    multiple=True,
    type=FILE,
    help="C++ file with the callbacks of custom layers; can be repeated.",
)


with_format = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=TEXT,
    show_default=True,
    help="Format of problems: `github` prints annotations; `json` and `sarif` replace all other output.",
)


def outputs_apart(context: click.Context) -> list[Path]:
    """The files that options of a command name, to be written.

    Raises click.UsageError when it would write two files to one place, or one over a file that it reads.
    """
    named: dict[tuple[int, int] | str, str] = {}
    outputs = []
    for parameter in sorted(context.command.params, key=lambda each: isinstance(each.type, Output)):
        values = context.params.get(str(parameter.name))
        name = "the argument" if isinstance(parameter, click.Argument) else parameter.opts[0]
        for path in values if isinstance(values, tuple) else (values,):
            if not isinstance(path, Path):
                continue
            is_device = path.exists() and not path.is_file()  # it takes any number of files
            identity = identity_of(path) or os.path.realpath(path)
            other = name if is_device else named.setdefault(identity, name)
            if isinstance(parameter.type, Output):
                outputs.append(path)
                if other != name:
                    raise click.UsageError(f"{other} and {name} name the same file, {path}")
    return outputs


def with_workers(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that choose where the work runs, and pass them on as one value, `on`."""

    @wraps(command)
    def run(jobs: int | None, scheduler: str | None, ship: bool, **others: Any) -> int:
        if scheduler is None:
            if ship:
                raise click.UsageError("--ship sends files to a cluster, which --scheduler names")
            with nullcontext() if jobs is None else limited(jobs):
                return command(on=Processes(jobs or 1), **others)
        if jobs is not None:
            raise click.UsageError("give --jobs, for processes of this computer, or --scheduler, for a cluster")
        return command(on=Cluster(scheduler, ship), **others)

    jobs = click.option(
        "--jobs",
        metavar="N",
        type=COUNT,
        help="Number of processes in total; by default one, and for palettes one per core.",
    )
    scheduler = click.option(
        "--scheduler",
        metavar="ADDRESS",
        type=ADDRESS,
        help="Work on the Dask cluster at tcp://host:port (see docs/cluster.md).",
    )
    ship = click.option("--ship", is_flag=True, help="Send input files to the workers and outputs back.")
    return jobs(scheduler(ship(run)))


def with_device(command: Callable[..., int], besides: str = "") -> Callable[..., int]:
    """Add the options that describe the device. besides: what else says where a network runs, for --help."""
    name = click.option("--device", metavar="NAME|FILE", help=f"The target board (see docs/devices.md){besides}.")
    kernel = click.option(
        "--max-kernel-size",
        metavar="N",
        type=COUNT,
        help="Largest kernel in pixels, in place of the device's.",
    )
    buffer = click.option(
        "--ub-size",
        metavar="BYTES",
        type=COUNT,
        help="Size of the unified buffer, in place of the device's.",
    )
    return name(kernel(buffer(command)))


def with_network(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of commands that read an ini file: the device, and whether code of the user's may run."""
    code = click.option(
        "--no-custom-code", is_flag=True, help="Refuse networks with custom_layer, which is Python code."
    )
    return with_device(code(command), ", in place of the ini file's")


def with_inputs(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that choose samples."""
    paths = click.option(
        "--inputs", metavar="PATH", type=FILE, help="A .npz or .npy file, an image, or a folder of them."
    )
    count = click.option(
        "--samples",
        metavar="N",
        type=COUNT,
        default=4,
        show_default=True,
        help="Number of random images, without --inputs.",
    )
    seed = click.option(
        "--seed",
        metavar="N",
        type=WholeNumber(0),
        default=0,
        show_default=True,
        help="Seed of the random images.",
    )
    return paths(count(seed(command)))
