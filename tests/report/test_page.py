"""The page needs nothing else, and shows what models contain as text."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cnn_convertor.cli.overview import report_on
from cnn_convertor.config import Config
from cnn_convertor.devices.facts import CalibrationEffect, Gain, LayerGain
from cnn_convertor.files.codec import to_values
from cnn_convertor.report import page_of, sections
from cnn_convertor.report.comparison import differences
from cnn_convertor.report.page import html_page, memory_svg, network_svg
from cnn_convertor.report.summary import summary
from report.networks import DIGITS, HOSTILE, board_verification, joined, report, verification


class Page(HTMLParser):
    """The elements of a page with their attributes, and the texts of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        (self.scripts if self._in_script else self.texts).append(data)


@pytest.fixture
def hostile() -> str:
    made = report(joined(HOSTILE))
    return html_page(made, compared=differences(report(), made))


def test_names_of_layers_with_any_characters_are_text(hostile: str) -> None:
    harmless = html_page(report(joined()), compared=differences(report(), report(joined())))
    page, other = Page(hostile), Page(harmless)
    kinds = {tag for tag, _ in page.elements}
    assert kinds <= {tag for tag, _ in other.elements} | {"table", "tbody", "tr", "td", "th", "thead", "div", "button"}
    assert len(page.scripts) == 2
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in "".join(page.texts)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e\ufffe]", hostile)


def test_the_data_of_the_page_is_the_report(hostile: str) -> None:
    made = report(joined(HOSTILE))
    (data, _) = Page(hostile).scripts
    assert json.loads(data) == json.loads(json.dumps(to_values(made)))
    assert not set("<>&") & set(data), "nothing that ends a script element, or begins a comment in it"


def test_the_page_loads_nothing_and_allows_only_its_own_script(hostile: str) -> None:
    page = Page(hostile)
    targets = [a[n] for _, a in page.elements for n in ("src", "href", "action", "data", "srcset") if a.get(n)]
    assert all(target and (target.startswith("#") or target == "data:,") for target in targets)
    assert "url(" not in re.sub(r"url\(#tip\)", "", hostile) and "@import" not in hostile
    (policy,) = (a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert policy is not None and "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy


def test_identifiers_of_elements_are_unique_and_links_lead_to_them(hostile: str) -> None:
    page = Page(hostile)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"] for tag, a in page.elements if tag == "a"} <= {f"#{each}" for each in ids}


def test_pictures_are_well_formed_for_any_names() -> None:
    made = report(joined(HOSTILE))
    assert ET.fromstring(memory_svg(made)).tag.endswith("svg")
    pytest.importorskip("fast_sugiyama")
    root = ET.fromstring(network_svg(made))
    boxes = [each for each in root.iter() if each.get("id", "").startswith("step-")]
    assert len(boxes) == len(made.steps)


PICTURES = Path(__file__).resolve().parents[2] / "templates" / "report_picture.css"
COLORS = re.findall(r"\.picture \{([^}]*--paper[^}]*)\}", PICTURES.read_text(encoding="utf-8"))


def luminance(color: tuple[float, ...]) -> float:
    """By WCAG 2.1. color: red, green and blue, 0 to 255."""
    parts = (c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


@pytest.mark.parametrize("colors", COLORS, ids=["light", "dark", "print"])
def test_texts_of_pictures_stand_out_from_every_heat(colors: str) -> None:
    named = {
        name: tuple(bytes.fromhex(value if len(value) == 6 else "".join(c * 2 for c in value)))
        for name, value in re.findall(r"--(\w+): #(\w+)", colors)
    }
    for place in ("device", "cpu", "none", "given", "join"):
        for heat in (0.0, 0.3, 0.6):  # the opacity of the red
            below = tuple(a * (1 - heat) + b * heat for a, b in zip(named[place], named["heat"], strict=True))
            dark, light = sorted((luminance(below), luminance(named["ink"])))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (place, heat)


def test_a_picture_alone_has_nothing_to_press() -> None:
    pytest.importorskip("fast_sugiyama")
    made = report()
    assert "button" not in network_svg(made) and "tabindex" not in network_svg(made)
    assert 'class="node device" id="step-0" tabindex="0" role="button"' in html_page(made)


def test_errors_are_shown_along_the_network() -> None:
    texts = Page(html_page(replace(report(), verified=verification()))).texts
    assert {"35.5", "exact", "outputs without its palette: 40.2 dB"} <= set(texts)
    assert any("Compared with Keras on 2 samples (made up): not passed, 20 dB wanted." in text for text in texts)


def test_ratios_without_a_number_sort_beyond_all_others() -> None:
    made = replace(report(), verified=verification(), board=board_verification(report()))
    ((row, *_),) = (table.rows for table in sections.errors(made).tables)
    assert [(cell.text, cell.value) for cell in row.cells if cell.kind == "number"] == [("35.5", 35.5), ("exact", 999)]
    (rows,) = (table.rows for table in sections.board(made).tables)
    assert [(row.cells[-1].text, row.cells[-1].value) for row in rows][:2] == [("61.2", 61.25), ("", -1000)]


def test_what_palettes_of_single_layers_cost_is_shown() -> None:
    layers = LayerGain("first", 40.0, 52.5, 54.0), LayerGain("second", 35.0, 41.25, 43.0)
    effect = CalibrationEffect(3, 1, "made up", (Gain("z", 34.0, 40.9),), layers)
    texts = Page(html_page(replace(report(), calibration=effect))).texts
    assert {"52.5", "54.0", "41.2", "43.0"} <= set(texts)
    assert any(text.endswith("FP16 weights probably pay most in second.") for text in texts)


def test_no_layer_pays_where_nothing_is_lost() -> None:
    exact = CalibrationEffect(3, 1, "made up", (), (LayerGain("first", math.inf, math.inf, math.inf),))
    assert exact.worst_layer is None
    assert not any("pay most" in text for text in Page(html_page(replace(report(), calibration=exact))).texts)


def test_a_board_is_shown_beside_the_model() -> None:
    made = replace(report(), board=board_verification(report()))
    texts = Page(html_page(made)).texts
    assert (
        "board",
        "0.03 ms on the device, 0.005 ms on the CPU, 0.007 ms between them; a board computes something else",
    ) in summary(made)
    assert {"0.50", "the same", "something else", "61.2", "4,096"} <= set(texts)
    assert any("a board: 2 samples (random), not passed. All commands: 30 us (60.0 by the model)" in t for t in texts)


def test_the_first_numbers_are_those_of_the_report() -> None:
    made = report_on(Config.read(DIGITS))
    texts = [text.strip() for text in Page(html_page(made)).texts]
    first = {words.partition(",")[0]: number for number, words in pairwise(texts)}
    assert made.macs > 50_000
    assert first["multiplications"] == f"{made.macs / 1_000_000:,.1f} M"
    assert first["bytes of weights"] == f"{made.weight_bytes:,}"
    assert (first["commands on the device"], first["layers on the CPU"]) == ("6", "1")


def test_the_same_report_gives_the_same_page() -> None:
    assert html_page(report()) == html_page(report())


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    made = report(joined(HOSTILE))
    ((tag, attributes),) = Page(page_of(made)).elements
    assert tag == "iframe" and attributes["srcdoc"] == html_page(made)
    assert attributes["sandbox"] == "allow-scripts", "without allow-same-origin"
