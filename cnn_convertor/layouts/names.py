"""Layouts by name: listed ones, patterns like NCHW16c and whc8, or text."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from cnn_convertor.errors import UsageError, near_names
from cnn_convertor.layouts import cldnn, dv700
from cnn_convertor.layouts.layout import Layout, Term, refuse
from cnn_convertor.layouts.notation import blocked, check_unique, natural_axes, parse, wrong_at
from cnn_convertor.layouts.nvdla import features, weights
from cnn_convertor.layouts.nvdla.memory_forms import FULL, LARGE, SMALL
from cnn_convertor.layouts.nvdla.pixels import FORMATS

_LONGEST = 400  # letters; Python neither reads nor shows numbers of more than 4300 digits


class Named(NamedTuple):
    """A listed layout."""

    family: str
    layout: Layout


def _nvdla() -> Iterator[Layout]:
    for form in (FULL, LARGE, SMALL):
        for p in form.kernels:
            yield features.feature_data(p, form)
            yield weights.direct(p, form)
            yield from (weights.image(p, rows, form) for rows in (1, 2, 4) if rows <= form.rows)
            if form is FULL:
                yield weights.winograd(p)
            yield weights.deconvolution(p, form)
            for size in range(p.element.itemsize, 3):  # operands of int8 have one byte or two
                yield from (features.operand(p, form, data_size=size, operands=n) for n in (1, 2))


_PLAIN = "NCHW NHWC NC CHW HWC NCDHW NDHWC NCHW8c NCHW16c NCHW32c OIHW OIHW16i16o"
_BPU = {  # strides come from the model: without alignment, and with aligned rows
    "bpu_nhwc": "nhwc: n h w c",
    "bpu_nchw": "nchw: n c h w",
    "bpu_y16": "nhwc: n h@16 w c | uint8",
    "bpu_y32": "nhwc: n h@32 w c | uint8",
}


def _families() -> Iterator[tuple[str, Iterable[Layout]]]:
    yield "plain", (replace(_tvm(name), name=name) for name in _PLAIN.split())
    yield "dv700", (dv700.feature_map(transposed=t, depth=d) for d in (False, True) for t in (False, True))
    yield "nvdla", _nvdla()
    yield "bpu", (replace(parse(text), name=name) for name, text in _BPU.items())
    names = chain(cldnn.DATA, cldnn.WEIGHTS, cldnn.SPECIAL, cldnn.BITS, cldnn.IMAGES)
    yield "cldnn", map(cldnn.format_of, names)


def layout_of(name: str) -> Layout:
    """The layout of a name or a text. Raises UsageError that points at the offending letter."""
    if name in LAYOUTS:
        return LAYOUTS[name].layout
    if len(name) > _LONGEST:
        refuse("DV800", f"it has {len(name)} letters, more than {_LONGEST}: {name[:40]}...")
    if name in cldnn.REFUSED:
        layout = cldnn.format_of(name)
    elif name in FORMATS:
        refuse("DV835", f'"{name}" is a format of pixels, {FORMATS[name]}', "layouts pack, unpack or convert")
    elif re.search(r"[ :/%|()@^=!#-]", name):
        return parse(name)
    elif name[:1].isupper():
        layout = _tvm(name)
    elif re.fullmatch("[a-z]+[0-9]+", name):
        layout = _chunked(name)
    elif re.fullmatch("[nchwdkrs]+", name):
        layout = _planar(name)
    else:
        layout = _cldnn_or_near(name)
    return replace(layout, name=name)


def _cldnn_or_near(name: str) -> Layout:
    try:
        return cldnn.format_of(name)
    except UsageError as error:
        near = near_names(name, LAYOUTS)
        if not near or error.problems[0].code != "DV800":
            raise
        raise UsageError([replace(p, hint=f"{near[0]} is a layout") for p in error.problems]) from None


def _planar(name: str) -> Layout:
    check_unique(name, name)
    terms = [Term(letter) for letter in name]
    return Layout(natural_axes(terms), tuple(terms))


def _tvm(name: str) -> Layout:
    """NCHW16c: capital letters are axes, outermost first; a number and a lower-case letter is a block."""
    outer: list[str] = []
    blocks: list[tuple[str, int]] = []
    at = 0
    while at < len(name):
        match = re.compile("([A-Z])|([0-9]+)([a-z]?)").match(name, at)
        if match is None:
            wrong_at(name, at, "expected an axis (a capital letter) or a block size")
        if match[1]:
            axis = match[1].lower()
            if blocks:
                wrong_at(name, at, "axes precede blocks")
            if axis in outer:
                wrong_at(name, at, f'duplicate axis "{match[1]}"')
            outer.append(axis)
        else:
            if not match[3]:
                wrong_at(name, match.end(), f"expected the axis (a lower-case letter) of the block of {match[2]}")
            if match[3] not in outer:
                wrong_at(name, match.end() - 1, f'blocks of "{match[3]}", but there is no axis "{match[3].upper()}"')
            if int(match[2]) < 2:
                wrong_at(name, at, "a block has 2 or more elements")
            blocks.append((match[3], int(match[2])))
        at = match.end()
    terms = blocked(outer, blocks)
    return Layout(natural_axes(terms), tuple(terms))


def _chunked(name: str) -> Layout:
    """whc8: the last letter's axis in chunks of 8, the last chunk unpadded; arrays are (n, d, h, w, c), named axes only."""
    letters = name.rstrip("0123456789")
    size = int(name[len(letters) :])
    check_unique(name, letters)
    if wrong := letters.strip("ndhwc"):
        wrong_at(name, letters.index(wrong[0]), "expected one of the axes n d h w c")
    if size < 2:
        wrong_at(name, len(letters), "a chunk has 2 or more elements")
    if len(letters) < 2:
        wrong_at(name, len(letters), "chunks need a second axis")
    chunked = letters[-1]
    batch = [Term("n")] if "n" in letters else []
    inner = [Term(axis) for axis in letters[:-1] if axis != "n"]
    terms = (*batch, Term(chunked, size, ragged=True), *inner, Term(chunked, 1, size))
    return Layout("".join(sorted(letters, key="ndhwc".index)), terms)


LAYOUTS = {layout.name: Named(family, layout) for family, layouts in _families() for layout in layouts}


# --- from one layout to another ------------------------------------------------------------------------------------------

# The families' names of the same axis.
_SYNONYMS = (("n", "b"), ("c", "f"), ("d", "z"), ("h", "y", "r"), ("w", "x", "s"), ("o", "k"))


def match_axes(layout: Layout, to: Layout, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order of axes, and then the shape, that turn an array of one layout into one of another.

    Axes match by letter or synonym; axes missing in the other layout must have extent 1.
    """
    meaning = {letter: names[0] for names in _SYNONYMS for letter in names}
    if "i" in layout.axes + to.axes or "o" in layout.axes + to.axes:  # weights: c is the input channel there
        meaning |= {"c": "i"}
    source = {meaning.get(letter, letter): axis for axis, letter in enumerate(layout.axes)}
    target = [meaning.get(letter, letter) for letter in to.axes]
    spare = [axis for letter, axis in source.items() if letter not in target]
    for axis in spare:
        if shape[axis] != 1:
            message = f'"{to.name or to}" has no axis for "{layout.axes[axis]}", which has length {shape[axis]}'
            refuse("DV802", message, "a layout with that axis")
    order = tuple(spare) + tuple(source[letter] for letter in target if letter in source)
    return order, tuple(shape[source[letter]] if letter in source else 1 for letter in target)
