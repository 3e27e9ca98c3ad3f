"""Finds a layer's weights in a .caffemodel, which is mapped into memory and never parsed completely."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.frontends import wire
from cnn_convertor.frontends.mapped_file import MappedFile, check_file
from cnn_convertor.frontends.wire import Field, WireError, WireType
from cnn_convertor.ir.constant import Array

Numbers: TypeAlias = NDArray[Any]

LAYERS = {100: (1, 7), 2: (4, 6)}  # field of the network -> fields of a layer's name and blobs; 2 is the old form
DATA, SHAPE, DOUBLE_DATA, RAW_TYPE, RAW_DATA = 5, 7, 8, 10, 12
LEGACY_SHAPE = (1, 2, 3, 4)  # num, channels, height, width
FIELD_TYPES: Mapping[int, np.dtype[Any]] = {DATA: np.dtype("<f4"), DOUBLE_DATA: np.dtype("<f8")}
RAW_TYPES: Mapping[int, np.dtype[Any]] = {0: np.dtype("<f8"), 1: np.dtype("<f4"), 2: np.dtype("<f2")}


@dataclass(frozen=True, slots=True)
class Blob:
    """An array in the file. pieces: views of its numbers in the mapped file, in their order; most blobs have one."""

    shape: tuple[int, ...]
    pieces: tuple[Numbers, ...]
    file: MappedFile

    def numbers(self, start: int, stop: int) -> Array:
        """The numbers from start to stop, in the file's order; a view of the file where possible."""
        self.file.forget_pages()
        if len(self.pieces) == 1:
            return self.pieces[0][start:stop].astype(np.float32, copy=False)
        pieces, offset = [], 0
        for piece in self.pieces:
            pieces.append(piece[max(start - offset, 0) : max(stop - offset, 0)])
            offset += len(piece)
        return np.concatenate([np.empty(0, np.float32), *pieces]).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """An indexed .caffemodel. layers: name -> where its blobs lie, in the file's order. named: whether the user named one."""

    path: Path
    file: MappedFile
    layers: Mapping[str, tuple[Field, ...]]
    named: bool = True

    @staticmethod
    def open(path: Path) -> WeightsFile:
        """Index a .caffemodel. Raises ModelError if it is not one."""
        check_file(path, "weights")
        file = MappedFile(path)
        try:
            return WeightsFile(path, file, _index(file.data))
        except WireError as error:
            raise _damaged(path, error, _what_it_is(file.data)) from None

    @staticmethod
    def none(definition: Path) -> WeightsFile:
        """An empty index, for a user who names no weights."""
        return WeightsFile(definition, MappedFile(definition), {}, named=False)

    def blobs(self, layer: str) -> tuple[Blob, ...]:
        """A layer's blobs; none when the file does not have the layer."""
        return tuple(self._blob(layer, field) for field in self.layers.get(layer, ()))

    def position(self, layer: str) -> int:
        """Where in the file the layer's blobs begin; -1 when it has none."""
        return max((field.start for field in self.layers.get(layer, ())), default=-1)

    def _blob(self, layer: str, field: Field) -> Blob:
        data = self.file.data
        try:
            shape, pieces = _read_blob(data, field)
        except WireError as error:
            raise _damaged(self.path, error, "", layer) from None
        if math.prod(shape) != (held := sum(map(len, pieces))):
            size = "x".join(map(str, shape))
            message = f"a blob of layer {layer!r} at byte {field.start:,} says {size}, but holds {held:,} numbers"
            raise ModelError.of("DV201", message, Origin(str(self.path)), "the file is damaged; download it again")
        return Blob(shape, pieces, self.file)


def _index(data: wire.Data) -> dict[str, tuple[Field, ...]]:
    layers: dict[str, tuple[Field, ...]] = {}
    for field in wire.fields(data, 0, len(data)):
        if field.number not in LAYERS or field.type != WireType.BYTES:
            continue
        name_field, blobs_field = LAYERS[field.number]
        name, blobs = "", []
        for inner in wire.fields(data, field.start, field.stop):
            if inner.type == WireType.BYTES and inner.number == name_field:
                name = data[inner.start : inner.stop].decode("utf-8", errors="replace")
            elif inner.type == WireType.BYTES and inner.number == blobs_field:
                blobs.append(inner)
        if blobs or name not in layers:
            layers.pop(name, None)
            layers[name] = tuple(blobs)
    return layers


