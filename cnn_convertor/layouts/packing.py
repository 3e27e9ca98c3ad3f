"""Packs arrays into the memory of a layout, and unpacks them.

There are no loops over elements. Memory is cut into boxes in which every digit of the layout has a fixed extent and
distance: the whole blocks, and the partial ones at the ends of each axis. A box of the array and its box of memory are views
of the same shape, so one assignment moves a box in either direction.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import (
    NO_PADDING,
    AxisPadding,
    DType,
    Layout,
    Paddings,
    Region,
    element_type,
    extents,
    groups,
    nbytes,
    refuse,
    regions,
    top_term,
    whole_numbers,
)

Array: TypeAlias = npt.NDArray[Any]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Buffer: TypeAlias = Any  # an object with the buffer protocol; collections.abc.Buffer needs Python 3.12

SMALL = 1 << 14  # bytes; below, numpy copies at once
PANEL = 1 << 20  # bytes that stay in a cache
FEW = 8
SOME = 16  # up to FEW lanes are copied one by one, others SOME at a time


class _Segment(NamedTuple):
    """A range of an axis. start: its first index; digits: (first, count) of each digit, the top one first."""

    start: int
    digits: tuple[tuple[int, int], ...]


def pack(
    array: Array,
    layout: Layout,
    out: Buffer | None = None,
    *,
    padding: Paddings = NO_PADDING,
    fill: bool = True,
    copy: bool = True,
) -> Bytes:
    """The bytes of an array in the layout: (nbytes,) uint8; padding is zero.

    out: a writable buffer of at least that size to write to; bytes beyond it are unchanged
    fill: False leaves the bytes between elements in `out` unchanged
    copy: False allows the result to be a view of an `array` that already has the layout
    """
    if _is_masked(array):
        refuse("DV804", "a masked array has missing elements", "fill them")
    array = _little_endian(np.asarray(array), layout)
    if not copy and out is None and (view := _as_it_lies(array, layout, padding)) is not None:
        return view
    size = nbytes(layout, array.shape, element=array.dtype, padding=padding)
    filled = size != array.nbytes
    memory = _aligned(size, layout.base_align, zero=filled) if out is None else bytes_of(out, size, writable=True)
    if np.may_share_memory(memory, array):
        array = array.copy()
    boxes = list(_boxes(_merge(array, layout, padding), layout, array.shape, padding, memory))
    if filled and fill and out is not None:
        _fill(memory, [box for _, box in boxes])
    for inside, box in boxes:
        assign(box, inside)
    return memory


def _is_masked(array: object) -> bool:
    """Whether the array is masked. Checks without importing numpy.ma, which takes long."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(array, masked.MaskedArray)


def _fill(memory: Bytes, boxes: Sequence[Array]) -> None:
    """Zero the bytes outside boxes, and boxes with gaps."""
    end = 0
    start_of = memory.ctypes.data
    for box in sorted(boxes, key=lambda box: box.ctypes.data):
        start = box.ctypes.data - start_of
        reach = sum((n - 1) * stride for n, stride in zip(box.shape, box.strides, strict=True)) + box.itemsize
        if reach == box.nbytes:
            memory[end:start] = 0
            end = start + reach
    memory[end:] = 0


def unpack(
    data: Buffer,
    layout: Layout,
    shape: Sequence[int],
    *,
    element: npt.DTypeLike | None = None,
    padding: Paddings = NO_PADDING,
    out: Array | None = None,
    copy: bool = True,
) -> Array:
    """The array in memory of the layout.

    element: its type, if the layout does not define it
    out: an array of that shape and type to write to
    copy: False allows the result to be a view of `data`, if strides can express the layout
    """
    dtype = _element(layout, element)
    size = nbytes(layout, shape, element=dtype, padding=padding)
    shape = whole_numbers(shape, "a shape")
    memory = bytes_of(data, size)
    if not copy and out is None and (view := _view(memory, layout, shape, dtype, padding)) is not None:
        return view
    if out is None:
        out = np.empty(tuple(shape), dtype)
    elif not isinstance(out, np.ndarray) or not out.flags.writeable:
        refuse("DV804", "the output is not a writable array")
    elif out.shape != tuple(shape) or out.dtype != dtype:
        refuse("DV804", f"an array {out.shape} of {out.dtype} cannot hold {tuple(shape)} of {dtype}")
    if np.may_share_memory(out, memory):
        memory = memory.copy()
    merged = _merge(out, layout, padding)
    if not np.may_share_memory(merged, out):  # the merged axes are not a view of the result
        merged = np.empty(merged.shape, dtype)
    for inside, box in _boxes(merged, layout, shape, padding, memory):
        assign(inside, box)
    if not np.may_share_memory(merged, out):
        out[...] = _split(merged, layout, shape, padding)
    return out


def _element(layout: Layout, element: npt.DTypeLike | None) -> DType:
    requested = None if element is None else element_type(element)
    dtype = requested if layout.element is None else layout.element
    if dtype is None:
        refuse("DV804", "the element type is unknown", "name it, such as float16")
    if requested is not None and requested != dtype:
        refuse("DV804", f"the layout is for {dtype}, not {requested}")
    return dtype.newbyteorder("<")


