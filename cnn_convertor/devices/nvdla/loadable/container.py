"""The flatbuffer of a loadable: its lists, as values. What they mean together is not checked here."""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from flatbuffers import Builder, number_types
from flatbuffers.table import Table

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadableVersion:
    major: int
    minor: int
    sub_minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.sub_minor}"


@dataclass(frozen=True, slots=True)
class TaskEntry:
    id: int
    interface: int
    instance: int
    address_list: tuple[int, ...]
    pre_actions: tuple[int, ...]
    post_actions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    id: int
    domain: int
    flags: int
    size: int
    alignment: int
    contents: tuple[str, ...]
    offsets: tuple[int, ...]
    bind_id: int
    tensor_desc_id: int


@dataclass(frozen=True, slots=True)
class AddressEntry:
    id: int
    mem_id: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class EventEntry:
    id: int
    type: int
    target: int
    val: int
    op: int


@dataclass(frozen=True, slots=True)
class ContentBlob:
    name: str
    size: int
    interface: int
    sub_interface: int
    version: LoadableVersion
    data: bytes


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """strides: bytes of an element, of a line, of a surface, and more."""

    name: str
    id: int
    mem_id: int
    size: int
    offset: int
    data_format: int
    data_type: int
    data_category: int
    pixel_format: int
    pixel_mapping: int
    n: int
    c: int
    h: int
    w: int
    stride_0: int
    stride_1: int
    stride_2: int
    stride_3: int
    stride_4: int
    stride_5: int
    stride_6: int
    stride_7: int


@dataclass(frozen=True, slots=True)
class RelocationEntry:
    address_id: int
    write_id: int
    offset: int
    interface: int
    sub_interface: int
    reloc_type: int


@dataclass(frozen=True, slots=True)
class SubmitEntry:
    id: int
    task_id: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Container:
    version: LoadableVersion
    tasks: tuple[TaskEntry, ...]
    memories: tuple[MemoryEntry, ...]
    addresses: tuple[AddressEntry, ...]
    events: tuple[EventEntry, ...]
    blobs: tuple[ContentBlob, ...]
    tensors: tuple[TensorEntry, ...]
    relocations: tuple[RelocationEntry, ...]
    submits: tuple[SubmitEntry, ...]


class ContainerError(ValueError):
    """The bytes are no loadable."""


# The fields of each table in the order of their numbers: codes of the struct module, "s" for a text, "LoadableVersion"
# for a struct; in brackets a list of them. A list of "B" is bytes.
_FIELDS: Final[dict[Any, str]] = {
    TaskEntry: "H I h [H] [H] [H]",
    MemoryEntry: "H B H Q I [s] [Q] H H",
    AddressEntry: "H H Q Q",
    EventEntry: "H B H I B",
    ContentBlob: "s Q I I LoadableVersion [B]",
    TensorEntry: "s H H Q Q B B B B B i i i i I I I I I I I I",
    RelocationEntry: "H H Q I I B",
    SubmitEntry: "H [H]",
    Container: "LoadableVersion [TaskEntry] [MemoryEntry] [AddressEntry] [EventEntry] [ContentBlob] [TensorEntry] "
    "[RelocationEntry] [SubmitEntry]",
}
_TABLES: Final = {kind.__name__: kind for kind in _FIELDS}
_NUMBERS: Final = {
    "B": number_types.Uint8Flags,
    "H": number_types.Uint16Flags,
    "h": number_types.Int16Flags,
    "I": number_types.Uint32Flags,
    "i": number_types.Int32Flags,
    "Q": number_types.Uint64Flags,
}
_OFFSET: Final = number_types.UOffsetTFlags
_FIRST_FIELD: Final = 4  # bytes of a table of fields before its first one
_FIRST_SIZE: Final = 1 << 16  # bytes of a file besides its blobs, at first


def read_container(data: bytes) -> Container:
    """Raises ContainerError for anything else than a loadable."""
    reader = _Reader(data)
    try:
        return reader.table(Container, Table(data, 0).Indirect(0))
    except UnicodeDecodeError:
        raise ContainerError("a name in it is no text") from None
    except (struct.error, TypeError):  # what flatbuffers raises for places that do not exist
        raise ContainerError("it names places outside of itself") from None


