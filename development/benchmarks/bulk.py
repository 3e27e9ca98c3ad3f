"""Many small networks: python -m development.benchmarks.bulk [--networks N] [--jobs N]

Converts copies of the digits example under names of their own: with one process, with several, three times with a cache. Prints
elapsed seconds, also those of CPU where one process converts, and fails when the outputs differ.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "digits_keras"


def generated(folder: Path, count: int) -> Path:
    """A folder with networks."""
    for number in range(count):
        place = folder / f"n{number:04}"
        place.mkdir(parents=True)
        shutil.copy(EXAMPLE / "digits.keras", place)
        text = (EXAMPLE / "net.ini").read_text(encoding="utf-8").replace("name = digits ", f"name = n{number:04} ")
        (place / "net.ini").write_text(text, encoding="utf-8")
    return folder


class Run(NamedTuple):
    """seconds, cpu: elapsed, and of CPU without those of `--jobs`."""

    seconds: float
    cpu: float
    outputs: dict[str, bytes]


def converted(networks: Path, *options: str) -> Run:
    begin, used = time.perf_counter(), _cpu()
    call = [sys.executable, str(ROOT / "convertor.py"), "-q", str(networks), *options]
    subprocess.run(call, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    seconds, cpu = time.perf_counter() - begin, _cpu() - used
    outputs = {str(p.relative_to(networks)): p.read_bytes() for p in networks.glob("*/output/*/*")}
    return Run(seconds, cpu, outputs)


def _cpu() -> float:
    """Seconds of CPU of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@click.command(help=__doc__)
@click.option("--networks", default=200, show_default=True)
@click.option("--jobs", default=2, show_default=True)
def main(networks: int, jobs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, cache = generated(Path(name, "nets"), networks), str(Path(name, "cache"))
        runs = {
            "one process": (),
            f"{jobs} processes": ("--jobs", str(jobs)),
            "empty cache": ("--cache", cache),
            "warm cache": ("--cache", cache),
            "again": ("--cache", cache),
        }
        expected: dict[str, bytes] = {}
        for title, options in runs.items():
            if title != "again":  # whose outputs are there
                for output in folder.glob("*/output"):
                    shutil.rmtree(output)
            seconds, cpu, outputs = converted(folder, *options)
            expected = expected or outputs
            used = "" if "--jobs" in options else f" {cpu:7.2f} s of CPU"
            print(f"{title:14} {seconds:7.2f} s{used}")
            if outputs != expected or len({path.split("/")[0] for path in outputs}) != networks:
                raise click.ClickException("the outputs differ")


if __name__ == "__main__":
    main()
