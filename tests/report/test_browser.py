"""The page in a real browser: nothing is loaded, nothing fails, and everything can be used by keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.cli.overview import report_on
from cnn_convertor.config import Config
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.report.page import html_page
from cnn_convertor.report.values import Report
from report.networks import DIGITS, HOSTILE, convolution, joined, report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("fast_sugiyama", reason="fast-sugiyama is not installed")
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.rotating(turns=4, case="browser"),
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium"),
]


class Opened:
    """A page in the browser, and what happened there."""

    def __init__(self, page: Any, path: Path, text: str) -> None:
        self.page = page
        self.said: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append(dialog.message))
        page.on("request", lambda request: self.requests.append(request.url))
        path.write_text(text, encoding="utf-8")
        self.address = path.resolve().as_uri()
        page.goto(self.address)

    def column(self, table: str, number: int) -> list[str]:
        """The cells of a column of the rows that are shown."""
        rows = self.page.locator(f"{table} tbody tr:visible")
        return [rows.nth(i).locator("td").nth(number).inner_text() for i in range(rows.count())]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def digits() -> Report:
    return report_on(Config.read(DIGITS))


@pytest.fixture
def shown(page: Any, digits: Report, tmp_path: Path) -> Opened:
    return Opened(page, tmp_path / "digits.html", html_page(digits))


def test_nothing_is_loaded_and_nothing_fails(shown: Opened) -> None:
    shown.page.wait_for_load_state("load")
    assert shown.said == []
    assert [url for url in shown.requests if not url.startswith("data:")] == [shown.address]


def test_hostile_names_do_nothing(page: Any, tmp_path: Path) -> None:
    opened = Opened(page, tmp_path / "hostile.html", html_page(report(joined(HOSTILE))))
    for node in page.locator(".node").all():
        node.click()
        page.keyboard.press("Escape")
    assert opened.said == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [opened.address]


def test_every_step_is_one_node(shown: Opened, digits: Report) -> None:
    ids = [node.get_attribute("id") for node in shown.page.locator(".node[id^=step-]").all()]
    assert ids == [f"step-{number}" for number in range(len(digits.steps))]


def test_search_shows_the_rows_and_steps_that_have_the_words(shown: Opened) -> None:
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("narrow")
    names = shown.column("#layers", 0)
    assert names and all("narrow" in name for name in shown.column("#weights", 0))
    assert shown.page.locator(".node.found").count() >= 1
    shown.page.locator("#search").fill("")
    assert len(shown.column("#layers", 0)) > len(names)


def test_a_title_sorts_its_table_both_ways(shown: Opened, digits: Report) -> None:
    times = sorted(step.cost.cycles for step in digits.commands if step.cost is not None)
    button = shown.page.locator("#commands th button", has_text="cycles")
    for expected in (times, times[::-1]):
        button.press("Enter")
        assert [int(cell.replace(",", "")) for cell in shown.column(":nth-match(#commands table, 1)", 4)] == expected


def test_steps_open_and_close_by_keyboard(shown: Opened) -> None:
    node = shown.page.locator("#step-1")
    node.focus()
    shown.page.keyboard.press("Enter")
    details = shown.page.locator("#details")
    assert details.is_visible() and "registers" in details.inner_text()
    shown.page.keyboard.press("Escape")
    assert not details.is_visible()
    assert shown.page.evaluate("document.activeElement.id") == "step-1"
    shown.page.keyboard.press("ArrowDown")
    assert shown.page.evaluate("document.activeElement.id") == "step-2"


@pytest.mark.parametrize("width", [1280, 700, 400])
def test_a_link_leads_to_a_title_below_the_menu(shown: Opened, width: int) -> None:
    shown.page.set_viewport_size({"width": width, "height": 800})
    for key in ("network", "commands"):
        shown.page.locator(f'nav a[href="#{key}"]').click()
        below = "document.querySelector('nav').getBoundingClientRect().bottom"
        assert shown.page.evaluate(f"document.querySelector('#{key} h2').getBoundingClientRect().top >= {below}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(shown: Opened, scheme: str, tmp_path: Path) -> None:
    shown.page.emulate_media(color_scheme=scheme)
    for width in (1280, 700):
        shown.page.set_viewport_size({"width": width, "height": 900})
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    shown.page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
    assert (tmp_path / f"{scheme}.png").stat().st_size > 10_000


def test_it_prints(shown: Opened, tmp_path: Path) -> None:
    shown.page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


def test_500_layers_are_usable_within_two_seconds(browser: Any, tmp_path: Path) -> None:
    """Seconds of a processor, so that other work does not count; the best of three, as caches and clocks differ."""
    random, nodes = np.random.default_rng(0), [Node("x", ops.Input(Shape(8, 8, 8)))]
    for number in range(500):
        where = (Origin("net", f"layer{number}", "Conv2D"),)
        nodes.append(Node(f"n{number}", convolution(random), (nodes[-1].name,), where))
    made = report(Graph(tuple(nodes), (nodes[-1].name,)), fusion="none")
    assert len(made.commands) == 500
    text, seconds = html_page(made), []
    for _ in range(3):
        page = browser.new_page()
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable")
        Opened(page, tmp_path / "long.html", text)
        page.locator("#search").fill("layer499")
        assert page.locator("#commands tbody tr:visible").count() == 1
        found = {metric["name"]: metric["value"] for metric in metrics.send("Performance.getMetrics")["metrics"]}
        seconds.append(found["ProcessTime"])
        page.close()
        if seconds[-1] < 2:
            return
    pytest.fail(f"{seconds}")


# --- the picture of the network ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of 60 layers, which is higher than any window."""
    random, nodes = np.random.default_rng(0), [Node("x", ops.Input(Shape(8, 8, 8)))]
    for number in range(60):
        where = (Origin("net", f"layer{number}", "Conv2D"),)
        nodes.append(Node(f"n{number}", convolution(random), (nodes[-1].name,), where))
    path = tmp_path_factory.mktemp("long") / "long.html"
    path.write_text(html_page(report(Graph(tuple(nodes), (nodes[-1].name,)), fusion="none")), encoding="utf-8")
    return path


