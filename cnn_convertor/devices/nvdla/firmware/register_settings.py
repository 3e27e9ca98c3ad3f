"""Settings of registers by name, and the writes that they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.firmware.descriptors import Cube, MemoryKind
from cnn_convertor.devices.nvdla.register_table import registers

# "BLOCK.REGISTER", and its value or those of its fields.
Setting: TypeAlias = tuple[str, "int | Mapping[str, int]"]
LOW = 0xFFFF_FFFF
_SIGNED: Final = re.compile("^MEAN_|_SLOPE_|_INDEX_")  # fields of registers with several


class RegisterWrite(NamedTuple):
    """address: in bytes, of the bus of registers."""

    address: int
    value: int


class FieldError(ValueError):
    """A descriptor has a value that its register cannot hold, or uses an engine that the configuration lacks."""


class Places(NamedTuple):
    """Where an operation runs: the configuration, and the device address of an index of the task's list, plus an offset."""

    configuration: Configuration
    address: Callable[[int, int], int]

    def of(self, cube: Cube) -> int:
        """The device address of a cube."""
        return self.address(cube.address, cube.offset)


def require(condition: bool, reason: str) -> None:
    """Raise FieldError unless a condition of the firmware holds."""
    if not condition:
        raise FieldError(reason)


def ram(memory: int) -> int:
    """Registers count memories the other way round than descriptors: 1 is DRAM."""
    return int(memory != MemoryKind.SRAM)


def writes(settings: Iterable[Setting], configuration: Configuration) -> Iterator[RegisterWrite]:
    """The writes of settings. Raises FieldError."""
    known = registers(initial=configuration.initial)
    bases = configuration.bases
    for name, value in settings:
        block, _, register_name = name.partition(".")
        if block not in bases:
            raise FieldError(f"{configuration.name} has no {block}")
        register = known[block, register_name]
        values = value if isinstance(value, Mapping) else {register.fields[0].name: value}
        word = 0
        for field in register.fields:
            number = values.get(field.name, 0)
            bits = field.high - field.low + 1
            least = -(1 << bits - 1) if field.signed or _SIGNED.search(field.name) else 0
            if not least <= number < 1 << bits:
                where = f"{name}.{field.name}" if field.name else name
                raise FieldError(f"{where} has {bits} bits, which do not hold {number}")
            kept = bits if field.name else 32  # the firmware does not cut off the sign of a register's only number
            word |= (number & (1 << kept) - 1) << field.low
        assert set(values) <= {field.name for field in register.fields}, name
        yield RegisterWrite(bases[block] + register.offset, word)


def address_pair(low: str, high: str, address: int) -> Iterator[Setting]:
    """An address in two registers, the lower half first."""
    yield low, address & LOW
    yield high, address >> 32
