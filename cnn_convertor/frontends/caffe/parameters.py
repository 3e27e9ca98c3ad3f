"""Finds a layer's weights in a .caffemodel, of which only what is needed is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.frontends import recognize_content, wire
from cnn_convertor.frontends.model_file import ModelFile, check_file
from cnn_convertor.frontends.wire import Field, WireError, WireType
from cnn_convertor.ir.constant import Array

Numbers: TypeAlias = NDArray[Any]

OCTET = np.dtype(np.uint8)
PIECE = 1 << 18  # numbers that are looked at together
LAYERS = {100: (1, 7), 2: (4, 6)}  # field of the network -> fields of a layer's name and blobs; 2 is the old form
DATA = 5
SHAPE = 7
DOUBLE_DATA = 8
RAW_TYPE = 10
RAW_DATA = 12
MOST_AXES = 32  # kMaxBlobAxes
LEGACY_SHAPE = (1, 2, 3, 4)  # num, channels, height, width
FIELD_TYPES: Mapping[int, np.dtype[Any]] = {DATA: np.dtype("<f4"), DOUBLE_DATA: np.dtype("<f8")}
RAW_TYPES: Mapping[int, np.dtype[Any]] = {0: np.dtype("<f8"), 1: np.dtype("<f4"), 2: np.dtype("<f2")}


class NumberSpan(NamedTuple):
    """Numbers in the file: the first at byte `start`, each `stride` bytes behind the one before it."""

    start: int
    length: int
    dtype: np.dtype[Any]
    stride: int

    def numbers(self, file: ModelFile, first: int, last: int) -> Numbers:
        """Those from `first` on, up to `last`, of which there is one at least."""
        start = self.start + first * self.stride
        if self.stride == self.dtype.itemsize:
            return file.numbers(self.dtype, last - first, start)
        octets = file.numbers(OCTET, (last - first - 1) * self.stride + self.dtype.itemsize, start)
        return np.ndarray((last - first,), self.dtype, octets, 0, (self.stride,))


@dataclass(frozen=True, slots=True)
class Blob:
    """An array in the file. pieces: where its numbers lie, in their order; most blobs have one."""

    shape: tuple[int, ...]
    pieces: tuple[NumberSpan, ...]
    file: ModelFile

    def numbers(self, start: int, stop: int) -> Array:
        """The numbers from start to stop, in the file's order."""
        pieces = []
        offset = 0
        for piece in self.pieces:
            first, last = (min(max(position - offset, 0), piece.length) for position in (start, stop))
            if first < last:
                pieces.append(piece.numbers(self.file, first, last))
            offset += piece.length
        if len(pieces) == 1:
            return pieces[0].astype(np.float32, copy=False)
        return np.concatenate([np.empty(0, np.float32), *pieces]).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """An indexed .caffemodel. layers: name -> where its blobs lie, in the file's order. named: whether the user named one."""

    path: Path
    file: ModelFile
    layers: Mapping[str, tuple[Field, ...]]
    named: bool = True

    @staticmethod
    def open(path: Path) -> WeightsFile:
        """Index a .caffemodel. Raises ModelError if it is not one."""
        check_file(path, "weights")
        file = ModelFile(path)
        try:
            return WeightsFile(path, file, _index(file))
        except WireError as error:
            raise _damaged(path, error, _what_it_is(file)) from None

    @staticmethod
    def none(definition: Path) -> WeightsFile:
        """An empty index, for a user who names no weights."""
        return WeightsFile(definition, ModelFile(definition), {}, named=False)

    def blobs(self, layer: str) -> tuple[Blob, ...]:
        """A layer's blobs; none when the file does not have the layer."""
        return tuple(self._blob(layer, field) for field in self.layers.get(layer, ()))

    def position(self, layer: str) -> int:
        """Where in the file the layer's blobs begin; -1 when it has none."""
        return max((field.start for field in self.layers.get(layer, ())), default=-1)

    def _blob(self, layer: str, field: Field) -> Blob:
        try:
            shape, pieces = _read_blob(self.file, field)
        except WireError as error:
            raise _damaged(self.path, error, "", layer) from None
        if math.prod(shape) != (held := sum(piece.length for piece in pieces)):
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
        name = ""
        blobs = []
        for inner in wire.fields(data, field.start, field.stop):
            if inner.type == WireType.BYTES and inner.number == name_field:
                name = data[inner.start : inner.stop].decode("utf-8", errors="replace")
            elif inner.type == WireType.BYTES and inner.number == blobs_field:
                blobs.append(inner)
        if blobs or name not in layers:
            layers.pop(name, None)
            layers[name] = tuple(blobs)
    return layers


