"""The page docs/layouts.md, descriptions and pictures match the layouts."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from cnn_convertor.errors import UsageError
from cnn_convertor.layouts import describe, layout_of, offset, pack, svg
from cnn_convertor.layouts.describe import elements, formula
from development.pages.layouts import page, pictures

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_shows_every_picture() -> None:
    assert set(re.findall(r"\(layouts/([^)]+)\)", page())) == set(pictures())
    assert {path.name for path in (DOCS / "layouts").iterdir()} == set(pictures())


@pytest.mark.parametrize("picture", pictures().values(), ids=list(pictures()))
def test_pictures_are_xml(picture: str) -> None:
    assert ET.fromstring(picture).tag.endswith("svg")


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("b_fs_yx_fsv16", (2, 20, 2, 3)),
        ("nvdla_feature_int16", (20, 2, 3)),
        ("hw: -h w/2 w%2", (3, 5)),
        ("gs_oi_yxs_gsv4_yxsv4", (3, 1, 2, 3, 3)),
        ("os_is_yx_isa8_osv8_isv4", (9, 33, 1, 2)),
        ("NHWC", (2, 3, 4, 5)),
    ],
)
def test_the_formula_gives_the_offset(name: str, shape: tuple[int, ...]) -> None:
    layout = layout_of(name)
    python = formula(layout, shape).replace("div", "//").replace("mod", "%")
    for index in np.ndindex(*shape):
        assert eval(python, dict(zip(layout.axes, index, strict=True))) == offset(layout, shape, index)


def test_elements_match_packing() -> None:
    layout = layout_of("chw: c/3!@8 h w c%3")
    shape = (4, 5, 70)
    array = np.arange(1, 1401, dtype=np.int16).reshape(shape)
    memory = pack(array, layout).view(np.int16)
    found = elements(layout, shape, element=np.int16)
    assert [0 if index is None else array[index] for index in found] == memory.tolist()


def test_a_description_shows_the_first_elements() -> None:
    text = describe(layout_of("b_fs_yx_fsv16"), (2, 2, 2, 2), first=3)
    assert text.splitlines()[-3:] == [
        "       0 => [b=0; f=0; y=0; x=0]",
        "       1 => [b=0; f=1; y=0; x=0]",
        "       2 => [padding]",
    ]
    assert "128 bytes, 112 of them padding" in text


def test_large_arrays_are_described_without_a_search() -> None:
    assert "=>" not in describe(layout_of("NCHW"), (1, 1 << 20, 1 << 10, 1 << 10))


def test_a_description_shows_the_width_of_the_last_slice() -> None:
    assert "the last slice of c has width 4, not 8" in describe(layout_of("whc8"), (3, 2, 12))


@pytest.mark.parametrize(
    ("name", "shape", "columns"),
    [
        ("bpu_y16", (1, 3, 10, 1), 16),
        ("whc8", (3, 2, 12), 8),
        ("nvdla_weight_int16", (18, 4, 1, 2), 8),
        ("nvdla_weight_int16", (17, 3, 1, 2), 9),
        ("os_is_yx_isv8_osv16_isv2", (3, 4, 1, 1), 32),
        ("chw: h@64 w c", (2, 3, 4), 8),
        ("NCHW", (1, 1, 1, 1), 8),
        ("c", (1000,), 8),
    ],
)
def test_a_picture_has_each_element_in_its_place(name: str, shape: tuple[int, ...], columns: int) -> None:
    """Rows of cells with their elements, padding in gray; all texts fit their cells, all cells fit the frame."""
    layout = layout_of(name)
    drawn = ET.fromstring(svg(layout, shape))
    width, height = (int(drawn.attrib[side]) for side in ("width", "height"))
    frame, *cells = (node.attrib for node in drawn if node.tag.endswith("rect"))
    assert (frame["width"], frame["height"]) == (str(width), str(height))
    title, caption, *texts = (node for node in drawn if node.tag.endswith("text"))
    assert 8 + 7 * len(title.text or "") < width and 8 + 5.5 * len(caption.text or "") < width
    labels = {(n.attrib["x"], n.attrib["y"]): n.text or "" for n in texts if n.get("text-anchor") == "middle"}
    offsets = [int(n.text or "") for n in texts if n.get("text-anchor") == "end"]
    size = layout.element.itemsize if layout.element else 1
    assert offsets == [row * columns * size for row in range(len(offsets))]
    comma = "," if max(shape) > 10 else ""
    places = elements(layout, shape)
    assert len(cells) == len(places) <= columns * len(offsets)
    for number, (cell, index) in enumerate(zip(cells, places, strict=True)):
        x, y, wide = (int(cell[key]) for key in ("x", "y", "width"))
        assert (x, y) == (64 + number % columns * wide, 46 + number // columns * 22)
        assert x + wide <= width and y + 22 <= height
        said = labels.pop((str(x + wide // 2), str(y + 15)), None)
        if index is None:
            assert said is None and cell["fill"] == "#eee"
            continue
        long = [str(i) for i, extent in zip(index, shape, strict=True) if extent > 1]
        assert said == (comma.join(long) or "0" * len(shape)) and 5.6 * len(said) < wide
    assert not labels


def test_pictures_of_large_arrays_are_refused() -> None:
    with pytest.raises(UsageError, match="DV805"):
        svg(layout_of("NCHW"), (1, 3, 224, 224))


@pytest.mark.parametrize("picture", pictures().values(), ids=list(pictures()))
def test_texts_of_a_picture_fit_their_cells(picture: str) -> None:
    """The letters of DejaVu Sans, the widest of the usual fonts, are less than 0.64 of their height wide on average."""
    drawing = ET.fromstring(picture)
    room = whole = float(drawing.attrib["width"])
    for element in drawing:
        if element.tag.endswith("rect"):
            room = float(element.attrib["width"])
            assert float(element.attrib.get("x", "0")) + room <= whole
        else:
            needed = 0.64 * float(element.attrib.get("font-size", "10")) * len(element.text or "")
            x, anchor = float(element.attrib["x"]), element.attrib.get("text-anchor", "start")
            assert needed <= {"start": whole - x, "middle": room, "end": x}[anchor]
