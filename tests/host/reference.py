"""The DV700 once more, slow and plain: memory order, packed weights and arithmetic as the specification states them.

Nothing here is shared with the device or with the convertor. Maps are (height, width, channels) in double precision,
kernels (outputs, inputs, rows, columns).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Map = NDArray[np.float64]

TRANSPOSED = 0x8000


def element_offset(shape: tuple[int, int, int], y: int, x: int, c: int, *, transposed: bool) -> int:
    height, width, channels = shape
    chunk, k = divmod(c, 8)
    narrow = min(8, channels - 8 * chunk)
    position = y * width + x if transposed else x * height + y
    return chunk * 8 * width * height + position * narrow + k


def places(shape: tuple[int, int, int], *, transposed: bool) -> NDArray[np.int64]:
    """Element offset of every element of a map."""
    offsets = np.empty(shape, np.int64)
    for y, x, c in np.ndindex(*shape):
        offsets[y, x, c] = element_offset(shape, y, x, c, transposed=transposed)
    return offsets


def to_memory(values: Map, *, transposed: bool) -> bytes:
    flat = np.empty(values.size, np.float16)
    flat[places(values.shape, transposed=transposed)] = values
    return flat.tobytes()


def from_memory(elements: NDArray[np.floating], shape: tuple[int, int, int], *, transposed: bool) -> Map:
    return elements.astype(np.float64)[places(shape, transposed=transposed)]


# --- packed weights, section 4 ---


def tile_place(p: int, c: int, y: int, x: int) -> tuple[int, int]:
    if p == 7:
        if x < 6:
            return 5 + y, x
        return [(2, 5), (0, 3), (1, 3), (2, 3), (0, 0), (1, 0), (2, 0)][y]
    if p == 5:
        return 7 - 6 * (c % 2) + y, x
    if p == 3:
        return 9 - 3 * (c % 8 // 2) + y, 3 * (c % 8 % 2) + x
    t, g = c % 8, c % 64 // 8
    return 11 - 3 * (t // 2) - g // 3, 3 * (t % 2) + g % 3


CHANNELS_A_TILE = {1: 64, 3: 8, 5: 2, 7: 1}


@dataclass(frozen=True)
class Weights:
    """kernel: FP16 values, or palette indices. Depthwise kernels have one input channel."""

    kernel: NDArray[np.float64] | NDArray[np.uint8]
    bias: NDArray[np.float64]
    palette: NDArray[np.float64] | None = None
    slopes: NDArray[np.float64] | None = None

    def values(self) -> NDArray[np.float64]:
        if self.palette is None:
            return np.asarray(self.kernel, np.float64)
        return np.asarray(self.palette[self.kernel.astype(np.int64)], np.float64)


def halves(values: list[float]) -> bytes:
    return np.array(values, np.float16).tobytes()


def pack_stream(weights: Weights, kernel: NDArray[np.floating] | NDArray[np.uint8], *, bias: bool) -> Iterator[bytes]:
    """Blocks of eight outputs; kernel: its planes are square, of an odd size."""
    outputs, channels, p, _ = kernel.shape
    chunk = max(CHANNELS_A_TILE[p], 8)
    for block in range(0, outputs, 8):
        lanes = range(block, min(block + 8, outputs))
        for header in [weights.bias] + ([] if weights.slopes is None else [weights.slopes]):
            yield halves([float(header[m]) if bias and m in lanes else 0.0 for m in range(block, block + 8)])
        for first in range(0, channels, chunk):
            for m in lanes:
                for start in range(first, min(first + chunk, channels), CHANNELS_A_TILE[p]):
                    tile = np.zeros((12, 6), np.uint8 if weights.palette is not None else np.float16)
                    for c in range(start, min(start + CHANNELS_A_TILE[p], channels)):
                        for y, x in np.ndindex(p, p):
                            tile[tile_place(p, c, y, x)] = kernel[m, c, y, x]
                    yield tile.tobytes()


def padded_to_16(data: bytes) -> bytes:
    return data + bytes(-len(data) % 16)


def pack(weights: Weights, *, transposed: bool, dilated: bool = False) -> bytes:
    kernel = weights.kernel.transpose(0, 1, 3, 2) if transposed else weights.kernel
    palette = b"" if weights.palette is None else halves([float(v) for v in weights.palette])
    rows, columns = kernel.shape[2:]
    if not dilated:
        p = max(rows, columns) | 1
        planes = np.zeros((*kernel.shape[:2], p, p), kernel.dtype)
        planes[:, :, p - rows :, :columns] = kernel
        return padded_to_16(palette + b"".join(pack_stream(weights, planes, bias=True)))
    packed = b""
    for y, x in np.ndindex(rows, columns):
        is_last = (y, x) == (rows - 1, columns - 1)
        tap = b"".join(pack_stream(weights, kernel[:, :, y : y + 1, x : x + 1], bias=is_last))
        packed += padded_to_16(palette + tap)
        palette = b""
    return packed


# --- arithmetic ---


@dataclass(frozen=True)
class Sides:
    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0

    def register(self) -> int:
        return self.left | self.right << 8 | self.top << 16 | self.bottom << 24

    def around(self, values: Map, fill: float = 0.0) -> Map:
        return np.pad(values, ((self.top, self.bottom), (self.left, self.right), (0, 0)), constant_values=fill)


def all_sides(pad: int) -> Sides:
    return Sides(pad, pad, pad, pad)


@dataclass(frozen=True)
class Window:
    """Everything is (y, x)."""

    size: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: Sides = field(default_factory=Sides)


def spread(values: Map, stride: tuple[int, int]) -> Map:
    height, width, channels = values.shape
    result = np.zeros(((height - 1) * stride[0] + 1, (width - 1) * stride[1] + 1, channels))
    result[:: stride[0], :: stride[1]] = values
    return result


def windows(padded: Map, window: Window) -> Iterator[tuple[int, int, Map]]:
    """For each position of the kernel, what it meets in every window."""
    reach = [(k - 1) * d + 1 for k, d in zip(window.size, window.dilation, strict=True)]
    rows, columns = [(padded.shape[i] - reach[i]) // window.stride[i] + 1 for i in (0, 1)]
    for y, x in np.ndindex(*window.size):
        top, left = y * window.dilation[0], x * window.dilation[1]
        part = padded[top :: window.stride[0], left :: window.stride[1]]
        yield y, x, part[:rows, :columns]


def convolve(values: Map, weights: Weights, window: Window, *, depthwise: bool = False) -> Map:
    kernel = weights.values()
    total: Map | None = None
    for y, x, part in windows(window.pad.around(values), window):
        share = part * kernel[:, 0, y, x] if depthwise else part @ kernel[:, :, y, x].T
        total = share if total is None else total + share
    assert total is not None
    return total + weights.bias


def deconvolve(values: Map, weights: Weights, window: Window, *, depthwise: bool = False) -> Map:
    plain = Window(window.size, (1, 1), window.dilation, window.pad)
    return convolve(spread(values, window.stride), weights, plain, depthwise=depthwise)


def max_pool(values: Map, window: Window) -> Map:
    parts = [part for _, _, part in windows(window.pad.around(values, -np.inf), window)]
    return np.asarray(np.max(parts, axis=0), np.float64)


def average_pool(values: Map, window: Window, factor: float) -> Map:
    parts = [part for _, _, part in windows(window.pad.around(values), window)]
    return np.asarray(np.sum(parts, axis=0) * factor, np.float64)


def upsample(values: Map) -> Map:
    return values.repeat(2, axis=0).repeat(2, axis=1)


ACTIVATIONS = {"tanh": 1, "relu": 2, "sigmoid": 3, "prelu": 4, "elu": 5, "relu6": 6}


def activate(values: Map, name: str, slope: float | NDArray[np.float64] = 0.0) -> Map:
    match name:
        case "tanh":
            return np.tanh(values)
        case "relu" | "prelu":
            return np.maximum(values, 0) + slope * np.minimum(values, 0)
        case "sigmoid":
            return np.asarray(1 / (1 + np.exp(-values)), np.float64)
        case "elu":
            return np.where(values > 0, values, np.expm1(np.minimum(values, 0)))
        case "relu6":
            return np.clip(values, 0, 6)
        case _:
            raise AssertionError(name)


# --- registers, section 7 ---


def half_bits(value: float) -> int:
    return int(np.float16(value).view(np.uint16))


def pair(yx: tuple[int, int]) -> int:
    return yx[1] | yx[0] << 8


@dataclass
class Run:
    """Register values; weight_buf is (memory number, offset)."""

    m: int
    weight_buf: tuple[int, int] = (0, 0)
    conv_pad: int = 0
    pool_pad: int = 0
    conv_enable: int = 0
    p: int = 0x0101
    pz: int = 1
    conv_stride: int = 0x0101
    conv_dilation: int = 0
    weight_fmt: int = 0
    pool_enable: int = 0
    pool_avg_param: int = 0
    pool_size: int = 0
    pool_stride: int = 0x0101
    actfunc: int = 0
    actfunc_param: int = 0
    rectifi_en: int = 0
    lrn: int = 0

    def data(self) -> bytes:
        return struct.pack(
            "<QQII16H",
            *self.weight_buf, self.conv_pad, self.pool_pad,
            self.m, self.conv_enable, self.p, self.pz, self.conv_stride, self.conv_dilation, self.weight_fmt,
            self.pool_enable, self.pool_avg_param, self.pool_size, self.pool_stride, self.actfunc,
            self.actfunc_param, self.rectifi_en, self.lrn, 0,
        )  # fmt: skip


@dataclass
class Command:
    """A command of version 1; buffers are (memory number, offset)."""

    w: int
    h: int
    c: int
    runs: list[Run]
    input_buf: tuple[int, int] = (0, 0)
    output_buf: tuple[int, int] = (0, 0)
    eltwise_buf: tuple[int, int] = (0, 0)
    topo: int = 1
    z: int = 1
    input_circular_offset: int = 0
    output_mode: int = 0
    size: int = 1896
    device_type: int = 1
    version: int = 1
    u8tofp16_table: tuple[int, int] = (0, 0)
    to_bgr: int = 0

    def data(self) -> bytes:
        runs = b"".join(run.data() for run in self.runs)
        conv = struct.pack(
            "<IBB2xQQQQQQI6H",
            1864, 1, 0, *self.input_buf, *self.output_buf, *self.eltwise_buf, self.topo,
            self.w, self.h, self.z, self.c, self.input_circular_offset, self.output_mode,
        )  # fmt: skip
        table = (*self.u8tofp16_table, self.to_bgr, 0, 0, 0)
        head = struct.pack("<IBB2xQQ4H", self.size, self.device_type, self.version, *table)
        return head + conv + runs + bytes(32 * 56 - len(runs))