class Viewer:
    """The picture of the network, and what it shows."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page, self.picture, self.frame = page, page.locator("#network-picture"), page.locator(".viewer")
        page.goto(path.resolve().as_uri())
        self.frame.scroll_into_view_if_needed()

    @property
    def box(self) -> tuple[float, ...]:
        return tuple(map(float, self.picture.get_attribute("viewBox").split()))

    @property
    def middle(self) -> tuple[float, float]:
        place = self.frame.bounding_box()
        return place["x"] + place["width"] / 2, place["y"] + min(place["height"], 300) / 2


@pytest.fixture
def viewer(page: Any, long_page: Path) -> Viewer:
    return Viewer(page, long_page)


def test_the_picture_opens_readable_at_the_input(viewer: Viewer) -> None:
    _, y, across, _ = viewer.box
    place = viewer.frame.bounding_box()
    assert y == 0 and place["width"] / across >= 0.8
    assert viewer.page.locator(".minimap").is_visible()


def test_buttons_zoom_and_fit(viewer: Viewer) -> None:
    before = viewer.box
    viewer.page.get_by_role("button", name="Zoom in").click()
    assert viewer.box[2] < before[2]
    viewer.page.get_by_role("button", name="Fit").click()
    assert viewer.box[1] <= 0 and viewer.box[3] > 60 * 78
    assert not viewer.page.locator(".minimap").is_visible()
    viewer.page.get_by_role("button", name="1:1").click()
    assert viewer.box[2] == pytest.approx(viewer.frame.evaluate("each => each.clientWidth"), abs=1)


def test_keys_zoom_move_and_fit(viewer: Viewer) -> None:
    viewer.frame.focus()
    before = viewer.box
    viewer.page.keyboard.press("ArrowDown")
    assert viewer.box[1] > before[1] and viewer.box[2:] == before[2:]
    viewer.page.keyboard.press("+")
    assert viewer.box[2] < before[2]
    viewer.page.keyboard.press("0")
    assert viewer.box[3] > 60 * 78


def test_the_wheel_moves_and_zooms_at_the_pointer(viewer: Viewer) -> None:
    viewer.page.mouse.move(*viewer.middle)
    before = viewer.box
    viewer.page.mouse.wheel(0, 200)
    viewer.page.wait_for_function(
        "y => +document.querySelector('#network-picture').getAttribute('viewBox').split(' ')[1] > y", arg=before[1]
    )
    viewer.page.keyboard.down("Control")
    viewer.page.mouse.wheel(0, -200)
    viewer.page.wait_for_function(
        "w => +document.querySelector('#network-picture').getAttribute('viewBox').split(' ')[2] < w", arg=before[2]
    )
    viewer.page.keyboard.up("Control")


def test_a_drag_moves_and_opens_nothing(viewer: Viewer) -> None:
    node = viewer.page.locator("#step-1").bounding_box()
    x, y = node["x"] + 20, node["y"] + 20
    viewer.page.mouse.move(x, y)
    viewer.page.mouse.down()
    viewer.page.mouse.move(x, y - 60, steps=4)
    viewer.page.mouse.up()
    assert viewer.box[1] == pytest.approx(60, abs=2)
    assert not viewer.page.locator("#details").is_visible()
    viewer.page.locator("#step-2").click()
    assert viewer.page.locator("#details").is_visible()


def test_two_fingers_zoom(browser: Any, long_page: Path) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 800}, has_touch=True)
    viewer = Viewer(page, long_page)
    before, (x, y) = viewer.box, viewer.middle
    touch = page.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 80), ("touchEnd", 0)):
        points = [{"x": x - apart, "y": y, "id": 1}, {"x": x + apart, "y": y, "id": 2}] if apart else []
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_function(
        "w => +document.querySelector('#network-picture').getAttribute('viewBox').split(' ')[2] < w", arg=before[2] / 2
    )
    page.close()


def test_the_minimap_and_the_search_lead_to_a_place(viewer: Viewer) -> None:
    place = viewer.page.locator(".minimap").bounding_box()
    viewer.page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] * 0.9)
    assert viewer.box[1] > 40 * 78
    viewer.page.locator("#search").fill("layer30")
    assert 20 * 78 < viewer.box[1] < 32 * 78


# --- for everybody -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible(browser: Any, digits: Report, tmp_path: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # for the script that judges the page
    shown = Opened(context.new_page(), tmp_path / "digits.html", html_page(digits))
    for opens in (False, True):
        if opens:
            shown.page.locator(".node[role=button]").first.press("Enter")
        found = axe.Axe().run(shown.page).response
        assert len(found["passes"]) > 20
        assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
    context.close()


def test_a_printed_page_is_as_wide_as_the_paper(page: Any, digits: Report, tmp_path: Path) -> None:
    shown = Opened(page, tmp_path / "digits.html", html_page(digits))
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 at 96 dots an inch, without margins
    page.emulate_media(media="print")
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 718