def _read_blob(data: ModelFile, message: Field) -> tuple[tuple[int, ...], tuple[NumberSpan, ...]]:
    """Shape and numbers of a BlobProto."""
    runs: dict[int, list[NumberSpan]] = {DATA: [], DOUBLE_DATA: []}
    values: dict[int, int] = {}  # of the fields that are numbers
    texts: dict[int, list[Field]] = {SHAPE: [], RAW_DATA: []}
    for field in _blob_fields(data, message, runs):
        if field.type == WireType.VARINT:
            values[field.number] = field.value
        elif field.type == WireType.BYTES and field.number in FIELD_TYPES:
            runs[field.number].append(_packed(field, FIELD_TYPES[field.number]))
        elif field.type == WireType.BYTES and field.number in texts:
            texts[field.number].append(field)
    raw = texts[RAW_DATA]
    raw_type = values.get(RAW_TYPE, 0)
    if raw and raw_type not in RAW_TYPES:
        raise WireError(f"the blob holds raw data of the unknown type {raw_type}", raw[0].start)
    pieces = runs[DATA] or runs[DOUBLE_DATA] or [_packed(field, RAW_TYPES[raw_type]) for field in raw]
    shape = tuple(dim for field in texts[SHAPE] for dim in _dims(data, field))
    if values.keys() & set(LEGACY_SHAPE):
        shape = tuple(values.get(number, 0) for number in LEGACY_SHAPE)
    if min(shape, default=0) < 0:
        raise WireError("a blob has a size below zero", message.start)
    if len(shape) > MOST_AXES:
        raise WireError(f"a blob has {len(shape):,} axes, but Caffe knows {MOST_AXES} at most", message.start)
    return shape, tuple(pieces)


def _dims(data: wire.Data, message: Field) -> Iterator[int]:
    """The sizes of a BlobShape."""
    for field in wire.fields(data, message.start, message.stop):
        if field.number == 1 and field.type in (WireType.BYTES, WireType.VARINT):
            yield from wire.varints(data, field)


def _blob_fields(data: ModelFile, message: Field, runs: dict[int, list[NumberSpan]]) -> Iterator[Field]:
    """The blob's fields, except for numbers that are not packed: those go to `runs`."""
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
        first = field.start - 1
        stride = 1 + dtype.itemsize  # fields below 16 have tags of one byte
        count = _alike(data, first, (message.stop - first) // stride, stride)
        runs[field.number].append(NumberSpan(field.start, count, dtype, stride))
        start = first + count * stride


def _alike(data: ModelFile, first: int, most: int, stride: int) -> int:
    """How many bytes, `stride` apart, equal the one at `first`: at most `most`."""
    count, piece = 1, 16
    while count < most:
        looked = min(piece, most - count)
        octets = data.numbers(OCTET, looked * stride, first + count * stride)[::stride]
        different = np.flatnonzero(octets != data[first : first + 1][0])
        if len(different):
            return count + int(different[0])
        count = count + looked
        piece = min(2 * piece, PIECE)
    return count


def _packed(field: Field, dtype: np.dtype[Any]) -> NumberSpan:
    count, rest = divmod(field.stop - field.start, dtype.itemsize)
    if rest:
        raise WireError("a blob ends inside a number", field.start)
    return NumberSpan(field.start, count, dtype, dtype.itemsize)


def _damaged(path: Path, error: WireError, hint: str, layer: str = "") -> ModelError:
    inside = f" (in layer {layer!r})" if layer else ""
    message = f"this is not a .caffemodel, or it is damaged: {error}, at byte {error.offset:,}{inside}"
    hint = hint or "the file is cut short or damaged; download it again"
    return ModelError.of("DV201", message, Origin(str(path)), hint)


def _what_it_is(data: wire.Data) -> str:
    """The likely kind of a file that is not a .caffemodel."""
    head = data[:200]
    if head.startswith(b"\x89HDF"):
        caffe = "let Caffe write a .caffemodel (snapshot_format: BINARYPROTO)"
        return f"this is an HDF5 file: if Caffe wrote it, {caffe}; if Keras did, name it as `definition`"
    if head.startswith(b"version https://git-lfs"):
        return "this is only the pointer of a Git LFS file; fetch the file itself (git lfs pull)"
    if other := recognize_content(bytes(head)):
        return f"this is a file of {other.title}: name it as `definition`, or the .caffemodel as `data`"
    if not set(head) & set(range(9)):
        return "this looks like text; the weights are in the binary .caffemodel"
    return ""
