"""Sizes over lower bounds, and times, of memory plans: python -m development.benchmarks.planning [NETWORK | TABLE.csv ...]

Networks are the zoo's, or a folder with one that is built, with its ini file; tables are in the public form
id,lower,upper,size. Without arguments: the zoo's Caffe networks. First what the steps need in the framework's order with whole
concatenations, then what they need as they are converted. Seconds are of the processor: schedule and plan together.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from cnn_convertor.config import Config
from cnn_convertor.config.request import DeviceOptions
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
        graph, steps, *_ = legalize_graph(load(config), DeviceOptions.of(config))
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
    """The plan of a table. One whose name ends like A.1048576.csv need not be smaller than that."""
    buffers = table.load(path)
    capacity = path.stem.rpartition(".")[2]
    start = time.process_time()
    made = plan(buffers, alignment=1, nodes=NODES, enough=int(capacity) if capacity.isdigit() else 0)
    return Row(made, time.process_time() - start)


@click.command()
@click.argument("names", nargs=-1, metavar="[NETWORK | TABLE.csv]...")
def main(names: tuple[str, ...]) -> None:
    """Sizes over lower bounds, and times, of memory plans.

    For networks of the zoo, folders with a network that is built and its ini file, and tables in the public form
    id,lower,upper,size. Without arguments: some of the zoo's Caffe networks.
    """
    for name in names:
        if not name.endswith(".csv") and name not in zoo.NETWORKS and not Path(name).is_dir():
            raise click.UsageError(f'"{name}" is no network of the zoo, no folder and no table')
    print(f"{'':30}{'buffers':>8}{'before':>14}{'size':>14}{'bound':>14}{'over':>8}  proven{'seconds':>9}")
    for name in names or NETWORKS:
        made, seconds, before = of_table(Path(name)) if name.endswith(".csv") else of_network(name)
        over = made.size / made.lower_bound - 1 if made.lower_bound else 0.0
        print(
            f"{Path(name).name:30}{len(made.offsets):8}{'' if before is None else f'{before:,}':>14}"
            f"{made.size:14,}{made.lower_bound:14,}{over:8.2%}  {'yes' if made.proven else 'no':6}{seconds:9.3f}"
        )


if __name__ == "__main__":
    main()
