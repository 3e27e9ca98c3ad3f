"""The pictures of docs/pictures are readable and shown; tests/report has those of what `draw` draws."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cnn_convertor.devices.settings import Fusion
from development.pages.pictures import DRAWN, googlenet, module_of, pictures, places_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
every_diagram = pytest.mark.parametrize("name", sorted(pictures().keys() - DRAWN))


def test_pages_show_each_picture_with_a_text() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    shown = dict(re.findall(r"!\[([^]]+)\]\((?:\.\./)?pictures/([^)]+)\)", pages))
    assert {*shown.values()} == {*pictures()}  # a translation shows some again
    assert {path.name for path in (DOCS / "pictures").iterdir()} == set(pictures())


@every_diagram
def test_the_diagram_has_a_title_and_a_background(name: str) -> None:
    picture = ET.parse(DOCS / "pictures" / name).getroot()
    title, _, background = list(picture)[:3]
    assert title.tag.endswith("title") and title.text
    assert {side: background.attrib[side] for side in ("width", "height")} == {
        side: picture.attrib[side] for side in ("width", "height")
    }


@every_diagram
def test_texts_stay_inside_the_diagram(name: str) -> None:
    """The letters of DejaVu Sans, the widest of the usual fonts, are less than 0.64 of their height wide on average."""
    picture = ET.parse(DOCS / "pictures" / name).getroot()
    width, height = (float(picture.attrib[side]) for side in ("width", "height"))
    for text in (element for element in picture if element.tag.endswith("text")):
        needed = 0.64 * float(picture.attrib["font-size"]) * len(text.text or "")
        x, anchor = float(text.attrib["x"]), text.attrib["text-anchor"]
        left = x - needed * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        assert left >= 0 and left + needed <= width and 0 < float(text.attrib["y"]) < height, text.text


def test_both_levels_of_fusion_show_the_same_runs() -> None:
    none, proven = (
        {
            place.run.origins[0].layer: (place.row, place.column, place.run.output)
            for place in places_of(module_of(program), program)
        }
        for program in googlenet().values()
    )
    assert none == proven and len(none) == 7
    assert [len(module_of(googlenet()[level])) for level in (Fusion.NONE, Fusion.DOCUMENTED)] == [7, 1]
