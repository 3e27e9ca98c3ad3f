"""Places points in a plot: two axes with their units, and which points are marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from cnn_convertor.report.pictures import Mark

_WIDTH: Final = 720  # of the picture, in its own units; pages scale it
_HEIGHT: Final = 424
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 32, 52, 76  # margins
_TICKS: Final = 5  # about as many on an axis


class ScatterPoint(NamedTuple):
    """mark: a short text beside the point; empty for a point that does not stand out."""

    x: float
    y: float
    name: str
    mark: str = ""


class PlottedPoint(NamedTuple):
    """A point in the picture. title: the names of all points at this place."""

    x: float
    y: float
    title: str
    mark: str


class ScatterPicture(NamedTuple):
    """Sizes in the picture's units. Marked points come last, on top of others."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    points: tuple[PlottedPoint, ...]
    across: tuple[Mark, ...]
    down: tuple[Mark, ...]


def scatter_picture(points: Sequence[ScatterPoint]) -> ScatterPicture:
    """The points, which are at least one, between axes that begin and end at a tick."""
    xs = _ticks([point.x for point in points])
    ys = _ticks([point.y for point in points])
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    places: dict[tuple[float, float], list[ScatterPoint]] = {}
    for point in points:
        place = round(_between(point.x, xs, _LEFT, right), 1), round(_between(point.y, ys, bottom, _TOP), 1)
        places.setdefault(place, []).append(point)
    plotted = (
        PlottedPoint(x, y, "; ".join(each.name for each in here), ", ".join(each.mark for each in here if each.mark))
        for (x, y), here in places.items()
    )
    return ScatterPicture(
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=right,
        top=_TOP,
        bottom=bottom,
        points=tuple(sorted(plotted, key=lambda point: bool(point.mark))),
        across=_placed(xs, _LEFT, right),
        down=_placed(ys, bottom, _TOP),
    )


def _ticks(numbers: Sequence[float]) -> list[float]:
    """Round numbers at equal distances, from below the least to above the largest."""
    low, high = min(numbers), max(numbers)
    spread = (high - low) or abs(high) / 10 or 1.0
    power = 10.0 ** math.floor(math.log10(spread / _TICKS))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= spread / _TICKS)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _between(number: float, ticks: Sequence[float], start: float, end: float) -> float:
    return start + (end - start) * (number - ticks[0]) / (ticks[-1] - ticks[0])


def _placed(ticks: Sequence[float], start: float, end: float) -> tuple[Mark, ...]:
    digits = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    return tuple(Mark(round(_between(tick, ticks, start, end), 1), f"{tick:,.{digits}f}") for tick in ticks)
