"""Packs weights by the specification's tables, one element at a time, independently of the package."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Half = NDArray[np.float16]
Codes = NDArray[Any]


def packed(
    codes: Codes, bias: Half, prelu: Half | None, palette: Half | None, *, dilated: bool, transposed: bool
) -> bytes:
    """Pack codes (M, C, ky, kx)."""
    if transposed:
        codes = codes.swapaxes(2, 3)
    start = b"" if palette is None else palette.tobytes()
    if not dilated:
        return rounded(start + convolution(codes, bias, prelu))
    _, _, ky, kx = codes.shape
    stream = start
    for y in range(ky):
        for x in range(kx):
            tap = codes[:, :, y : y + 1, x : x + 1]
            if (y, x) == (ky - 1, kx - 1):
                stream += rounded(convolution(tap, bias, prelu))
            else:
                nothing = np.zeros_like(bias)
                stream += rounded(convolution(tap, nothing, None if prelu is None else nothing))
    return stream


def rounded(stream: bytes) -> bytes:
    return stream + bytes(-len(stream) % 16)


def convolution(codes: Codes, bias: Half, prelu: Half | None) -> bytes:
    """Pack codes (M, C, ky, kx), without a palette and without rounding the length up."""
    kernels, channels, ky, kx = codes.shape
    p = {1: 1, 2: 3, 3: 3, 4: 5, 5: 5, 6: 7, 7: 7}[max(kx, ky)]
    a_tile = {7: 1, 5: 2, 3: 8, 1: 64}[p]
    a_chunk = 64 if p == 1 else 8
    stream = bytearray()
    for first in range(0, kernels, 8):
        block = range(first, min(first + 8, kernels))
        stream += eight(bias[first : first + 8])
        if prelu is not None:
            stream += eight(prelu[first : first + 8])
        for chunk in range(0, channels, a_chunk):
            for m in block:
                for start in range(chunk, min(chunk + a_chunk, channels), a_tile):
                    tile = np.zeros((12, 6), codes.dtype)
                    for c in range(start, min(start + a_tile, channels)):
                        for y in range(ky):
                            for x in range(kx):
                                tile[position(p, c, y + p - ky, x)] = codes[m, c, y, x]
                    stream += tile.tobytes()
    return bytes(stream)


def eight(values: Half) -> bytes:
    return values.tobytes() + bytes(16 - 2 * len(values))


def position(p: int, c: int, y: int, x: int) -> tuple[int, int]:
    """Row and column of element (y, x) of channel c's padded kernel in its tile."""
    if p == 7 and x < 6:
        return 5 + y, x
    if p == 7 and y == 0:
        return 2, 5
    if p == 7:
        return (y - 1, 3) if y <= 3 else (y - 4, 0)
    if p == 5:
        return 7 - 6 * (c % 2) + y, x
    t, g = c % 8, c % 64 // 8
    if p == 3:
        return 9 - 3 * (t // 2) + y, 3 * (t % 2) + x
    return 11 - 3 * (t // 2) - g // 3, 3 * (t % 2) + g % 3
