"""Compares the CPU time of the emulated device with that of onnxruntime, each with one thread.

python -m development.benchmarks.emulation [NAMES or NET.ini]
"""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click
import numpy as np
import onnxruntime

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.pipeline import load
from cnn_convertor.trials.run import prepare
from examples import zoo

# Times the CPU time of onnxruntime: networks of the device alone, and those with many layers on the CPU.
MOST: Final = {"onnx_resnet50": 1.5, "onnx_mobilenet_v1": 1.5, "onnx_mobilenet_v3_small": 2.0}
OTHERS: Final = 2.0
SAMPLES: Final = 8
ROUNDS: Final = 9  # both sides take turns, and the median counts


class Row(NamedTuple):
    """CPU time of one image in milliseconds (medians), and of all compilations in seconds."""

    network: str
    emulated: float
    onnxruntime: float
    compilation: float

    @property
    def ratio(self) -> float:
        return self.emulated / self.onnxruntime


def children_seconds() -> float:
    """CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spent(clock: Callable[[], float], work: Callable[[], object]) -> float:
    start = clock()
    work()
    return clock() - start


def emulated_seconds(network: EmulatedNetwork, inputs: dict[str, Maps]) -> float:
    """CPU time of one sample: what more samples cost over a single one, which also starts the program."""
    one = {name: values[:1] for name, values in inputs.items()}
    single = spent(children_seconds, lambda: network.run(one))
    return (spent(children_seconds, lambda: network.run(inputs)) - single) / (SAMPLES - 1)


def measure(name: str) -> Row:
    """One network of the zoo, or of an ini file, compiled into an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CNN_CONVERTOR_CACHE": f"{folder}/cache", "DMP_DV_THREADS": "1"}
        config = Config.read(Path(name) if name.endswith(".ini") else zoo.build(name, Path(folder)))
        graph = load(config)
        start = children_seconds()
        network = prepare(graph, Request.of(config), Path(folder) / "made")
        compilation = children_seconds() - start
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(config.definition, options, providers=["CPUExecutionProvider"])
        ((input_name, tensor),) = network.program.inputs
        images = np.random.default_rng(0).uniform(-1, 1, (SAMPLES, *tensor.shape)).astype(np.float32)
        (given,) = session.get_inputs()
        planes = {given.name: np.ascontiguousarray(images[:1].transpose(0, 3, 1, 2))}
        session.run(None, planes)  # the first run allocates memory
        rounds = [
            (
                emulated_seconds(network, {input_name: images}),
                statistics.median(spent(time.process_time, lambda: session.run(None, planes)) for _ in range(SAMPLES)),
            )
            for _ in range(ROUNDS)
        ]
        ours, theirs = (1e3 * statistics.median(column) for column in zip(*rounds, strict=True))
        return Row(name, ours, theirs, compilation)


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Print CPU times side by side; exit with 1 when a ratio is above the aim.

    NAMES: networks of the zoo from ONNX, and ini files of ONNX networks.
    """
    if unknown := [name for name in names if not name.endswith(".ini") and not name.startswith("onnx_")]:
        raise click.BadParameter(f"neither ONNX networks of the zoo nor ini files: {', '.join(unknown)}")
    print("network                  emulated  onnxruntime  ratio  compilation")
    rows = [measure(name) for name in names or MOST]
    for row in rows:
        times = f"{row.emulated:6.1f} ms  {row.onnxruntime:8.1f} ms  {row.ratio:5.2f}"
        print(f"{Path(row.network).name:24} {times}  {row.compilation:5.1f} CPU s")
    raise SystemExit(any(row.ratio > MOST.get(row.network, OTHERS) for row in rows))


if __name__ == "__main__":
    main()
