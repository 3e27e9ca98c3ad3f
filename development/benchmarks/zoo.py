"""Converts the networks of examples/zoo.py in every way, compares them with their frameworks, and keeps docs/networks.md.

python -m development.benchmarks.zoo [--missing] [NAMES]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import click

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.inspection import inspect
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import ConvertorError
from cnn_convertor.pipeline import build, load
from cnn_convertor.report.collecting import report_of
from cnn_convertor.report.values import Report
from cnn_convertor.trials.verify import verify
from development.benchmarks.networks_page import LEAST, PAGE, SAMPLES, Table, page_with, rows_of
from examples import zoo

CHECKOUT: Final = Path(__file__).resolve().parents[2]
LEVELS: Final = (Fusion.NONE, Fusion.DOCUMENTED, Fusion.FULL)


class Row(NamedTuple):
    """commands: at each level of fusion. macs: of one image. share: of them, on the device. sqnr: the lowest, in dB."""

    network: str
    input: str
    commands: tuple[int, ...]
    cpu_layers: int
    macs: int
    share: float
    sqnr: float

    def __str__(self) -> str:
        figures = f"{' | '.join(map(str, self.commands))} | {self.cpu_layers} | {self.macs / 1e6:,.1f} | {self.share:.1%} | {self.sqnr:.1f} dB"
        return f"| {self.network} | {self.input} | {figures} |"


def row(name: str) -> Row:
    """Build a network, convert it in every way, and compare it with its framework. Raises ConvertorError."""
    network = zoo.NETWORKS[name]
    size = network.size if isinstance(network, zoo.Caffe) else network.smallest
    with tempfile.TemporaryDirectory() as folder:
        config = Config.read(zoo.build(name, Path(folder), size=size))
        graph = load(config)
        reports: dict[Fusion, Report] = {}
        sqnr: list[float] = []
        for fusion in LEVELS:
            for transposed in (True, False):
                way = replace(config, fusion=fusion.value, transpose_weight=transposed)
                result = verify(way, graph=graph, samples=SAMPLES, min_sqnr=LEAST)
                sqnr += [output.sqnr for output in result.outputs]
            reports[fusion] = report_of(build(graph, way), Request.of(way))
        work = inspect(replace(config, fusion=Fusion.DOCUMENTED.value)).work
        assert work is not None, "the network is converted"
    return Row(
        network=name,
        input="x".join(str(n) for n in graph.shape(graph.inputs[0].name)),
        commands=tuple(len(each.commands) for each in reports.values()),
        cpu_layers=len(reports[Fusion.DOCUMENTED].on_cpu),
        macs=work.macs,
        share=work.macs_on_device / work.macs,
        sqnr=min(sqnr),
    )


def rows() -> dict[str, str]:
    """Network -> its line of the page. Networks that the zoo no longer has are left out."""
    return {name: line for name, line in rows_of(Table.ZOO).items() if name in zoo.NETWORKS}


def run_all(names: Iterable[str]) -> list[str]:
    """Run networks one after the other and keep the page; gives the names of those that fail."""
    failed = []
    for name in names:
        command = [sys.executable, "-m", "development.benchmarks.zoo", "--one", name]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(name)
            click.echo(f"{name} fails:\n{done.stderr}", err=True)
            continue
        made = Row(**json.loads(done.stdout.splitlines()[-1]))
        click.echo(str(made))
        failed += [name] if made.sqnr < LEAST else []
        PAGE.write_text(page_with(Table.ZOO, {**rows(), name: str(made)}), encoding="utf-8", newline="\n")
    return failed


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(zoo.NETWORKS)), metavar="[NAMES]...")
@click.option("--missing", is_flag=True, help="Skip the networks that have a row.")
@click.option("--one", is_flag=True, hidden=True, help="Run one network here, and print its row as JSON.")
def main(names: tuple[str, ...], missing: bool, one: bool) -> None:
    """Convert networks of the zoo in every way, compare them with their frameworks, and keep docs/networks.md.

    Without names: every network. Each runs in a process of its own; the rows of others stay as they are. Ends with 1 when a
    network fails.
    """
    if one:
        try:
            click.echo(json.dumps(row(names[0])._asdict()))
        except ConvertorError as error:
            raise click.ClickException(str(error)) from error
        return
    there = rows() if missing else {}
    failed = run_all(name for name in names or zoo.NETWORKS if name not in there)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
