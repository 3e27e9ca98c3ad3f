"""The stream of packed weights that a convolution of the DV700 reads: sizes and bytes (spec: section 4).

The device multiplies tiles of 12 rows x 6 columns. A stream is a sequence of blocks of 8 output channels; a block is
its biases, its PReLU slopes if there are any, then, for each chunk of input channels and each output channel, the tiles
of that pair:

    kernel   channels a tile   channels a chunk
    7 x 7    1                 8
    5 x 5    2                 8
    3 x 3    8                 8
    1 x 1    64                64

Smaller kernels are padded with zeros to one of these. A fully connected layer is a 1 x 1 convolution, a depthwise
convolution has one input channel, a dilated one is a stream of 1 x 1 convolutions, one for each tap.
Weights are read and packed a few blocks at a time, so memory does not grow with the layer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.half import to_half
from cnn_convertor.ir.ops import Pair
from cnn_convertor.quantize import Palette

Half = NDArray[np.float16]
Codes: TypeAlias = NDArray[Any]  # FP16 weights or uint8 palette indices: packing only moves them

BLOCK = 8  # output channels that the device computes together
TILE = 72  # elements
_CHUNK = {1: 64, 3: 8, 5: 8, 7: 8}  # padded kernel size -> input channels whose tiles are stored together
_CHANNELS_A_TILE = {1: 64, 3: 8, 5: 2, 7: 1}
_GROUP_BYTES = 4 << 20  # of FP32 weights, or of packed tiles where these are more: what is packed at a time


class RowReader(Protocol):
    """Reads the weights of the output channels rows.start up to rows.stop."""

    def __call__(self, rows: slice, /) -> NDArray[np.float32]:
        """Give an array (rows, C, ky, kx) of weights in the framework's orientation."""


CodeReader: TypeAlias = Callable[[slice], Codes]
"""Like RowReader, but gives what is stored for each weight: FP16 numbers or palette indices."""


def half_codes(read: RowReader) -> CodeReader:
    """Store weights as FP16 numbers."""
    return lambda rows: to_half(read(rows))


def palette_codes(read: CodeReader, palette: Palette) -> CodeReader:
    """Store weights as the indices of their palette entries. read: gives FP16 numbers."""
    return lambda rows: palette.index.take(read(rows).view(np.uint16))


