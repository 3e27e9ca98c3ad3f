"""What converting a small network costs: python -m development.benchmarks.startup NET.ini

Each program runs as a process of its own; the medians of the processor's time of several runs count. The target of the
conversion is for LeNet. Ends with 1 when a target is missed.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Final

import click

from development.benchmarks.processor import processor_seconds

MOST_VERSION: Final = 0.08  # seconds of --version
MOST_BEYOND: Final = 0.5  # seconds of a conversion beyond the libraries


@click.command(help=__doc__)
@click.argument("ini", type=click.Path(path_type=Path, exists=True))
@click.option("--runs", default=9, show_default=True, type=click.IntRange(min=1))
def main(ini: Path, runs: int) -> None:
    commands = {
        "libraries": [sys.executable, "-c", "import numpy, h5py"],
        "version": [sys.executable, "convertor.py", "--version"],
        "conversion": [sys.executable, "convertor.py", "--quiet", str(ini.resolve())],
    }
    costs: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        processor_seconds(command)  # Python compiles modules on the first run
    for _ in range(runs):
        for name, command in commands.items():
            costs[name].append(processor_seconds(command))
    medians = {name: statistics.median(seconds) for name, seconds in costs.items()}
    for name, seconds in costs.items():
        print(f"{name:10}  median {medians[name]:.3f} s  best {min(seconds):.3f} s")
    beyond = medians["conversion"] - medians["libraries"]
    print(f"version: {medians['version']:.3f} s (at most {MOST_VERSION:.3f} s)")
    print(f"beyond the libraries: {beyond:.3f} s (at most {MOST_BEYOND:.3f} s for LeNet)")
    sys.exit(0 if medians["version"] <= MOST_VERSION and beyond <= MOST_BEYOND else 1)


if __name__ == "__main__":
    main()
