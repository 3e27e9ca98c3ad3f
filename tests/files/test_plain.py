"""Values become JSON and come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.conversion.cache import HashedInput
from cnn_convertor.devices.dv700.limits import BoardLimits
from cnn_convertor.devices.dv700.weights.palette_report import Reason, StoredLayer
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.plain import from_plain, to_plain
from cnn_convertor.report.values import (
    CalibrationEffect,
    DeviceFacts,
    DeviceFigure,
    Gain,
    KeptPrecision,
    NetworkInput,
    Preprocessing,
    Report,
    StoredMap,
)

LAYER = StoredLayer("conv1", True, Reason.CLOSE, 144, 0.25, float("inf"), 2336, 1696)
REPORT = Report(
    1,
    "1.0",
    "net",
    "net.keras",
    "Keras",
    DeviceFacts(
        "board",
        "a board",
        "documented",
        False,
        "guessed",
        DeviceFigure("driver", "7.2.20190716", "", "a page", False),
        DeviceFigure("hardware", "unknown", "", "a page", True),
        BoardLimits(7, 655_360, True, True, False, False),
        (DeviceFigure("clock", "200", "MHz", "a page", True),),
    ),
    Preprocessing("bgr", (0.5, 0.25, 0.125), 1 / 255),
    inputs=(NetworkInput("x", StoredMap((8, 16, 3), "whc8", "float16", 0, 768)),),
    calibration=CalibrationEffect(3, "three", (Gain("y", 40.5, float("inf")),), ()),
    kept=KeptPrecision(30.0, 31.5, 20.25, 8, "random"),
)


@pytest.mark.parametrize(
    "value",
    [
        REPORT,
        replace(REPORT, calibration=None, kept=None),
        LAYER,
        LAYER._replace(sqnr=None, zeros=None),
        HashedInput(Path("a/b"), "00"),
        Problem("DV501", "lost", Origin("f", "l", line=3), "hint"),
    ],
)
def test_values_come_back(value: Any) -> None:
    assert from_plain(type(value), json.loads(json.dumps(to_plain(value)))) == value


def test_what_has_no_order_gets_one() -> None:
    names = [f"name{i}" for i in range(100)]
    assert to_plain(frozenset(names)) == to_plain(frozenset(reversed(names))) == sorted(names)
    assert to_plain((date(2020, 1, 2), b"\x01\xff", {"a": Reason.CLOSE})) == ["2020-01-02", "01ff", {"a": "CLOSE"}]


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError):
        to_plain(object())


@pytest.mark.parametrize(
    "damage",
    [
        lambda plain: plain[:-1],
        lambda plain: ["1", *plain[1:]],
        lambda plain: [*plain[:5], [["board"]], *plain[6:]],
        lambda plain: {},
    ],
)
def test_damaged_values_are_refused(damage: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError, LookupError)):
        from_plain(Report, damage(to_plain(REPORT)))
