"""Where the elements of a feature map lie in the device's memory."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir.ops import Order, Shape
from cnn_convertor.layouts.dv700 import CHUNK, feature_map
from cnn_convertor.layouts.layout import Layout
from cnn_convertor.layouts.packing import pack

__all__ = ["CHUNK", "LARGEST", "is_chunked", "map_layout", "memory_order", "same_memory"]

LARGEST = 1 << 26  # elements
_PIECE = 1 << 18  # elements of a map that are compared at a time


def is_chunked(shape: Shape) -> bool:
    """Whether the map's memory differs from plain WHC (HWC when transposed)."""
    return shape.channels > CHUNK and not shape.is_vector


def map_layout(*, transposed: bool) -> Layout:
    """The device's layout of maps, without a type of elements."""
    return feature_map(transposed=transposed).of(None)


def memory_order(shape: Shape, *, transposed: bool, order: Order = Order.CHW) -> NDArray[np.intp]:
    """For every element in memory order, its index when the map is counted in `order`; shape (H * W * C,).

    Channels are cut into chunks of 8 (the last may be narrow), each stored W, H, C, or H, W, C when transposed.
    """
    height, width, channels = shape
    match order:
        case Order.CHW:
            index = np.arange(shape.size).reshape(channels, height, width).transpose(1, 2, 0)
        case Order.HWC:
            index = np.arange(shape.size).reshape(height, width, channels)
        case Order.MEMORY:
            return np.arange(shape.size)
    return pack(index, feature_map(transposed=transposed).of(index.dtype)).view(index.dtype)


@cache  # several passes ask, for maps whose comparison takes long
def same_memory(before: Shape, after: Shape, order: Order, *, transposed: bool) -> bool:
    """Whether a reshape moves nothing: both maps, counted in `order`, lie alike in memory.

    False for maps beyond LARGEST: they come from a wrong number in a definition, and the rules of sizes refuse them.
    """
    assert before.size == after.size, f"a reshape from {before} to {after}"
    if before == after or (before.is_vector and after.is_vector):
        return True
    if before.size > LARGEST:
        return False
    pieces = (np.arange(start, min(start + _PIECE, before.size)) for start in range(0, before.size, _PIECE))
    return all(
        np.array_equal(
            _elements(before, piece, order, transposed=transposed),
            _elements(after, piece, order, transposed=transposed),
        )
        for piece in pieces
    )


def _elements(shape: Shape, places: NDArray[np.intp], order: Order, *, transposed: bool) -> NDArray[np.intp]:
    """`memory_order(...)[places]`, without the rest of it, which takes much memory for a large map."""
    if order is Order.MEMORY:
        return places
    height, width, channels = shape
    chunk, place = np.divmod(places, CHUNK * height * width)
    pixel, channel = np.divmod(place, np.minimum(CHUNK, channels - CHUNK * chunk))
    channel += CHUNK * chunk
    if not transposed:
        x, y = np.divmod(pixel, height)
        pixel = y * width + x
    return channel * (height * width) + pixel if order is Order.CHW else pixel * channels + channel
