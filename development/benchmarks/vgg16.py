"""What converting VGG16 costs beside a bare program that casts the same weights: python -m development.benchmarks.vgg16

Python's modules are compiled before, as in a program that has run once. The bare program reads the 138 million weights of the same .caffemodel, casts them to FP16 with numpy and writes them. Both
run as programs of their own, in turns, with the files in the page cache. Prints the median of several rounds, in time of the
processor and in time on the clock; the ratio of processor time is judged, since other work on the machine hardly changes it.
Ends with 1 when a target is missed.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

import click

from cnn_convertor.frontends.caffe.parameters import WeightsFile

CHECKOUT: Final = Path(__file__).resolve().parents[2]
NETWORK: Final = "caffe_vgg16"
GOAL: Final = 1.5  # times the bare program
MOST_TIMES: Final = 1.8  # what holds, with some reserve
MEGABYTE: Final = 1_000_000
MOST_BYTES_BESIDE_LAYERS: Final = 300 * MEGABYTE

# Its arguments: the file to read, the file to write, and the places of the weights as a list of [offset, count].
BARE_PROGRAM: Final = """
import json
import sys

import numpy as np

AT_A_TIME = 1 << 20
source, target, places = sys.argv[1:]
with open(source, "rb") as weights, open(target, "wb") as halves:
    for offset, count in json.loads(places):
        weights.seek(offset)
        for start in range(0, count, AT_A_TIME):
            halves.write(np.fromfile(weights, "<f4", min(AT_A_TIME, count - start)).astype(np.float16).data)
"""


class Cost(NamedTuple):
    """cpu, wall: seconds, of the processor and from start to end. peak: the most memory that was resident at once, in bytes."""

    cpu: float
    wall: float
    peak: int


def cost(command: list[str], modules: Path) -> Cost:
    """Run a program to its end. modules: where Python keeps them, compiled. The program's figures are those of a fresh process as long as this one stays small."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = kept | {"PYTHONPYCACHEPREFIX": str(modules)}
    with tempfile.TemporaryFile("w+") as said:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            sys.exit(f"{command[:2]} ended with {process.returncode}:\n{said.read()}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


def weight_places(path: Path) -> list[tuple[int, int]]:
    """Offset in bytes and count of the numbers of each blob, which are nearly the whole file."""
    weights = WeightsFile.open(path)
    pieces = [piece for name in weights.layers for blob in weights.blobs(name) for piece in blob.pieces]
    assert sum(piece.length * piece.dtype.itemsize for piece in pieces) > 0.99 * path.stat().st_size
    return [(piece.start, piece.length) for piece in pieces]


def compare(folder: Path, rounds: int) -> bool:
    """Run both programs, print what they cost; returns whether the targets are met."""
    home, modules = folder / NETWORK, folder / "modules"
    cost([sys.executable, "-m", "examples.zoo", NETWORK, "--output", str(folder)], modules)
    model = home / f"{NETWORK}.caffemodel"
    places = weight_places(model)
    commands = {
        "bare": [sys.executable, "-c", BARE_PROGRAM, str(model), str(home / "halves.bin"), json.dumps(places)],
        "convertor": [sys.executable, "convertor.py", "--quiet", str(home / "net.ini")],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            shutil.rmtree(home / "output", ignore_errors=True)
            (home / "halves.bin").unlink(missing_ok=True)
            one = cost(command, modules)
            costs[name] += [one] if number else []  # the first round compiles the modules

    median = {name: Cost(*map(statistics.median, zip(*of, strict=True))) for name, of in costs.items()}
    for name, each in median.items():
        times = " ".join(f"{of.cpu:.2f}" for of in costs[name])
        print(
            f"{name:10} cpu {each.cpu:6.2f} s   wall {each.wall:6.2f} s   peak {each.peak / MEGABYTE:5.0f} MB   cpu of rounds {times}"
        )
    allowed = MOST_BYTES_BESIDE_LAYERS + 2 * 4 * max(count for _, count in places)
    peak = max(of.peak for of in costs["convertor"])
    cpu, wall = (median["convertor"][at] / median["bare"][at] for at in range(2))
    print(
        f"ratio cpu {cpu:.2f} (goal {GOAL:.2f}, at most {MOST_TIMES:.2f}), wall {wall:.2f}; peak {peak // MEGABYTE} MB",
        end=" ",
    )
    print(f"(at most {allowed // MEGABYTE} MB: 300 and twice the largest layer's weights)")
    return cpu <= MOST_TIMES and peak <= allowed


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), help="Work here, and leave the network here."
)
def main(rounds: int, folder: Path | None) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        met = compare(Path(temporary) if folder is None else folder.resolve(), rounds)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
