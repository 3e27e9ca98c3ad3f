"""The page docs/devices.md: the devices, their figures, how to describe others, and what networks cost on them.

The rows of networks stay as development/benchmarks/devices.py writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cnn_convertor.cli.tables import figure_text
from cnn_convertor.devices.dv700.cpu_costs import cycles
from cnn_convertor.devices.dv700.device_file import DEFAULT_DEVICE, NAMES, read_profile
from cnn_convertor.devices.dv700.estimate import ASSUMPTIONS
from cnn_convertor.devices.dv700.profile import (
    FIGURES,
    PROCESSORS,
    TILED_POOL_DRIVER,
    TILED_POOL_HARDWARE,
    UNRESTRICTED,
)

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/devices.md"
HEAD = f"""# Devices and costs

`device` in the section `[OPTIONAL]` of the ini file, or the option `--device`, names the target board of a conversion. Rules,
fusion, the audit and the emulated device take their limits from it. `--ub-size` and `--max-kernel-size` replace two of its figures.
`{DEFAULT_DEVICE}` is the default. This page is about the boards with DMP's accelerator; `nvdla-full` has [its own](nvdla.md).

    cnn-convertor devices [NAME|FILE]... [--json]

lists all or the given devices, with their figures and sources. An *assumed* figure has no public source for that device. Clocks,
multipliers, bandwidth (MB are 10^6 bytes), the processor and the times of commands, lists and caches change estimated times, never
results. Where sources disagree or give only a bound, a figure is an interval, and [estimates](#what-a-network-costs) show both ends;
the clock is the largest that a board can be set to. No public source has the bandwidth of any board: it is assumed for all. An assumed revision can allow commands that an older board
refuses: if your board is older, set it in a file. The user driver is the one that the SDK pins, and hardware without a date is
treated as older than {TILED_POOL_HARDWARE}: if both are newer on your board, a file that says so can save commands.

| figure | {" | ".join(NAMES)} |
|---|{"---|" * len(NAMES)}
"""
TAIL = f"""
## What follows from the figures

- Revision below {UNRESTRICTED}: deconvolutions are refused (DV418). Upsamplings that would become deconvolutions, and pools of
  different width and height, run on the CPU.
- Revision below {UNRESTRICTED} (`zia-c2`: 83): padding larger than the map is refused (DV419).
- A max pool behind a convolution that needs several tiles shares its command only with a user driver from {TILED_POOL_DRIVER} on
  and hardware from {TILED_POOL_HARDWARE} on. An earlier driver refuses such a command. An earlier FPGA image behind a later driver
  computes it wrongly, without an error. With both figures, or after a probe that saw it work, every level of [fusion](fusion.md)
  has the form; otherwise the pool gets a command of its own.
- No other form or rule depends on driver or hardware. For dilated convolutions, user drivers from 2019-12-23 on compute the size of
  the output in another way than earlier ones; the convertor writes what both accept (DV411).
- `dv740` has no tiles, and its driver does not check the unified buffer, so its size is the largest possible.
- A driver that expands palettes (`dv740`) needs memory for them in its command buffer; the summary of a conversion gives the size.
- A maximizer (`blocks`): an arg max over 2 to 255 channels of a device map, at the end of the network, gives one byte per pixel. A
  generated callback sends the block's command; if the driver refuses it, the CPU finds the same classes. Among equal FP16 values
  the lowest class wins, even where Caffe takes the highest. `get_final_output` cannot read bytes; they are at the output's
  `output_offs`, as the comments in `NAME_gen.h` explain.

## A device of your own

`device = FILE.toml` reads a file, with a path relative to the ini file (`--device`: to the current folder). It changes figures of
a known device; each is optional:

```toml
title = "our board"
base = "zia-c3"                # the device that gives what the file leaves out; otherwise {DEFAULT_DEVICE}

[device]
ub_size = 524_288
revision = 93
driver = "7.2.20190716"        # dmp_dv_get_version_string() of the board
hardware = 2019-07-29          # the date of the FPGA image
bandwidth = {{ value = 2100.5, source = "our measurement" }}
conv_freq = {{ value = [150, 200], source = "data sheet", assumed = true }}    # both ends of an interval
blocks = ["conv", "ipu"]
```

| key | value | meaning |
|---|---|---|
"""
BOARD = """
Unknown keys and impossible values are errors (DV150), all at once.

`device = board.json` takes what a [probe](board.md) saw on a board: sizes, clock, bandwidth, the time of a command and the version
of its driver, and exactly the forms of commands that gave the expected results there, at every level of fusion except `none`. No
driver knows the date of the hardware; `"hardware": "2019-07-29"` in `"device"` adds it, for the record. A warning (DV151) names
other features that failed.
"""


COSTS = (
    f"""
## What a network costs

The time has three parts: the device's commands, the layers on the CPU, and the changes between them. For each command, a model
gives cycles, the bytes that it moves to and from external memory, and the time: that of the slower of the two, plus the time to
start and end the command. The bytes are exactly those that the counters of the [emulated device](internals/host-device.md)
show. For each layer on the CPU, the time follows from the [cycles of its function](#functions-on-the-cpu). The runtime puts
commands that follow each other into one list; each list must be started and waited for, and each change between CPU and device
needs cache maintenance for the whole I/O buffer. **The times are estimates**: no board has confirmed them. The model assumes:

| assumption | evidence |
|---|---|
{"".join(f"| {words} | {evidence} |" + chr(10) for words, evidence in ASSUMPTIONS)}
The summary of a conversion names the figures that are assumed. With `device = board.json` the model uses what a probe measured,
and shows how far it is from the times of the probe's commands. **The estimate leaves out** misses of the CPU's caches other
than the traffic of whole maps, custom layers and those of the SDK's runtime, the CPU time of other programs, and commands of
other blocks than the convolution's. `board.json` has the time of a list; `list_usec`, `cache_rate`, `cpu`, `cpu_freq` and
`cpu_cores` of a file replace the others.

Where one end of a time must decide, the rule is fixed: the shorter ends (the fastest clock and memory, the quickest start of
commands) say whether a command is bound by compute or memory, and color pictures; `sweep` calls a time better only if both ends are.
No conversion depends on a time: fusion minimizes traffic, commands and runs, and `quantization = auto` looks at bytes and SQNR.

- `cnn-convertor inspect NET.ini --cost` shows each command and layer on the CPU ([inspect](report.md#costs)).
- `cnn-convertor inspect NET.ini --device all` and `--fusion all` show a network on all devices, and at all levels of fusion.
- The summary of a conversion has the parts of the time.

## Functions on the CPU

Cycles for each unit of work, counted by llvm-mca in the functions as g++ -O2 compiles them, with all memory in the first cache:
`python -m development.cpu_cycles --write`. A unit is an element of the output; of the input for `Reduce` and `ArgMax`; an element of
a window for pools, a multiplication for `MatMul`, a score for `DetectionOutput`. A function whose results are kept takes the second
number for a value that it meets for the first time.

| function | """
    + " | ".join(PROCESSORS)
    + """ |
|---|"""
    + "---|" * len(PROCESSORS)
    + """
"""
)
NETWORKS = """\

## Networks on each device

The networks of `examples/zoo.py` with FP16 weights and `transpose_weight = 1`. MB are 10^6 bytes of all commands: maps and
weights. `python -m development.benchmarks.devices --write` writes this table.

"""
TABLE: Final = (
    "| network | device | fusion | commands | traffic, MB | commands, ms | bound by memory | I/O buffer, bytes |\n"
)


def devices_page() -> str:
    """The page docs/devices.md."""
    _, head, rows = PAGE.read_text(encoding="utf-8").partition(TABLE)
    return (
        HEAD
        + "".join(_figures())
        + TAIL
        + "".join(_keys())
        + BOARD
        + COSTS
        + "".join(_cycles())
        + NETWORKS
        + head
        + rows
    )


def _figures() -> Iterator[str]:
    profiles = [read_profile(name, Path()) for name in NAMES]
    for name, kind in FIGURES.items():
        cells = []
        for profile in profiles:
            figure = profile.figures[name]
            cells.append(f"{figure_text(profile, name)} ({'assumed: ' * figure.is_assumed}{figure.source})")
        yield f"| {kind.words} | {' | '.join(cells)} |\n"


def _cycles() -> Iterator[str]:
    tables = [cycles(processor) for processor in PROCESSORS]
    for name in tables[0]:
        cells = (f"{row.known:g}" + f" or {row.new:g}" * (row.new != row.known) for row in (t[name] for t in tables))
        yield f"| `{name}` | {' | '.join(cells)} |\n"


def _keys() -> Iterator[str]:
    for name, kind in FIGURES.items():
        yield f"| `{name}` | {kind.expected} | {kind.words}{f', {kind.unit}' if kind.unit else ''} |\n"
