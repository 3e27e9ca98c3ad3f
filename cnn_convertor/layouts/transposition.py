"""Copies fast between two views of the same shape with different memory orders.

By default, numpy iterates along the innermost axis of the target, which is slow if that axis is short there (a block of 8
channels) or has a large stride in the source. The shorter of the two sides' innermost axes is the set of lanes. The fastest
iteration over lanes depends on their number, and on which side has them together. Large copies use all processors, as numpy
releases the GIL while it copies.
"""

import itertools
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

SMALL = 1 << 14  # bytes; below, numpy's default is used
SHARED = 1 << 20  # bytes; from here on, processors share the work
CACHED = 1 << 22  # bytes that stay in a cache from lane to lane
PANELS = 2  # per processor, at least, to balance the load
LINE = 64  # bytes of a cache line
FEW = 8  # up to this many lanes are copied one by one
SOME = 16  # lanes copied at a time, or one by one if a cache line holds several steps along them
MANY = 128  # more lanes than this are an ordinary axis
WORTH = 1 << 16  # bytes of a plane from which words pay off
LANES, WALK = 64, 256  # tile size that fits the first-level cache
WORDS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}  # bytes -> element type that numpy copies unchanged


def assign(to: Array, values: Array) -> None:
    """to[...] = values, for arrays of the same shape and type that share no memory."""
    near, far = _innermost(to), _innermost(values)
    if to.nbytes < SMALL or near == far or not (to.flags.aligned and values.flags.aligned):
        np.copyto(to, values)
        return
    lanes = min(near, far, key=to.shape.__getitem__)
    copy = _into_lanes if lanes == near else _out_of_lanes
    helpers = processors() - 1 if to.nbytes >= SHARED else 0
    todo = iter(_panels(to, lanes, to.nbytes // (PANELS * (helpers + 1)) if helpers else CACHED))

    def work() -> None:
        for panel in todo:  # each thread takes the next one
            copy(to[panel], values[panel], lanes)

    others = [_pool().submit(work) for _ in range(helpers)]
    work()
    for other in others:
        if not other.cancel():  # not started yet: no longer needed
            other.result()


def _panels(to: Array, lanes: int, limit: int) -> list[tuple[slice, ...]]:
    """Cut all axes but the lanes, the target's outermost first, into parts that fit the cache, of `limit` bytes at most."""
    size = min(limit, CACHED)
    extents = list(to.shape)
    for axis in sorted(range(to.ndim), key=lambda axis: -abs(to.strides[axis])):
        if axis != lanes:
            rest = to.itemsize * math.prod(extents) // extents[axis]
            extents[axis] = max(1, min(extents[axis], size // rest))
    cuts = [
        [slice(start, min(start + step, extent)) for start in range(0, extent, step)]
        for extent, step in zip(to.shape, extents, strict=True)
    ]
    return list(itertools.product(*cuts))


def _into_lanes(to: Array, values: Array, lanes: int) -> None:
    """Copy if the target has the lanes together: one by one, or several that share a cache line."""
    count = to.shape[lanes]
    along = min(abs(stride) for axis, stride in enumerate(to.strides) if axis != lanes)
    step = 1 if count <= FEW or (count <= SOME and along < LINE) else SOME if count <= MANY else count
    for lane in range(0, count, step):
        # An index instead of a slice removes an axis from the copy.
        part = (slice(None),) * lanes + (lane if step == 1 else slice(lane, lane + step),)
        np.copyto(to[part], values[part])


def _out_of_lanes(to: Array, values: Array, lanes: int) -> None:
    """Copy if the source has the lanes together."""
    count, size = to.shape[lanes], to.dtype.itemsize
    rest = sorted((axis for axis in range(to.ndim) if axis != lanes), key=lambda axis: -abs(to.strides[axis]))
    inner, outer = (array.transpose(*rest, lanes) for array in (to, values))
    is_worth = math.prod(inner.shape[-3:]) * size >= WORTH
    if is_worth and outer.strides[-1] == size and count * size in (8, 16) and _disagree(inner, outer):
        _through_words(inner, outer)
    elif abs(outer.strides[-2]) >= LINE and size in (1, 2, 4, 8):  # no cache line holds two steps along a lane
        _walk(inner, outer)
    else:
        for lane in range(count):
            np.copyto(inner[..., lane], outer[..., lane])


def _walk(to: Array, values: Array) -> None:
    """Copy in tiles; lanes are the last axis.

    A ufunc, unlike a copy, iterates in the given order where the sides disagree.
    """
    word = WORDS[to.dtype.itemsize]
    target, source = _merged(to.view(word), values.view(word))
    lanes, way = target.shape[-1], target.shape[-2]
    for lane in range(0, lanes, LANES):
        for start, end, step in _steps(way, WALK):
            parts = []
            for array in (target, source):
                part = array[..., start:end, lane : lane + LANES]
                split = part.reshape(*part.shape[:-2], -1, step, part.shape[-1])
                parts.append(split.swapaxes(-1, -2))
            np.positive(parts[1], out=parts[0])


def _steps(extent: int, step: int) -> list[tuple[int, int, int]]:
    """The whole steps of an axis, and the rest: (start, end, step)."""
    middle = extent // step * step
    return [part for part in ((0, middle, step), (middle, extent, extent - middle)) if part[0] < part[1]]


def _through_words(to: Array, values: Array) -> None:
    """Copy lanes, the last axis, as words: transpose words in the cache, then split them."""
    word = WORDS[values.shape[-1] * values.itemsize]
    words = values.view(word)[..., 0]
    *_, rows, columns = words.shape
    step = max(1, WORTH * 8 // (columns * words.itemsize))
    turned = np.empty((min(rows, step), columns), word)
    for outer in np.ndindex(*words.shape[:-2]):
        for start in range(0, rows, step):
            part = turned[: min(step, rows - start)]
            np.copyto(part, words[outer][start : start + step])
            apart = part.view(values.dtype).reshape(*part.shape, -1)
            for lane in range(values.shape[-1]):
                np.copyto(to[outer][start : start + step, :, lane], apart[..., lane])


def _merged(*arrays: Array) -> Sequence[Array]:
    """The arrays with axes merged that are contiguous in all of them; the last axis stays."""
    shape = list(arrays[0].shape)
    strides = [list(array.strides) for array in arrays]
    for axis in range(len(shape) - 3, -1, -1):
        if shape[axis] == 1 or all(own[axis] == own[axis + 1] * shape[axis + 1] for own in strides):
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
            for own in strides:
                del own[axis]
    joined = [array.reshape(shape) for array in arrays]
    assert all(map(np.may_share_memory, joined, arrays))
    return joined


def _disagree(to: Array, values: Array) -> bool:
    """Whether source and target order their axes differently, except for the last; the target's are sorted."""
    strides = [abs(values.strides[axis]) for axis in range(to.ndim - 1) if to.shape[axis] > 1]
    return strides != sorted(strides, reverse=True)


def _innermost(array: Array) -> int:
    """The axis with the smallest stride."""
    axes = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    return min(axes, key=lambda axis: abs(array.strides[axis]), default=0)


def processors() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(processors(), thread_name_prefix="layouts")
