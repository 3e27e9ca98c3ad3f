"""Describes layouts: offset formula, first elements, and a picture of the memory."""

import html
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import Layout, Term, extents, item_size, nbytes, pitch, refuse, top_term
from cnn_convertor.layouts.packing import Bytes, pack

FIRST = 16  # elements in a description
LARGE = 1 << 26  # bytes from which descriptions omit the first elements
MAX_CELLS = 4096  # elements in a picture


def describe(layout: Layout, shape: Sequence[int], *, element: npt.DTypeLike | None = None, first: int = FIRST) -> str:
    """The layout for a shape: terms, formula, size, first elements. Elements of unknown type count as one byte."""
    itemsize = item_size(layout, element)
    kind = layout.element or (np.dtype(element) if element is not None else None)
    size = nbytes(layout, shape, element=element)
    lines = [
        f"{layout.name or 'layout'}: {layout}",
        f"shape    {' '.join(f'{a}={n}' for a, n in zip(layout.axes, shape, strict=True))}",
        f"element  {kind.name if kind is not None else 'any type'}, {itemsize} byte{'s' * (itemsize != 1)}",
        f"size     {size} bytes, {size - math.prod(shape) * itemsize} of them padding",
        f"offset   {formula(layout, shape, element=element)}",
    ]
    lines += [f"         {note}" for note in _notes(layout, shape)]
    if layout.base_align > 1:
        lines.append(f"start    a multiple of {layout.base_align} bytes")
    indices = elements(layout, shape, element=element, end=first * itemsize) if size < LARGE else []
    for at, index in enumerate(indices[:first]):
        inside = "padding" if index is None else "; ".join(f"{a}={i}" for a, i in zip(layout.axes, index, strict=True))
        lines.append(f"  {at * itemsize:6} => [{inside}]")
    return "\n".join(lines) + "\n"


def formula(layout: Layout, shape: Sequence[int], *, element: npt.DTypeLike | None = None) -> str:
    """The offset of an element in bytes; distances are smaller in partial slices."""
    sliced = {term.axis for term in layout.terms if term.ragged}
    parts = []
    for term, distance in zip(layout.terms, distances(layout, shape, element=element).values(), strict=True):
        digit = _digit(layout, shape, term)
        parts.append(digit if distance == 1 else f"{digit}*{distance}")
    text = " + ".join(parts)
    return f"{text}, in whole slices of {' and '.join(sorted(sliced))}" if sliced else text


def distances(layout: Layout, shape: Sequence[int], *, element: npt.DTypeLike | None = None) -> dict[str, int]:
    """Term, outermost first -> bytes between its neighbors, in whole slices."""
    counts = dict(extents(layout, shape))
    itemsize = item_size(layout, element)
    result = {}
    for number, term in enumerate(layout.terms):
        if term.ragged:
            counts[term.axis] = min(counts[term.axis], term.div)
        result[str(term)] = pitch(layout, number, counts, itemsize)
    return result


def _digit(layout: Layout, shape: Sequence[int], term: Term) -> str:
    size = dict(zip(layout.axes, shape, strict=True))
    value, extent = "", 1
    for letter in reversed(term.axis):
        value = f"{letter}*{extent} + {value}" if value else letter
        extent *= size[letter]
    if top_term(layout, term.axis).flip:
        value = f"{extent - 1} - {value}" if len(term.axis) == 1 else f"{extent - 1} - ({value})"
    simple = value.isalpha()
    text = value if simple else f"({value})"
    if term.div != 1:
        text = f"{text} div {term.div}"
    if term.mod is not None:
        text = f"{text} mod {term.mod}" if term.div == 1 else f"({text}) mod {term.mod}"
    return f"({text})" if term.div != 1 or term.mod is not None or (" " in text and simple) else text


def _notes(layout: Layout, shape: Sequence[int]) -> list[str]:
    """The widths of partial slices, which the formula does not show."""
    counts = extents(layout, shape)
    notes = []
    for term in layout.terms:
        rest = counts[term.axis] % term.div
        if term.ragged and rest:
            notes.append(f"the last slice of {term.axis} has width {rest}, not {term.div}")
    return notes


