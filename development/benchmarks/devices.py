"""What networks cost on each device: python -m development.benchmarks.devices [--write] [NETWORK ...]

Converts networks of the zoo with FP16 weights and transposed maps for each device, at two levels of fusion, and prints the table
of docs/devices.md; --write puts the rows into that page. Without names: all networks of the table, for which Keras is needed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.device_file import NAMES, read_profile
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import ConvertorError
from cnn_convertor.pipeline import load, plan
from cnn_convertor.report.collecting import report_of
from development.benchmarks.fusion import NETWORKS, with_rows
from examples import zoo

PAGE = Path(__file__).parents[2] / "docs" / "devices.md"
LEVELS = (Fusion.PROVEN, Fusion.FULL)


def rows(name: str) -> Iterator[str]:
    """The lines of a network."""
    with tempfile.TemporaryDirectory() as folder:
        config = replace(Config.read(zoo.build(name, Path(folder))), quantization=False, transpose_weight=True)
        graph = load(config)
        for device in NAMES:
            for fusion in LEVELS:
                way = replace(config, device=read_profile(device, Path()), fusion=fusion.value)
                request = Request.of(way)
                start = f"| {name} | {device} | {fusion.value} |"
                try:
                    program = plan(graph, name, request.target)
                except ConvertorError as error:
                    yield f"{start} refused: {', '.join(dict.fromkeys(p.code for p in error.problems))} | | | | |"
                    continue
                report = report_of(program, request)
                memory = sum(step.cost is not None and step.cost.bound == "memory" for step in report.commands)
                time = (report.device_usec / 1e3).text(".2f")
                yield f"{start} {len(report.commands)} | {report.traffic / 1e6:.2f} | {time} | {memory} | {program.io_bytes:,} |"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(zoo.NETWORKS)), metavar="[NETWORK]...")
@click.option("--write", is_flag=True, help="Put the rows into docs/devices.md.")
def main(names: tuple[str, ...], write: bool) -> None:
    """What networks cost on each device: the table of docs/devices.md, or the rows of some networks of the zoo."""
    for name in names or NETWORKS:
        lines = list(rows(name))
        click.echo("\n".join(lines))
        if write:
            page = with_rows(PAGE.read_text(encoding="utf-8"), [(name, lines)])
            PAGE.write_text(page, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
