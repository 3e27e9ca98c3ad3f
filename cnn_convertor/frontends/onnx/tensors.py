"""Finds the elements of arrays (TensorProto) in a model's file, or in the files of external data beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.frontends import wire
from cnn_convertor.frontends.model_file import ModelFile, check_file
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.stored import Numbers, Stored
from cnn_convertor.frontends.wire import Field, WireError, WireType

FLOAT = 1
FLOAT16 = 10
DOUBLE = 11
BFLOAT16 = 16
BOOL = 9
INT64 = 7
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
_DIGITS = re.compile("[0-9]{1,19}")  # of a position in a file
MOST = 1 << 40  # elements, where empty axes count as one; more is damage


@dataclass(slots=True)
class TensorFile:
    """The model's file, and the files of external data that have been opened."""

    path: Path
    data: ModelFile
    others: dict[str, ModelFile] = field(default_factory=dict)

    def external(self, location: str) -> ModelFile:
        """Raises ModelError when the file is missing, or not below the model's folder."""
        if location not in self.others:
            relative = PurePosixPath(location)
            if relative.is_absolute() or ".." in relative.parts or "\0" in location or not location:
                problem = f"the model keeps weights in {location!r}, outside of its folder"
                raise ModelError.of("DV201", problem, Origin(str(self.path)), "export the model again")
            path = self.path.parent / relative
            check_file(path, "weights")
            # A download's cache has links to one folder, for the model as for its weights.
            folders = (self.path.parent.resolve(), self.path.resolve().parent)
            if not any(path.resolve().is_relative_to(folder) for folder in folders):
                problem = f"the model keeps weights in {location!r}, from where a link leads out of its folder"
                hint = "put the file itself there, if you trust the model"
                raise ModelError.of("DV201", problem, Origin(str(self.path)), hint)
            self.others[location] = ModelFile(path)
        return self.others[location]


def read_tensor(file: TensorFile, message: Field) -> tuple[str, Stored]:
    """The name and the array of a TensorProto. External data is opened when it is read."""
    data = file.data
    dims: list[int] = []
    type = 0
    external = False
    name = ""
    by_number: dict[int, list[Field]] = {}
    for inner in wire.fields(data, message.start, message.stop):
        match inner.number, inner.type:
            case 1, WireType.VARINT | WireType.BYTES:
                dims += wire.varints(data, inner)
            case 2, WireType.VARINT:
                type = inner.value
            case 8, WireType.BYTES:
                name = data[inner.start : inner.stop].decode("utf-8", errors="replace")
            case 14, WireType.VARINT:
                external = inner.value == 1
            case number, _:
                fields = by_number.setdefault(number, [])
                fields.append(inner)
                if len(fields) > MOST_SINGLE:
                    raise _wasteful(
                        file, name, f"has each of its numbers in a field of its own, more than {MOST_SINGLE:,}"
                    )
    if min(dims, default=0) < 0 or math.prod(max(n, 1) for n in dims) > MOST:
        raise WireError(f"the array {name!r} has the impossible size {dims}", message.start)
    if len(dims) > MOST_AXES:
        raise WireError(f"the array {name!r} has {len(dims)} axes", message.start)
    if type not in TYPES:
        problem = f"the array {name!r} is of type {NAMES.get(type, type)}, which cannot be read"
        raise ModelError.of("DV201", problem, Origin(str(file.path), name), "export the model in FP32")
    if external:
        return name, _external(file, tuple(dims), type, name, by_number.get(13, []))
    return name, _embedded(file, tuple(dims), type, name, message, by_number)


def _external(file: TensorFile, dims: Dims, type: int, name: str, entries: list[Field]) -> Stored:
    data = file.data
    entries_by_key: dict[str, str] = {}
    for entry in entries:
        texts = {
            inner.number: data[inner.start : inner.stop].decode("utf-8", errors="replace")
            for inner in wire.fields(data, entry.start, entry.stop)
        }
        entries_by_key[texts.get(1, "")] = texts.get(2, "")
    count = math.prod(dims)
    size = TYPES[type].itemsize
    origin = Origin(str(file.path), name)
    place = {"offset": "0", "length": str(count * size)} | entries_by_key
    if not all(_DIGITS.fullmatch(place[key]) for key in ("offset", "length")):
        problem = "the offset or the length of external data is not a number"
        raise ModelError.of("DV201", problem, origin, "export it again")
    offset, length = int(place["offset"]), int(place["length"])

    def read(start: int, stop: int) -> Numbers:
        outer = file.external(entries_by_key.get("location", ""))
        if length != count * size or offset + length > len(outer):
            problem = f"{entries_by_key.get('location')} does not hold {count:,} numbers at byte {offset:,}"
            raise ModelError.of("DV201", problem, origin, "the file is cut short or of another model; export it again")
        return _numbers(outer, offset, start, stop, type)

    return Stored(dims, _dtype(type), read)


