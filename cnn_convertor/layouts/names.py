"""Layouts by name: of every family, of the patterns NCHW16c and whc8, or written down as text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from cnn_convertor.errors import UsageError
from cnn_convertor.layouts import cldnn, dv700
from cnn_convertor.layouts.layout import Layout, Term, refuse
from cnn_convertor.layouts.nvdla import features, weights
from cnn_convertor.layouts.nvdla.pixels import FORMATS
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.text import natural_axes, parse, wrong_at


class Entry(NamedTuple):
    family: str
    name: str
    make: Callable[[], Layout]


def _nvdla() -> list[Entry]:
    entries = []
    for p in Precision:
        made = [
            features.feature_data(p),
            weights.direct(p),
            weights.image(p),
            weights.image(p, 2),
            weights.image(p, 4),
            weights.winograd(p),
            weights.deconvolution(p),
            *(features.operand(p, data_size=p.element.itemsize, operands=n) for n in (1, 2)),
        ]
        if p is Precision.INT8:
            made += [features.operand(p, data_size=2, operands=n) for n in (1, 2)]
        entries += [Entry("nvdla", layout.name, lambda layout=layout: layout) for layout in made]  # type: ignore[misc]
    return entries


def _plain() -> list[Entry]:
    names = ("NCHW", "NHWC", "NC", "CHW", "HWC", "NCDHW", "NDHWC", "NCHW8c", "NCHW16c", "NCHW32c", "OIHW", "OIHW16i16o")
    return [Entry("plain", name, lambda name=name: _tvm(name)) for name in names]  # type: ignore[misc]


def _dv700() -> list[Entry]:
    return [
        Entry("dv700", layout.name, lambda layout=layout: layout)  # type: ignore[misc]
        for depth in (False, True)
        for transposed in (False, True)
        for layout in [dv700.feature_map(transposed=transposed, depth=depth)]
    ]


def _cldnn() -> list[Entry]:
    names = (*cldnn.DATA, *cldnn.WEIGHTS, *cldnn.SPECIAL, *cldnn.BITS, *cldnn.IMAGES)
    return [Entry("cldnn", name, lambda name=name: cldnn.format_of(name)) for name in names]  # type: ignore[misc]


def _bpu() -> list[Entry]:
    # Strides come from the model; these are the layouts where nothing is aligned, and where rows are.
    texts = {
        "bpu_nhwc": "nhwc: n h w c",
        "bpu_nchw": "nchw: n c h w",
        "bpu_y16": "nhwc: n h@16 w c | uint8",
        "bpu_y32": "nhwc: n h@32 w c | uint8",
    }
    return [
        Entry("bpu", name, lambda name=name, text=text: replace(parse(text), name=name))  # type: ignore[misc]
        for name, text in texts.items()
    ]


ENTRIES: dict[str, Entry] = {entry.name: entry for entry in (*_plain(), *_dv700(), *_nvdla(), *_bpu(), *_cldnn())}


def layout_of(name: str) -> Layout:
    """The layout that is called so, or that the text describes. Raises UsageError that shows what is wrong at which letter."""
    if name in ENTRIES:
        layout = ENTRIES[name].make()
    elif name in cldnn.REFUSED:
        layout = cldnn.format_of(name)
    elif name in FORMATS:
        reason = f'"{name}" is no layout of an array, but pixels of {FORMATS[name]}'
        refuse("DV835", reason, "layout pack, unpack or convert")
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
        near = difflib.get_close_matches(name, ENTRIES, 1)
        if not near or error.problems[0].code != "DV800":
            raise
        raise UsageError([replace(p, hint=f"{near[0]} is a layout") for p in error.problems]) from None


def _planar(name: str) -> Layout:
    for at, letter in enumerate(name):
        if letter in name[:at]:
            wrong_at(name, at, f'the axis "{letter}" comes twice')
    terms = [Term(letter) for letter in name]
    return Layout(natural_axes(terms), tuple(terms))


def _tvm(name: str) -> Layout:
    """NCHW16c: capital letters are axes, outermost first, a number and a small letter is a block."""
    outer: dict[str, int] = {}
    blocks: list[tuple[str, int]] = []
    at = 0
    while at < len(name):
        found = re.compile("([A-Z])|([0-9]+)([a-z]?)").match(name, at)
        if found is None:
            wrong_at(name, at, "here should be an axis (a capital letter) or a block's size")
        if found[1]:
            axis = found[1].lower()
            if blocks:
                wrong_at(name, at, "axes stand before the blocks, not behind")
            if axis in outer:
                wrong_at(name, at, f'the axis "{found[1]}" comes twice')
            outer[axis] = at
        else:
            if not found[3]:
                wrong_at(name, found.end(), f"here should be the axis (a small letter) of the block of {found[2]}")
            if found[3] not in outer:
                wrong_at(name, found.end() - 1, f'blocks of "{found[3]}", but there is no axis "{found[3].upper()}"')
            if int(found[2]) < 2:
                wrong_at(name, at, "a block holds 2 or more")
            blocks.append((found[3], int(found[2])))
        at = found.end()
    whole = dict.fromkeys(outer, 1)
    for axis, size in blocks:
        whole[axis] *= size
    terms = [Term(axis, whole[axis]) for axis in outer]
    for axis, size in blocks:
        whole[axis] //= size
        terms.append(Term(axis, whole[axis], size))
    return Layout(natural_axes(terms), tuple(terms))


def _chunked(name: str) -> Layout:
    """whc8: the last letter's axis in chunks of 8, the last chunk narrow; arrays are (n, d, h, w, c) as far as named."""
    letters = name.rstrip("0123456789")
    size = int(name[len(letters) :])
    for at, letter in enumerate(letters):
        if letter in letters[:at]:
            wrong_at(name, at, f'the axis "{letter}" comes twice')
        if letter not in "ndhwc":
            wrong_at(name, at, "here should be one of the axes n d h w c")
    if size < 2:
        wrong_at(name, len(letters), "a chunk holds 2 or more")
    if len(letters) < 2:
        wrong_at(name, len(letters), "a chunk of one axis alone changes nothing")
    chunked = letters[-1]
    batch = [Term("n")] if "n" in letters else []
    terms = [
        *batch,
        Term(chunked, size, ragged=True),
        *(Term(a) for a in letters[:-1] if a != "n"),
        Term(chunked, 1, size),
    ]
    return Layout("".join(sorted(letters, key="ndhwc".index)), tuple(terms))


