"""Places what a report shows: the steps of a network in layers, and its maps in memory over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cnn_convertor.devices.facts import Step
from cnn_convertor.report.layering import Point, layered
from cnn_convertor.report.values import LiveMap, MemoryUse, Report

# --- the network ---------------------------------------------------------------------------------------------------------

BOX_WIDTH, BOX_HEIGHT = 208, 50  # pixels
_APART = (224, 78)  # pixels between the centers of neighbors: across, down
_MARGIN: Final = 12
_LETTERS, _BOLD_LETTERS = 31, 26  # that a line of a box has room for
_LINE: Final = 15  # pixels between two lines
_MOST_LINES: Final = 3  # of a name; a longer one lacks its middle
_REDDEST: Final = 0.6  # opacity: texts stand out


class Box(NamedTuple):
    """A box and its lines of text. key: step-3 or input-0. x, y: its upper left corner. heat: opacity of the red; empty for none.

    name: lines, with the step's number and its main layer.
    """

    key: str
    x: float
    y: float
    executor: str
    title: str
    name: tuple[str, ...]
    does: str
    size: str
    heat: str


class Edge(NamedTuple):
    """An arrow. source, target: keys of nodes. path: for SVG."""

    source: str
    target: str
    path: str


class NetworkPicture(NamedTuple):
    """Sizes in pixels. lines: of the longest name, which decide the height of each box."""

    width: int
    height: int
    lines: int
    nodes: tuple[Box, ...]
    edges: tuple[Edge, ...]


def network_picture(report: Report) -> NetworkPicture:
    """The steps of the program, each below those that it reads. Raises UsageError where they cannot be placed."""
    keys = [f"step-{index}" for index in range(len(report.steps))]
    first_input = len(keys)
    if not any(step.type == "LT_INPUT" for step in report.steps):
        keys += [f"input-{index}" for index in range(len(report.inputs))]
    arrows = list(dict.fromkeys(_arrows(report.steps, first_input, len(keys))))
    layering = layered(len(keys), arrows)
    macs = {layer.name: layer.macs or 0 for layer in report.layers}
    labels = [_label(report, key, macs) for key in keys]
    lines = max(map(len, labels), default=1)
    height = BOX_HEIGHT + (lines - 1) * _LINE
    centers = tuple(_pixels(position, lines) for position in layering.positions)
    most = max((step.cost.usec.low for step in report.steps if step.cost is not None), default=0.0)
    nodes = []
    for key, label, (x, y) in zip(keys, labels, centers, strict=True):
        corner = x - BOX_WIDTH / 2, y - height / 2
        kind, _, number = key.partition("-")
        if kind == "input":
            entry = report.inputs[int(number)]
            nodes.append(Box(key, *corner, "input", entry.name, label, "input", _size(entry.map.shape), ""))
        else:
            nodes.append(_step_node(key, label, report.steps[int(number)], corner, most))
    return NetworkPicture(
        width=math.ceil(max((x for x, _ in centers), default=0) + BOX_WIDTH / 2 + _MARGIN),
        height=math.ceil(max((y for _, y in centers), default=0) + height / 2 + _MARGIN),
        lines=lines,
        nodes=tuple(nodes),
        edges=tuple(
            Edge(keys[a], keys[b], _path([_pixels(point, lines) for point in route], height))
            for (a, b), route in sorted(zip(arrows, layering.routes, strict=True))
        ),
    )


def _arrows(steps: Sequence[Step], first_input: int, nodes: int) -> Iterator[tuple[int, int]]:
    for index, step in enumerate(steps):
        for read in step.reads:
            if read.step is not None:
                if 0 <= read.step < index:  # a damaged report may have cycles, at which the library aborts
                    yield read.step, index
            elif read.input is not None and first_input <= first_input + read.input < nodes:
                yield first_input + read.input, index


def _label(report: Report, key: str, macs: Mapping[str, int]) -> tuple[str, ...]:
    """The lines of a box's name: a step's number, its layer with the most multiplications, and how many others it has."""
    kind, _, number = key.partition("-")
    if kind == "input":
        return _lines(report.inputs[int(number)].name)
    step = report.steps[int(number)]
    main = max(step.layers, key=lambda name: macs.get(name, 0), default=step.name)
    others = f" +{len(step.layers) - 1}" * (len(step.layers) > 1)
    return _lines(f"{number}  {main}", others)


def _lines(name: str, end: str = "") -> tuple[str, ...]:
    """A name in lines of a box, whole as far as there is room. end: stays whole."""
    room = _MOST_LINES * _BOLD_LETTERS - len(end)
    if len(name) > room:
        name = f"{name[: room // 2]}…{name[len(name) - (room - 1 - room // 2) :]}"
    text, lines = name + end, list[str]()
    while len(text) > _BOLD_LETTERS:
        least = max(_BOLD_LETTERS // 2, len(text) - (_MOST_LINES - len(lines) - 1) * _BOLD_LETTERS)
        marks = (text.rfind(mark, 0, _BOLD_LETTERS) + 1 for mark in "/._-:")
        cut = next((mark for mark in marks if mark >= least), _BOLD_LETTERS)
        lines.append(text[:cut])
        text = text[cut:]
    return (*lines, text)


def _step_node(key: str, label: tuple[str, ...], step: Step, corner: Point, most: float) -> Box:
    """most: the shortest time of the most expensive command, in microseconds, which is reddest."""
    names = ", ".join(step.layers) or step.name
    size = _size(step.output.shape)
    heat = ""
    if step.cost is not None and most:
        size += f", {step.cost.usec.text(',.0f')} us"
        heat = f"{_REDDEST * step.cost.usec.low / most:.3f}"
    executor = "input" if step.type == "LT_INPUT" else step.place
    return Box(key, *corner, executor, names, label, _short(step.does), size, heat)


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _size(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _pixels(position: Point, lines: int) -> Point:
    """The center of a box whose name has so many lines."""
    more = (lines - 1) * _LINE
    across = _MARGIN + BOX_WIDTH / 2 + position[0] * _APART[0]
    return across, _MARGIN + (BOX_HEIGHT + more) / 2 + position[1] * (_APART[1] + more)


def _path(points: Sequence[Point], height: float) -> str:
    """A smooth line from the lower edge of the first box to the upper edge of the last. height: of the boxes."""
    (x, y), *middle, (end_x, end_y) = points
    y, end_y = y + height / 2, end_y - height / 2 - 3
    text = f"M{x:g},{y:g}"
    for to_x, to_y in [*middle, (end_x, end_y)]:
        half = (y + to_y) / 2
        text += f" C{x:g},{half:g} {to_x:g},{half:g} {to_x:g},{to_y:g}"
        x, y = to_x, to_y
    return text


# --- memory --------------------------------------------------------------------------------------------------------------

_ACROSS = 900  # pixels of the whole buffer
_LEFT = 44
_RIGHT = 42
_TOP = 34
_LETTER = 6.8  # pixels, of wide fonts


class Bar(NamedTuple):
    """A map: where it lies, and when. label: empty where there is no room."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str
    label: str


