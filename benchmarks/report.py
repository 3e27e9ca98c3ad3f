"""What the whole report adds to the conversion of a network: python benchmarks/report.py

Converts a network of the zoo with and without `[OUTPUT] report = 1`, in turns, each as a program of its own with its files in
the page cache. Processor time counts, and the median of several rounds, so that the ratio means the same on a busy machine.
Ends with 1 when the target is missed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

CHECKOUT: Final = Path(__file__).resolve().parents[1]
MOST_SHARE: Final = 0.15


def cpu_seconds(command: list[str]) -> float:
    """Run a program to its end; its processor time, of user and system."""
    process = subprocess.Popen(command, cwd=CHECKOUT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def compare(network: str, folder: Path, rounds: int) -> bool:
    """Convert the network both ways, print what they cost; returns whether the target is met."""
    home = folder / network
    if not home.exists():
        cpu_seconds([sys.executable, "-m", "examples.zoo", network, "--output", str(folder)])
    ini = (home / "net.ini").read_text()
    (home / "reported.ini").write_text(ini.replace("[OUTPUT]", "[OUTPUT]\nreport = 1"))
    seconds: dict[str, list[float]] = {"net": [], "reported": []}
    for _ in range(rounds):
        for name, costs in seconds.items():
            shutil.rmtree(home / "output", ignore_errors=True)
            costs.append(cpu_seconds([sys.executable, "convertor.py", "--quiet", str(home / f"{name}.ini")]))
    plain, reported = (statistics.median(costs) for costs in seconds.values())
    for name, costs in seconds.items():
        print(f"{name:9} median {statistics.median(costs):5.2f} s   rounds {' '.join(f'{cost:.2f}' for cost in costs)}")
    share = reported / plain - 1
    print(f"{network}: the report adds {share:.1%} (at most {MOST_SHARE:.0%})")
    return share <= MOST_SHARE


@click.command(help=__doc__)
@click.argument("networks", nargs=-1)
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), help="Work here, and leave the networks here."
)
def main(networks: tuple[str, ...], rounds: int, folder: Path | None) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary) if folder is None else folder.resolve()
        met = [compare(network, home, rounds) for network in networks or ("caffe_resnet50", "keras_resnet50")]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
