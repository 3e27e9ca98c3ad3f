"""Sizes over lower bounds, and times, of memory plans: python benchmarks/planning.py [NETWORK | TABLE.csv ...]

Networks are the zoo's; tables are in the public form id,lower,upper,size. Without arguments: the zoo's Caffe networks.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cnn_convertor.config import Config
from cnn_convertor.convert import load
from cnn_convertor.dv700.legalise import legalise
from cnn_convertor.dv700.limits import Limits
from cnn_convertor.dv700.placement import place
from cnn_convertor.dv700.selection import select
from cnn_convertor.memory import Plan, plan, table
from cnn_convertor.passes import optimise
from examples import zoo

NETWORKS = (
    "caffe_lenet",
    "caffe_squeezenet_1_1",
    "caffe_mobilenet_v1",
    "caffe_googlenet_without_lrn",
    "caffe_resnet50",
)
NODES = 1_000_000  # for tables, which are chosen to be hard


def of_network(name: str) -> tuple[Plan, float]:
    """The plan of a network's maps, and the seconds that it takes."""
    with tempfile.TemporaryDirectory() as folder:
        config = Config.read(zoo.build(name, Path(folder)))
        limits = Limits(max_kernel_size=config.max_kernel_size, ub_size=config.ub_size)
        graph = legalise(optimise(load(config)), limits, transposed=config.transpose_weight)
        graph, steps = select(graph, palette=False, transposed=config.transpose_weight)
        start = time.perf_counter()
        return place(graph, steps).plan, time.perf_counter() - start


def of_table(path: Path) -> tuple[Plan, float]:
    buffers = table.load(path)
    start = time.perf_counter()
    return plan(buffers, alignment=1, nodes=NODES), time.perf_counter() - start


def main(names: Sequence[str]) -> None:
    print(f"{'':30}{'buffers':>8}{'size':>14}{'bound':>14}{'over':>8}  proven{'seconds':>9}")
    for name in names:
        made, seconds = of_table(Path(name)) if name.endswith(".csv") else of_network(name)
        over = made.size / made.lower_bound - 1 if made.lower_bound else 0.0
        print(
            f"{Path(name).name:30}{len(made.offsets):8}{made.size:14,}{made.lower_bound:14,}{over:8.2%}"
            f"  {'yes' if made.proven else 'no':6}{seconds:9.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:] or NETWORKS)