class Mark(NamedTuple):
    """A line across or down, and its text."""

    position: float
    text: str


class MemoryPicture(NamedTuple):
    """Offsets across, steps down. bound: the lower bound of the size; peak: the step with the most live bytes."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    row: float
    bars: tuple[Bar, ...]
    bound: Mark
    peak: Mark
    steps: tuple[Mark, ...]
    offsets: tuple[Mark, ...]


def memory_picture(report: Report) -> MemoryPicture:
    """Where each map lies in the I/O buffer, and when it is live."""
    memory = report.memory
    assert memory is not None, "a report without steps"
    count = max(1, len(report.steps))
    row = max(5.0, min(18.0, 1200 / count))
    bottom = _TOP + count * row
    scale = _ACROSS / max(1, memory.bytes)
    every = max(1, math.ceil(14 / row))
    return MemoryPicture(
        width=_LEFT + _ACROSS + _RIGHT,
        height=math.ceil(bottom + 38),
        left=_LEFT,
        right=_LEFT + _ACROSS,
        top=_TOP,
        bottom=bottom,
        row=row,
        bars=tuple(_bar(buffer, scale, row) for buffer in _wholes_last(memory)),
        bound=Mark(_LEFT + memory.lower_bound * scale, _bound_text(memory)),
        peak=Mark(
            _TOP + memory.peak_step * row, f"{memory.peak_bytes:,} bytes are live at step {memory.peak_step}, the most"
        ),
        steps=tuple(Mark(_TOP + step * row, str(step)) for step in range(0, count, every)),
        offsets=tuple(Mark(_LEFT + _ACROSS * i / 4, f"{memory.bytes * i // 4:,}") for i in range(5)),
    )


def _wholes_last(memory: MemoryUse) -> list[LiveMap]:
    """The largest first, but concatenations, of which only a frame is drawn, after their parts."""
    return sorted(memory.buffers, key=lambda buffer: (buffer.kind == "concatenation", -buffer.bytes))


def _bar(buffer: LiveMap, scale: float, row: float) -> Bar:
    width = buffer.bytes * scale
    height = (buffer.last - buffer.first + 1) * row
    when = f"steps {buffer.first} to {buffer.last}"
    title = f"{buffer.name}: {buffer.bytes:,} bytes at {buffer.offset:,}, {when} ({buffer.kind})"
    letters = int((width - 6) / _LETTER) if height >= 9 else 0
    name = buffer.name if len(buffer.name) <= letters else f"{buffer.name[: letters - 1]}…" if letters > 3 else ""
    x, y = _LEFT + buffer.offset * scale, _TOP + buffer.first * row
    return Bar(round(x, 2), round(y, 2), round(max(width, 1.0), 2), round(height, 2), buffer.kind, title, name)


def _bound_text(memory: MemoryUse) -> str:
    if memory.proven:
        return f"{memory.bytes:,} bytes, proven smallest"
    return f"lower bound {memory.lower_bound:,} of {memory.bytes:,} bytes"
