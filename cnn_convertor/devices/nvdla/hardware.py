"""NVDLA's configurations as devices that the ini file can name, and their figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cnn_convertor.devices.figures import Figure, FigureKind
from cnn_convertor.errors import UsageError

if TYPE_CHECKING:
    from cnn_convertor.devices.nvdla.configurations import Configuration

_WORDS: Final = {
    "multipliers": ("multiplications per cycle in FP16", ""),
    "atom_bytes": ("channels of feature data that lie together", "bytes"),
    "cbuf_bytes": ("convolution buffer", "bytes"),
    "clock_mhz": ("clock of the accelerator", "MHz"),
    "bandwidth": ("bandwidth of memory", "GB/s"),
}
_SPREADSHEET: Final = "the public performance spreadsheet assumes it"
_CLOCK_MHZ: Final = 1000
_BANDWIDTH: Final = 10  # GB/s


class NvdlaHardware(NamedTuple):
    """A configuration, and what is assumed of the chip around it."""

    name: str

    @property
    def configuration(self) -> Configuration:
        from cnn_convertor.devices.nvdla.configurations import CONFIGURATIONS  # here, as numpy takes long

        return next(each for each in CONFIGURATIONS.values() if each.device == self.name)

    @property
    def title(self) -> str:
        return f"NVDLA, configuration {self.configuration.name}"

    @property
    def figures(self) -> Mapping[str, Figure[Any]]:
        configuration = self.configuration
        source = configuration.source
        buffer = configuration.cbuf_banks * configuration.cbuf_entries * configuration.cbuf_entry_bytes
        return {
            "multipliers": Figure(configuration.macs["fp16"], source),
            "atom_bytes": Figure(configuration.atom_bytes, source),
            "cbuf_bytes": Figure(buffer, source),
            "clock_mhz": Figure(_CLOCK_MHZ, _SPREADSHEET, is_assumed=True),
            "bandwidth": Figure(_BANDWIDTH, _SPREADSHEET, is_assumed=True),
        }

    @property
    def kinds(self) -> Mapping[str, FigureKind]:
        return {
            name: FigureKind(words, unit, "a number", lambda value: isinstance(value, int))
            for name, (words, unit) in _WORDS.items()
        }

    @property
    def of_board(self) -> Mapping[str, int | bool]:
        return {}

    @property
    def passed(self) -> Iterable[Enum] | None:
        return None

    def overridden(self, **sizes: int | None) -> NvdlaHardware:
        for name, size in sizes.items():
            if size is not None:
                option = f"--{name.replace('_', '-')}"
                raise UsageError.of(
                    "DV109", f"{self.name} has no size that {option} changes", hint=f"leave {option} out"
                )
        return self

    def to_values(self) -> dict[str, Any]:
        return {"name": self.name}


def read_configuration(device: str, _folder: Path) -> NvdlaHardware:
    """The configuration of that name."""
    return NvdlaHardware(device.lower())
