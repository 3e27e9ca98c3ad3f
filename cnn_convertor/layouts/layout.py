"""Memory layouts: values that map array indices to byte offsets.

A layout is a list of terms, outermost first. Each term is a mixed-radix digit of an axis: `c/16` counts slices of 16
channels, `c%16` the channels of a slice. The distance in bytes between neighbors of a digit is the size of the terms inside
it, rounded up or fixed where the term says so. The digits of an axis must fit together, so every valid layout is injective.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from cnn_convertor.errors import UsageError

DType: TypeAlias = np.dtype[Any]


def refuse(code: str, message: str, hint: str = "") -> NoReturn:
    """Raise UsageError for an invalid layout or request."""
    raise UsageError.of(code, message, hint=hint)


def whole_numbers(values: object, what: str) -> tuple[int, ...]:
    """Values as integers. Raises UsageError for others."""
    try:
        return tuple(map(operator.index, values))  # type: ignore[call-overload]  # checked by the except clause
    except TypeError:
        refuse("DV802", f"{what} needs whole numbers, not {values!r}")


def element_type(element: npt.DTypeLike) -> DType:
    """A numpy element type. Raises UsageError for others, and for object types."""
    try:
        dtype = np.dtype(element)
    except (TypeError, ValueError, SyntaxError):
        refuse("DV804", f"{element!r} is not an element type", "int8, int16, float16, float32")
    if dtype.hasobject:
        refuse("DV804", f"elements of {dtype} have no bytes of their own")
    return dtype


@dataclass(frozen=True, slots=True)
class Term:
    """A digit of an axis: (index // div) % mod.

    axis: a letter, or several merged into one axis, the last fastest: "yx" is y * X + x
    mod: None for the top digit, whose extent is ceil(extent of the axis / div)
    ragged: the last, partial slice is not padded with zeros (top digits)
    flip: indices count from the end (top digits)
    extent_align: the axis is padded with zeros to a multiple of this (top digits)
    pitch_align: the distance between neighbors is rounded up to a multiple of this, in bytes
    pitch: that distance, in bytes
    whole: partial slices are an error (top digits)
    """

    axis: str
    div: int = 1
    mod: int | None = None
    ragged: bool = False
    flip: bool = False
    extent_align: int = 1
    pitch_align: int = 1
    pitch: int | None = None
    whole: bool = False

    @property
    def pads(self) -> bool:
        """Whether memory may have more than what the digit counts."""
        slices = self.mod is None and self.div > 1 and not (self.ragged or self.whole)
        return slices or self.extent_align != 1 or self.pitch_align != 1 or self.pitch is not None

    def __str__(self) -> str:
        text = "-" * self.flip + (self.axis if len(self.axis) == 1 else f"({self.axis})")
        if self.div != 1:
            text += f"/{self.div}"
        text += "!" * self.ragged + "#" * self.whole
        if self.mod is not None:
            text += f"%{self.mod}"
        if self.extent_align != 1:
            text += f"^{self.extent_align}"
        if self.pitch_align != 1:
            text += f"@{self.pitch_align}"
        if self.pitch is not None:
            text += f"={self.pitch}"
        return text


class AxisPadding(NamedTuple):
    """Zeros around one axis, in elements. They count towards its extent and its blocks."""

    lower: int = 0
    upper: int = 0


Paddings: TypeAlias = Mapping[str, AxisPadding]
NO_PADDING: Paddings = {}


@dataclass(frozen=True, slots=True)
class Layout:
    """The position of each element of an array.

    axes: one letter per axis of the array, in its order
    terms: outermost first
    element: the element type; None: any
    base_align: alignment of the first byte
    total_align: the size is padded with zeros to a multiple of this, in bytes
    """

    axes: str
    terms: tuple[Term, ...]
    element: DType | None = None
    base_align: int = 1
    total_align: int = 1
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check(self)

    def __str__(self) -> str:
        """The layout in the notation of `cnn_convertor.layouts.notation.parse`."""
        text = f"{self.axes}: {' '.join(map(str, self.terms))}"
        marks = [] if self.element is None else [self.element.name]
        marks += [f"base={self.base_align}"] * (self.base_align != 1)
        marks += [f"total={self.total_align}"] * (self.total_align != 1)
        return text + (f" | {' '.join(marks)}" if marks else "")

    @property
    def pads(self) -> bool:
        """Whether memory may have more elements than the array."""
        return self.total_align != 1 or any(term.pads for term in self.terms)

    def of(self, element: npt.DTypeLike | None) -> Layout:
        return replace(self, element=None if element is None else element_type(element))


def _check(layout: Layout) -> None:
    """Raise UsageError for missing, duplicate or contradictory terms."""
    letters = [letter for group in groups(layout) for letter in group]
    if not layout.axes or not all(term.axis for term in layout.terms):
        refuse("DV801", f'the layout "{layout.axes}" has no axes, or a term without an axis')
    if layout.element is not None:
        element_type(layout.element)
    for letter in letters:
        if letter not in layout.axes:
            refuse("DV801", f'axis "{letter}" is not one of the axes "{layout.axes}"')
        if letters.count(letter) > 1:
            refuse("DV801", f'axis "{letter}" occurs alone and merged with another one')
    for letter in layout.axes:
        if layout.axes.count(letter) > 1:
            refuse("DV801", f'the axes "{layout.axes}" contain "{letter}" twice')
        if letter not in letters:
            refuse("DV801", f'no term for the axis "{letter}"')
    for group in groups(layout):
        _check_digits(layout, group)
    for number in (layout.base_align, layout.total_align):
        if number < 1:
            refuse("DV801", f"an alignment of {number} bytes")


def _check_digits(layout: Layout, group: str) -> None:
    """The digits of an axis must fit together."""
    terms = sorted((term for term in layout.terms if term.axis == group), key=lambda term: term.div)
    count = 1  # of the lower digits
    for term in terms:
        _check_numbers(term)
        if term.div != count:
            refuse("DV801", f'"{term}" counts in steps of {term.div}, but its lower digits count up to {count}')
        if (term.mod is None) != (term is terms[-1]):
            wrong = "has no %: only the top digit may" if term.mod is None else "does not cover its axis"
            refuse("DV801", f'"{term}" {wrong}')
        if term.mod is not None:
            _check_block(term, term.mod)
            count = term.div * term.mod
    first = next(term for term in layout.terms if term.axis == group)
    top = terms[-1]
    if top.ragged and (first is not top or len(terms) == 1):
        refuse("DV801", f'"{top}": "!" needs a lower digit further inside')
    if top.ragged + top.whole + (top.extent_align != 1) > 1:
        refuse("DV801", f'"{top}": "!", "#" and "^" exclude each other')


def _check_numbers(term: Term) -> None:
    sizes = [term.div, term.extent_align, term.pitch_align]
    if term.pitch is not None:
        sizes.append(term.pitch)
    mod = 1 if term.mod is None else term.mod
    if not all(isinstance(number, int) for number in [*sizes, mod]):
        refuse("DV801", f'"{term}" has a number that is not an integer')
    if min(sizes) < 1:
        refuse("DV801", f'"{term}" has a number below 1')


def _check_block(term: Term, mod: int) -> None:
    """mod: of the term, which is a lower digit."""
    if mod < 2:
        refuse("DV801", f'"{term}": a block has 2 or more elements')
    if term.ragged or term.whole or term.flip or term.extent_align != 1:
        refuse("DV801", f'"{term}": "-", "!", "#" and "^" belong to the top digit of an axis')


def groups(layout: Layout) -> tuple[str, ...]:
    """The axes as in the terms, merged ones as one, in order of first use."""
    return tuple(dict.fromkeys(term.axis for term in layout.terms))


def top_term(layout: Layout, group: str) -> Term:
    return next(term for term in layout.terms if term.axis == group and term.mod is None)


def extents(layout: Layout, shape: Sequence[int], padding: Paddings = NO_PADDING) -> dict[str, int]:
    """The extent of each group of axes, including padding. Raises UsageError for a shape that does not fit."""
    shape = whole_numbers(shape, "a shape")
    if len(shape) != len(layout.axes):
        actual = "x".join(map(str, shape)) or "that of a single number"
        refuse("DV802", f'the layout has the axes "{layout.axes}", but the shape is {actual}')
    if min(shape, default=1) < 1:
        refuse("DV802", f"a shape of {'x'.join(map(str, shape))} is empty")
    for letter, amounts in padding.items():
        pair = whole_numbers(amounts, f'padding of "{letter}"')
        if len(pair) != 2 or min(pair) < 0:
            refuse("DV802", f'padding of "{letter}" is two numbers >= 0, lower and upper, not {amounts!r}')
        if letter not in layout.axes:
            refuse("DV802", f'padding of "{letter}", which is not one of the axes "{layout.axes}"')
    size = {a: n + sum(padding.get(a, (0, 0))) for a, n in zip(layout.axes, shape, strict=True)}
    result = {}
    for group in groups(layout):
        top = top_term(layout, group)
        extent = math.prod(size[letter] for letter in group)
        if top.whole and extent % top.div:
            refuse("DV802", f"{layout.name or layout} needs {group} in whole slices of {top.div}, not {extent}")
        result[group] = -(-extent // top.extent_align) * top.extent_align
    return result


def item_size(layout: Layout, element: npt.DTypeLike | None = None) -> int:
    """Bytes per element: of the layout's type, else of the given one, else 1."""
    if layout.element is not None:
        return layout.element.itemsize
    return element_type(element).itemsize if element is not None else 1


# --- sizes and distances -------------------------------------------------------------------------------------------------
#
# `counts`: the extent of each axis from a term inwards; inside a partial slice, the extent of that slice.


def count(layout: Layout, term: Term, counts: Mapping[str, int]) -> int:
    """The extent of a non-ragged digit."""
    outermost = -(-counts[term.axis] // term.div)
    return outermost if term.mod is None else min(term.mod, outermost) if _is_in_slice(layout, term) else term.mod


def _is_in_slice(layout: Layout, term: Term) -> bool:
    """Whether the digit is directly inside the slices of a ragged digit."""
    top = top_term(layout, term.axis)
    return top.ragged and term.mod is not None and term.div * term.mod == top.div


def size_inside(layout: Layout, number: int, counts: Mapping[str, int], itemsize: int) -> int:
    """Bytes of all terms from `number` inwards."""
    if number == len(layout.terms):
        return itemsize
    term = layout.terms[number]
    if not term.ragged:
        return count(layout, term, counts) * pitch(layout, number, counts, itemsize)
    whole, rest = divmod(counts[term.axis], term.div)
    full, narrow = ({**counts, term.axis: extent} for extent in (term.div, rest))
    size = whole * pitch(layout, number, full, itemsize) if whole else 0
    return size + (pitch(layout, number, narrow, itemsize) if rest else 0)


def pitch(layout: Layout, number: int, counts: Mapping[str, int], itemsize: int) -> int:
    """Bytes between neighbors of a digit. Raises UsageError if a fixed distance makes them overlap."""
    term = layout.terms[number]
    inside = size_inside(layout, number + 1, counts, itemsize)
    if term.pitch is None:
        return -(-inside // term.pitch_align) * term.pitch_align
    if term.pitch < inside:
        refuse("DV803", f'"{term}": neighbors are {term.pitch} bytes apart, but each takes {inside} bytes')
    if term.pitch % term.pitch_align:
        refuse("DV803", f'"{term}": {term.pitch} bytes is not a multiple of {term.pitch_align}')
    return term.pitch


def nbytes(
    layout: Layout, shape: Sequence[int], *, element: npt.DTypeLike | None = None, padding: Paddings = NO_PADDING
) -> int:
    """The size of an array in memory, in bytes, including padding; in elements if their type is unknown."""
    size = size_inside(layout, 0, extents(layout, shape, padding), item_size(layout, element))
    return -(-size // layout.total_align) * layout.total_align


def offset(
    layout: Layout,
    shape: Sequence[int],
    index: Sequence[int],
    *,
    element: npt.DTypeLike | None = None,
    padding: Paddings = NO_PADDING,
) -> int:
    """The offset of an element in bytes; in elements if their type is unknown."""
    counts = extents(layout, shape, padding)
    index = whole_numbers(index, "an index")
    coordinates = _coordinates(layout, shape, index, padding)
    itemsize = item_size(layout, element)
    result = 0
    for number, term in enumerate(layout.terms):
        value = coordinates[term.axis]
        if term.ragged:
            slice_, coordinates[term.axis] = divmod(value, term.div)
            result += slice_ * pitch(layout, number, {**counts, term.axis: term.div}, itemsize) if slice_ else 0
            whole, rest = divmod(counts[term.axis], term.div)
            counts[term.axis] = term.div if slice_ < whole else rest
        else:
            digit = value // term.div if term.mod is None else value // term.div % term.mod
            result += digit * pitch(layout, number, counts, itemsize)
    return result


def _coordinates(layout: Layout, shape: Sequence[int], index: Sequence[int], padding: Paddings) -> dict[str, int]:
    """An index in terms of the layout's groups: padded, merged, flipped."""
    if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        refuse("DV802", f"no element {tuple(index)} in an array of {'x'.join(map(str, shape))}")
    at = dict(zip(layout.axes, index, strict=True))
    size = dict(zip(layout.axes, shape, strict=True))
    result = {}
    for group in groups(layout):
        value, extent = 0, 1
        for letter in group:
            lower, upper = padding.get(letter, (0, 0))
            value = value * (lower + size[letter] + upper) + lower + at[letter]
            extent *= lower + size[letter] + upper
        result[group] = extent - 1 - value if top_term(layout, group).flip else value
    return result


class Region(NamedTuple):
    """A part of memory in which every digit has a fixed extent and distance: all whole slices, or the partial one.

    base: its offset. counts, pitches: per term. starts, ends: its range of each axis.
    """

    base: int
    counts: tuple[int, ...]
    pitches: tuple[int, ...]
    starts: Mapping[str, int]
    ends: Mapping[str, int]


def regions(layout: Layout, counts: Mapping[str, int], itemsize: int) -> Iterator[Region]:
    """The regions of a layout: one, at most doubled by each ragged digit."""
    return _regions(layout, itemsize, Region(0, (), (), dict.fromkeys(counts, 0), counts), counts)


def _regions(layout: Layout, itemsize: int, outer: Region, counts: Mapping[str, int]) -> Iterator[Region]:
    number = len(outer.counts)
    if number == len(layout.terms):
        yield outer
        return
    term = layout.terms[number]
    if not term.ragged:
        more = outer._replace(
            counts=(*outer.counts, count(layout, term, counts)),
            pitches=(*outer.pitches, pitch(layout, number, counts, itemsize)),
        )
        yield from _regions(layout, itemsize, more, counts)
        return
    base = outer.base
    whole, rest = divmod(counts[term.axis], term.div)
    middle = whole * term.div
    for slices, extent, start, end in ((whole, term.div, 0, middle), (min(rest, 1), rest, middle, middle + rest)):
        if slices:
            inside = {**counts, term.axis: extent}
            distance = pitch(layout, number, inside, itemsize)
            more = Region(
                base,
                (*outer.counts, slices),
                (*outer.pitches, distance),
                {**outer.starts, term.axis: start},
                {**outer.ends, term.axis: end},
            )
            yield from _regions(layout, itemsize, more, inside)
            base += slices * distance
