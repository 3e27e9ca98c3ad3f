"""Reads memory by the specifications' formulas, one element at a time, independently of the package."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def elements(memory: bytes, kind: str) -> Array:
    return np.frombuffer(memory, np.dtype(kind).newbyteorder("<"))


def nvdla_kernels(
    memory: bytes,
    shape: tuple[int, ...],
    kind: str,
    *,
    reverse: bool = False,
    group: int = 0,
    block: int = 64,
    entry: int = 128,
) -> Array:
    """Weights (K, C, R, S) of direct convolution, or of a deconvolution's set, with reversed taps. Sizes: nv_full's, or given."""
    kernels, channels, rows, columns = shape
    group = group or (32 if kind == "int8" else 16)
    data, result, at = elements(memory, kind), np.zeros(shape, kind), 0
    for g in range(0, kernels, group):
        for cb in range(0, channels, block):
            taps = [(r, s) for r in range(rows) for s in range(columns)]
            for r, s in reversed(taps) if reverse else taps:
                for k in range(g, min(kernels, g + group)):
                    for c in range(cb, min(channels, cb + block)):
                        result[k, c, r, s] = data[at]
                        at += 1
    assert not data[at:].any() and len(memory) == math.ceil(at * data.itemsize / entry) * entry
    return result


def nvdla_cube(memory: bytes, shape: tuple[int, ...], kind: str, atom: int = 32) -> Array:
    """Feature data (C, H, W), packed."""
    _, height, width = shape
    size = np.dtype(kind).itemsize
    result = np.zeros(shape, kind)
    for c, h, w in np.ndindex(*shape):
        each = atom // size
        at = c // each * atom * width * height + h * atom * width + w * atom + c % each * size
        result[c, h, w] = elements(memory[at : at + size], kind)[0]
    return result


def nvdla_operand(memory: bytes, count: int, kind: str, *, int8: bool, pairs: bool = False) -> Array:
    """Per-channel SDP operands: (C,), or (2, C) of addends and factors."""
    atom, each = 32 if int8 else 16, 2 if pairs else 1
    data = elements(memory, kind)
    assert data.size == math.ceil(count / atom) * atom * each
    result = np.array([[data[c * each + p] for c in range(count)] for p in range(each)], kind)
    return result if pairs else result[0]


def nvdla_winograd(memory: bytes, shape: tuple[int, ...], kind: str) -> Array:
    """Transformed kernels (K, C, 4, 4): cubes of 4 channels, the channel fastest."""
    kernels, channels, _, _ = shape
    group = 32 if kind == "int8" else 16
    data, result, at = elements(memory, kind), np.zeros(shape, kind), 0
    for g in range(0, kernels, group):
        for c4 in range(0, channels, 4):
            for k in range(g, min(kernels, g + group)):
                for r, s, c in np.ndindex(4, 4, 4):
                    result[k, c4 + c, r, s] = data[at]
                    at += 1
    assert not data[at:].any() and len(memory) == math.ceil(at * data.itemsize / 128) * 128
    return result


def nvdla_image(memory: bytes, shape: tuple[int, ...], kind: str, extension: int) -> Array:
    """Weights (K, C, R, S) for pixels: columns become channels, and some rows of a kernel are combined."""
    kernels, channels, rows, columns = shape
    group = 32 if kind == "int8" else 16
    data, result, at = elements(memory, kind), np.zeros(shape, kind), 0
    blocks = range(0, columns * channels, 64 if extension == 1 else columns * channels)
    for g in range(0, kernels, group):
        for block in blocks:
            for r0 in range(0, rows, extension):
                for k in range(g, min(kernels, g + group)):
                    for r in range(r0, min(rows, r0 + extension)):
                        for ce in range(block, min(block + blocks.step, columns * channels)):
                            result[k, ce % channels, r, ce // channels] = data[at]
                            at += 1
    assert not data[at:].any() and len(memory) == math.ceil(at * data.itemsize / 128) * 128
    return result


def nvdla_pixels(memory: bytes, shape: tuple[int, ...], kind: str) -> Array:
    """An image (C, H, W) of pixels of one or four channels; lines start at multiples of 32 bytes."""
    channels, height, width = shape
    each = (1 if channels == 1 else 4) * np.dtype(kind).itemsize
    line = math.ceil(width * each / 32) * 32
    result = np.zeros(shape, kind)
    for h, w in np.ndindex(height, width):
        pixel = elements(memory[h * line + w * each : h * line + (w + 1) * each], kind)
        result[:, h, w] = pixel[:channels]
        assert not pixel[channels:].any()
    assert len(memory) == height * line
    return result


def nvdla_uncompressed(stored: bytes, mask: bytes, group_sizes: bytes, shape: tuple[int, ...], kind: str) -> bytes:
    """The padded, uncompressed weights, bit by bit and group by group."""
    size, group = np.dtype(kind).itemsize, 32 if kind == "int8" else 16
    kernel = math.prod(shape[1:])
    result, at, element = bytearray(), 0, 0
    for number, g in enumerate(range(0, shape[0], group)):
        start = at
        for _ in range(min(group, shape[0] - g) * kernel):
            if mask[element // 8] >> element % 8 & 1:
                result += stored[at : at + size]
                at += size
            else:
                result += bytes(size)
            element += 1
        assert int.from_bytes(group_sizes[4 * number : 4 * number + 4], "little") == at - start
    assert not any(stored[at:]) and not any(group_sizes[4 * (number + 1) :])
    assert int.from_bytes(mask, "little") >> element == 0
    assert all(len(surface) % 128 == 0 for surface in (stored, mask, group_sizes))
    assert len(stored) < at + 128 and len(mask) * 8 < element + 1024 and len(group_sizes) < 4 * number + 4 + 128
    return bytes(result) + bytes(-len(result) % 128)


def cldnn(memory: bytes, name: str, shape: dict[str, int], kind: str) -> Array:
    """A blocked or planar format by its name: Horner over the slices, then over the blocks."""
    parts = name.split("_")
    blocks = [(m[1], int(m[2])) for part in parts if (m := re.fullmatch("([a-z])sv([0-9]+)", part))]
    outer = [part.removesuffix("s") for part in parts if "sv" not in part]
    letters = [letter for part in outer for letter in part]
    size = {axis: math.prod(n for letter, n in blocks if letter == axis) for axis in letters}
    data, result = elements(memory, kind), np.zeros(tuple(shape.values()), kind)
    for index in np.ndindex(*shape.values()):
        at = dict(zip(shape, index, strict=True))
        place, left = 0, {axis: at[axis] % size[axis] for axis in letters}
        for axis in letters:
            place = place * math.ceil(shape[axis] / size[axis]) + at[axis] // size[axis]
        for number, (axis, n) in enumerate(blocks):
            below = math.prod(m for letter, m in blocks[number + 1 :] if letter == axis)
            place = place * n + left[axis] // below
            left[axis] %= below
        result[index] = data[place]
    return result


def quantized(values: Array, limit: int) -> tuple[list[list[int]], list[float], float, float]:
    """Quantized kernels: integers, scales, the largest error and the mean squared error."""
    integers, scales, errors = [], [], []
    for kernel in values.reshape(len(values), -1).tolist():
        largest = max(abs(w) for w in kernel)
        scale = float(np.float32(largest / limit)) if largest else 1.0
        row = [max(-limit, min(limit, round(w / scale))) for w in kernel]
        integers.append(row)
        scales.append(scale)
        errors += [w - q * scale for w, q in zip(kernel, row, strict=True)]
    return integers, scales, max(map(abs, errors)), math.fsum(e * e for e in errors) / len(errors)
