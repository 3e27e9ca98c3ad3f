"""Keeps docs/onnx-networks.md, whose two tables are written by benchmarks of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "onnx-networks.md"
HEAD: Final = """# ONNX networks

[zoo.md](zoo.md) has more networks, and [onnx.md](onnx.md) the operators.
"""


class Table(Enum):
    """The text and the columns above each table."""

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
1 where ONNX costs more. *Traffic* is the bytes of feature maps that one image reads and writes.

| network | commands | in ONNX | CPU layers | in ONNX | traffic | in ONNX |
|---|--:|--:|--:|--:|--:|--:|
"""


def keep(table: Table, rows: Mapping[str, str]) -> None:
    """Write rows to a table of the page; other rows stay as they are. rows: first cell -> line."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    found = {each: dict(_rows_of(page, each)) for each in Table}
    found[table].update(rows)
    parts = (each.value + "".join(f"{line}\n" for _, line in sorted(found[each].items())) for each in Table)
    PAGE.write_text(HEAD + "".join(parts), encoding="utf-8", newline="\n")


def _rows_of(page: str, table: Table) -> Iterator[tuple[str, str]]:
    """The first cells of a table's rows, and their lines."""
    title = next(line for line in table.value.splitlines() if line)
    _, _, rest = page.partition(title)
    for line in rest.partition("\n## ")[0].splitlines():
        if line.startswith("| ") and not line.startswith("| network |"):
            yield line.split("|")[1].strip(), line
