"""Writes the rows of docs/networks.md that say where the time of exported networks goes. Nothing runs on the emulated device.

python -m development.benchmarks.exports.times --python libraries/bin/python [--before CHECKOUT] [NAMES]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Final

import click

from cnn_convertor.config import Config
from cnn_convertor.conversion.inspection import find
from cnn_convertor.devices.intervals import Interval, milliseconds
from cnn_convertor.errors import ConvertorError, ConvertorWarning
from development.benchmarks.exports.__main__ import CHECKOUT, export
from development.benchmarks.exports.architectures import ARCHITECTURES
from development.benchmarks.exports.measuring import write_ini
from development.benchmarks.networks_page import Table, keep, rows_of

EXPORTER: Final = "torchscript"
RUNTIMES: Final = ("sdk", "generated")
UNKNOWN: Final = ("", "")


def row(network: str, model: Path, before: tuple[str, str] = UNKNOWN) -> str:
    """The line of a network: the time and the share of the device, before and with each runtime, or the codes of a refusal."""
    cells = [network, ARCHITECTURES[network].size, *before]
    for runtime in RUNTIMES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                report = find(Config.read(write_ini(model, Path(folder), runtime))).report
                codes = {problem.code for problem in report.problems}
            except ConvertorError as error:
                codes = {problem.code for problem in error.problems}
        cells += [", ".join(sorted(codes)), ""] if codes else _cells(report.usec, report.device_usec)
    return f"| {' | '.join(cells)} |"


def with_version(checkout: Path, model: Path) -> tuple[str, str]:
    """The two cells of a network by another version of the package, which runs with the SDK's runtime."""
    with tempfile.TemporaryDirectory() as folder:
        ini = write_ini(model, Path(folder), runtime="")
        command = [sys.executable, "convertor.py", "inspect", "--json", str(ini)]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return UNKNOWN
    work = json.loads(done.stdout)["work"]
    return _cells(Interval(**work["usec"]), Interval(**work["device_usec"]))


def known_before(network: str) -> tuple[str, str]:
    """The two cells that the page has."""
    cells = rows_of(Table.TIMES).get(network, "").split("|")
    return (cells[3].strip(), cells[4].strip()) if len(cells) > 4 else UNKNOWN


def _cells(usec: Interval, device: Interval) -> tuple[str, str]:
    """The time, and the share of the device in its shorter end."""
    return milliseconds(usec), f"{device.low / usec.low if usec.low else 1.0:.0%}"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(ARCHITECTURES)), metavar="[NAMES]...")
@click.option("--python", default=sys.executable, help="The Python of an environment with exports/requirements.txt.")
@click.option(
    "--models",
    type=click.Path(path_type=Path),
    default=CHECKOUT / "build" / "models",
    help="Folder of exported models.",
)
@click.option("--before", type=click.Path(exists=True, path_type=Path), help="A checkout of version 0.2.0.")
def main(names: tuple[str, ...], python: str, models: Path, before: Path | None) -> None:
    """Write the rows of the networks named, or of all. Models that the folder has are not exported again.

    Without --before, the page keeps the times that it has of version 0.2.0.
    """
    warnings.simplefilter("ignore", ConvertorWarning)
    models.mkdir(parents=True, exist_ok=True)
    for network in names or tuple(ARCHITECTURES):
        export(network, [EXPORTER], models, python)
        model = models / f"{network}.{EXPORTER}.onnx"
        if model.exists():
            line = row(network, model, with_version(before, model) if before else known_before(network))
            click.echo(line)
            keep(Table.TIMES, {network: line})


if __name__ == "__main__":
    main()
