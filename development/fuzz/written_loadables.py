"""Writes small loadables, apart from the code that reads them: a max pool, in either version of the descriptors."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers

NONE = (-1, 0)  # no operation, no event
POOL, PROGRAMMED = 3, 2


@dataclass(frozen=True)
class Pooling:
    """A max pool of 2x2 on int8, as every field of the file has it; a test replaces some."""

    width: int = 6
    height: int = 4
    channels: int = 11
    atom: int = 8
    older: bool = False
    version: int | None = None  # minor one of the blobs; by default that of the descriptors
    sizes: Mapping[int, int] = field(default_factory=dict)  # memory -> its bytes, in place of the right ones
    operation: Mapping[str, Any] = field(default_factory=dict)  # fields of the operation and its cubes
    network: Mapping[str, Any] = field(default_factory=dict)
    common: Mapping[str, Any] = field(default_factory=dict)
    lists: Mapping[str, Any] = field(default_factory=dict)  # lists of the file
    interface: int = 1
    count: int = 1  # of poolings, all with the same input and output

    def surfaces(self, width: int, height: int) -> tuple[int, int, int]:
        """Line stride, surface stride and bytes of a cube."""
        line = width * self.atom
        return line, line * height, line * height * -(-self.channels // self.atom)

    def cube(self, address: int, width: int, height: int) -> bytes:
        line, surface, size = self.surfaces(width, height)
        values = {"type": 0, "address": address, "offset": 0, "size": size, "line": line, "surface": surface}
        side = "src." if address == 5 else "dst."
        values |= {name.removeprefix(side): value for name, value in self.operation.items() if name.startswith(side)}
        sizes = (values.get("width", width), values.get("height", height), values.get("channel", self.channels))
        head = struct.pack("<Hh", values["type"], values["address"])
        if not self.older:
            head += struct.pack("<I", values["offset"])
        return head + struct.pack("<IHHHHIII", values["size"], *sizes, 0, values["line"], values["surface"], 0)

    def blobs(self) -> dict[str, bytes]:
        """The contents of the task: its network, and one descriptor of each kind for each pooling."""
        network: dict[str, Any] = {
            "heads": (-1, -1, -1, 0, -1, -1),
            "operations": self.count,
            "op": 1,
            "surf": 2,
            "dep": 3,
        }
        network |= self.network
        head = struct.pack("<8h", network["op"], network["surf"], network["dep"], -1, -1, -1, -1, 0)
        head += struct.pack("<6h", *network["heads"]) + struct.pack("<HHHHhBB", 1, network["operations"], 0, 7, 0, 0, 0)
        pool = {"mode": 1, "width": 1, "height": 1, "stride_x": 2, "stride_y": 2, "left": 0, "split": 1, "precision": 0}
        pool |= {name: value for name, value in self.operation.items() if "." not in name}
        op = bytes(12) + struct.pack("<BBBB", pool["split"], pool["mode"], pool["width"], pool["height"])
        op += struct.pack("<BBBBBBBB", pool["stride_x"], pool["stride_y"], pool["left"], 0, 0, 0, pool["precision"], 0)
        cubes = self.cube(5, self.width, self.height) + self.cube(6, self.width // 2, self.height // 2)
        graph = b"".join(map(self.place_in_graph, range(self.count)))
        ops, surfaces = op.ljust(116, b"\0") * self.count, cubes.ljust(644, b"\0") * self.count
        return {"net": head, "ops": ops, "surfs": surfaces, "deps": graph}

    def place_in_graph(self, number: int) -> bytes:
        """Each pooling waits until the one before is programmed."""
        consumers = [NONE] * 6
        if number + 1 < self.count:
            consumers[POOL] = (number + 1, PROGRAMMED)
        common: dict[str, Any] = {"type": POOL, "count": int(number > 0), "consumers": consumers, "parent": NONE}
        common |= self.common
        place = struct.pack("<hBBB3x", number, 0, common["type"], common["count"])
        for index, event in (*common["consumers"], common["parent"]):
            place += struct.pack("<hBx", index, event)
        return place

    def file(self) -> bytes:
        blobs = self.blobs()
        minor = self.version if self.version is not None else (11 if self.older else 12)
        output = (self.width // 2, self.height // 2)
        sizes = [len(content) for content in blobs.values()] + [16]
        sizes += [self.surfaces(self.width, self.height)[2], self.surfaces(*output)[2]]
        sizes = [self.sizes.get(number, size) for number, size in enumerate(sizes)]
        flags = [3, 3, 3, 3, 1, 5, 9]
        contents: list[list[str]] = [[name] for name in blobs] + [[], [], []]
        memories = []
        for number, size in enumerate(sizes):
            held = contents[number]
            tensor = max(number - 5, 0)
            row = [("H", number), ("B", 0), ("H", flags[number]), ("Q", size), ("I", 4096), ("s*", held)]
            memories.append([*row, ("Q*", [0] * len(held)), ("H", 0), ("H", tensor)])
        addresses = [[("H", n), ("H", n), ("Q", 0), ("Q", size)] for n, size in enumerate(sizes)]
        lists: dict[str, Any] = {
            "tasks": [[("H", 0), ("I", self.interface), ("h", -1), ("H*", list(range(7))), ("H*", []), ("H*", [])]],
            "memories": memories,
            "addresses": addresses,
            "events": [],
            "blobs": [
                [("s", name), ("Q", len(data)), ("I", 1), ("I", 0), ("v", (0, minor, 0)), ("B*", data)]
                for name, data in blobs.items()
            ],
            "tensors": [
                self.tensor("x", 0, 5, self.width, self.height),
                self.tensor("y", 1, 6, *output),
            ],
            "relocations": [],
            "submits": [[("H", 0), ("H*", [0])]],
        } | dict(self.lists)
        builder = flatbuffers.Builder(4096)
        rows = [("v", (0, 7, 0)), *(("t*", rows) for rows in lists.values())]
        builder.Finish(written(builder, rows))
        return bytes(builder.Output())

    def tensor(self, name: str, number: int, memory: int, width: int, height: int) -> list[tuple[str, Any]]:
        line, surface, size = self.surfaces(width, height)
        head = [
            ("s", name),
            ("H", number),
            ("H", memory),
            ("Q", size),
            ("Q", 0),
            ("B", 1),
            ("B", 4),
            ("B", 2),
            ("B", 36),
        ]
        sizes = [("B", 0), ("i", 1), ("i", self.channels), ("i", height), ("i", width)]
        return [*head, *sizes, ("I", 1), ("I", line), ("I", surface)]

    def write(self, folder: Path, name: str = "pool.nvdla") -> Path:
        path = folder / name
        path.write_bytes(self.file())
        return path


_SLOTS = {"H": "Uint16", "B": "Uint8", "h": "Int16", "I": "Uint32", "i": "Int32", "Q": "Uint64"}
_WIDTHS = {"H": 2, "B": 1, "Q": 8, "s": 4, "t": 4}


def written(builder: Any, fields: list[tuple[str, Any]]) -> int:
    """A table of fields in the order of their numbers: (code, value)."""
    offsets = {}
    for number, (code, value) in enumerate(fields):
        if code == "s":
            offsets[number] = builder.CreateString(value)
        elif code.endswith("*") and value:
            offsets[number] = _vector(builder, code[0], value)
    builder.StartObject(len(fields))
    for number, (code, value) in enumerate(fields):
        if number in offsets:
            builder.PrependUOffsetTRelativeSlot(number, offsets[number], 0)
        elif code == "v":
            builder.Prep(1, 3)
            for part in reversed(value):
                builder.PrependUint8(part)
            builder.PrependStructSlot(number, builder.Offset(), 0)
        elif not code.endswith("*"):
            getattr(builder, f"Prepend{_SLOTS[code]}Slot")(number, value, 0)
    return int(builder.EndObject())


def _vector(builder: Any, code: str, values: Any) -> int:
    if code == "B":
        return int(builder.CreateByteVector(values))
    items = list(values)
    if code == "t":
        items = [written(builder, each) for each in items]
    elif code == "s":
        items = [builder.CreateString(each) for each in items]
    builder.StartVector(_WIDTHS[code], len(items), _WIDTHS[code])
    for item in reversed(items):
        if code in "ts":
            builder.PrependUOffsetTRelative(item)
        else:
            getattr(builder, f"Prepend{_SLOTS[code]}")(item)
    return int(builder.EndVector())
