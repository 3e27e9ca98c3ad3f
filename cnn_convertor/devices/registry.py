"""The accelerators by name, and what sets one up for a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# `--help` imports these; without numpy, which takes long.
from cnn_convertor.devices import nvdla
from cnn_convertor.devices.compiled import CompiledFormat, CompiledNetwork
from cnn_convertor.devices.dv700 import device_file
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware, read_configuration
from cnn_convertor.devices.settings import DeviceSettings
from cnn_convertor.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cnn_convertor.devices.target import Accelerator, Hardware
    from cnn_convertor.layouts.packing import Bytes


class Family(NamedTuple):
    """Accelerators of one kind. hardware: the class of their figures. read, target: as `read_hardware` and `target_of`."""

    names: tuple[str, ...]
    hardware: type
    read: Callable[[str, Path], Hardware]
    target: Callable[[Hardware, DeviceSettings], Accelerator]


def _dv700(hardware: Hardware, settings: DeviceSettings) -> Accelerator:
    from cnn_convertor.devices.dv700.accelerator import Dv700  # here, as `--help` needs no target

    return Dv700.of(hardware, settings)


def _nvdla(hardware: Hardware, settings: DeviceSettings) -> Accelerator:
    from cnn_convertor.devices.nvdla.accelerator import NvdlaAccelerator  # here, as `--help` needs no target

    return NvdlaAccelerator.of(hardware, settings)


def _loadable(path: Path) -> CompiledNetwork:
    from cnn_convertor.devices.nvdla.loadable import loadable_file  # here, as numpy takes long

    return loadable_file.read_loadable(path)


FAMILIES = (
    Family(device_file.NAMES, Profile, device_file.read_profile, _dv700),
    Family(nvdla.CONVERTING, NvdlaHardware, read_configuration, _nvdla),
)
DEFAULT_DEVICE = device_file.DEFAULT_DEVICE
LOADABLES = nvdla.VERSIONS  # of files for the runtimes of devices
COMPILED = (CompiledFormat(nvdla.SUFFIXES, nvdla.NAMES, _loadable),)
NAMES = tuple(name for family in FAMILIES for name in family.names)


def read_hardware(device: str, folder: Path) -> Hardware:
    """The device of that name, or of the file (.toml or .json) of that path in the folder. Raises UsageError."""
    named = (family for family in FAMILIES if device.lower() in family.names)
    return next(named, FAMILIES[0]).read(device, folder)


def compiled_format(path: Path) -> CompiledFormat | None:
    """The format of networks that another program compiled, if the file's name says that it is of one."""
    for form in COMPILED:
        if path.suffix.lower() in form.suffixes:
            return form
    return None


def is_hardware(value: object) -> bool:
    """Whether a value is one that `read_hardware` gives."""
    return isinstance(value, tuple(family.hardware for family in FAMILIES))


def target_of(hardware: Hardware, settings: DeviceSettings) -> Accelerator:
    """The accelerator, set up for one network."""
    (family,) = (family for family in FAMILIES if isinstance(hardware, family.hardware))
    return family.target(hardware, settings)


def write_probe(folder: Path, hardware: Hardware) -> int:
    """Write a program that tests such a board to a folder, and give the number of its commands. Raises UsageError."""
    from cnn_convertor.devices.dv700.probe import probe_files  # here, as other commands do without

    if not isinstance(hardware, Profile):
        raise UsageError.of("DV934", f"there is no probe for {hardware.name}", hint=f"--device {DEFAULT_DEVICE}")
    return probe_files.write_probe(folder, hardware).commands


def packs(layout: object) -> bool:
    """Whether an accelerator packs streams with a layout of this name."""
    from cnn_convertor.devices.dv700.weights import packed_arrays  # here, as numpy takes long

    return layout == packed_arrays.LAYOUT


def array_of(layout: str, form: Mapping[str, Any], stream: Bytes, name: str) -> NDArray[np.float16]:
    """An array of a stream that an accelerator packed. layout: the name of the stream's.

    Raises KeyError, TypeError or ValueError for an invalid form.
    """
    from cnn_convertor.devices.dv700.weights import packed_arrays  # here, as numpy takes long

    assert packs(layout)
    return packed_arrays.array_of(form, stream, name)
