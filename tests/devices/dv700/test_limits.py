"""The audit, the emulated device and the default profile have the limits of the device."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest

import cnn_convertor
from cnn_convertor.audit.command_checks import AuditedDevice
from cnn_convertor.devices.dv700.device_file import DEFAULT_DEVICE, read_profile
from cnn_convertor.devices.dv700.limits import KERNEL_SIZES, UB_SIZES, Limits

PACKAGE = Path(cnn_convertor.__file__).parent
LIMITS = Limits()._asdict()
# A register cannot exceed these: its fields have 8 bits, and topo has 32. The last one is a matter of the numbers alone.
UNCHECKED = {"max_runs", "max_stride", "max_dilation", "max_padding_right_bottom", "max_exact_integer"}


def test_the_default_device_is_a_possible_one() -> None:
    assert LIMITS["max_kernel_size"] in KERNEL_SIZES
    assert LIMITS["ub_size"] in UB_SIZES


def test_the_audit_has_the_limits_of_the_device() -> None:
    """It keeps its own, from the specification, so that a wrong number in the convertor is found."""
    checked = {name: value for name, value in LIMITS.items() if name not in UNCHECKED}
    assert asdict(AuditedDevice()) == checked, "a new limit is a field of AuditedDevice, or in UNCHECKED with a reason"


@pytest.mark.parametrize(
    ("folder", "files", "use"), [("audit", "*.py", r"device\."), ("host/src", "*.cpp", r"limits_?\.")]
)
def test_each_limit_is_checked(folder: str, files: str, use: str) -> None:
    text = "".join(path.read_text("utf-8") for path in (PACKAGE / folder).glob(files))
    used = {name for name in LIMITS if re.search(rf"\b{use}{name}\b", text)}
    advice = f"check a new limit in cnn_convertor/{folder}, or name it in UNCHECKED with a reason"
    assert set(LIMITS) - used == UNCHECKED, advice


def test_the_default_profile_has_the_default_limits() -> None:
    assert read_profile(DEFAULT_DEVICE, Path()).limits == Limits()
