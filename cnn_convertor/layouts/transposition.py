"""Copies between two views of one shape whose elements lie in different orders.

Left alone, numpy walks along the axis that is innermost in the target, which is slow where that axis is short in the target,
as a block of 8 channels is, or where its neighbors are far apart in the source. The axis that is innermost on one side, and
the shorter one, is a set of lanes. Which way of walking over the lanes is the fastest depends on how many there are, and on
the side that has them together. Large copies are shared out to all processors, since numpy lets go of the interpreter
while it copies.
"""

from __future__ import annotations

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

SMALL = 1 << 14  # bytes, below which numpy may do as it likes
SHARED = 1 << 20  # bytes, from which on processors share the work
CACHED = 1 << 22  # bytes that stay in a cache while lane after lane is copied
PANELS = 2  # for each processor, at least, so that none waits for long
LINE = 64  # bytes that a cache moves together
FEW = 8  # lanes that are always copied one by one
SOME = 16  # lanes that are copied at a time, or one by one where a line of the cache holds several steps along them
MANY = 128  # lanes of a block; more than that is an axis
WORTH = 1 << 16  # bytes of a plane of words, below which these are no gain
LANES, WALK = 64, 256  # what is read together, so that each line of the first cache is used up while it is there
WORDS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}  # bytes -> elements that numpy moves as they are


def assign(to: Array, values: Array) -> None:
    """to[...] = values, for arrays of one shape and type that share no memory."""
    near, far = _innermost(to), _innermost(values)
    if to.nbytes < SMALL or near == far or not (to.flags.aligned and values.flags.aligned):
        np.copyto(to, values)
        return
    lanes = min(near, far, key=to.shape.__getitem__)
    copy = _into_lanes if lanes == near else _out_of_lanes
    helpers = processors() - 1 if to.nbytes >= SHARED else 0
    todo = iter(_panels(to, lanes, to.nbytes // (PANELS * (helpers + 1)) if helpers else CACHED))

    def work() -> None:
        for panel in todo:  # whoever is free takes the next one
            copy(to[panel], values[panel], lanes)

    others = [_pool().submit(work) for _ in range(helpers)]
    work()
    for other in others:
        if not other.cancel():  # one that has not begun by now is not needed
            other.result()


def _panels(to: Array, lanes: int, limit: int) -> list[tuple[slice, ...]]:
    """Cut all axes but the lanes, the target's outermost first, such that parts stay in the cache from lane to lane.

    limit: bytes of a part, where they are fewer than those that stay in the cache
    """
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
    """The target has the lanes together: each on its own, or as many as share a line of the cache."""
    count = to.shape[lanes]
    along = min(abs(stride) for axis, stride in enumerate(to.strides) if axis != lanes)
    step = 1 if count <= FEW or (count <= SOME and along < LINE) else SOME if count <= MANY else count
    for lane in range(0, count, step):
        # A single lane is an index, so that the copy has an axis less.
        part = (slice(None),) * lanes + (lane if step == 1 else slice(lane, lane + step),)
        np.copyto(to[part], values[part])


def _out_of_lanes(to: Array, values: Array, lanes: int) -> None:
    """The source has the lanes together."""
    count, size = to.shape[lanes], to.dtype.itemsize
    rest = sorted((axis for axis in range(to.ndim) if axis != lanes), key=lambda axis: -abs(to.strides[axis]))
    inner, outer = (array.transpose(*rest, lanes) for array in (to, values))
    is_worth = math.prod(inner.shape[-3:]) * size >= WORTH
    if is_worth and outer.strides[-1] == size and count * size in (8, 16) and _disagree(inner, outer):
        _through_words(inner, outer)
    elif abs(outer.strides[-2]) >= LINE and size in (1, 2, 4, 8):  # no line of the cache serves two steps along a lane
        _walk(inner, outer)
    else:
        for lane in range(count):
            np.copyto(inner[..., lane], outer[..., lane])


def _walk(to: Array, values: Array) -> None:
    """Lanes are the last axis: some of them along a short way at a time.

    A copy would go all the way in the order that is best for the target. A ufunc keeps the order that it is given where the
    sides disagree.
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
    """The part of an axis that whole steps cover, and the rest: (start, end, step)."""
    middle = extent // step * step
    return [part for part in ((0, middle, step), (middle, extent, extent - middle)) if part[0] < part[1]]


def _through_words(to: Array, values: Array) -> None:
    """Lanes are the last axis, and together a word: words get into the target's order first, in the cache, then apart."""
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
    """With those axes joined, but for the last, that are one axis in every array."""
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
    """Whether the axes, but for the last, stand in another order in the source than in the target, which has them sorted."""
    strides = [abs(values.strides[axis]) for axis in range(to.ndim - 1) if to.shape[axis] > 1]
    return strides != sorted(strides, reverse=True)


def _innermost(array: Array) -> int:
    """The axis along which neighbors are nearest."""
    axes = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    return min(axes, key=lambda axis: abs(array.strides[axis]), default=0)


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(processors(), thread_name_prefix="layouts")
