"""The table of docs/cpu-layers.md: the C++ functions, and the operators that they compute."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from cnn_convertor.devices.dv700.operators import OPERATORS, words_of
from cnn_convertor.ir import ops

PAGE = Path(__file__).resolve().parents[2] / "docs/cpu-layers.md"
HEAD = "| function | does | which is |"


def cpu_layers_page() -> str:
    """The page, its table made from the operators. The text around it is written by hand."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = lines.index(HEAD)
    end = lines.index("", first)
    return "\n".join([*lines[:first], HEAD, "|---|---|---|", *_rows(), *lines[end:]]) + "\n"


def _rows() -> Iterator[str]:
    for kind, row in OPERATORS.items():
        if row.function:
            yield f"| `{row.function}` | {row.words} | {_meaning(kind).replace('|', chr(92) + '|')} |"


def _meaning(kind: type) -> str:
    """The first paragraph of the operator's docstring; what functions and arithmetic it may be."""
    if kind is ops.Unary:
        return ", ".join(map(words_of, get_args(ops.ScalarFunction)))
    if kind is ops.Binary:
        return ", ".join(f"`{operation.value}`" for operation in ops.BinaryOp) + "; axes of length 1 are repeated"
    paragraph, _, _ = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    return " ".join(paragraph.split()).rstrip(".")
