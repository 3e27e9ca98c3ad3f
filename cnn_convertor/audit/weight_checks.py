"""Computes the size of packed weights and checks their bytes, written from section 4 of the specification."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.audit.decoding import PALETTE, PRELU, Meaning

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

BLOCK = 8  # output channels
TILE = 72  # 12 rows of 6
PALETTE_BYTES = 512


class Fault(NamedTuple):
    """What is wrong at a byte of the stream, counted from its start."""

    code: str
    byte: int
    message: str


class Stream(NamedTuple):
    """The weights of one convolution. kernel: rows and columns as they are packed, transposed or not."""

    outputs: int
    channels: int
    rows: int
    columns: int
    taps: int
    palette: bool
    prelu: bool

    @property
    def plane(self) -> int:
        """Side of the padded kernel."""
        return max(self.rows, self.columns) | 1

    @property
    def chunk(self) -> int:
        """Input channels that are packed before the next output channel's."""
        return 64 if self.plane == 1 else 8

    @property
    def element(self) -> int:
        """Bytes of a weight."""
        return 1 if self.palette else 2

    @property
    def head(self) -> int:
        """Bytes of biases and slopes in front of a block."""
        return 32 if self.prelu else 16

    def tiles(self, channels: int) -> int:
        return {7: channels, 5: -(-channels // 2), 3: -(-channels // 8), 1: -(-channels // 64)}[self.plane]

    @property
    def blocks(self) -> int:
        return -(-self.outputs // BLOCK)

    @property
    def tap_bytes(self) -> int:
        """One tap of a dilated convolution, or all of another, without the palette, before rounding."""
        return self.blocks * self.head + TILE * self.element * self.outputs * self.tiles(self.channels)

    @property
    def nbytes(self) -> int:
        start = PALETTE_BYTES if self.palette else 0
        return start + self.taps * (-(-self.tap_bytes // 16) * 16)


def stream_of(meaning: Meaning, *, transposed: bool) -> Stream | None:
    """The form of a run's weights; None for a run without weights, or with an impossible kernel."""
    window = meaning.convolution
    if window is None or not set(window.size) <= set(range(1, 8)) or meaning.run.m < 1 or meaning.input.channels < 1:
        return None
    columns, rows = window.size[::-1] if transposed else window.size
    taps = 1
    if window.is_dilated:
        taps = rows * columns
        rows = 1
        columns = 1
    palette = meaning.run.weight_fmt == PALETTE
    prelu = meaning.run.actfunc == PRELU
    return Stream(meaning.run.m, meaning.kernel_channels, rows, columns, taps, palette, prelu)


def index_in_tile(plane: int, channel: int, y: int, x: int) -> int:
    """The index of a kernel's element in its tile, counted along the rows of 6."""
    match plane:
        case 7 if x < 6:
            row = 5 + y
            column = x
        case 7:
            row, column = (2, 5) if y == 0 else (y - 1, 3) if y <= 3 else (y - 4, 0)
        case 5:
            row = 7 - 6 * (channel % 2) + y
            column = x
        case 3:
            t = channel % 8
            row = 9 - 3 * (t // 2) + y
            column = 3 * (t % 2) + x
        case _:
            t = channel % 8
            g = channel % 64 // 8
            row = 11 - 3 * (t // 2) - g // 3
            column = 3 * (t % 2) + g % 3
    return 6 * row + column


@cache
def used(stream: Stream, channels: int) -> Mask:
    """Which positions of the tiles for so many channels of one chunk hold weights."""
    tiles = stream.tiles(channels)
    per_tile = {7: 1, 5: 2, 3: 8, 1: 64}[stream.plane]
    mask = np.zeros((tiles, TILE), np.bool_)
    for channel in range(channels):
        for row in range(stream.rows):  # rows that fill up a kernel lie on top, columns on the right
            for column in range(stream.columns):
                y = stream.plane - stream.rows + row
                mask[channel // per_tile, index_in_tile(stream.plane, channel, y, column)] = True
    return mask.reshape(-1)


def faults(stream: Stream, data: Bytes) -> Iterator[Fault]:
    start = 0
    if stream.palette:
        start = PALETTE_BYTES
        entries = data[:start].view("<u2")
        if entries[0]:
            yield Fault("DV686", 0, f"entry 0 of the palette is 0x{entries[0]:04X}, and must be 0.0")
        yield from _not_finite(entries, 0, "palette entry")
    for tap in range(stream.taps):
        tap_bytes = -(-stream.tap_bytes // 16) * 16
        yield from _tap(stream, data[start : start + tap_bytes], start, tap)
        start += tap_bytes


def _tap(stream: Stream, data: Bytes, start: int, tap: int) -> Iterator[Fault]:
    at = 0
    for block in range(stream.blocks):
        outputs = min(BLOCK, stream.outputs - BLOCK * block)
        for index, what in enumerate(("bias", "PReLU slope")[: stream.head // 16]):
            values = data[at + 16 * index : at + 16 * index + 16].view("<u2")
            yield from _head(values, start + at + 16 * index, what, outputs, has_values=tap == stream.taps - 1)
        at += stream.head
        size = outputs * TILE * stream.element * stream.tiles(stream.channels)
        yield from _kernels(stream, data[at : at + size], start + at, outputs)
        at += size
    rest = data[at:].nonzero()[0]
    if rest.size:
        yield Fault("DV685", start + at + int(rest[0]), "padding to a multiple of 16 bytes is not 0")


def _head(values: NDArray[np.uint16], start: int, what: str, outputs: int, *, has_values: bool) -> Iterator[Fault]:
    """8 biases or slopes. has_values: only the last tap of a dilated convolution has any."""
    kept = outputs if has_values else 0
    extra = values[kept:].nonzero()[0]
    if extra.size:
        code = "DV684" if has_values else "DV688"
        reason = (
            f"there are only {outputs} output channels in this block" if has_values else "only the last tap has any"
        )
        yield Fault(code, start + 2 * (kept + int(extra[0])), f"a {what} that is not 0, but {reason}")
    yield from _not_finite(values[:kept], start, what)


def _kernels(stream: Stream, data: Bytes, start: int, outputs: int) -> Iterator[Fault]:
    """The tiles of one block of output channels."""
    elements: NDArray[Any] = data if stream.palette else data.view("<u2")
    full, last = divmod(stream.channels, stream.chunk)
    at = 0
    for chunks, channels in ((full, stream.chunk), (1 if last else 0, last)):
        if not chunks:
            continue
        mask = used(stream, channels)
        size = chunks * outputs * mask.size
        part = elements[at : at + size].reshape(-1, mask.size)
        wrong = np.flatnonzero(np.any(part[:, ~mask], axis=1))
        if wrong.size:
            row = int(wrong[0])
            column = int(np.flatnonzero(part[row] * ~mask)[0])
            byte = start + stream.element * (at + row * mask.size + column)
            yield Fault("DV683", byte, f"{wrong.size} groups of tiles are not 0 where no weight belongs")
        if not stream.palette:
            yield from _not_finite(part.reshape(-1), start + stream.element * at, "weight")
        at += size


def _not_finite(values: NDArray[np.uint16], start: int, what: str) -> Iterator[Fault]:
    """In infinities and NaN, all bits of the exponent are set."""
    positions = ((values & 0x7C00) == 0x7C00).nonzero()[0]
    if positions.size:
        byte = start + 2 * int(positions[0])
        yield Fault("DV687", byte, f"a {what} is infinite or NaN (0x{values[positions[0]]:04X})")
