"""Where the elements of a feature map lie in the device's memory."""

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir.ops import Order, Shape
from cnn_convertor.layouts.dv700 import CHUNK, feature_map
from cnn_convertor.layouts.packing import pack

__all__ = ["CHUNK", "LARGEST", "is_chunked", "memory_order", "same_memory"]

LARGEST = 1 << 26  # elements


def is_chunked(shape: Shape) -> bool:
    """Whether the map's memory differs from plain WHC (HWC when transposed)."""
    return shape.channels > CHUNK and not shape.is_vector


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


def same_memory(before: Shape, after: Shape, order: Order, *, transposed: bool) -> bool:
    """Whether a reshape moves nothing: both maps, counted in `order`, lie alike in memory.

    False for maps beyond LARGEST: they come from a wrong number in a definition, and the rules of sizes refuse them.
    """
    if before.is_vector and after.is_vector:
        return True
    if before.size > LARGEST:
        return False
    return bool(
        np.array_equal(
            memory_order(before, transposed=transposed, order=order),
            memory_order(after, transposed=transposed, order=order),
        )
    )
