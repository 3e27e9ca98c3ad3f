"""Pages that are made from the code say what the code says."""

from __future__ import annotations

from collections.abc import Callable

from cnn_convertor.dv700.rules import manual


def test_the_page_of_device_rules_is_fresh(golden: Callable[[str, str], None]) -> None:
    golden("../../docs/device-rules.md", manual())
