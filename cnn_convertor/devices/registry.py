"""The accelerators by name, and what sets one up for a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

# `--help` imports these; without numpy, which takes long.
from cnn_convertor.devices.dv700 import device_file
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.settings import DeviceSettings

if TYPE_CHECKING:
    from cnn_convertor.devices.target import Accelerator, Hardware

DEFAULT_DEVICE = device_file.DEFAULT_DEVICE
NAMES = device_file.NAMES


def read_hardware(device: str, folder: Path) -> Hardware:
    """The device of that name, or of the file (.toml or .json) of that path in the folder. Raises UsageError."""
    return device_file.read_profile(device, folder)


def is_hardware(value: object) -> bool:
    """Whether a value is one that `read_hardware` gives."""
    return isinstance(value, Profile)


def target_of(hardware: Hardware, settings: DeviceSettings) -> Accelerator:
    """The accelerator, set up for one network."""
    from cnn_convertor.devices.dv700.accelerator import Dv700  # here, as `--help` needs no target

    return Dv700.of(hardware, settings)