@dataclass(frozen=True, slots=True)
class PackedShape:
    """What the size of a stream depends on.

    kernels:  M, output channels
    channels: C, input channels of one kernel: 1 when depthwise
    kernel:   as the framework has it: neither padded nor transposed nor dilated
    """

    kernels: int
    channels: int
    kernel: Pair
    dilated: bool = False
    palette: bool = False
    prelu: bool = False

    @property
    def padded_kernel(self) -> int:
        """Width and height of the kernel that the device works with: 1, 3, 5 or 7."""
        return 1 if self.dilated else max(self.kernel) | 1

    @property
    def tiles(self) -> int:
        """Tiles for one output channel, in one tap of a dilated convolution."""
        return -(-self.channels // _CHANNELS_A_TILE[self.padded_kernel])

    @property
    def header_bytes(self) -> int:
        """Biases and PReLU slopes of one block."""
        return 2 * BLOCK * (1 + self.prelu)

    @property
    def palette_bytes(self) -> int:
        return 512 if self.palette else 0

    @property
    def tile_bytes(self) -> int:
        return TILE if self.palette else 2 * TILE

    @property
    def nbytes(self) -> int:
        """Length of the stream."""
        tiles = self.kernels * self.tiles * self.tile_bytes
        blocks = -(-self.kernels // BLOCK)
        taps = self.kernel.height * self.kernel.width if self.dilated else 1
        return self.palette_bytes + taps * _round_up_16(blocks * self.header_bytes + tiles)


def pack(
    shape: PackedShape,
    read: CodeReader,
    *,
    bias: Half,
    prelu: Half | None = None,
    palette: Half | None = None,
    order: NDArray[np.intp] | None = None,
    transposed: bool = False,
) -> Iterator[NDArray[np.uint8]]:
    """Give the stream's bytes, piece by piece; together they are shape.nbytes long.

    read:       gives (rows, C, ky, kx): float16, or uint8 when the shape says palette; called once for each piece,
                and once again for each tap of a dilated convolution
    bias:       (M,)
    prelu:      slopes (M,), when the shape says so
    palette:    (256,), when the shape says so; entry 0 is 0.0
    order:      (C,), for 1 x 1 kernels alone: channel i is channel order[i] of what is read
    transposed: swap x and y of each kernel, for maps that keep their HWC order
    """
    assert bias.shape == (shape.kernels,)
    assert shape.prelu == (prelu is not None) and (prelu is None or prelu.shape == bias.shape)
    assert shape.palette == (palette is not None)
    if palette is not None:
        assert palette.shape == (256,) and palette[0] == 0
        yield palette.astype("<f2").view(np.uint8)
    header = _header(bias, prelu)
    if not shape.dilated:
        layout = _layout(shape.kernel, transposed)
        yield from _convolution(shape, layout if order is None else _ordered(shape, layout, order), read, header)
        return
    assert order is None
    rows, columns = range(shape.kernel.height), range(shape.kernel.width)
    taps = [(y, x) for x in columns for y in rows] if transposed else [(y, x) for y in rows for x in columns]
    for tap in taps:
        # The sum is complete with the last tap: only there are biases and slopes.
        tap_header = header if tap == taps[-1] else np.zeros_like(header)
        yield from _convolution(shape, _layout(Pair(1, 1), False), _tap(read, *tap), tap_header)


def _tap(read: CodeReader, y: int, x: int) -> CodeReader:
    """Read element (y, x) of each kernel as a 1 x 1 kernel."""
    return lambda rows: read(rows)[:, :, y : y + 1, x : x + 1]


def _header(bias: Half, prelu: Half | None) -> NDArray[np.uint8]:
    """Biases and slopes as bytes: (blocks, bytes of a block's header)."""
    vectors = [bias] if prelu is None else [bias, prelu]
    blocks = -(-bias.size // BLOCK)
    header = np.zeros((len(vectors), blocks * BLOCK), "<f2")
    header[:, : bias.size] = vectors
    return header.reshape(len(vectors), blocks, BLOCK).transpose(1, 0, 2).reshape(blocks, -1).view(np.uint8)


class _Layout(NamedTuple):
    """Where the 72 elements of a tile come from.

    source: (72,), for any tile, index into the kernels of its channels in C order; or (tiles, 72), index into those of all
        channels. Anything where unused.
    unused: the tile's elements that are zero
    """

    source: NDArray[np.intp]
    unused: NDArray[np.intp]


@cache
def _layout(kernel: Pair, transposed: bool) -> _Layout:
    """Lay out kernels of this size, as the framework has them."""
    p = max(kernel) | 1
    source = np.full(TILE, -1, np.intp)
    extra_rows = p - (kernel.width if transposed else kernel.height)
    for index, (channel, y, x) in enumerate(np.ndindex(_CHANNELS_A_TILE[p], *kernel)):
        row, column = _position(p, channel, (x if transposed else y) + extra_rows, y if transposed else x)
        source[6 * row + column] = index
    return _Layout(np.maximum(source, 0), np.flatnonzero(source < 0))


def _ordered(shape: PackedShape, layout: _Layout, order: NDArray[np.intp]) -> _Layout:
    """The layout of 1 x 1 kernels whose channels are read in another order."""
    assert shape.kernel == (1, 1) and order.shape == (shape.channels,)
    a_tile = _CHANNELS_A_TILE[1]
    padded = np.append(order, np.arange(shape.channels, shape.tiles * a_tile))
    return layout._replace(source=padded.reshape(shape.tiles, a_tile)[:, layout.source])


def _position(p: int, channel: int, y: int, x: int) -> tuple[int, int]:
    """Row and column in its tile of element (y, x) of a p x p kernel of the tile's given channel."""
    group, k = divmod(channel, 8)
    match p:
        case 1:
            return 11 - 3 * (k // 2) - group // 3, 3 * (k % 2) + group % 3
        case 3:
            return 9 - 3 * (k // 2) + y, 3 * (k % 2) + x
        case 5:
            return 7 - 6 * k + y, x
        case 7 if x < 6:
            return 5 + y, x
        case 7:  # the last column does not fit beside the others
            return [(2, 5), (0, 3), (1, 3), (2, 3), (0, 0), (1, 0), (2, 0)][y]
    raise AssertionError(f"no tile for a kernel of {p}x{p}")


def _convolution(
    shape: PackedShape, layout: _Layout, read: CodeReader, header: NDArray[np.uint8]
) -> Iterator[NDArray[np.uint8]]:
    """Give the blocks of one convolution, or of one tap, and the zeros that round its length up."""
    length = 0
    group = _blocks_a_group(shape)
    for first in range(0, len(header), group):
        start, stop = first * BLOCK, min((first + group) * BLOCK, shape.kernels)
        codes = read(slice(start, stop))
        assert codes.shape[:2] == (stop - start, shape.channels)
        assert codes.dtype == (np.uint8 if shape.palette else np.float16)
        # The last block may have fewer rows, so it is packed for itself.
        whole = first + len(codes) // BLOCK
        for blocks, rows in (
            (header[first:whole], codes[: (whole - first) * BLOCK]),
            (header[whole : first + group], codes[(whole - first) * BLOCK :]),
        ):
            if len(rows):
                packed = _pack_blocks(shape, layout, rows, blocks)
                length += packed.size
                yield packed
    yield np.zeros(-length % 16, np.uint8)


def _blocks_a_group(shape: PackedShape) -> int:
    """Number of blocks that are packed at a time."""
    read_bytes = 4 * shape.channels * shape.kernel.height * shape.kernel.width
    return max(1, _GROUP_BYTES // (BLOCK * max(read_bytes, shape.tiles * shape.tile_bytes)))


def _pack_blocks(shape: PackedShape, layout: _Layout, codes: Codes, header: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack codes (rows, C, ky, kx), the same number of rows for each block, with header (blocks, bytes)."""
    blocks, (rows, *_) = len(header), codes.shape
    height, tile_bytes = rows // blocks, shape.tile_bytes
    tiles = _tiles(shape, layout, codes).view(np.uint8).reshape(blocks, height, shape.tiles, tile_bytes)

    packed = np.empty((blocks, shape.header_bytes + height * shape.tiles * tile_bytes), np.uint8)
    packed[:, : shape.header_bytes] = header

    # Whole chunks, then what is left: in each, output channel after output channel.
    chunk = _CHUNK[shape.padded_kernel] // _CHANNELS_A_TILE[shape.padded_kernel]
    chunks, rest = divmod(shape.tiles, chunk)
    split = shape.header_bytes + height * chunks * chunk * tile_bytes
    body = packed[:, shape.header_bytes : split].reshape(blocks, chunks, height, chunk * tile_bytes)
    body[...] = tiles[:, :, : chunks * chunk].reshape(blocks, height, chunks, chunk * tile_bytes).swapaxes(1, 2)
    packed[:, split:] = tiles[:, :, chunks * chunk :].reshape(blocks, height * rest * tile_bytes)
    return packed.reshape(-1)


def _tiles(shape: PackedShape, layout: _Layout, codes: Codes) -> Codes:
    """Arrange codes (rows, C, ky, kx) as tiles (rows, tiles, 72)."""
    rows, channels, ky, kx = codes.shape
    a_tile = _CHANNELS_A_TILE[shape.padded_kernel]
    if channels % a_tile:
        padded = np.zeros((rows, shape.tiles * a_tile, ky, kx), codes.dtype)
        padded[:, :channels] = codes
        codes = padded
    # Every index is in range: "clip" only spares numpy the check.
    groups = codes.reshape(rows, 1 if layout.source.ndim == 2 else shape.tiles, -1)
    tiles: Codes = groups.take(layout.source, axis=2, mode="clip").reshape(rows, shape.tiles, TILE)
    tiles[:, :, layout.unused] = 0
    return tiles


# --- back ----------------------------------------------------------------------------------------------------------------


class Unpacked(NamedTuple):
    """What a stream holds. kernels: (M, C, ky, kx) FP16, with a palette the entries that they stand for; bias, slopes: (M,)"""

    kernels: Half
    bias: Half
    slopes: Half | None


def unpack(shape: PackedShape, stream: NDArray[np.uint8], *, transposed: bool = False) -> Unpacked:
    """The inverse of pack: stream (nbytes,) as one piece."""
    assert stream.size == shape.nbytes
    palette = stream[: shape.palette_bytes].view("<f2")
    rest = stream[shape.palette_bytes :]
    if shape.dilated:
        height, width = shape.kernel
        parts = rest.reshape(height * width, -1)
        taps, headers = zip(
            *(_unpack_one(shape, _layout(Pair(1, 1), False), Pair(1, 1), part) for part in parts), strict=True
        )
        swapped = np.concatenate(taps, axis=3).reshape(
            shape.kernels, shape.channels, *shape.kernel[:: 1 - 2 * transposed]
        )
        codes = swapped.swapaxes(2, 3) if transposed else swapped
        header = headers[-1]
    else:
        codes, header = _unpack_one(shape, _layout(shape.kernel, transposed), shape.kernel, rest)
    vectors = header.reshape(len(header), -1, BLOCK).transpose(1, 0, 2).reshape(-1, len(header) * BLOCK)
    vectors = vectors[:, : shape.kernels]
    kernels = palette[codes] if shape.palette else codes
    return Unpacked(kernels.astype(np.float16), vectors[0], vectors[1] if shape.prelu else None)


def _unpack_one(
    shape: PackedShape, layout: _Layout, kernel: Pair, data: NDArray[np.uint8]
) -> tuple[Codes, NDArray[np.float16]]:
    """Codes (M, C, ky, kx) and headers (blocks, elements) of one convolution, or of one tap."""
    a_tile = _CHANNELS_A_TILE[shape.padded_kernel]
    chunk = _CHUNK[shape.padded_kernel] // a_tile
    chunks, left = divmod(shape.tiles, chunk)
    tiles = np.empty((shape.kernels, shape.tiles, shape.tile_bytes), np.uint8)
    headers = np.empty((-(-shape.kernels // BLOCK), shape.header_bytes), np.uint8)
    at = 0
    for block in range(len(headers)):
        rows = slice(block * BLOCK, min((block + 1) * BLOCK, shape.kernels))
        height = rows.stop - rows.start
        headers[block] = data[at : at + shape.header_bytes]
        at += shape.header_bytes
        split = at + height * chunks * chunk * shape.tile_bytes
        end = split + height * left * shape.tile_bytes
        body = data[at:split].reshape(chunks, height, chunk, shape.tile_bytes)
        tiles[rows, : chunks * chunk] = body.swapaxes(0, 1).reshape(height, chunks * chunk, shape.tile_bytes)
        tiles[rows, chunks * chunk :] = data[split:end].reshape(height, left, shape.tile_bytes)
        at = end
    elements = tiles.view(np.uint8 if shape.palette else "<f2")
    used = np.setdiff1d(np.arange(TILE), layout.unused)
    codes = np.empty((shape.kernels, shape.tiles, a_tile * kernel.height * kernel.width), elements.dtype)
    codes[:, :, layout.source[used]] = elements[:, :, used]
    whole: Codes = codes.reshape(shape.kernels, shape.tiles * a_tile, *kernel)[:, : shape.channels]
    return whole, headers.view("<f2")


def _round_up_16(n: int) -> int:
    return -(-n // 16) * 16
