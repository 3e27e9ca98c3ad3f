"""Moves arrays into the memory of a layout, and back.

Nothing here loops over elements. Memory is cut into boxes in which every digit of the layout has a plain extent and
distance: the whole blocks, and the partial ones at the ends of each axis. A box of the array and its box of memory are
two views of one shape, and one assignment moves it, in either direction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import (
    NO_PADDING,
    DType,
    Layout,
    Padding,
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
from cnn_convertor.layouts.transposition import assign

Array: TypeAlias = npt.NDArray[Any]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Buffer: TypeAlias = Any  # what has the buffer protocol; collections.abc.Buffer comes with Python 3.12

PAGE = 4096


class _Segment(NamedTuple):
    """Part of an axis that is a box of digits. start: in the axis; digits: (first, count) of each, the top one first."""

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
    """The bytes of an array in memory, (nbytes,), as an array of uint8; what fills it up is zero.

    out: a writable buffer of at least that size to write to; more than that is left as it is
    fill: False: what lies between the elements in `out` is left as it is, too
    copy: False: the result may be a view of `array`, if that lies in memory as the layout says already
    """
    if isinstance(array, np.ma.MaskedArray):
        refuse("DV804", "a masked array has elements that are not there", "fill them")
    array = _little_endian(np.asarray(array), layout)
    if not copy and out is None and (view := _as_it_lies(array, layout, padding)) is not None:
        return view
    size = nbytes(layout, array.shape, element=array.dtype, padding=padding)
    filled = size != array.nbytes
    memory = _aligned(size, layout.base_align, zero=filled) if out is None else bytes_of(out, size, writable=True)
    if np.may_share_memory(memory, array):
        array = array.copy()
    boxes = list(_boxes(array, layout, padding, memory))
    if filled and fill and out is not None:
        _fill(memory, [box for _, box in boxes])
    for inside, box in boxes:
        assign(box, inside)
    return memory


def _fill(memory: Bytes, boxes: Sequence[Array]) -> None:
    """Zeros wherever no box covers all: beside partial blocks, for the most part."""
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
    """The array that lies in memory as the layout says.

    element: its type, if the layout leaves that open
    out: an array of that shape and type to write to
    copy: False: the result may be a view of `data`, if strides alone can say where elements lie
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
        refuse("DV804", "what is to hold the array is none, or cannot be written")
    elif out.shape != tuple(shape) or out.dtype != dtype:
        refuse("DV804", f"an array {out.shape} of {out.dtype} cannot hold {tuple(shape)} of {dtype}")
    if np.may_share_memory(out, memory):
        memory = memory.copy()
    merged = _merge(out, layout, padding)
    if not np.may_share_memory(merged, out):  # merged axes that are no view of the result
        merged = np.empty(merged.shape, dtype)
    for inside, box in _boxes_of(merged, layout, shape, padding, memory):
        assign(inside, box)
    if not np.may_share_memory(merged, out):
        out[...] = _split(merged, layout, shape, padding)
    return out


def _element(layout: Layout, element: npt.DTypeLike | None) -> DType:
    given = None if element is None else element_type(element)
    dtype = given if layout.element is None else layout.element
    if dtype is None:
        refuse("DV804", "nothing says what type the elements have")
    if given is not None and given != dtype:
        refuse("DV804", f"the layout holds {dtype}, not {given}")
    return dtype.newbyteorder("<")