def elements(
    layout: Layout, shape: Sequence[int], *, element: npt.DTypeLike | None = None, end: int | None = None
) -> list[tuple[int, ...] | None]:
    """The index of the element at each element-sized position in memory; None for padding. end: bytes after which to stop."""
    itemsize = item_size(layout, element)
    numbers = _numbers(layout, shape, itemsize)
    numbers = numbers[: None if end is None else -(-end // itemsize)]
    return [tuple(map(int, np.unravel_index(n - 1, tuple(shape)))) if n else None for n in numbers.tolist()]


def _numbers(layout: Layout, shape: Sequence[int], itemsize: int) -> npt.NDArray[np.int64]:
    """The number of the element at each position, from 1; 0 for padding."""
    array = np.arange(1, math.prod(shape) + 1).reshape(tuple(shape))
    size = nbytes(layout, shape, element=f"V{itemsize}")
    # Pack each byte of the numbers as the first byte of an element.
    result = np.zeros(-(-size // itemsize), np.int64)
    for byte in range(8):
        part = np.zeros((*array.shape, itemsize), np.uint8)
        part[..., 0] = array >> 8 * byte & 255
        packed: Bytes = pack(part.view(f"V{itemsize}")[..., 0], layout.of(None))
        digits = packed[::itemsize].astype(np.int64)
        result[: digits.size] |= digits << 8 * byte
        if array.size < 1 << 8 * (byte + 1):
            break
    return result


# --- pictures ------------------------------------------------------------------------------------------------------------

_COLORS = ("#cfe3f5", "#fde2b8", "#d5ecc8", "#f6cfd3", "#e2d5f0", "#d3eeea", "#f3ecb5", "#e8d8c9")
_CELL = 34
_ROW = 22
_LEFT = 64
_TOP = 46  # _CELL: minimum width
_LETTER = 6  # maximum width of a 10-point lower-case letter
_FEWEST, _MOST = 8, 32  # elements in a row


def svg(layout: Layout, shape: Sequence[int], *, element: npt.DTypeLike | None = None) -> str:
    """A picture of the memory: one cell per element, one color per outer slice."""
    itemsize = item_size(layout, element)
    size = nbytes(layout, shape, element=element)
    if size // itemsize > MAX_CELLS:
        refuse("DV805", f"a picture of {size // itemsize} elements is too large", f"a shape of {MAX_CELLS} at most")
    indices = elements(layout, shape, element=element)
    shown = [axis for axis, extent in enumerate(shape) if extent > 1] or list(range(len(shape)))
    comma = "," if max(shape) > 10 else ""
    texts = [None if index is None else comma.join(str(index[axis]) for axis in shown) for index in indices]
    cell = max(_CELL, _LETTER * max(len(text or "") for text in texts) + 4)
    columns = _columns(layout, shape, itemsize)
    rows = -(-len(indices) // columns)
    sizes = " ".join(f"{a}={n}" for a, n in zip(layout.axes, shape, strict=True))
    title = f"{layout.name or layout}: {sizes}, {size} bytes"
    caption = f"{layout}; cells hold {comma.join(layout.axes[axis] for axis in shown)}"
    width = max(_LEFT + columns * cell, 8 + 9 * len(title), 8 + 7 * len(caption)) + 12
    height = _TOP + rows * _ROW + 12
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="10">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="8" y="16" font-size="13">{html.escape(title)}</text>',
        f'<text x="8" y="34" fill="#555">{html.escape(caption)}</text>',
    ]
    for number, (index, text) in enumerate(zip(indices, texts, strict=True)):
        row, column = divmod(number, columns)
        y = _TOP + row * _ROW
        if column == 0:
            lines.append(f'<text x="{_LEFT - 6}" y="{y + 15}" text-anchor="end" fill="#555">{number * itemsize}</text>')
        color = None if index is None else _COLORS[_slice(layout, shape, index) % len(_COLORS)]
        lines.append(_cell(text, color, x=_LEFT + column * cell, y=y, width=cell))
    return "\n".join([*lines, "</svg>", ""])


def _cell(text: str | None, color: str | None, *, x: int, y: int, width: int) -> str:
    """color: None for padding."""
    box = f'<rect x="{x}" y="{y}" width="{width}" height="{_ROW}"'
    if color is None:
        return f'{box} fill="#eee" stroke="#ccc"/>'
    label = f'<text x="{x + width // 2}" y="{y + 15}" text-anchor="middle">{text}</text>'
    return f'{box} fill="{color}" stroke="#888"/>{label}'


def _slice(layout: Layout, shape: Sequence[int], index: Sequence[int]) -> int:
    """The index's outermost digit of more than one value."""
    counts = extents(layout, shape)
    at = dict(zip(layout.axes, index, strict=True))
    for term in layout.terms:
        slices = -(-counts[term.axis] // term.div) if term.mod is None else term.mod
        if slices > 1 and len(term.axis) == 1:
            return at[term.axis] // term.div if term.mod is None else at[term.axis] // term.div % term.mod
    return 0


def _columns(layout: Layout, shape: Sequence[int], itemsize: int) -> int:
    """Elements per row of the picture: the distance of the innermost term with 8 to 32, or a multiple of a smaller one."""
    best = 1
    for distance in reversed(distances(layout, shape, element=f"V{itemsize}").values()):
        if distance // itemsize > _MOST:
            break
        best = distance // itemsize
        if best >= _FEWEST:
            break
    return best * -(-_FEWEST // best)
