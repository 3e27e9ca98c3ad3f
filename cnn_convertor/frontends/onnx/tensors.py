"""Finds the elements of arrays (TensorProto) in a model's file, or in the files of external data beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.frontends import wire
from cnn_convertor.frontends.mapped_file import MappedFile, check_file
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.stored import Numbers, Stored
from cnn_convertor.frontends.wire import Field, WireError, WireType

FLOAT, FLOAT16, DOUBLE, BFLOAT16, BOOL, INT64 = 1, 10, 11, 16, 9, 7
# TensorProto.DataType -> how raw data holds an element. BFLOAT16 is the upper half of a float32.
TYPES: Mapping[int, np.dtype[Any]] = {
    FLOAT: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    4: np.dtype("<u2"),
    5: np.dtype("<i2"),
    6: np.dtype("<i4"),
    INT64: np.dtype("<i8"),
    BOOL: np.dtype("?"),
    FLOAT16: np.dtype("<f2"),
    DOUBLE: np.dtype("<f8"),
    12: np.dtype("<u4"),
    13: np.dtype("<u8"),
    BFLOAT16: np.dtype("<u2"),
}
FLOATS = frozenset({FLOAT, FLOAT16, DOUBLE, BFLOAT16})
NAMES = {8: "STRING", 14: "COMPLEX64", 15: "COMPLEX128", 17: "FLOAT8", 18: "FLOAT8", 19: "FLOAT8", 20: "FLOAT8"}
# Fields with elements of a fixed size, and fields of variable length.
FIXED: Mapping[int, np.dtype[Any]] = {4: np.dtype("<f4"), 10: np.dtype("<f8")}
VARIABLE = frozenset({5, 7, 11})
# Type -> its field that holds elements as raw data does.
PACKED: Mapping[int, int] = {FLOAT: 4, DOUBLE: 10}
MOST_AXES = 32  # of an array; NumPy 1 has no more
PIECE = 1 << 20  # octets of packed numbers that are unpacked at a time
LONGEST = 10  # octets of a number
MOST_SINGLE = 1 << 19  # fields with one number each, where others pack thousands into one
MOST_UNPACKED = 64 << 20  # bytes of integers that take more memory than they take in the file
MOST = 1 << 40  # elements, where empty axes count as one; more is damage


@dataclass(slots=True)
class TensorFile:
    """The model's file, and the files of external data that have been opened."""

    path: Path
    mapped: MappedFile
    others: dict[str, MappedFile] = field(default_factory=dict)

    def external(self, location: str) -> MappedFile:
        """Raises ModelError when the file is missing, or not below the model's folder."""
        if location not in self.others:
            relative = PurePosixPath(location)
            if relative.is_absolute() or ".." in relative.parts or "\0" in location or not location:
                problem = f"the model keeps weights in {location!r}, outside of its folder"
                raise ModelError.of("DV201", problem, Origin(str(self.path)), "export the model again")
            path = self.path.parent / relative
            check_file(path, "weights")
            self.others[location] = MappedFile(path)
        return self.others[location]


def read_tensor(file: TensorFile, place: Field) -> tuple[str, Stored]:
    """The name and the array of the message at a place. External data is opened when it is read."""
    data = file.mapped.data
    dims: list[int] = []
    type, external, name = 0, False, ""
    parts: dict[int, list[Field]] = {}
    for inner in wire.fields(data, place.start, place.stop):
        match inner.number, inner.type:
            case 1, WireType.VARINT | WireType.BYTES:
                dims += wire.varints(data, inner)
            case 2, WireType.VARINT:
                type = inner.value
            case 8, WireType.BYTES:
                name = bytes(data[inner.start : inner.stop]).decode("utf-8", errors="replace")
            case 14, WireType.VARINT:
                external = inner.value == 1
            case number, _:
                fields = parts.setdefault(number, [])
                fields.append(inner)
                if len(fields) > MOST_SINGLE:
                    raise _wasteful(
                        file, name, f"has each of its numbers in a field of its own, more than {MOST_SINGLE:,}"
                    )
    if min(dims, default=0) < 0 or math.prod(max(n, 1) for n in dims) > MOST:
        raise WireError(f"the array {name!r} has the impossible size {dims}", place.start)
    if len(dims) > MOST_AXES:
        raise WireError(f"the array {name!r} has {len(dims)} axes", place.start)
    if type not in TYPES:
        problem = f"the array {name!r} is of type {NAMES.get(type, type)}, which cannot be read"
        raise ModelError.of("DV201", problem, Origin(str(file.path), name), "export the model in FP32")
    if external:
        return name, _external(file, tuple(dims), type, name, parts.get(13, []))
    return name, _embedded(file, tuple(dims), type, name, place, parts)


def _external(file: TensorFile, dims: Dims, type: int, name: str, entries: list[Field]) -> Stored:
    data = file.mapped.data
    given: dict[str, str] = {}
    for entry in entries:
        texts = {
            inner.number: bytes(data[inner.start : inner.stop]).decode("utf-8", errors="replace")
            for inner in wire.fields(data, entry.start, entry.stop)
        }
        given[texts.get(1, "")] = texts.get(2, "")
    count, size = math.prod(dims), TYPES[type].itemsize
    origin = Origin(str(file.path), name)
    try:
        offset, length = int(given.get("offset", "0")), int(given.get("length", str(count * size)))
    except ValueError:
        raise ModelError.of("DV201", "the place of external data is not a number", origin, "export it again") from None

    def read(start: int, stop: int) -> Numbers:
        mapped = file.external(given.get("location", ""))
        if offset < 0 or length != count * size or offset + length > len(mapped.data):
            problem = f"{given.get('location')} does not hold {count:,} numbers at byte {offset:,}"
            raise ModelError.of("DV201", problem, origin, "the file is cut short or of another model; export it again")
        mapped.forget_pages()
        return _numbers(mapped.data, offset, start, stop, type)

    return Stored(dims, _dtype(type), read)


