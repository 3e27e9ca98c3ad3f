"""Keeps docs/networks.md, whose tables are written by benchmarks and by the tests of ONNX operators."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "networks.md"
LEAST: Final = 40.0  # dB
SAMPLES: Final = 2
HEAD: Final = """# Networks and ONNX operators

Each table comes from conversions that ran on the emulated device. [layers.md](layers.md) has the types of layers and their limits.
"""


class Table(Enum):
    """The text and the columns above each table."""

    ZOO = f"""
## The zoo

Well-known architectures, built by `examples/zoo.py` with seeded random weights and converted with FP16 weights. Each runs on the
emulated device in six ways: at three levels of [fusion](fusion.md) and in both memory orders, on {SAMPLES} random images. Each way
reaches {LEAST:.0f} dB against the framework, without a report of the emulated runtime in [strict mode](internals/host-device.md#strict-mode). In a
checkout with the extras `onnx` and `verify`:

```text
python -m development.benchmarks.zoo                  # writes every row of this table
python -m development.benchmarks.zoo --missing        # writes the rows that are missing: resumes after an interruption
python -m development.benchmarks.zoo caffe_resnet50   # writes the rows of the networks named
```

Keras and ONNX networks have a small input, which leaves most layers a few pixels. *Commands* are those of the
device, at each level of fusion; *CPU layers* run on the CPU, in generated C++ or in the runtime (inputs and concatenations in
place are not counted). *MACs* are those of [inspect](report.md#columns), in millions. *SQNR* is the lowest of all outputs in all six ways. SegNet unpools
by the maxima of the device, which are compared themselves ([verify](verify.md)).

| network | input | commands: none | documented | full | CPU layers | MACs | on the device | SQNR |
|---|---|--:|--:|--:|--:|--:|--:|--:|
"""
    NVDLA = """
## Networks on NVDLA

Networks of the zoo at their usual size, planned for `device = nvdla-full` with documented forms of fusion. `python -m
development.benchmarks.nvdla` writes this table; nothing runs for it. *MACs* and *bytes* are the shares of the device in what it and
the CPU multiply, and in the maps that they read and write. *Operations* are those of the hardware. *Maps* are what steps of the device
read and write of feature maps, in MB, beside a lower bound. The bound assumes that engines hand on every map that they can, over any
number of functions, and that every other map is written once and read once by each operator that begins a chain. *Traffic* adds the
weights and the lines that bands of a convolution read twice. *I/O memory* is beside the bound that the planner proves. The *time* is an
estimate by published formulas, of the device alone, at an assumed clock of 1 GHz and 10 GB/s.

| network | input | MACs | bytes | CPU layers | operations | maps | at least | traffic | weights | I/O memory | at least | time |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""
    LIGHT = """
## Networks of the onnx package

The nine `light_*` networks of the onnx package's tests, with random weights and the statistics of a random image, in FP16 on
the emulated device. `python -m development.benchmarks.onnx_light` writes this table. *SQNR* is that of the output against onnxruntime;
the lowest of all layers is beside it. Each output reaches 40 dB.

| network | commands | CPU layers | SQNR | layers compared | lowest of a layer |
|---|--:|--:|--:|--:|--:|
"""
    FORMS = """
## The same network in two forms

Caffe networks beside those that `examples/zoo_onnx.py` writes with the same weights, and Keras networks beside what tf2onnx
exports of them, with documented forms of [fusion](fusion.md). `python -m development.benchmarks.onnx_forms` writes this table, and ends with
1 where ONNX has more commands, CPU layers or traffic.

| network | commands | in ONNX | CPU layers | in ONNX |
|---|--:|--:|--:|--:|
"""
    EXPORTS = f"""
## Exports of model libraries

Networks that model libraries build by name, at their real size, exported by both exporters of PyTorch, converted with FP16 weights,
and compared with onnxruntime on one random image. Weights are random, but keep maps alive: normalizations have the statistics of
images, and no block starts with a factor of 0. The libraries and their licenses are in `development/benchmarks/exports/requirements.txt`; the
package depends on none of them, and Ultralytics (AGPL-3.0) is used as a tool only.

```text
python3 -m venv libraries && libraries/bin/pip install -r development/benchmarks/exports/requirements.txt
python -m development.benchmarks.exports --python libraries/bin/python --jobs 2    # resumes after an interruption
python -m development.benchmarks.exports --python libraries/bin/python --renew     # measures again what another commit has measured
python -m development.benchmarks.exports --python libraries/bin/python --exporter torchscript    # one exporter alone
```

A network is *verified* if each output reaches {LEAST:.0f} dB; one that is refused has its codes ([messages.md](messages.md)). *SQNR* is that
of the worst output; *rounding* is what remains in PyTorch when weights and maps are rounded to FP16. Where the exporters differ, a cell
has both, TorchScript first.

| network | input | result | commands | CPU layers | SQNR | rounding |
|---|---|---|--:|--:|--:|--:|
"""
    TIMES = """
## Where the time goes

The exports of TorchScript by the [model of the time](devices.md#what-a-network-costs), for `dv700` and with each
[`runtime`](net-ini.md): milliseconds of the whole network, and the share of the device. `python -m
development.benchmarks.exports.times --python libraries/bin/python [NAMES]` writes these rows; nothing runs for them. With
`--before CHECKOUT`, it also estimates with version 0.2.0, by that version's own model.

(summary)

| network | input | 0.2.0, ms | on the device | sdk, ms | on the device | generated, ms | on the device |
|---|---|--:|--:|--:|--:|--:|--:|
"""
    REFUSALS = """
## What became of the exports

The results of the table above, and why exports are refused, without the names and numbers of single layers (X and N).

| result or cause | exports | such as |
|---|--:|---|
"""
    OPERATORS = """
## ONNX operators

`tests/frontends/onnx/test_conformance.py` writes this table. It converts the operator tests of the onnx package,
runs them on the emulated device in FP16, and compares the results with theirs. A *refused* test has a form of the operator that
is not converted, or that does not fit the device; [layers.md](layers.md#onnx) has the limits, and [messages.md](messages.md) the
codes. A test is *not applicable* if its numbers are not FP32, or are beyond FP16's range. Types without tests and types that are
not converted (DV301) are not listed.

| operator | passed | refused | not applicable |
|---|---|---|---|
"""


_SUMMARY: Final = "(summary)"  # where `times_summary` stands


class _Time(NamedTuple):
    """A network's time in milliseconds, and the device's share of it in percent."""

    low: float
    high: float
    share: float

    @staticmethod
    def of(time: str, share: str) -> _Time:
        low, _, high = time.replace(",", "").partition(" to ")
        return _Time(float(low), float(high or low), float(share.strip("%")))


def times_summary(lines: Iterable[str]) -> str:
    """What the rows of Table.TIMES say together, of the networks with a time in each column."""
    before: list[_Time] = []
    sdk: list[_Time] = []
    generated: list[_Time] = []
    count = 0
    for line in lines:
        count += 1
        cells = [cell.strip() for cell in line.split("|")[3:9]]
        if cells[1] and cells[3] and cells[5]:
            before.append(_Time.of(cells[0], cells[1]))
            sdk.append(_Time.of(cells[2], cells[3]))
            generated.append(_Time.of(cells[4], cells[5]))
    if not before:
        return ""
    text = (
        f"Version 0.2.0 takes {_together(before)} for {len(before)} of these {count} networks together; in parentheses is the share of the "
        f"device in the time of the median network. Now they take {_together(sdk)} with `sdk`, and {_together(generated)} with `generated`. "
        f"With `sdk`, {_slower(before, sdk)} takes longer than before; with `generated`, {_slower(sdk, generated)} takes longer than with "
        "`sdk`."
    )
    return textwrap.fill(text, 130, break_on_hyphens=False)


def _slower(before: Sequence[_Time], after: Sequence[_Time]) -> str:
    """How many networks take longer, at either end."""
    count = sum(b.low > a.low or b.high > a.high for a, b in zip(before, after, strict=True))
    return str(count or "none")


def _together(times: Sequence[_Time]) -> str:
    low = sum(time.low for time in times) / 1000
    high = sum(time.high for time in times) / 1000
    return f"{low:.1f} to {high:.1f} s ({median(time.share for time in times):.0f} %)"


def rows_of(table: Table) -> dict[str, str]:
    """The first cell of each row that the page has in a table -> its line."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    head = table.value.splitlines()
    _, _, rest = page.partition(f"\n{head[1]}\n")
    lines = (line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| ") and line not in head)
    return {line.split("|")[1].strip(" `"): line for line in lines}


def page_with(table: Table, rows: Mapping[str, str]) -> str:
    """The page with these rows, and no others, in a table. rows: first cell -> line."""
    tables = {each: rows if each is table else rows_of(each) for each in Table}
    parts = (each.value + "".join(f"{line}\n" for _, line in sorted(tables[each].items())) for each in Table)
    return HEAD + "".join(parts).replace(_SUMMARY, times_summary(tables[Table.TIMES].values()))


def replace_rows(table: Table, rows: Mapping[str, str]) -> None:
    """Write the rows of a table of the page, in place of all that it has. rows: first cell -> line."""
    PAGE.write_text(page_with(table, rows), encoding="utf-8", newline="\n")


def keep(table: Table, rows: Mapping[str, str]) -> None:
    """Write rows to a table of the page; other rows stay as they are. rows: first cell -> line."""
    replace_rows(table, {**rows_of(table), **rows})
