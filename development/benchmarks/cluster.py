"""A Dask cluster on this computer: python -m development.benchmarks.cluster [--networks N] [--samples N] [--inputs FILE] [--ini NET.ini] [--rounds N]

Verifies a network, and converts copies of the digits example: with one worker and with two, each on a processor of its own. Prints
the elapsed seconds of `verify` in Python and of the whole command, which also imports what it needs, and the seconds of CPU of the
command and of each worker. To tell what the machine itself allows, also runs two verifications without a cluster, one after the
other and at once. Ends with 1 when results differ from those without a cluster, or when two workers are not fast enough, by the
medians of all rounds; run it on an idle machine. A round before lets the workers compile and import what they need.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import click
import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.config.request import preparation_of
from cnn_convertor.errors import ConvertorWarning
from cnn_convertor.pipeline import load
from cnn_convertor.samples import random_samples, shapes_of
from cnn_convertor.trials.verify import verify
from cnn_convertor.workers.cluster import Cluster
from development.benchmarks.bulk import converted, generated
from development.benchmarks.loopback import ROOT, Running, running

DIGITS = ROOT / "examples" / "digits_caffe" / "net.ini"
GOAL = 1.7  # times as fast with two workers as with one
LEAST = 1.4  # what holds on two processors, which the command, the scheduler and the workers share
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
    result.unlink(missing_ok=True)
    if code := _verification(ini, inputs, result, *options).wait():
        raise click.ClickException(f"verify ended with {code}")
    return time.perf_counter() - begin, sum(os.times()[2:4]) - used


def verified_in_python(config: Config, inputs: Path, result: Path, address: str) -> float:
    """Seconds elapsed in this process, which has imported what it needs."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvertorWarning)
        found = verify(config, inputs=inputs, on=Cluster(address))
    seconds = time.perf_counter() - begin
    result.write_text(found.to_json(), encoding="utf-8")
    return seconds


def seconds_at_once(count: int, ini: Path, inputs: Path, folder: Path) -> float:
    """Seconds elapsed while as many verifications run, each on a processor of its own."""
    begin = time.perf_counter()
    processes = []
    for number, processor in enumerate(sorted(os.sched_getaffinity(0))[:count]):
        processes.append(_verification(ini, inputs, folder / f"alone{number}.json"))
        os.sched_setaffinity(processes[-1].pid, {processor})
    for process in processes:
        process.wait()
    return time.perf_counter() - begin


def _verification(ini: Path, inputs: Path, result: Path, *options: str) -> subprocess.Popen[bytes]:
    call = [sys.executable, str(ROOT / "convertor.py"), "verify", str(ini), "-q", "--inputs", str(inputs)]
    call += ["--json", str(result), *options]
    return subprocess.Popen(call, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL)


@click.command(help=__doc__)
@click.option("--networks", default=200, show_default=True, help="0: without conversions.")
@click.option("--samples", default=5000, show_default=True)
@click.option("--inputs", type=click.Path(path_type=Path), help="Samples in place of random images.")
@click.option("--ini", default=DIGITS, type=click.Path(path_type=Path), show_default="the digits example of Caffe")
@click.option("--rounds", default=5, show_default=True)
def main(networks: int, samples: int, inputs: Path | None, ini: Path, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = Config.read(ini)
        if inputs is None:
            inputs = folder / "all.npz"
            images = random_samples(shapes_of(load(config)), preparation_of(config), samples=samples, seed=0).inputs
            np.savez(inputs, **images)  # type: ignore[arg-type]  # the names are those of inputs
        nets = generated(folder / "nets", networks)
        expected = converted(nets).outputs if networks else {}
        verified(ini, inputs, folder / "here.json")
        alone = [seconds_at_once(1, ini, inputs, folder) for _ in range(rounds)]
        both = [seconds_at_once(2, ini, inputs, folder) for _ in range(rounds)]
        print(f"no cluster, no sharing: {2 * median(alone) / median(both):.2f} times as fast at once as in turn")
        in_python: dict[int, list[float]] = {1: [], 2: []}
        as_command: dict[int, list[float]] = {1: [], 2: []}
        with ExitStack() as stack:
            clusters = {workers: stack.enter_context(pinned(workers)) for workers in as_command}
            for number in range(rounds + 1):
                for workers, cluster in clusters.items():
                    there = folder / "there.json"
                    seconds_in_python = verified_in_python(config, inputs, there, cluster.address)
                    _compare(there, folder / "here.json")
                    before = cpu_of(cluster.processes[1:])
                    seconds, cpu = verified(ini, inputs, there, "--scheduler", cluster.address)
                    _compare(there, folder / "here.json")
                    if number:
                        in_python[workers].append(seconds_in_python)
                        as_command[workers].append(seconds)
                        _print("verify", workers, seconds, cpu, before, cluster)
                        print(f"  in Python            {seconds_in_python:7.2f} s")
            for workers, cluster in clusters.items() if networks else ():
                for output in nets.glob("*/output"):
                    shutil.rmtree(output)
                before = cpu_of(cluster.processes[1:])
                run = converted(nets, "--scheduler", cluster.address)
                _print("convert", workers, run.seconds, run.cpu, before, cluster)
                if run.outputs != expected:
                    raise click.ClickException("the outputs differ")
    ratios = {}
    for what, elapsed in {"in Python": in_python, "as a command": as_command}.items():
        ratios[what] = median(elapsed[1]) / median(elapsed[2])
        print(f"two workers verify {ratios[what]:.2f} times as fast as one {what} (goal {GOAL}, at least {LEAST})")
    sys.exit(0 if min(ratios.values()) >= LEAST else 1)


def _compare(there: Path, here: Path) -> None:
    if there.read_bytes() != here.read_bytes():
        raise click.ClickException("the results differ")


def _print(what: str, workers: int, seconds: float, cpu: float, before: list[float], cluster: Running) -> None:
    used = [f"{after - earlier:.2f}" for after, earlier in zip(cpu_of(cluster.processes[1:]), before, strict=True)]
    print(f"{what}, {workers} worker(s)  {seconds:7.2f} s, CPU {cpu:.2f} s + {' and '.join(used)} s of workers")


if __name__ == "__main__":
    main()