def _embedded(
    file: TensorFile, dims: Dims, type: int, name: str, message: Field, fields: Mapping[int, list[Field]]
) -> Stored:
    count = math.prod(dims)
    data = file.data
    packed = fields.get(PACKED.get(type, 0), [])
    raw = fields.get(9) or [field for field in packed if len(packed) == 1 and field.type == WireType.BYTES]
    if raw:
        first = raw[-1]
        if first.stop - first.start != count * TYPES[type].itemsize:
            raise WireError(
                f"the array {name!r} of {count:,} numbers holds {first.stop - first.start:,} bytes", message.start
            )

        def read(start: int, stop: int) -> Numbers:
            return _numbers(data, first.start, start, stop, type)

        return Stored(dims, _dtype(type), read)

    size = count * TYPES[type].itemsize
    if size > MOST_UNPACKED and message.stop - message.start < size and count <= message.stop - message.start:
        raise _wasteful(file, name, f"of {count:,} numbers takes {size >> 20:,} MiB, far more than in the file")

    def converted() -> Numbers:
        values = np.empty(min(count, message.stop - message.start), _dtype(type))
        at = 0
        for number in sorted(fields):
            for entry in fields[number]:
                for piece in _typed(data, entry):
                    if at + len(piece) <= len(values):
                        values[at : at + len(piece)] = _converted(piece, type)
                    at += len(piece)
        if at != count:
            raise WireError(f"the array {name!r} of {count:,} numbers holds {at:,}", message.start)
        return values.reshape(dims)

    return Stored.computed(converted)


def _wasteful(file: TensorFile, name: str, problem: str) -> ModelError:
    hint = "store the array as raw data, as exporters do"
    return ModelError.of("DV201", f"the array {name!r} {problem}", Origin(str(file.path), name), hint)


def _typed(data: ModelFile, field: Field) -> Iterator[Numbers]:
    """The numbers of one field, packed or not, in pieces; none of a field that does not hold numbers."""
    if field.number in FIXED and field.type != WireType.VARINT:
        dtype = FIXED[field.number]
        if (field.stop - field.start) % dtype.itemsize:
            raise WireError("an array ends inside a number", field.start)
        yield data.numbers(dtype, (field.stop - field.start) // dtype.itemsize, field.start)
    elif field.number in VARIABLE and field.type == WireType.VARINT:
        yield np.array(wire.varints(data, field), np.int64)
    elif field.number in VARIABLE:
        start = field.start
        while start < field.stop:
            octets = data.numbers(np.dtype(np.uint8), min(field.stop - start, PIECE), start)
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
    for digit in range(int(lengths.max())):
        longer = lengths > digit
        septets = (octets[starts[longer] + digit] & 0x7F).astype(np.uint64)
        values[longer] |= septets << np.uint64(7 * digit)
    return values.view(np.int64)


def _converted(values: Numbers, type: int) -> Numbers:
    """Numbers of the fields with types; those of 16 bits are there as integers with the same bits."""
    if type == BFLOAT16:
        return _from_bfloat16(values.astype(np.uint16))
    if type == FLOAT16 and values.dtype.kind == "i":
        return values.astype(np.uint16).view(np.float16)
    return values.astype(TYPES[type])


def _numbers(data: ModelFile, offset: int, start: int, stop: int, type: int) -> Numbers:
    dtype = TYPES[type]
    values = data.numbers(dtype, max(stop - start, 0), offset + start * dtype.itemsize)
    return _from_bfloat16(values) if type == BFLOAT16 else values


def _from_bfloat16(bits: Numbers) -> Numbers:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def as_bfloat16(values: Numbers) -> Numbers:
    """Rounded to the nearest bfloat16; of two, to the even one. In FP32, which holds them."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + (bits >> 16 & 1)
    return np.where(np.isnan(values), bits, rounded & 0xFFFF0000).astype(np.uint32).view(np.float32)


def _dtype(type: int) -> np.dtype[Any]:
    return np.dtype(np.float32) if type == BFLOAT16 else TYPES[type]