def _embedded(
    file: TensorFile, dims: Dims, type: int, name: str, place: Field, parts: Mapping[int, list[Field]]
) -> Stored:
    count, data = math.prod(dims), file.mapped.data
    packed = parts.get(PACKED.get(type, 0), [])
    raw = parts.get(9) or [field for field in packed if len(packed) == 1 and field.type == WireType.BYTES]
    if raw:
        first = raw[-1]
        if first.stop - first.start != count * TYPES[type].itemsize:
            raise WireError(
                f"the array {name!r} of {count:,} numbers holds {first.stop - first.start:,} bytes", place.start
            )

        def read(start: int, stop: int) -> Numbers:
            file.mapped.forget_pages()
            return _numbers(data, first.start, start, stop, type)

        return Stored(dims, _dtype(type), read)

    size = count * TYPES[type].itemsize
    if size > MOST_UNPACKED and place.stop - place.start < size and count <= place.stop - place.start:
        raise _wasteful(file, name, f"of {count:,} numbers takes {size >> 20:,} MiB, far more than in the file")

    def converted() -> Numbers:
        file.mapped.forget_pages()
        values, at = np.empty(min(count, place.stop - place.start), _dtype(type)), 0
        for number in sorted(parts):
            for part in parts[number]:
                for piece in _typed(data, part):
                    if at + len(piece) <= len(values):
                        values[at : at + len(piece)] = _converted(piece, type)
                    at += len(piece)
        if at != count:
            raise WireError(f"the array {name!r} of {count:,} numbers holds {at:,}", place.start)
        return values.reshape(dims)

    return Stored.computed(converted)


def _wasteful(file: TensorFile, name: str, problem: str) -> ModelError:
    hint = "store the array as raw data, as exporters do"
    return ModelError.of("DV201", f"the array {name!r} {problem}", Origin(str(file.path), name), hint)


def _typed(data: wire.Data, part: Field) -> Iterator[Numbers]:
    """The numbers of one field, packed or not, in pieces; none of a field that does not hold numbers."""
    if part.number in FIXED and part.type != WireType.VARINT:
        dtype = FIXED[part.number]
        if (part.stop - part.start) % dtype.itemsize:
            raise WireError("an array ends inside a number", part.start)
        yield np.frombuffer(data, dtype, (part.stop - part.start) // dtype.itemsize, part.start)
    elif part.number in VARIABLE and part.type == WireType.VARINT:
        yield np.array(wire.varints(data, part), np.int64)
    elif part.number in VARIABLE:
        start = part.start
        while start < part.stop:
            octets = np.frombuffer(data, np.uint8, min(part.stop - start, PIECE), start)
            stops = np.flatnonzero(octets < 0x80) + 1
            if not len(stops):
                raise WireError("a number does not end", start)
            yield _unpacked(octets[: stops[-1]], stops, start)
            start += int(stops[-1])


def _unpacked(octets: Numbers, stops: Numbers, where: int) -> Numbers:
    """The numbers that end before the stops, of seven bits in each octet."""
    starts = np.concatenate([[0], stops[:-1]]).astype(np.intp)
    lengths = stops - starts
    if lengths.max() > LONGEST:
        raise WireError("a number does not end", where)
    values = np.zeros(len(stops), np.uint64)
    for place in range(int(lengths.max())):
        longer = lengths > place
        septets = (octets[starts[longer] + place] & 0x7F).astype(np.uint64)
        values[longer] |= septets << np.uint64(7 * place)
    return values.view(np.int64)


def _converted(values: Numbers, type: int) -> Numbers:
    """Numbers of the fields with types; those of 16 bits are there as integers with the same bits."""
    if type == BFLOAT16:
        return _from_bfloat16(values.astype(np.uint16))
    if type == FLOAT16 and values.dtype.kind == "i":
        return values.astype(np.uint16).view(np.float16)
    return values.astype(TYPES[type])


def _numbers(data: wire.Data, offset: int, start: int, stop: int, type: int) -> Numbers:
    dtype = TYPES[type]
    found = (
        np.frombuffer(data, dtype, max(stop - start, 0), offset + start * dtype.itemsize)
        if stop > start
        else np.empty(0, dtype)
    )
    return _from_bfloat16(found) if type == BFLOAT16 else found


def _from_bfloat16(bits: Numbers) -> Numbers:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def as_bfloat16(values: Numbers) -> Numbers:
    """Rounded to the nearest bfloat16; of two, to the even one. In FP32, which holds them."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + (bits >> 16 & 1)
    return np.where(np.isnan(values), bits, rounded & 0xFFFF0000).astype(np.uint32).view(np.float32)


def _dtype(type: int) -> np.dtype[Any]:
    return np.dtype(np.float32) if type == BFLOAT16 else TYPES[type]
