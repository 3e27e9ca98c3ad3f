"""What fusion saves: python -m development.benchmarks.fusion [--write] [NETWORK ...]

Converts networks of the zoo with FP16 weights and transposed maps, with each value of `fusion`, and prints the table of
docs/fusion.md; --write puts the rows into that page. Without names: all networks of the table, for which Keras is needed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.pipeline import Analysis, analyze_graph, quantize, read
from cnn_convertor.report.collecting import report_of
from cnn_convertor.report.values import Report
from cnn_convertor.report.whole import with_analysis
from examples import zoo

PAGE = Path(__file__).parents[2] / "docs" / "fusion.md"
NETWORKS = (
    "caffe_lenet",
    "caffe_squeezenet_1_1",
    "caffe_mobilenet_v1",
    "caffe_googlenet_without_lrn",
    "caffe_googlenet",
    "caffe_resnet50",
    "caffe_vgg16",
    "keras_mobilenet",
    "keras_mobilenet_v2",
    "keras_resnet50",
    "keras_resnet50_v2",
    "keras_inception_v3",
    "keras_densenet121",
    "keras_mobilenet_v3_small",
    "keras_efficientnet_b0",
)
HEAD = (
    "| network | fusion | commands | runs | CPU layers | traffic, MB | gap | I/O buffer, bytes | lower bound | proven |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def reports(name: str) -> dict[Fusion, Report]:
    with tempfile.TemporaryDirectory() as folder:
        config = replace(Config.read(zoo.build(name, Path(folder))), quantization=False, transpose_weight=True)
        partial = read(Request.of(config))
        requests = {fusion: Request.of(replace(config, fusion=fusion.value)) for fusion in Fusion}
        return {fusion: _report(analyze_graph(partial, way.target), way) for fusion, way in requests.items()}


def _report(analysis: Analysis, request: Request) -> Report:
    program = quantize(analysis.require_complete(), request, plans=analysis.plans(request.name)).program
    return with_analysis(report_of(program, request), analysis)


def row(name: str, fusion: Fusion, report: Report) -> str:
    """One line of the table."""
    memory = report.memory
    assert memory is not None, "a report of a program"
    work = report.work
    assert work is not None and work.map_bytes is not None and work.least_map_bytes is not None, "an analysis"
    cells = (
        name,
        fusion.value,
        len(report.commands),
        sum(len(step.runs) for step in report.commands),
        len(report.on_cpu),
        f"{report.traffic / 1e6:.2f}",
        f"{work.map_bytes / work.least_map_bytes - 1:.1%}",
        f"{memory.bytes:,}",
        f"{memory.lower_bound:,}",
        "yes" if memory.proven else "no",
    )
    return f"| {' | '.join(map(str, cells))} |"


def rows(name: str) -> list[str]:
    """The lines of a network."""
    return [row(name, fusion, report) for fusion, report in reports(name).items()]


def written(page: str, name: str) -> list[str]:
    """The lines of a network in the page."""
    return [line for line in page.splitlines() if line.startswith(f"| {name} |")]


def with_rows(page: str, tables: Iterable[tuple[str, Sequence[str]]]) -> str:
    """The page with other lines for some networks; those that it does not have go to the end of the table."""
    lines = page.splitlines()
    for name, made in tables:
        old = written("\n".join(lines), name)
        behind = lines.index(old[0]) if old else 1 + max(i for i, line in enumerate(lines) if line.startswith("|"))
        kept = [line for line in lines if line not in old]
        lines = [*kept[:behind], *made, *kept[behind:]]
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(zoo.NETWORKS)), metavar="[NETWORK]...")
@click.option("--write", is_flag=True, help="Put the rows into docs/fusion.md.")
def main(names: tuple[str, ...], write: bool) -> None:
    """What fusion saves: the table of docs/fusion.md, or the rows of some networks of the zoo.

    Keras's networks need tensorflow.
    """
    tables = [(name, rows(name)) for name in names or NETWORKS]
    print("\n".join([*HEAD, *(line for _, lines in tables for line in lines)]))
    if write:
        PAGE.write_text(with_rows(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
