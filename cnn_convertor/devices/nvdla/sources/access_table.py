"""The accesses of registers that run each layer, for generated sources: addresses depend on where the application has its memory."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.firmware.dependency_graph import task_of
from cnn_convertor.devices.nvdla.firmware.descriptors import Engine, Lut
from cnn_convertor.devices.nvdla.firmware.dispatching import Interrupt, Turns, accesses
from cnn_convertor.devices.nvdla.firmware.register_settings import Places, RegisterWrite
from cnn_convertor.devices.nvdla.named_functions import naming
from cnn_convertor.devices.nvdla.network_program import (
    FIRST_EXTERNAL,
    IO,
    WEIGHTS,
    NvdlaProgram,
    NvdlaRun,
    external_maps,
)
from cnn_convertor.devices.nvdla.operations import HardwareOperation, in_sequence
from cnn_convertor.devices.nvdla.register_table import registers


class TableKind(Enum):
    """What an access does with its value. The values are the names in C++."""

    WRITE = "kWrite"
    WEIGHTS_LOW = "kWeightsLow"
    WEIGHTS_HIGH = "kWeightsHigh"
    IO_LOW = "kIoLow"
    IO_HIGH = "kIoHigh"
    POINTER = "kPointer"
    CLEAR = "kClear"
    WAIT = "kWait"


class TableAccess(NamedTuple):
    """address: of the register, in bytes. name: of it. block: the number of a pointer among those of the network."""

    kind: TableKind
    address: int
    value: int
    name: str
    block: int = 0


class AccessTable(NamedTuple):
    """layers: the accesses of each layer of the device, by its index. pointers: the addresses of the registers S_POINTER."""

    layers: dict[int, tuple[TableAccess, ...]]
    pointers: tuple[int, ...]


# Two places of each memory. Registers with addresses differ between them, and by how much says which half of which memory's address
# they hold.
_END_OF_TABLES: Final = ".S_LUT_LO_SLOPE_SCALE"  # the last register of tables that all of them have
_MASK: Final = "GLB.S_INTR_MASK"  # the class writes it once, as its application waits
_MOVED: Final = {WEIGHTS: 1 << 32 | 1 << 28, IO: 2 << 32 | 1 << 29}
_KINDS: Final = {
    1 << 28: TableKind.WEIGHTS_LOW,
    1: TableKind.WEIGHTS_HIGH,
    1 << 29: TableKind.IO_LOW,
    2: TableKind.IO_HIGH,
}


def access_table(program: NvdlaProgram, configuration: Configuration) -> AccessTable:
    """Each layer's accesses, if the layers run in order on a device whose groups are as after a reset."""
    element = 2 if program.unrounded else 1  # bytes of one that the device addresses as one byte
    externals = [tensor.offset // element for tensor in external_maps(program)]
    names = _names(configuration)
    turns: Turns = {}
    loaded: dict[Engine, Lut] = {}
    layers: dict[int, tuple[TableAccess, ...]] = {}
    pointers: dict[int, int] = {}
    for index, layer in enumerate(program.layers):
        if not layer.runs:
            continue
        operations = [_with_new_table(run.operation, loaded) for run in layer.runs]
        task = task_of(in_sequence(operations), 0)
        here = Places(configuration, lambda memory, offset: _address(memory, offset, externals, {}))
        there = Places(configuration, lambda memory, offset: _address(memory, offset, externals, _MOVED))
        plain = _Recording(accesses(task, here, turns))
        moved = accesses(task, there, turns)
        rows: list[TableAccess] = []
        for one, other in zip(plain, moved, strict=True):
            if not isinstance(one, RegisterWrite) or names[one.address] != _MASK:
                rows.append(_access(one, other, names, pointers))
        turns = plain.turns
        if program.unrounded:
            rows = _with_functions(rows, [run for run in layer.runs if run.table is not None])
        layers[index] = tuple(rows)
    return AccessTable(layers, tuple(pointers))


_Step: TypeAlias = "RegisterWrite | Interrupt"


class _Recording:
    """What a task does, and `turns` after it."""

    def __init__(self, steps: Generator[_Step, None, Turns]) -> None:
        self._steps = steps
        self.turns: Turns = {}

    def __iter__(self) -> Iterator[_Step]:
        self.turns = yield from self._steps


def _with_functions(rows: Sequence[TableAccess], runs: Sequence[NvdlaRun]) -> list[TableAccess]:
    """The accesses, each table's followed by the name of its function, which the exact mode computes. runs: those with tables."""
    named = []
    left = iter(runs)
    for row in rows:
        named.append(row)
        if row.name.endswith(_END_OF_TABLES):
            run = next(left)
            assert run.table is not None
            of_cdp = run.operation.engine is Engine.CDP
            for address, value in naming(run.table, of_cdp=of_cdp):
                named.append(TableAccess(TableKind.WRITE, address, value, "the function"))
    return named


def _address(memory: int, offset: int, externals: Sequence[int], bases: dict[int, int]) -> int:
    if memory >= FIRST_EXTERNAL:
        offset += externals[memory - FIRST_EXTERNAL]
        memory = IO
    return bases.get(memory, 0) + offset


def _with_new_table(operation: HardwareOperation, loaded: dict[Engine, Lut]) -> HardwareOperation:
    """The operation without its tables where the device has them already."""
    if operation.lut is None:
        return operation
    if loaded.get(operation.engine) == operation.lut:
        return operation._replace(lut=None)
    loaded[operation.engine] = operation.lut
    return operation


def _access(
    one: RegisterWrite | Interrupt, other: RegisterWrite | Interrupt, names: dict[int, str], pointers: dict[int, int]
) -> TableAccess:
    """An access of which the second differs in the places of memories alone."""
    if isinstance(one, Interrupt):
        return TableAccess(TableKind.WAIT, 0, one.status, "interrupts")
    assert isinstance(other, RegisterWrite)
    name = names[one.address]
    if one.value != other.value:
        return TableAccess(_KINDS[other.value - one.value], one.address, one.value, name)
    if name.endswith(".S_POINTER"):
        block = pointers.setdefault(one.address, len(pointers))
        return TableAccess(TableKind.POINTER, one.address, one.value, name, block)
    kind = TableKind.CLEAR if name == "GLB.S_INTR_STATUS" else TableKind.WRITE
    return TableAccess(kind, one.address, one.value, name)


def _names(configuration: Configuration) -> dict[int, str]:
    """The registers by address."""
    bases = configuration.bases
    return {
        bases[block] + register.offset: f"{block}.{name}"
        for (block, name), register in registers(initial=configuration.initial).items()
        if block in bases
    }
