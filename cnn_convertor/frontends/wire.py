"""Walks protobuf's binary format in place: reads tags and lengths, and skips contents."""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from cnn_convertor.frontends.model_file import ModelFile

Data: TypeAlias = bytes | ModelFile
_LONGEST = 10  # bytes of a number


class WireType(IntEnum):
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


class WireError(ValueError):
    """The bytes are not a message. offset: of the error."""

    def __init__(self, message: str, offset: int) -> None:
        self.offset = offset
        super().__init__(message)


class Field(NamedTuple):
    """One field. start, stop: the range of its content. value: the content of a VARINT."""

    number: int
    type: WireType
    start: int
    stop: int
    value: int = 0


def fields(data: Data, start: int, stop: int) -> Iterator[Field]:
    """The fields of the message in data[start:stop]. Raises WireError."""
    while start < stop:
        where = start
        tag, start = varint(data, start, stop)
        number = tag >> 3
        kind = tag & 7
        if number == 0:
            raise WireError("a field has the number 0", where)
        value = 0
        match kind:
            case WireType.VARINT:
                value, end = varint(data, start, stop)
            case WireType.FIXED64:
                end = start + 8
            case WireType.FIXED32:
                end = start + 4
            case WireType.BYTES:
                length, start = varint(data, start, stop)
                end = start + length
            case _:
                raise WireError(f"field {number} has the unknown wire type {kind}", where)
        if end > stop:
            raise WireError(f"field {number} needs {end - start:,} bytes, but {stop - start:,} are left", where)
        yield Field(number, WireType(kind), start, end, value)
        start = end


def varint(data: Data, start: int, stop: int) -> tuple[int, int]:
    """An unsigned number and the offset after it."""
    value = 0
    there = data[start : min(start + _LONGEST, stop)]
    for index, byte in enumerate(there):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value & (1 << 64) - 1, start + index + 1
    raise WireError("a number does not end" if len(there) == _LONGEST else "the data end inside a number", start)


def varints(data: Data, field: Field) -> list[int]:
    """The signed numbers of a repeated field's one occurrence, packed or not."""
    if field.type == WireType.VARINT:
        return [_signed(field.value)]
    numbers = []
    start = field.start
    while start < field.stop:
        number, start = varint(data, start, field.stop)
        numbers.append(_signed(number))
    return numbers


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
