"""Writes the rows of docs/messages.md that rules of the device declare. All other rows are in the page itself."""

from __future__ import annotations

from pathlib import Path

from cnn_convertor.devices.dv700.device import Rule
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import RULES

PAGE = Path(__file__).resolve().parents[2] / "docs/messages.md"


def manual() -> str:
    """The page, with a row for each rule."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for rule in RULES:
        row, code = row_of(rule), f"| {rule.code}"
        last = max(i for i, line in enumerate(lines) if line.startswith("| DV") and line[: len(code)] <= code)
        lines[last if lines[last].startswith(code) else last + 1 : last + 1] = [row]
    return "\n".join(lines) + "\n"


def row_of(rule: Rule) -> str:
    """The row of a rule: its name, its docstring with the default limits, and its hint."""
    meaning = rule.broken.__name__.replace("_", " ").capitalize().replace("fp16", "FP16").replace("Sdk", "SDK")
    cause = " ".join(rule.describe(DV700.limits).split())
    return f"| {rule.code} | {meaning} | {cause} | {rule.hint[:1].upper()}{rule.hint[1:]}. |"