def _little_endian(array: Array, layout: Layout) -> Array:
    """The array in little-endian order. Raises UsageError if its type is not the layout's."""
    if layout.element is not None and array.dtype.newbyteorder("=") != layout.element:
        refuse("DV804", f"the layout is for {layout.element}, not {array.dtype}", "convert the array first")
    if array.dtype.hasobject:
        refuse("DV804", f"elements of {array.dtype} have no bytes of their own")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _aligned(size: int, align: int, *, zero: bool) -> Bytes:
    """`size` bytes of memory, aligned to `align`."""
    spare = 0 if align <= 1 else align
    try:
        whole: Bytes = (np.zeros if zero else np.empty)(size + spare, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        refuse("DV804", f"the layout needs {size} bytes, more than available", "check its blocks and alignments")
    start = -whole.ctypes.data % align if spare else 0
    return whole[start : start + size]


def bytes_of(data: Buffer, size: int, *, writable: bool = False) -> Bytes:
    """The first bytes of a buffer. Raises UsageError for an unsuitable or too small one."""
    if isinstance(data, np.ndarray):
        if data.dtype.hasobject:
            refuse("DV804", f"an array of {data.dtype} is not a buffer of bytes")
        if not data.flags.c_contiguous:
            refuse("DV804", "the buffer is not contiguous")
        memory: Bytes = data.reshape(-1).view(np.uint8)
    else:
        try:
            memory = np.frombuffer(data, np.uint8)
        except (TypeError, ValueError, BufferError, AttributeError):
            refuse("DV804", f"{type(data).__name__} is not a contiguous buffer of bytes")
    if memory.size < size:
        refuse("DV804", f"the layout needs {size} bytes, but the buffer has {memory.size}")
    if writable and not memory.flags.writeable:
        refuse("DV804", "the buffer is read-only")
    return memory[:size]


# --- merged and flipped axes ---------------------------------------------------------------------------------------------


def _filled(layout: Layout, padding: Paddings) -> dict[str, AxisPadding]:
    """Padding that must be applied to the array first: that of merged axes."""
    merged = {letter for group in groups(layout) if len(group) > 1 for letter in group}
    return {letter: padding.get(letter, AxisPadding()) if letter in merged else AxisPadding() for letter in layout.axes}


def _flips(layout: Layout) -> tuple[slice, ...]:
    """Turns the flipped axes around."""
    return tuple(slice(None, None, -1 if top_term(layout, group).flip else 1) for group in groups(layout))


def _merge(array: Array, layout: Layout, padding: Paddings) -> Array:
    """The array with the axes of the terms: reordered, merged, flipped. A view if possible."""
    fill = _filled(layout, padding)
    if any(map(any, fill.values())):
        array = np.pad(array, [tuple(fill[letter]) for letter in layout.axes])
    size = dict(zip(layout.axes, array.shape, strict=True))
    order = [layout.axes.index(letter) for group in groups(layout) for letter in group]
    merged = array.transpose(order)
    if len(groups(layout)) != len(layout.axes):
        merged = merged.reshape([math.prod(size[letter] for letter in group) for group in groups(layout)])
    return merged[_flips(layout)]


def _split(merged: Array, layout: Layout, shape: Sequence[int], padding: Paddings) -> Array:
    """The inverse of `_merge`."""
    fill = _filled(layout, padding)
    size = {}
    inside = []
    for letter, length in zip(layout.axes, shape, strict=True):
        size[letter] = length + sum(fill[letter])
        inside.append(slice(fill[letter].lower, fill[letter].lower + length))
    order = "".join(groups(layout))
    array = merged[_flips(layout)].reshape([size[letter] for letter in order])
    array = array.transpose([order.index(letter) for letter in layout.axes])
    return array[tuple(inside)]


# --- boxes ---------------------------------------------------------------------------------------------------------------


def _boxes(
    merged: Array, layout: Layout, shape: Sequence[int], padding: Paddings, memory: Bytes
) -> Iterator[tuple[Array, Array]]:
    """Pairs of views of the same shape: of the merged array, and of memory."""
    names = groups(layout)
    first = {}  # the index of the merged array's first element in its padded axis
    for group in names:
        flip = top_term(layout, group).flip
        first[group] = padding.get(group, AxisPadding())[1 if flip else 0] if len(group) == 1 else 0
    for region in regions(layout, extents(layout, shape, padding), merged.dtype.itemsize):
        terms = {group: _digits(layout, group) for group in names}
        choices = []
        for axis, group in enumerate(names):
            low = max(first[group], region.starts[group])
            high = min(first[group] + merged.shape[axis], region.ends[group])
            start = region.starts[group]
            divs = [layout.terms[number].div for number in terms[group]]
            choices.append(list(_segments(low - start, high - start, divs)) if low < high else [])
        for segments in itertools.product(*choices):
            yield _box(merged, layout, region, first, segments, memory)


def _digits(layout: Layout, group: str) -> list[int]:
    """The term numbers of an axis, the top digit first."""
    numbers = [number for number, term in enumerate(layout.terms) if term.axis == group]
    return sorted(numbers, key=lambda number: -layout.terms[number].div)


def _segments(low: int, high: int, divs: Sequence[int]) -> Iterator[_Segment]:
    """Cut [low, high) into boxes of digits: whole blocks, and partial ones at both ends."""
    div = divs[0]
    inner = divs[1:]
    if not inner:
        yield _Segment(low, ((low, high - low),))
        return
    (first, before), (last, after) = divmod(low, div), divmod(high, div)
    if first == last:
        yield from _partial(first, div, before, after, inner)
        return
    if before:
        yield from _partial(first, div, before, div, inner)
        first += 1
    if first < last:
        whole = tuple((0, outer // own) for outer, own in itertools.pairwise(divs))
        yield _Segment(first * div, ((first, last - first), *whole))
    if after:
        yield from _partial(last, div, 0, after, inner)


def _partial(digit: int, div: int, low: int, high: int, inner: Sequence[int]) -> Iterator[_Segment]:
    for start, digits in _segments(low, high, inner):
        yield _Segment(digit * div + start, ((digit, 1), *digits))


def _box(
    merged: Array, layout: Layout, region: Region, first: dict[str, int], segments: Sequence[_Segment], memory: Bytes
) -> tuple[Array, Array]:
    offset = region.base
    shape = []
    strides = []
    slices = []
    for group, segment in zip(groups(layout), segments, strict=True):
        start = segment.start + region.starts[group] - first[group]
        slices.append(slice(start, start + math.prod(count for _, count in segment.digits)))
        for number, (digit, count) in zip(_digits(layout, group), segment.digits, strict=True):
            offset += digit * region.pitches[number]
            shape.append(count)
            strides.append(region.pitches[number])
    # The constructor rejects boxes outside the memory.
    box: Array = np.ndarray(shape, merged.dtype, memory, offset, strides)
    return merged[tuple(slices)].reshape(shape), box


def assign(to: Array, values: Array) -> None:
    """to[...] = values, for arrays of the same shape and type that share no memory.

    numpy iterates along the target's innermost axis, which is slow if that axis is short, or wide apart in the source. Here
    the shorter of the two sides' innermost axes is the lanes: a few are copied at a time, in panels that stay in a cache.
    """
    near, far = _innermost(to), _innermost(values)
    if to.nbytes < SMALL or near == far:
        np.copyto(to, values)
        return
    lanes = min(near, far, key=to.shape.__getitem__)
    outer = max((axis for axis in range(to.ndim) if axis != lanes and to.shape[axis] > 1), key=_stride(to))
    rows = max(1, PANEL * to.shape[outer] // to.nbytes)
    step = 1 if lanes == far or to.shape[lanes] <= FEW else SOME
    whole = (slice(None),) * to.ndim
    for start in range(0, to.shape[outer], rows):
        panel = (*whole[:outer], slice(start, start + rows))
        for lane in range(0, to.shape[lanes], step):
            # An index instead of a slice removes an axis from the copy.
            some = (*whole[:lanes], lane if step == 1 else slice(lane, lane + step))
            np.copyto(to[panel][some], values[panel][some])


def _innermost(array: Array) -> int:
    """The axis with the smallest stride."""
    return min((axis for axis in range(array.ndim) if array.shape[axis] > 1), key=_stride(array), default=0)


def _stride(array: Array) -> Callable[[int], int]:
    return lambda axis: abs(array.strides[axis])


# --- without a copy ------------------------------------------------------------------------------------------------------


def _view(memory: Bytes, layout: Layout, shape: Sequence[int], dtype: DType, padding: Paddings) -> Array | None:
    """The array as a view of memory, if every axis is one digit."""
    if len(layout.terms) != len(layout.axes):
        return None
    (region,) = regions(layout, extents(layout, shape, padding), dtype.itemsize)
    offset = region.base
    strides = {}
    for distance, term in zip(region.pitches, layout.terms, strict=True):
        lower, upper = padding.get(term.axis, AxisPadding())
        extent = shape[layout.axes.index(term.axis)]
        offset += ((extent - 1 + upper) if term.flip else lower) * distance
        strides[term.axis] = -distance if term.flip else distance
    return np.ndarray(tuple(shape), dtype, memory, offset, [strides[letter] for letter in layout.axes])


def _as_it_lies(array: Array, layout: Layout, padding: Paddings) -> Bytes | None:
    """The array's own bytes, if they already have the layout."""
    order = [layout.axes.index(term.axis) for term in layout.terms if len(term.axis) == 1]
    if len(order) != len(layout.terms) or len(order) != array.ndim or len(set(order)) != array.ndim:
        return None
    turned = array.transpose(order)
    if not turned.flags.c_contiguous or array.ctypes.data % layout.base_align:
        return None
    if nbytes(layout, array.shape, element=array.dtype, padding=padding) != array.nbytes:
        return None
    if any(term.flip for term in layout.terms) or any(map(any, padding.values())):
        return None
    return turned.reshape(-1).view(np.uint8)
