"""Draws boxes, arrows and texts as SVG, readable on light and dark pages."""

from __future__ import annotations

import html
from typing import NamedTuple

COLORS = ("#cfe3f5", "#fde2b8", "#d5ecc8", "#f6cfd3", "#e2d5f0", "#d3eeea", "#f3ecb5", "#e8d8c9")
WHITE, PALE, GRAY, LINE, INK = "#fff", "#f4f4f4", "#555", "#888", "#222"
LINE_HEIGHT = 14
_TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0,0 L8,4 L0,8 z" fill="{GRAY}"/></marker>'
)


class Box(NamedTuple):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def center(self) -> float:
        """Halfway down."""
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height


class Drawing:
    """A picture of a fixed size. Later shapes cover earlier ones."""

    def __init__(self, width: int, height: int, *, title: str) -> None:
        frame = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {frame} role="img" font-family="sans-serif" font-size="11">',
            f"<title>{html.escape(title)}</title>",
            f"<defs>{_TIP}</defs>",
            f'<rect width="{width}" height="{height}" rx="6" fill="{WHITE}"/>',
        ]

    def box(self, box: Box, *texts: str, fill: str = WHITE, bold: bool = True) -> None:
        """A box with centered lines of text, the first one bold."""
        place = " ".join(f'{name}="{_number(value)}"' for name, value in box._asdict().items())
        self._lines.append(f'<rect {place} rx="3" fill="{fill}" stroke="{LINE}"/>')
        top = box.center - len(texts) * LINE_HEIGHT / 2 + 11
        for number, text in enumerate(texts):
            self.text(box.middle, top + number * LINE_HEIGHT, text, anchor="middle", bold=bold and number == 0)

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False, color: str = INK
    ) -> None:
        """y: of the baseline."""
        weight = ' font-weight="bold"' if bold else ""
        place = f'x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}"'
        self._lines.append(f'<text {place} fill="{color}"{weight}>{html.escape(text)}</text>')

    def line(self, *points: tuple[float, float], tip: bool = False, dashed: bool = False) -> None:
        """A line through points, with the tip of an arrow at its end if asked for."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        marks = (' marker-end="url(#tip)"' if tip else "") + (' stroke-dasharray="4 3"' if dashed else "")
        self._lines.append(f'<polyline points="{path}" fill="none" stroke="{GRAY}"{marks}/>')

    def svg(self) -> str:
        return "\n".join([*self._lines, "</svg>", ""])


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
