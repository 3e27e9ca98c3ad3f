"""Sizes over lower bounds, and times, of memory plans: python -m development.benchmarks.planning [NETWORK | TABLE.csv ...]

Networks are the zoo's, or a folder with one that is built, with its ini file; tables are in the public form
id,lower,upper,size, or all those of a folder. Without arguments: the zoo's Caffe networks. First what the steps need in the
framework's order with whole concatenations, then what they need as they are converted. Seconds are of the processor: schedule
and plan together; for a table, from reading it to its checked plan.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.memory.placement import ALIGNMENT, homes_of, nbytes, schedule_and_allocate
from cnn_convertor.ir.graph import Graph
from cnn_convertor.memory import Buffer, Plan, plan, table
from cnn_convertor.pipeline import legalize_graph, load
from examples import zoo

NETWORKS = (
    "caffe_lenet",
    "caffe_squeezenet_1_1",
    "caffe_mobilenet_v1",
    "caffe_googlenet_without_lrn",
    "caffe_resnet50",
)
NODES = 1_000_000  # for tables, which are chosen to be hard


class Row(NamedTuple):
    """before: bytes without any of the planner's choices; None for tables."""

    plan: Plan
    seconds: float
    before: int | None = None


def of_network(name: str) -> Row:
    """The plan of a network's maps, with the schedule that it comes from."""
    with tempfile.TemporaryDirectory() as folder:
        config = Config.read(next(Path(name).glob("*.ini"), None) or zoo.build(name, Path(folder)))
        _, graph, steps = legalize_graph(load(config), Dv700.of(config.hardware, config.settings))
        start = time.process_time()
        made = schedule_and_allocate(graph, steps).placement.plan
        return Row(made, time.process_time() - start, _with_whole_concatenations(graph, steps).size)


def _with_whole_concatenations(graph: Graph, steps: Sequence[Command]) -> Plan:
    """As if each concatenation needed all of its bytes as long as any of its parts lives, in the given order."""
    homes = homes_of(graph)
    lives = {homes[node.name][0]: [0] for node in graph.inputs}
    for index, step in enumerate(steps):
        for name in (*step.reads, step.writes):
            lives.setdefault(homes[name][0], []).append(index)
    for name in graph.outputs:
        lives[homes[name][0]].append(len(steps))
    buffers = [Buffer(home, nbytes(graph, home), min(when), max(when)) for home, when in lives.items()]
    return plan(buffers, alignment=ALIGNMENT)


def of_table(path: Path) -> Row:
    """The plan of a table."""
    start = time.process_time()
    made = plan(table.load(path), alignment=1, nodes=NODES, enough=_capacity(path))
    return Row(made, time.process_time() - start)


def _capacity(path: Path) -> int:
    """1,048,576 for a table whose name ends like A.1048576.csv, which need not be smaller; 0 for others."""
    capacity = path.stem.rpartition(".")[2]
    return int(capacity) if capacity.isdigit() else 0


def of_minimalloc(program: str, path: Path, size: int) -> float:
    """Seconds of MiniMalloc's program for a plan of that size, with its start, a few milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.NamedTemporaryFile(suffix=".csv") as output:
        command = [program, f"--capacity={size}", f"--input={path}", f"--output={output.name}"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _spread(names: Sequence[str]) -> Iterator[str]:
    """The names, with the tables of each folder in its place."""
    for name in names:
        tables = sorted(Path(name).glob("*.csv"))
        yield from map(str, tables) if tables else [name]


@click.command()
@click.argument("names", nargs=-1, metavar="[NETWORK | TABLE.csv | FOLDER]...")
@click.option(
    "--minimalloc", metavar="PROGRAM", help="google/minimalloc's program, for its seconds on the same tables."
)
def main(names: tuple[str, ...], minimalloc: str | None) -> None:
    """Sizes over lower bounds, and times, of memory plans.

    For networks of the zoo, folders with a network that is built and its ini file, and tables in the public form
    id,lower,upper,size, or folders of them. Without arguments: some of the zoo's Caffe networks.
    """
    for name in names:
        if not name.endswith(".csv") and name not in zoo.NETWORKS and not Path(name).is_dir():
            raise click.UsageError(f'"{name}" is no network of the zoo, no folder and no table')
    print(f"{'':30}{'buffers':>8}{'before':>14}{'size':>14}{'bound':>14}{'over':>8}  proven{'seconds':>9}")
    for name in _spread(names or NETWORKS):
        path = Path(name)
        made, seconds, before = of_table(path) if path.suffix == ".csv" else of_network(name)
        over = made.size / made.lower_bound - 1 if made.lower_bound else 0.0
        theirs = ""
        if minimalloc and path.suffix == ".csv":
            theirs = f"{of_minimalloc(minimalloc, path, _capacity(path) or made.size):9.3f}"
        print(
            f"{path.name:30}{len(made.offsets):8}{'' if before is None else f'{before:,}':>14}"
            f"{made.size:14,}{made.lower_bound:14,}{over:8.2%}  {'yes' if made.proven else 'no':6}{seconds:9.3f}{theirs}"
        )


if __name__ == "__main__":
    main()
