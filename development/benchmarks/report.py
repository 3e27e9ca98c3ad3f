"""What the whole report adds to the conversion of a network: python -m development.benchmarks.report

Converts a network of the zoo with and without `[OUTPUT] report = 1`, in turns, each as a program of its own with its files in
the page cache. Processor time counts, and the median of several rounds, so that the ratio means the same on a busy machine.
Ends with 1 when the target is missed.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from development.benchmarks.processor import processor_seconds

MOST_SHARE: Final = 0.15


def compare(network: str, folder: Path, rounds: int) -> bool:
    """Convert the network both ways, print what they cost; returns whether the target is met."""
    home = folder / network
    if not home.exists():
        processor_seconds([sys.executable, "-m", "examples.zoo", network, "--output", str(folder)])
    ini = (home / "net.ini").read_text()
    (home / "reported.ini").write_text(ini.replace("[OUTPUT]", "[OUTPUT]\nreport = 1"))
    seconds: dict[str, list[float]] = {"net": [], "reported": []}
    for _ in range(rounds):
        for name, costs in seconds.items():
            shutil.rmtree(home / "output", ignore_errors=True)
            costs.append(processor_seconds([sys.executable, "convertor.py", "--quiet", str(home / f"{name}.ini")]))
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