def _little_endian(array: Array, layout: Layout) -> Array:
    """The array as memory has it. Refuses another type than the layout's."""
    if layout.element is not None and array.dtype.newbyteorder("=") != layout.element:
        refuse("DV804", f"the layout holds {layout.element}, not {array.dtype}", "convert the array first")
    if array.dtype.hasobject:
        refuse("DV804", f"elements of {array.dtype} have no bytes of their own")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _aligned(size: int, align: int, *, zero: bool) -> Bytes:
    """Memory for `size` bytes; the address of the first one is a multiple of `align`."""
    spare = 0 if align <= 1 else align
    try:
        whole: Bytes = (np.zeros if zero else np.empty)(size + spare, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        refuse(
            "DV804", f"the layout takes {size} bytes, more than there are", "look for a block or an alignment too large"
        )
    start = -whole.ctypes.data % align if spare else 0
    return whole[start : start + size]


def bytes_of(data: Buffer, size: int, *, writable: bool = False) -> Bytes:
    """The first bytes of a buffer. Refuses what is none, is too small, or cannot be written."""
    if isinstance(data, np.ndarray):
        if data.dtype.hasobject:
            refuse("DV804", f"an array of {data.dtype} is no buffer of bytes")
        if not data.flags.c_contiguous:
            refuse("DV804", "the buffer's bytes do not lie one after the other")
        memory: Bytes = data.reshape(-1).view(np.uint8)
    else:
        try:
            memory = np.frombuffer(data, np.uint8)
        except (TypeError, ValueError, BufferError, AttributeError):
            refuse("DV804", f"{type(data).__name__} is no buffer of bytes that lie one after the other")
    if memory.size < size:
        refuse("DV804", f"the layout takes {size} bytes, but the buffer has {memory.size}")
    if writable and not memory.flags.writeable:
        refuse("DV804", "the buffer cannot be written")
    return memory[:size]


# --- axes as the terms count them ----------------------------------------------------------------------------------------


def _filled(layout: Layout, padding: Paddings) -> dict[str, Padding]:
    """Padding that must be made part of the array first: that of axes which are merged with others."""
    merged = {letter for group in groups(layout) if len(group) > 1 for letter in group}
    return {letter: padding.get(letter, Padding()) if letter in merged else Padding() for letter in layout.axes}


def _merge(array: Array, layout: Layout, padding: Paddings) -> Array:
    """The array with its axes as the terms count them: in their order, merged, flipped. A view where that can be."""
    fill = _filled(layout, padding)
    if any(map(any, fill.values())):
        array = np.pad(array, [tuple(fill[letter]) for letter in layout.axes])
    size = dict(zip(layout.axes, array.shape, strict=True))
    order = [layout.axes.index(letter) for group in groups(layout) for letter in group]
    merged = array.transpose(order)
    if len(groups(layout)) != len(layout.axes):
        merged = merged.reshape([math.prod(size[letter] for letter in group) for group in groups(layout)])
    return merged[tuple(slice(None, None, -1 if top_term(layout, group).flip else 1) for group in groups(layout))]


def _split(merged: Array, layout: Layout, shape: Sequence[int], padding: Paddings) -> Array:
    """What `_merge` was made of."""
    flipped = merged[tuple(slice(None, None, -1 if top_term(layout, group).flip else 1) for group in groups(layout))]
    fill = _filled(layout, padding)
    size = {letter: n + sum(fill[letter]) for letter, n in zip(layout.axes, shape, strict=True)}
    order = [letter for group in groups(layout) for letter in group]
    array = flipped.reshape([size[letter] for letter in order])
    array = array.transpose([order.index(letter) for letter in layout.axes])
    return array[tuple(slice(fill[a].lower, fill[a].lower + n) for a, n in zip(layout.axes, shape, strict=True))]


# --- boxes ---------------------------------------------------------------------------------------------------------------


def _boxes(array: Array, layout: Layout, padding: Paddings, memory: Bytes) -> Iterator[tuple[Array, Array]]:
    return _boxes_of(_merge(array, layout, padding), layout, array.shape, padding, memory)


def _boxes_of(
    merged: Array, layout: Layout, shape: Sequence[int], padding: Paddings, memory: Bytes
) -> Iterator[tuple[Array, Array]]:
    """Views of one shape: a part of the merged array, and where it lies."""
    names = groups(layout)
    first = {}  # of the merged array's elements, in its axis with padding
    for group in names:
        flip = top_term(layout, group).flip
        first[group] = padding.get(group, Padding())[1 if flip else 0] if len(group) == 1 else 0
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
    """The numbers of an axis's terms, the top digit first."""
    numbers = [number for number, term in enumerate(layout.terms) if term.axis == group]
    return sorted(numbers, key=lambda number: -layout.terms[number].div)


def _segments(low: int, high: int, divs: Sequence[int]) -> Iterator[_Segment]:
    """Cut [low, high) into boxes of digits: the whole blocks, and what is partial at either end."""
    div, inner = divs[0], divs[1:]
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
    merged: Array,
    layout: Layout,
    region: Region,
    first: dict[str, int],
    segments: Sequence[_Segment],
    memory: Bytes,
) -> tuple[Array, Array]:
    place, shape, strides, part = region.base, [], [], []
    for group, segment in zip(groups(layout), segments, strict=True):
        start = segment.start + region.starts[group] - first[group]
        part.append(slice(start, start + math.prod(count for _, count in segment.digits)))
        for number, (digit, count) in zip(_digits(layout, group), segment.digits, strict=True):
            place += digit * region.pitches[number]
            shape.append(count)
            strides.append(region.pitches[number])
    # The constructor refuses what would lie outside of the memory.
    box: Array = np.ndarray(shape, merged.dtype, memory, place, strides)
    return merged[tuple(part)].reshape(shape), box


# --- without a copy ------------------------------------------------------------------------------------------------------


def _view(memory: Bytes, layout: Layout, shape: Sequence[int], dtype: DType, padding: Paddings) -> Array | None:
    """The array as a view of its memory, if every axis is one digit."""
    if len(layout.terms) != len(layout.axes):
        return None
    (region,) = regions(layout, extents(layout, shape, padding), dtype.itemsize)
    place, strides = region.base, {}
    for distance, term in zip(region.pitches, layout.terms, strict=True):
        lower, upper = padding.get(term.axis, Padding())
        extent = shape[layout.axes.index(term.axis)]
        place += ((extent - 1 + upper) if term.flip else lower) * distance
        strides[term.axis] = -distance if term.flip else distance
    return np.ndarray(tuple(shape), dtype, memory, place, [strides[letter] for letter in layout.axes])


def _as_it_lies(array: Array, layout: Layout, padding: Paddings) -> Bytes | None:
    """The array's own bytes, if they lie as the layout says."""
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
