"""A Dask cluster on this computer: python -m benchmarks.cluster [--networks N] [--samples N] [--ini NET.ini]

Converts copies of the digits example, and verifies a network on random images: with one worker and with two, each on a processor
of its own. Prints elapsed seconds, and those of CPU of the command and of each worker. Ends with 1 when results differ from those
without a cluster, or two workers do not verify 1.7 times as fast as one; run it on an idle machine. A small verification before
lets the workers compile and import what they need.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np

from benchmarks.bulk import converted, generated
from benchmarks.loopback import ROOT, Running, running
from cnn_convertor.config import Config
from cnn_convertor.pipeline import load
from cnn_convertor.samples import Preparation, random_samples, shapes_of

DIGITS = ROOT / "examples" / "digits_caffe" / "net.ini"
LEAST_RATIO = 1.7  # of the elapsed seconds of a verification with one worker and with two
_FEW = 300  # samples, for what happens once
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(workers: Sequence[subprocess.Popen[bytes]]) -> list[float]:
    """Seconds of CPU of each worker and of what it has started."""
    fields = [Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split() for worker in workers]
    return [sum(map(int, each[11:15])) / _TICKS for each in fields]


@contextmanager
def pinned(count: int) -> Iterator[Running]:
    """A cluster whose workers have a processor each."""
    with running(count, options=["--no-nanny"]) as cluster:
        for worker, processor in zip(cluster.processes[1:], sorted(os.sched_getaffinity(0)), strict=False):
            os.sched_setaffinity(worker.pid, {processor})
        yield cluster


def verified(ini: Path, inputs: Path, result: Path, *options: str) -> tuple[float, float]:
    """Seconds elapsed, and of CPU of the command without workers."""
    begin, used = time.perf_counter(), sum(os.times()[2:4])
    call = [sys.executable, str(ROOT / "convertor.py"), "verify", str(ini), "-q", "--inputs", str(inputs)]
    call += ["--json", str(result), *options]
    subprocess.run(call, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin, sum(os.times()[2:4]) - used


@click.command(help=__doc__)
@click.option("--networks", default=200, show_default=True, help="0: without conversions.")
@click.option("--samples", default=5000, show_default=True)
@click.option("--ini", default=DIGITS, type=click.Path(path_type=Path), show_default="the digits example of Caffe")
def main(networks: int, samples: int, ini: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = Config.read(ini)
        shapes = shapes_of(load(config))
        images = random_samples(shapes, Preparation.of(config), samples=samples, seed=0).inputs
        np.savez(folder / "all.npz", **images)  # type: ignore[arg-type]  # the names are those of inputs
        np.savez(folder / "few.npz", **{n: values[:_FEW] for n, values in images.items()})  # type: ignore[arg-type]
        nets = generated(folder / "nets", networks)
        expected = converted(nets).outputs if networks else {}
        seconds, cpu = verified(ini, folder / "all.npz", folder / "here.json")
        print(f"verify, no cluster  {seconds:7.2f} s, CPU {cpu:.2f} s")
        elapsed: dict[int, float] = {}
        for workers in (1, 2):
            with pinned(workers) as cluster:
                options = ("--scheduler", cluster.address)
                verified(ini, folder / "few.npz", folder / "few.json", *options)
                before = cpu_of(cluster.processes[1:])
                elapsed[workers], cpu = verified(ini, folder / "all.npz", folder / "there.json", *options)
                _print("verify", workers, elapsed[workers], cpu, before, cluster)
                if (folder / "there.json").read_bytes() != (folder / "here.json").read_bytes():
                    raise click.ClickException("the results differ")
                if networks:
                    for output in nets.glob("*/output"):
                        shutil.rmtree(output)
                    before = cpu_of(cluster.processes[1:])
                    run = converted(nets, *options)
                    _print("convert", workers, run.seconds, run.cpu, before, cluster)
                    if run.outputs != expected:
                        raise click.ClickException("the outputs differ")
    ratio = elapsed[1] / elapsed[2]
    print(f"two workers verify {ratio:.2f} times as fast as one (at least {LEAST_RATIO})")
    sys.exit(0 if ratio >= LEAST_RATIO else 1)


def _print(what: str, workers: int, seconds: float, cpu: float, before: list[float], cluster: Running) -> None:
    used = [f"{after - earlier:.2f}" for after, earlier in zip(cpu_of(cluster.processes[1:]), before, strict=True)]
    print(f"{what}, {workers} worker(s)  {seconds:7.2f} s, CPU {cpu:.2f} s + {' and '.join(used)} s of workers")


if __name__ == "__main__":
    main()
