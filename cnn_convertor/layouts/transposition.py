"""Copies between two views of one shape whose elements lie in different orders.

Left alone, numpy walks along the axis that is innermost in the target. That is slow where the axis is short, as in a block
of 4 channels: then each lane of the block is a copy of its own, along the long axis of the source. Where it is long, 16
lanes at a time use each line of the processor's cache while it is there. Large copies are shared out, one part for each
processor, since numpy lets go of the interpreter while it copies.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

SMALL = 1 << 16  # bytes, below which numpy may do as it likes
SHARED = 1 << 20  # bytes, from which on processors share the work
FEW = 8  # lanes that are copied one by one
MANY = 16  # lanes at a time, where there are more


def assign(to: Array, values: Array) -> None:
    """to[...] = values, for arrays of one shape and type that share no memory."""
    near, far = _innermost(to), _innermost(values)
    lanes = min(near, far, key=to.shape.__getitem__)
    if to.nbytes < SMALL or near == far:
        np.copyto(to, values)
        return
    axis = _outermost(to)
    parts = min(processors(), to.shape[axis]) if to.nbytes >= SHARED and axis != lanes else 1
    cuts = [to.shape[axis] * part // parts for part in range(parts + 1)]
    pieces = [(slice(None),) * axis + (slice(*cuts[part : part + 2]),) for part in range(parts)]
    others = [_pool().submit(_copy, to[piece], values[piece], lanes) for piece in pieces[1:]]
    _copy(to[pieces[0]], values[pieces[0]], lanes)
    for other in others:
        other.result()


def _copy(to: Array, values: Array, lanes: int) -> None:
    count = to.shape[lanes]
    step = 1 if count <= FEW else MANY if count <= 8 * MANY else count  # more than that is an axis, not a block
    for lane in range(0, count, step):
        # A single lane is an index, so that the copy has an axis less.
        part = (slice(None),) * lanes + (lane if step == 1 else slice(lane, lane + step),)
        np.copyto(to[part], values[part])


def _innermost(array: Array) -> int:
    """The axis along which neighbours are nearest."""
    axes = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    return min(axes, key=lambda axis: abs(array.strides[axis]), default=0)


def _outermost(array: Array) -> int:
    """The axis along which neighbours are farthest."""
    axes = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    return max(axes, key=lambda axis: abs(array.strides[axis]), default=0)


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(processors(), thread_name_prefix="layouts")