# --- from one layout to another ------------------------------------------------------------------------------------------

# What different families call the same axis.
_SYNONYMS = (("n", "b"), ("c", "f"), ("d", "z"), ("h", "y", "r"), ("w", "x", "s"), ("o", "k"))


def match_axes(given: Layout, to: Layout, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How an array of one layout becomes one of another: the order of its axes, and its shape after that.

    Axes are the same by letter, or by what the families call them; those that the other layout has not must be of extent 1.
    """
    meaning = {letter: names[0] for names in _SYNONYMS for letter in names}
    if "i" in given.axes + to.axes or "o" in given.axes + to.axes:  # weights: c is the input channel there
        meaning |= {"c": "i"}
    source = {meaning.get(letter, letter): axis for axis, letter in enumerate(given.axes)}
    target = [meaning.get(letter, letter) for letter in to.axes]
    spare = [axis for letter, axis in source.items() if letter not in target]
    for axis in spare:
        if shape[axis] != 1:
            message = f'"{to.name or to}" has no axis for "{given.axes[axis]}", which is {shape[axis]} long'
            refuse("DV802", message, "a layout with that axis")
    order = tuple(spare) + tuple(source[letter] for letter in target if letter in source)
    return order, tuple(shape[source[letter]] if letter in source else 1 for letter in target)
