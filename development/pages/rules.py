"""The page docs/device-rules.md: the rules of the device."""

from __future__ import annotations

from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import RULES

HEAD = """# What the device refuses

The convertor first rewrites layers that the device does not support. It then checks these rules, and names every layer that breaks
one. This page is generated from `cnn_convertor/devices/dv700/rules.py`.
"""


def rules_page() -> str:
    entries = (f"\n## {rule.code}\n\n{rule.describe(DV700.limits)}\n\nWhat to do: {rule.hint}.\n" for rule in RULES)
    return HEAD + "".join(entries)
