"""What networks cost on each device: python -m development.benchmarks.devices [--write] [NETWORK ...]

Converts networks of the zoo with FP16 weights and transposed maps for each device, at two levels of fusion, and prints the table
of docs/costs.md; --write puts the rows into that page. Without names: all networks of the table, for which Keras is needed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from cnn_convertor.config import Config
from cnn_convertor.config.request import DeviceOptions
from cnn_convertor.devices.dv700.device_file import NAMES, read_profile
from cnn_convertor.devices.dv700.estimate import ASSUMPTIONS, estimates, total_usec
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.errors import ConvertorError
from cnn_convertor.pipeline import load, plan
from development.benchmarks.fusion import NETWORKS, with_rows
from examples import zoo

PAGE = Path(__file__).parents[2] / "docs" / "costs.md"
LEVELS = (Fusion.PROVEN, Fusion.FULL)
HEAD = f"""# What a network costs

For each command, a model gives cycles, the bytes that it moves to and from external memory, and the time: that of the slower of
the two, and the time to start and end the command. The bytes are exactly those that the counters of the
[emulated device](host-device.md) show. **The times are estimates**: no board has confirmed them. The model assumes:

| assumption | evidence |
|---|---|
{"".join(f"| {words} | {evidence} |" + chr(10) for words, evidence in ASSUMPTIONS)}
Clock, bandwidth, multipliers and `command_usec` come from the [device](devices.md); the summary of a conversion names those that
are assumed. With `device = board.json` the model uses what a probe measured, and shows how far it is from the times of the probe's
commands. **The estimate leaves out** layers on the CPU, the start of command lists (the runtime puts neighboring commands into one
list, so each change between device and CPU starts another), and commands of other blocks than the convolution's.

A figure of the device can be an interval, so a time has two ends: one with the fastest clock and memory and the quickest start of
commands, one with the slowest. Where one of them must decide, the rule is fixed: the shorter ends say whether a command is bound by
compute or memory, and color pictures; `sweep` calls a time better only if both ends are. No conversion depends on a time: fusion
minimizes traffic, commands and runs, and `quantization = auto` looks at bytes and SQNR.

- `cnn-convertor inspect NET.ini --cost` shows each command ([inspect](inspect.md#costs)).
- `cnn-convertor inspect NET.ini --device all` and `--fusion all` show a network on all devices, and at all levels of fusion.
- The summary of a conversion has the sum.

## Networks on each device

The networks of `examples/zoo.py` with FP16 weights and `transpose_weight = 1`. MB are 10^6 bytes of all commands: maps and
weights. Made by `python -m development.benchmarks.devices --write`.

| network | device | fusion | commands | traffic, MB | estimate, ms | bound by memory | I/O buffer, bytes |
|---|---|---|--:|--:|--:|--:|--:|
"""


def rows(name: str) -> Iterator[str]:
    """The lines of a network."""
    with tempfile.TemporaryDirectory() as folder:
        config = replace(Config.read(zoo.build(name, Path(folder))), quantization=False, transpose_weight=True)
        graph = load(config)
        for device in NAMES:
            for fusion in LEVELS:
                way = replace(config, device=read_profile(device, Path()), fusion=fusion.value)
                start = f"| {name} | {device} | {fusion.value} |"
                try:
                    program = plan(graph, name, DeviceOptions.of(way))
                except ConvertorError as error:
                    yield f"{start} refused: {', '.join(dict.fromkeys(p.code for p in error.problems))} | | | | |"
                    continue
                costs = estimates(program, way.profile)
                memory = sum(cost.bound == "memory" for cost in costs)
                traffic, time = sum(cost.nbytes for cost in costs) / 1e6, (total_usec(costs) / 1e3).text(".2f")
                yield f"{start} {len(costs)} | {traffic:.2f} | {time} | {memory} | {program.io_bytes:,} |"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(zoo.NETWORKS)), metavar="[NETWORK]...")
@click.option("--write", is_flag=True, help="Put the rows into docs/costs.md.")
def main(names: tuple[str, ...], write: bool) -> None:
    """What networks cost on each device: the table of docs/costs.md, or the rows of some networks of the zoo."""
    for name in names or NETWORKS:
        made = list(rows(name))
        click.echo("\n".join(made))
        if write:
            old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else HEAD
            table = old[old.index("| network |") :]
            page = HEAD[: HEAD.index("| network |")] + with_rows(table, [(name, made)])
            PAGE.write_text(page, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
