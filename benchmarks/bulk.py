"""Many small networks: python -m benchmarks.bulk [--networks N] [--jobs N]

Converts copies of the digits example under names of their own: with one process, with several, and twice with a cache. Prints
elapsed seconds, and fails when the outputs differ.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
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


def converted(networks: Path, *options: str) -> tuple[float, dict[str, bytes]]:
    """Elapsed seconds, and the outputs, which are removed."""
    for output in networks.glob("*/output"):
        shutil.rmtree(output)
    begin = time.perf_counter()
    call = [sys.executable, str(ROOT / "convertor.py"), "-q", str(networks), *options]
    subprocess.run(call, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    seconds = time.perf_counter() - begin
    return seconds, {str(p.relative_to(networks)): p.read_bytes() for p in networks.glob("*/output/*/*")}


@click.command(help=__doc__)
@click.option("--networks", default=200, show_default=True)
@click.option("--jobs", default=2, show_default=True)
def main(networks: int, jobs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, cache = generated(Path(name, "nets"), networks), str(Path(name, "cache"))
        runs = {
            "one process": ("--jobs", "1"),
            f"{jobs} processes": ("--jobs", str(jobs)),
            "empty cache": ("--jobs", str(jobs), "--cache", cache),
            "warm cache": ("--cache", cache),
        }
        expected: dict[str, bytes] = {}
        for title, options in runs.items():
            seconds, outputs = converted(folder, *options)
            expected = expected or outputs
            print(f"{title:14} {seconds:7.2f} s")
            if outputs != expected or len({path.split("/")[0] for path in outputs}) != networks:
                raise click.ClickException("the outputs differ")


if __name__ == "__main__":
    main()