def _read_blob(data: wire.Data, message: Field) -> tuple[tuple[int, ...], tuple[Numbers, ...]]:
    """Shape and numbers of a BlobProto."""
    runs: dict[int, list[Numbers]] = {DATA: [], DOUBLE_DATA: []}
    values: dict[int, int] = {}  # of the fields that are numbers
    texts: dict[int, list[Field]] = {SHAPE: [], RAW_DATA: []}
    for field in _blob_fields(data, message, runs):
        if field.type == WireType.VARINT:
            values[field.number] = field.value
        elif field.type == WireType.BYTES and field.number in FIELD_TYPES:
            runs[field.number].append(_packed(data, field, FIELD_TYPES[field.number]))
        elif field.type == WireType.BYTES and field.number in texts:
            texts[field.number].append(field)
    raw, raw_type = texts[RAW_DATA], values.get(RAW_TYPE, 0)
    if raw and raw_type not in RAW_TYPES:
        raise WireError(f"the blob holds raw data of the unknown type {raw_type}", raw[0].start)
    pieces = runs[DATA] or runs[DOUBLE_DATA] or [_packed(data, field, RAW_TYPES[raw_type]) for field in raw]
    shape = tuple(dim for field in texts[SHAPE] for dim in _dims(data, field))
    if values.keys() & set(LEGACY_SHAPE):
        shape = tuple(values.get(number, 0) for number in LEGACY_SHAPE)
    if min(shape, default=0) < 0:
        raise WireError("a blob has a size below zero", message.start)
    return shape, tuple(pieces)


def _dims(data: wire.Data, message: Field) -> Iterator[int]:
    """The sizes of a BlobShape."""
    for field in wire.fields(data, message.start, message.stop):
        if field.number == 1 and field.type in (WireType.BYTES, WireType.VARINT):
            yield from wire.varints(data, field)


def _blob_fields(data: wire.Data, message: Field, runs: dict[int, list[Numbers]]) -> Iterator[Field]:
    """The blob's fields, except for numbers that are not packed: those go to `runs`, one strided view for each run."""
    start = message.start
    while start < message.stop:
        field = next(wire.fields(data, start, message.stop))
        start = field.stop
        dtype = FIELD_TYPES.get(field.number)
        if (
            dtype is None
            or field.type not in (WireType.FIXED32, WireType.FIXED64)
            or dtype.itemsize != field.stop - field.start
        ):
            yield field
            continue
        tag = data[field.start - 1]  # fields below 16 have tags of one byte
        stride = 1 + dtype.itemsize
        first = field.start - 1
        tags = np.frombuffer(data, np.uint8, message.stop - first, first)[::stride]
        different = np.flatnonzero(tags != tag)
        count = int(different[0]) if len(different) else (message.stop - first) // stride
        runs[field.number].append(np.ndarray((count,), dtype, data, field.start, (stride,)))
        start = first + count * stride


def _packed(data: wire.Data, field: Field, dtype: np.dtype[Any]) -> Numbers:
    count, rest = divmod(field.stop - field.start, dtype.itemsize)
    if rest:
        raise WireError("a blob ends inside a number", field.start)
    return np.frombuffer(data, dtype, count, field.start)


def _damaged(path: Path, error: WireError, hint: str, layer: str = "") -> ModelError:
    inside = f" (in layer {layer!r})" if layer else ""
    message = f"this is not a .caffemodel, or it is damaged: {error}, at byte {error.offset:,}{inside}"
    hint = hint or "the file is cut short or damaged; download it again"
    return ModelError.of("DV201", message, Origin(str(path)), hint)


def _what_it_is(data: wire.Data) -> str:
    """The likely kind of a file that is not a .caffemodel."""
    head = bytes(data[:200])
    if head.startswith(b"\x89HDF"):
        caffe = "let Caffe write a .caffemodel (snapshot_format: BINARYPROTO)"
        return f"this is an HDF5 file: if Caffe wrote it, {caffe}; if Keras did, name it as `definition`"
    if head.startswith(b"version https://git-lfs"):
        return "this is only the pointer of a Git LFS file; fetch the file itself (git lfs pull)"
    if not set(head) & set(range(9)):
        return "this looks like text; the weights are in the binary .caffemodel"
    return ""
