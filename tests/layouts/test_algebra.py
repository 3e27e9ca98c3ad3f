"""Layouts as values: packing compared with offsets, sizes, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn_convertor.errors import UsageError
from cnn_convertor.layouts.layout import AxisPadding, Layout, Term, nbytes, offset
from cnn_convertor.layouts.names import LAYOUTS, layout_of
from cnn_convertor.layouts.notation import parse
from cnn_convertor.layouts.packing import pack, unpack

ELEMENTS = [np.int8, np.float16, np.int32, np.float64]


def numbered(shape: tuple[int, ...], element: Any = np.int32) -> np.ndarray[Any, Any]:
    """1, 2, 3 ... without zeros, so that zeros are padding."""
    return (np.arange(math.prod(shape)) % 100 + 1).astype(element).reshape(shape)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any layout of up to 4 axes: up to two levels of blocks in any order, strides, flips, ragged slices."""
    axes = draw(st.sampled_from(["c", "hw", "chw", "nchw"]))
    groups = list(axes)
    if len(axes) > 1 and draw(st.booleans()):
        groups = ["".join(draw(st.permutations(axes[-2:]))), *axes[:-2]]
    terms: list[Term] = []
    for group in groups:
        blocks = draw(st.lists(st.integers(2, 5), max_size=2))
        ragged = bool(blocks) and draw(st.booleans())
        div = math.prod(blocks)
        align = 1 if ragged else draw(st.sampled_from([1, 1, 4]))
        digits = [Term(group, div, None, ragged, draw(st.booleans()), align, draw(st.sampled_from([1, 1, 24])))]
        for size in blocks:
            div //= size
            digits.append(Term(group, div, size, pitch_align=draw(st.sampled_from([1, 1, 16]))))
        terms += digits
    order = draw(st.permutations(range(len(terms))))
    terms = [terms[number] for number in order]
    for group in groups:  # ragged slices have their digits inside
        places = [number for number, term in enumerate(terms) if term.axis == group]
        ordered = sorted((terms[number] for number in places), key=lambda term: -term.div)
        if ordered[0].ragged:
            for place, term in zip(places, ordered, strict=True):
                terms[place] = term
    return Layout(axes, tuple(terms), total_align=draw(st.sampled_from([1, 32])))


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@settings(max_examples=250)
@given(st.data())
def test_packing_puts_each_element_at_its_offset_and_unpacking_inverts_it(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    shape = tuple(data.draw(st.integers(1, 7)) for _ in layout.axes)
    pads = st.builds(AxisPadding, st.integers(0, 3), st.integers(0, 2))
    padding = {axis: data.draw(pads) for axis in layout.axes if data.draw(st.booleans())}
    array = numbered(shape, data.draw(st.sampled_from(ELEMENTS)))
    size = array.dtype.itemsize

    memory = pack(array, layout, padding=padding)
    buffer = np.full(memory.size, 255, np.uint8)
    assert pack(array, layout, buffer, padding=padding).tobytes() == buffer.tobytes() == memory.tobytes()

    assert memory.size == nbytes(layout, shape, element=array.dtype, padding=padding)
    assert memory.size % layout.total_align == 0
    places = [offset(layout, shape, i, element=array.dtype, padding=padding) for i in np.ndindex(*shape)]
    for place, value in zip(places, array.ravel(), strict=True):
        assert memory[place : place + size].tobytes() == value.tobytes()
    covered = {byte for place in places for byte in range(place, place + size)}
    assert len(covered) == array.nbytes  # no two elements share a byte
    assert not np.delete(memory, sorted(covered)).any()
    np.testing.assert_array_equal(unpack(memory, layout, shape, element=array.dtype, padding=padding), array)


@settings(max_examples=100)
@given(layouts())
def test_printing_and_parsing_are_inverse(layout: Layout) -> None:
    assert parse(str(layout)) == layout


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_named_layout_packs_at_its_offsets(name: str) -> None:
    layout = layout_of(name)
    shape = tuple(
        {"b": 3, "n": 2, "p": 2, "k": 35, "o": 34, "f": 35, "i": 36, "c": 66}.get(axis, 2) for axis in layout.axes
    )
    if math.prod(shape) > 9000:
        shape = tuple(min(n, 33) for n in shape)
    array = numbered(shape, layout.element or np.int16)
    memory = pack(array, layout)
    size = array.dtype.itemsize
    assert memory.ctypes.data % layout.base_align == 0
    assert memory.size == nbytes(layout, shape, element=array.dtype)
    random = np.random.default_rng(0)
    for _ in range(60):
        index = tuple(int(random.integers(n)) for n in shape)
        place = offset(layout, shape, index, element=array.dtype)
        assert memory[place : place + size].tobytes() == array[index].tobytes()
    assert np.count_nonzero(memory.view(array.dtype)) == array.size
    np.testing.assert_array_equal(unpack(memory, layout, shape, element=array.dtype), array)


@pytest.mark.parametrize("text", ["c/2 h w c%2", "c/8! w h c%8", "c/32 h w c%32", "w h c", "c h w", "-h c/3 w c%3"])
def test_large_arrays_are_packed_as_small_ones(text: str) -> None:
    layout = parse(f"chw: {text}")
    array = np.arange(37 * 60 * 50, dtype=np.int32).reshape(37, 60, 50)
    memory = pack(array, layout)
    random = np.random.default_rng(0)
    for _ in range(200):
        index = tuple(int(random.integers(n)) for n in array.shape)
        place = offset(layout, array.shape, index, element=np.int32)
        assert memory[place : place + 4].view(np.int32)[0] == array[index]
    np.testing.assert_array_equal(unpack(memory, layout, array.shape, element=np.int32), array)


def test_packing_writes_only_its_bytes_of_the_caller_s_buffer() -> None:
    layout, array = parse("chw: c/4@32 h w c%4"), numbered((5, 2, 3), np.int16)
    size = nbytes(layout, array.shape, element=np.int16)
    buffer = bytearray(b"\xff" * (size + 8))
    pack(array, layout, buffer)
    assert buffer[:size] == pack(array, layout).tobytes()
    assert buffer[size:] == b"\xff" * 8
    kept = bytearray(b"\xff" * size)
    pack(array, layout, kept, fill=False)
    assert kept.count(b"\xff") == size - array.nbytes
    out = np.empty(array.shape, np.int16)
    assert unpack(memoryview(buffer), layout, array.shape, element=np.int16, out=out) is out
    np.testing.assert_array_equal(out, array)


def test_arrays_in_the_right_order_are_not_copied() -> None:
    array = numbered((2, 3, 4))
    memory = pack(array.transpose(1, 2, 0), parse("hwc: c h w"), copy=False)
    assert np.shares_memory(memory, array)
    layout = parse("chw: -h w@32 c=8")
    view = unpack(pack(array, layout), layout, array.shape, element=np.int32, copy=False)
    assert not view.flags.owndata
    np.testing.assert_array_equal(view, array)
    blocked = parse("chw: c/2 h w c%2")
    np.testing.assert_array_equal(
        unpack(pack(array, blocked, copy=False), blocked, array.shape, element=np.int32, copy=False), array
    )


def test_values_are_little_endian() -> None:
    assert pack(np.array([0x0102], ">i2"), parse("c")).tolist() == [2, 1]


def test_floating_point_values_keep_their_bits() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(256, 16, 16)
    layout = parse("chw: c/16 h w c%16")
    back = unpack(pack(patterns, layout), layout, patterns.shape, element=np.float16)
    np.testing.assert_array_equal(back.view(np.uint16), patterns.view(np.uint16))


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ("c/8 h c%9", 'counts in steps of 8, but its lower digits count up to 9'),
        ("c/8 h c%4", "count up to 4"),
        ("c%8 h", '"c%8" does not cover its axis'),
        ("c c h", "only the top digit may"),
        ("(ch) c", "occurs alone and merged"),
        ("c%8 c/8! h", "needs a lower digit further inside"),
        ("c! h", "needs a lower digit further inside"),
        ("c/4! h -c%4", "belong to the top digit"),
        ("c/4!^8 h c%4", "exclude each other"),
        ("c/4#^8 h c%4", "exclude each other"),
        ("c/4 h c%4#", "belong to the top digit"),
    ],
)  # fmt: skip
def test_contradictory_terms_are_errors(terms: str, message: str) -> None:
    with pytest.raises(UsageError, match="DV801") as error:
        parse(terms)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: nbytes(parse("c h=4 w"), (1, 2, 3), element=np.int16), "DV803"),
        (lambda: nbytes(parse("c h=12@8 w"), (1, 2, 3), element=np.int16), "DV803"),
        (lambda: nbytes(parse("c h w"), (1, 2)), "DV802"),
        (lambda: nbytes(parse("c h w"), (1, 0, 3)), "DV802"),
        (lambda: nbytes(parse("c h"), (1, 2), padding={"x": AxisPadding(1)}), "DV802"),
        (lambda: nbytes(parse("c h"), (1, 2), padding={"c": AxisPadding(-1)}), "DV802"),
        (lambda: offset(parse("c h"), (1, 2), (0, 2)), "DV802"),
        (lambda: pack(np.zeros((1, 2)), parse("c h | float16")), "DV804"),
        (lambda: pack(np.zeros((1, 2)), parse("c h"), bytearray(15)), "DV804"),
        (lambda: pack(np.zeros((1, 2)), parse("c h"), bytes(16)), "DV804"),
        (lambda: unpack(bytes(15), parse("c h"), (1, 2), element=np.float64), "DV804"),
        (lambda: unpack(bytes(16), parse("c h"), (1, 2)), "DV804"),
        (lambda: unpack(bytes(16), parse("c h | int8"), (1, 2), element=np.int16), "DV804"),
        (lambda: unpack(bytes(2), parse("c h | int8"), (1, 2), out=np.zeros((1, 2))), "DV804"),
        (lambda: pack(np.array([None]), parse("c")), "DV804"),
    ],
)
def test_arrays_that_do_not_fit_are_errors(call: Any, code: str) -> None:
    with pytest.raises(UsageError, match=code):
        call()
