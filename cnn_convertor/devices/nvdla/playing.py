"""Plays accesses of registers on the twin, which is a program of its own within limits."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.register_table import BLOCKS, header
from cnn_convertor.emulation.build import program_of
from cnn_convertor.errors import ConvertorError
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.layouts.packing import Bytes
from cnn_convertor.workers import confined
from cnn_convertor.workers.programs import run_all

_TWIN: Final = Path(__file__).parent / "twin"
INCLUDE: Final = (_TWIN / "include", _TWIN / "src")
SOURCES: Final = tuple(sorted((_TWIN / "src").glob("*.cpp")))
_RESULT: Final = 64 << 20  # bytes of a result besides the memory, at most
_BLOCK: Final = 1 << 16  # bytes of memory that are passed together unless all are zero
MISSING: Final = -1  # the base of a block that a configuration lacks


class AccessKind(IntEnum):
    """What an application does with the registers. The numbers are those of player.cpp."""

    WRITE = 0
    READ = 1
    WAIT = 2


class Access(NamedTuple):
    """address: of the register, in bytes. value: what is written, or the interrupts to wait for, bits of S_INTR_STATUS."""

    kind: AccessKind
    address: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """What one operation has moved and taken.

    enabled, started: how many accesses came before it was enabled, and before it could start. waited_for: the block that was the
    last to be enabled; empty: none. mac_cycles: by the published cost formula, assumed. traffic: bytes of each DMA.
    """

    engine: str
    group: int
    enabled: int
    started: int
    waited_for: str
    mac_cycles: int
    traffic: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Played:
    """memory: as given, after the accesses. reads: their values. refusal: why the access of index `done` is refused, or empty."""

    memory: Mapping[int, memoryview]
    reads: tuple[int, ...]
    operations: tuple[Operation, ...]
    refusal: str
    done: int


class ProcessLimits(NamedTuple):
    """Of the twin's process: seconds of processor time, and bytes of memory."""

    seconds: int = 3600
    memory: int = 8 << 30


LIMITS = ProcessLimits()


def play(
    configuration: Configuration,
    memory: Mapping[int, bytes | Bytes],
    accesses: Sequence[Access],
    threads: int = 1,
    limits: ProcessLimits | None = None,
    *,
    exact: bool = False,
) -> Played:
    """Play accesses on a device with that memory: address -> contents. Every number of threads gives the same bits.

    Memory that is zero takes neither time nor space.

    exact: in its exact mode, in which memory has FP32 in place of FP16, and so twice the bytes.
    limits: of its process, or LIMITS.
    Raises UsageError when there is no compiler, ConvertorError when the twin exceeds its limits.
    """
    limits = limits or LIMITS
    job = job_of(configuration, memory, accesses, threads, exact=exact)
    most = 2 * sum(map(len, memory.values())) + _RESULT
    with temporary_folder() as folder:
        (folder / "job").write_bytes(job)
        bounds = [str(limits.seconds), str(limits.memory), str(most)]
        call = [sys.executable, "-I", "-S", confined.__file__, *bounds, "", str(player())]
        (ran,) = run_all([[*call, str(folder / "job"), str(folder / "result")]])
        if ran.returncode:
            problem = (
                f"the twin of {configuration.name} ends with status {ran.returncode}: it takes too much time or memory"
            )
            raise ConvertorError.of(
                "DV900", f"{problem}\n{ran.stderr}".strip(), hint="play fewer or smaller operations"
            )
        return _played(memory, (folder / "result").read_bytes())


def player() -> Path:
    """The compiled program. Raises UsageError when there is no compiler."""
    return program_of("twin of NVDLA", SOURCES, INCLUDE, {"register_table.h": header()})


def figures_of(configuration: Configuration) -> list[int]:
    """The numbers of the twin's Configuration, between its name and its bases."""
    c = configuration
    engines = [int(engine in c.engines) for engine in ("EW", "LUT", "POST_EXTENSION")]
    kernels = [c.atomic_k.get(precision, 0) for precision in ("int8", "int16", "fp16")]
    sizes = [c.cbuf_banks, c.cbuf_entry_bytes, c.cbuf_entries, c.address_bits]
    return [int(c.initial), *engines, c.atom_bytes, c.atomic_c, *kernels, *sizes]


def bases_of(configuration: Configuration) -> list[int]:
    """The address of each block of registers, or MISSING."""
    return [configuration.bases.get(block, MISSING) for block in BLOCKS]


def _numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def job_of(
    configuration: Configuration,
    memory: Mapping[int, bytes | Bytes],
    accesses: Sequence[Access],
    threads: int,
    *,
    exact: bool = False,
) -> bytes:
    """What job.cpp reads."""
    name = configuration.name.encode()
    bases = bases_of(configuration)
    parts = [
        _numbers(threads, exact, len(name)) + name,
        _numbers(*figures_of(configuration)),
        _numbers(len(bases), *bases),
        _numbers(len(memory)),
    ]
    for address, contents in memory.items():
        parts.append(struct.pack("<QQ", address, len(contents)))
        for offset, block in _blocks(np.frombuffer(contents, np.uint8)):
            parts += [_numbers(offset, len(block)), block.tobytes()]
        parts.append(_numbers(len(contents)))
    parts.append(_numbers(len(accesses)))
    parts.append(np.array(accesses, "<u8").tobytes())
    return b"".join(parts)


def _blocks(contents: Bytes) -> Iterator[tuple[int, Bytes]]:
    """What is not zero, with its offset in bytes."""
    for offset in range(0, len(contents), _BLOCK):
        block = contents[offset : offset + _BLOCK]
        if block.any():
            yield offset, block


class _Reader:
    """Numbers and texts of a result, one after the other."""

    def __init__(self, contents: bytes) -> None:
        self._contents = contents
        self._at = 0

    def number(self) -> int:
        (value,) = struct.unpack_from("<Q", self._contents, self._at)
        self._at += 8
        return int(value)

    def bytes(self) -> bytes:
        size = self.number()
        self._at += size
        return self._contents[self._at - size : self._at]

    def memory(self, size: int) -> memoryview:
        """Blocks with their offsets; an offset at the end of the memory is the last."""
        contents: Bytes = np.zeros(size, np.uint8)
        while (offset := self.number()) < size:
            block = np.frombuffer(self.bytes(), np.uint8)
            contents[offset : offset + len(block)] = block
        return contents.data

    def text(self) -> str:
        return self.bytes().decode()


def _played(memory: Mapping[int, bytes | Bytes], contents: bytes) -> Played:
    reader = _Reader(contents)
    refusal = reader.text()
    done = reader.number()
    reads = np.frombuffer(reader.bytes(), "<u4").tolist()
    operations = tuple(_operation(reader) for _ in range(reader.number()))
    results = {address: np.frombuffer(before, np.uint8).data for address, before in memory.items()}
    for address in list(memory)[: reader.number()]:  # the device has no others after one that it refuses
        results[address] = reader.memory(len(memory[address]))
    return Played(results, tuple(reads), operations, refusal, done)


def _operation(reader: _Reader) -> Operation:
    engine, group, enabled = reader.text(), reader.number(), reader.number()
    started, waited_for, cycles = reader.number(), reader.text(), reader.number()
    traffic = {}
    for _ in range(reader.number()):
        port = reader.text()
        traffic[port] = reader.number()
    return Operation(engine, group, enabled, started, waited_for, cycles, traffic)
