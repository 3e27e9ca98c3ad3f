"""Writes .caffemodel files, a layer at a time, for the examples and the tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.frontends.caffe.definition import type_of_v1
from cnn_convertor.frontends.caffe.schema import message_type
from cnn_convertor.frontends.wire import WireType


def write(path: Path, layers: Iterable[tuple[str, str, Iterable[NDArray[Any]]]], *, v1: bool = False) -> None:
    """Write (name, type, blobs) as a .caffemodel; `layers` may be a generator, and is asked for one layer at a time.

    v1: the old form, with numbered types and shapes of four axes.
    """
    with path.open("wb") as file:
        for name, type, arrays in layers:
            blobs = [np.ascontiguousarray(array, "<f4") for array in arrays]
            heads = [_blob_head(blob, v1=v1) for blob in blobs]
            if v1:
                begin = _bytes(4, name.encode()) + tag(5, WireType.VARINT) + encode(_v1_number(type))
            else:
                begin = _bytes(1, name.encode()) + _bytes(2, type.encode())
            openings = [
                tag(6 if v1 else 7, WireType.BYTES) + encode(len(head) + blob.nbytes) + head
                for head, blob in zip(heads, blobs, strict=True)
            ]
            length = len(begin) + sum(map(len, openings)) + sum(blob.nbytes for blob in blobs)
            file.write(tag(2 if v1 else 100, WireType.BYTES) + encode(length) + begin)
            for opening, blob in zip(openings, blobs, strict=True):
                file.write(opening)
                blob.tofile(file)


def _blob_head(blob: NDArray[Any], *, v1: bool) -> bytes:
    """What stands before a blob's numbers: its shape and their tag and length."""
    if v1:
        assert blob.ndim <= 4
        dims = (1,) * (4 - blob.ndim) + blob.shape
        shape = b"".join(tag(number, WireType.VARINT) + encode(dim) for number, dim in enumerate(dims, start=1))
    else:
        shape = _bytes(7, _bytes(1, b"".join(map(encode, blob.shape))))
    return shape + tag(5, WireType.BYTES) + encode(blob.nbytes)


def _bytes(number: int, content: bytes) -> bytes:
    return tag(number, WireType.BYTES) + encode(len(content)) + content


def _v1_number(type: str) -> int:
    numbers = message_type("V1LayerParameter").DESCRIPTOR.enum_types_by_name["LayerType"].values_by_name
    return int(numbers[next((name for name in numbers if type_of_v1(name) == type), "NONE")].number)


def encode(value: int) -> bytes:
    """A number (not below zero) as a varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def tag(number: int, kind: WireType) -> bytes:
    return encode(number << 3 | kind)
