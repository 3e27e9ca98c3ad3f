"""Prints how work, memory and time grow with the count of something in an input: for each reader, planner and command.

python -m development.growth --count 100 [NAMES]
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from development.growth.growing import GROWING
from development.growth.measuring import MOST, growth_of


@click.command(help=__doc__.partition("\n")[0])
@click.option("--count", default=100, show_default=True, help="The smallest count; the largest is four times as much.")
@click.argument("names", nargs=-1)
def main(count: int, names: Sequence[str]) -> None:
    """names: parts of the rows' names; none: all rows."""
    click.echo(f"counts {count}, {2 * count} and {4 * count}; growth: what the second doubling adds, over the first")
    click.echo(f"{'':32} {'lines of Python':>24} {'peak, MB':>20} {'CPU, s':>18}")
    for name, run in GROWING.items():
        if not names or any(part in name for part in names):
            growth = growth_of(run, count, with_memory=True)
            most = growth.four_times
            click.echo(
                f"{name:32} {most.lines:>16,} x{growth.of_lines:5.2f} {most.peak / 1e6:>13.1f} x{growth.of_peak:5.2f}"
                f" {most.seconds:>11.2f} x{growth.of_seconds:5.2f}{'  too much' * (growth.of_lines > MOST)}"
            )


if __name__ == "__main__":
    main()
