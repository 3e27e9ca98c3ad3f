"""What was recorded on the public model of NVDLA: cases of single operations and networks, and runs of whole loadables."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.playing import Access, AccessKind


@dataclass(frozen=True)
class Recorded:
    """before, after: address -> contents of memory. accesses: what the firmware wrote."""

    name: str
    configuration: str
    before: Mapping[int, bytes]
    accesses: tuple[Access, ...]
    after: Mapping[int, bytes]


def cases(folder: Path, configuration: str, kind: str) -> Iterator[Recorded]:
    """The cases of a kind. folder: nvdla_ops."""
    index = json.loads((folder / "index.json").read_text("utf-8"))
    for row in index["cases"]:
        if (row["configuration"], row["kind"]) == (configuration, kind):
            yield case(folder / "cases" / row["id"], configuration)


def case(path: Path, configuration: str) -> Recorded:
    """path: without its suffix."""
    described = json.loads(path.with_suffix(".json").read_text("utf-8"))
    arrays = np.load(path.with_suffix(".npz"))
    before = {}
    after = {}
    for name, buffer in described["buffers"].items():
        address = buffer["dma_address"]
        before[address] = arrays[f"before_{name}"].tobytes()
        changed = f"after_{name}"
        after[address] = arrays[changed].tobytes() if changed in arrays.files else before[address]
    return Recorded(path.name, configuration, before, writes(arrays["register_writes"]), after)


def writes(rows: NDArray[np.uint32]) -> tuple[Access, ...]:
    return tuple(Access(AccessKind.WRITE, int(address), int(value)) for address, value in rows)


def regression(folder: Path) -> tuple[Recorded, dict[str, Any]]:
    """A run of a loadable: what its memory holds at first, its trace, the output that the model left, and the description."""
    described = json.loads((folder / "case.json").read_text("utf-8"))
    arrays = np.load(folder / "data.npz")
    blobs = loadable_blobs((folder / "loadable.fbuf").read_bytes())
    memory = {}
    addresses = {}
    for entry in described["memories"]:
        contents = b"".join(blobs[name] for name in entry["contents"] if name)
        memory[entry["dma_address"]] = contents.ljust(entry["bytes"], b"\0")
        addresses[entry["id"]] = entry["dma_address"]
    after = {}
    for name in arrays.files:
        if name.startswith("model_mem_"):
            after[addresses[int(name.rpartition("_")[2])]] = arrays[name].tobytes()
    if not after:
        (output,) = (entry["dma_address"] for entry in described["memories"] if entry["flags"] & 8)
        after[output] = arrays["model_output"].tobytes()
    trace = arrays["register_trace"]
    accesses = writes(trace[trace[:, 0] == 1][:, 1:])
    name, configuration = described["id"], described["configuration_played_on"]
    return Recorded(name, configuration, memory, accesses, after), described


def loadable_blobs(contents: bytes) -> dict[str, bytes]:
    """Name -> data of the blobs of a loadable: field 5 of the root table, with the name in field 0 and the data in field 5."""

    def field(table: int, number: int) -> int:
        vtable = table - struct.unpack_from("<i", contents, table)[0]
        (offset,) = struct.unpack_from("<H", contents, vtable + 4 + 2 * number)
        return table + int(offset) if offset else 0

    def pointed(at: int) -> int:
        return at + int(struct.unpack_from("<I", contents, at)[0])

    def vector(at: int) -> bytes:
        start = pointed(at)
        (size,) = struct.unpack_from("<I", contents, start)
        return contents[start + 4 : start + 4 + size]

    blobs = {}
    start = pointed(field(pointed(0), 5))
    (count,) = struct.unpack_from("<I", contents, start)
    for index in range(count):
        blob = pointed(start + 4 + 4 * index)
        blobs[vector(field(blob, 0)).decode()] = vector(field(blob, 5))
    return blobs