class _Reader:
    """Reads tables within the file. Lists that share their bytes cannot make it longer than the file: every item counts."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = len(data)  # items and bytes that it may still read

    def table(self, kind: type[T], position: int) -> T:
        table = Table(self._data, position)
        codes = _FIELDS[kind].split()
        self._spend(len(codes))
        values = []
        for number, code in enumerate(codes):
            offset = table.Offset(_FIRST_FIELD + number_types.VOffsetTFlags.bytewidth * number)
            values.append(self._value(code, table, position + offset if offset else None))
        assert len(values) == len(dataclasses.fields(kind))  # type: ignore[arg-type]  # a dataclass
        return kind(*values)

    def _value(self, code: str, table: Table, place: int | None) -> Any:
        """The value of a field; place: of it in the file, or None if the file leaves it out."""
        if code.startswith("["):
            return self._list(code.strip("[]"), table, place)
        if code == "s":
            return "" if place is None else self._text(table, place)
        if code == "LoadableVersion":
            numbers = [0, 0, 0] if place is None else [table.Get(_NUMBERS["B"], place + each) for each in range(3)]
            return LoadableVersion(*numbers)
        return 0 if place is None else table.Get(_NUMBERS[code], place)

    def _text(self, table: Table, place: int) -> str:
        start = table.Indirect(place)
        length = table.Get(_OFFSET, start)
        self._spend(length)
        self._require(start, length)
        raw: bytes = table.String(place)
        return raw.decode()

    def _list(self, code: str, table: Table, place: int | None) -> Any:
        if place is None:
            return b"" if code == "B" else ()
        start = table.Indirect(place)
        length = table.Get(_OFFSET, start)
        self._spend(length)
        first = start + _OFFSET.bytewidth
        if code == "B":
            self._require(start, length)
            return self._data[first : first + length]
        width = _NUMBERS[code].bytewidth if code in _NUMBERS else _OFFSET.bytewidth
        self._require(start, length * width)
        items = []
        for item in range(first, first + length * width, width):
            if code in _TABLES:
                items.append(self.table(_TABLES[code], table.Indirect(item)))
            else:
                items.append(self._value(code, table, item))
        return tuple(items)

    def _require(self, start: int, size: int) -> None:
        """Raise unless a list or a text lies in the file. start: of its length."""
        if start + _OFFSET.bytewidth + size > len(self._data):
            raise ContainerError(f"a list or a text at byte {start:,} ends after the file")

    def _spend(self, items: int) -> None:
        self._left -= items
        if self._left < 0:
            raise ContainerError("its lists name more items than it has bytes for")


def container_bytes(container: Container) -> memoryview:
    """The file of a container. The same container gives the same bytes."""
    builder = Builder(sum(len(blob.data) for blob in container.blobs) + _FIRST_SIZE)
    builder.Finish(_written(builder, container))
    return memoryview(builder.Bytes)[builder.Head() :]  # `Output` would copy the weights once more


def _written(builder: Builder, table: Any) -> int:
    """Write a table behind what its fields point to; returns its offset."""
    codes = _FIELDS[type(table)].split()
    values = [getattr(table, field.name) for field in dataclasses.fields(table)]
    offsets = {}
    for number, (code, value) in enumerate(zip(codes, values, strict=True)):
        if code == "s":
            offsets[number] = builder.CreateString(value)
        elif code.startswith("[") and value:
            offsets[number] = _written_list(builder, code.strip("[]"), value)
    builder.StartObject(len(codes))
    for number, (code, value) in enumerate(zip(codes, values, strict=True)):
        if number in offsets:
            builder.PrependUOffsetTRelativeSlot(number, offsets[number], 0)
        elif code == "LoadableVersion":
            builder.Prep(1, 3)
            for part in (value.sub_minor, value.minor, value.major):
                builder.PrependUint8(part)
            builder.PrependStructSlot(number, builder.Offset(), 0)
        elif code in _NUMBERS:
            builder.PrependSlot(_NUMBERS[code], number, value, 0)
    return int(builder.EndObject())


def _written_list(builder: Builder, code: str, values: Any) -> int:
    if code == "B":
        return int(builder.CreateByteVector(values))
    items = values
    if code == "s":
        items = [builder.CreateString(value) for value in values]
    elif code in _TABLES:
        items = [_written(builder, value) for value in values]
    kind = _NUMBERS.get(code, _OFFSET)
    builder.StartVector(kind.bytewidth, len(items), kind.bytewidth)
    for item in reversed(items):
        if kind is _OFFSET:
            builder.PrependUOffsetTRelative(item)
        else:
            builder.Prepend(kind, item)
    return int(builder.EndVector())
