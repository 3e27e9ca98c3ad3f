"""The audit and the emulated device have limits of their own, which are those of the device."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from cnn_convertor.audit import audit, rules
from cnn_convertor.devices.dv700.limits import KERNEL_SIZES, UB_SIZES, Limits

LIMITS = Limits()
CONTEXT = Path(__file__).resolve().parents[3] / "cnn_convertor/host/src/context.h"


def test_the_default_device_is_a_possible_one() -> None:
    assert LIMITS.max_kernel_size in KERNEL_SIZES
    assert LIMITS.ub_size in UB_SIZES


def test_the_audit_has_the_limits_of_the_device() -> None:
    assert (
        LIMITS.max_width,
        LIMITS.max_height,
        LIMITS.max_channels,
    ) == (rules.MAX_WIDTH, rules.MAX_HEIGHT, rules.MAX_CHANNELS)
    defaults = {name: parameter.default for name, parameter in inspect.signature(audit).parameters.items()}
    assert (defaults["ub_size"], defaults["max_kernel_size"]) == (LIMITS.ub_size, LIMITS.max_kernel_size)


def test_the_emulated_device_has_the_limits_of_the_device() -> None:
    fields = dict(re.findall(r"^  int(?:64_t)? (\w+) = (\d+);", CONTEXT.read_text(encoding="utf-8"), re.MULTILINE))
    assert {name: int(value) for name, value in fields.items()} == {
        "unified_buffer_bytes": LIMITS.ub_size,
        "max_kernel": LIMITS.max_kernel_size,
        "max_width": LIMITS.max_width,
        "max_height": LIMITS.max_height,
        "max_channels": LIMITS.max_channels,
    }
