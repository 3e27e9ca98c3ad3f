"""Writes the rows of docs/networks.md that say where the time of exported networks goes. Nothing runs on the emulated device.

python -m development.benchmarks.exports.times --python libraries/bin/python [NAMES]
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from statistics import median
from typing import Final

import click

from cnn_convertor.config import Config
from cnn_convertor.conversion.inspection import find
from cnn_convertor.errors import ConvertorError, ConvertorWarning
from cnn_convertor.report.values import Report
from development.benchmarks.exports.__main__ import CHECKOUT, export
from development.benchmarks.exports.architectures import ARCHITECTURES
from development.benchmarks.exports.measuring import write_ini
from development.benchmarks.networks_page import Table, keep, rows_of

EXPORTER: Final = "torchscript"
RUNTIMES: Final = ("sdk", "generated")
MEDIAN: Final = "(median)"  # the first row


def row(network: str, model: Path) -> str:
    """The line of a network: the time and the share of the device with each runtime, or the codes of a refusal."""
    cells = [ARCHITECTURES[network].size]
    for runtime in RUNTIMES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                report = find(Config.read(write_ini(model, Path(folder), runtime))).report
                codes = {problem.code for problem in report.problems}
            except ConvertorError as error:
                codes = {problem.code for problem in error.problems}
        if codes:
            return f"| {network} | {cells[0]} | {', '.join(sorted(codes))} |  |  |  |"
        cells += [f"{report.usec.low / 1000:.3g} to {report.usec.high / 1000:.3g}", f"{share_on_device(report):.0%}"]
    return f"| {network} | {' | '.join(cells)} |"


def share_on_device(report: Report) -> float:
    """Of the shorter ends of all times."""
    return report.device_usec.low / report.usec.low if report.usec.low else 1.0


def median_row(lines: list[str]) -> str:
    """The medians of the shares of the device in lines of networks."""
    shares: dict[int, list[float]] = {4: [], 6: []}  # column -> values
    for line in lines:
        cells = line.split("|")
        for column, values in shares.items():
            if "%" in cells[column]:
                values.append(float(cells[column].strip(" %")))
    return f"| {MEDIAN} |  |  | {median(shares[4]):.0f}% |  | {median(shares[6]):.0f}% |"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(ARCHITECTURES)), metavar="[NAMES]...")
@click.option("--python", default=sys.executable, help="The Python of an environment with exports/requirements.txt.")
@click.option(
    "--models",
    type=click.Path(path_type=Path),
    default=CHECKOUT / "build" / "models",
    help="Folder of exported models.",
)
def main(names: tuple[str, ...], python: str, models: Path) -> None:
    """Write the rows of the networks named, or of all. Models that the folder has are not exported again."""
    warnings.simplefilter("ignore", ConvertorWarning)
    models.mkdir(parents=True, exist_ok=True)
    for network in names or tuple(ARCHITECTURES):
        export(network, [EXPORTER], models, python)
        model = models / f"{network}.{EXPORTER}.onnx"
        if model.exists():
            line = row(network, model)
            click.echo(line)
            keep(Table.TIMES, {network: line})
    lines = [line for network, line in rows_of(Table.TIMES).items() if network != MEDIAN]
    keep(Table.TIMES, {MEDIAN: median_row(lines)})


if __name__ == "__main__":
    main()
