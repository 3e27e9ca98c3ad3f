"""Draws the pictures of docs/pictures: those of networks by `report`, the others from conversions and formulas."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from cnn_convertor.cli import main
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.estimate import estimates
from cnn_convertor.devices.dv700.fusion.tiling import ConvGeometry, tile_bytes, tiles, unified_buffer_need
from cnn_convertor.devices.dv700.fusion.ub_fit import geometry
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import Layer, Program, Run
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.frontends import FRONTENDS
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import load, plan
from development.pages.drawing import COLORS, GRAY, LINE, PALE, Box, Drawing
from examples import zoo

BLUE, ORANGE, GREEN, RED, *_ = COLORS
MODULE = "inception_3a/"


class Drawn(NamedTuple):
    """A picture by `report`: of a network of the zoo, with an input of `size` pixels, by one of its options."""

    network: str
    size: int
    option: str


DRAWN: Final = {
    "network.svg": Drawn("onnx_mtcnn_onet", 48, "--svg"),
    "memory.svg": Drawn("onnx_unet", 64, "--memory-svg"),
}


def pictures() -> Mapping[str, Callable[[], str]]:
    """File name in docs/pictures -> what draws it."""
    return {
        "workflow.svg": workflow,
        "fusion.svg": fusion,
        "unified-buffer.svg": unified_buffer,
        **{name: partial(draw, drawn) for name, drawn in DRAWN.items()},
    }


def draw(drawn: Drawn) -> str:
    """What the command `report` draws."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "picture.svg"
        ini = zoo.build(drawn.network, Path(folder), size=drawn.size)
        assert main(["report", "-q", str(ini), drawn.option, str(picture)]) == 0
        return picture.read_text(encoding="utf-8")


# --- workflow ------------------------------------------------------------------------------------------------------------


def workflow() -> str:
    """The path of a network from the files of a framework to the PC and the board."""
    drawing = Drawing(840, 232, title="From model files to sources for the PC and the board, with verify beside them")
    suffixes = [" ".join(dict.fromkeys((*frontend.definitions, *frontend.data))) for frontend in FRONTENDS]
    top, bottom, width, height = 34.0, 150.0, 148.0, 66.0
    model, graph, program, sources = (Box(16 + 220 * column, top, width, height) for column in range(4))
    framework, verify, host = (box._replace(y=bottom) for box in (model, graph, program))
    board = sources._replace(y=bottom)
    drawing.box(model, "model files", *suffixes, fill=BLUE)
    drawing.box(graph, "graph", "operators and shapes", fill=GREEN)
    drawing.box(program, "program", "commands, offsets,", "weights", fill=GREEN)
    drawing.box(sources, "generated files", "C++ sources,", "packed weights", fill=ORANGE)
    _arrow(drawing, model, graph, "read")
    _arrow(drawing, graph, program, "fuse, plan")
    _arrow(drawing, program, sources, "render")
    drawing.box(framework, "framework", "Keras, or formulas", "for Caffe", fill=BLUE)
    drawing.box(verify, "verify", "compares every layer", fill=RED)
    drawing.box(host, "PC", "emulated device", fill=ORANGE)
    drawing.box(board, "board", "DV700 and", "the SDK's runtime", fill=ORANGE)
    drawing.line((model.middle, model.bottom), (framework.middle, framework.y), tip=True)
    drawing.line((sources.middle, sources.bottom), (board.middle, board.y), tip=True)
    fork = (sources.bottom + board.y) / 2
    drawing.line((sources.middle, fork), (host.middle, fork), (host.middle, host.y), tip=True)
    _arrow(drawing, framework, verify, "outputs")
    _arrow(drawing, host, verify, "outputs")
    drawing.text(model.x, 22, "cnn-convertor net.ini", bold=True)
    return drawing.svg()


def _arrow(drawing: Drawing, start: Box, end: Box, words: str) -> None:
    """An arrow between neighbors of one row."""
    left, right = (start.right, end.x) if start.x < end.x else (start.x, end.right)
    drawing.line((left, start.center), (right, end.center), tip=True)
    drawing.text((left + right) / 2, start.center - 6, words, anchor="middle", color=GRAY)


# --- fusion --------------------------------------------------------------------------------------------------------------


@cache
def googlenet() -> Mapping[Fusion, Program]:
    """GoogLeNet without LRN, with separate and with shared commands."""
    with tempfile.TemporaryDirectory() as folder:
        config = Config.read(zoo.build("caffe_googlenet_without_lrn", Path(folder)))
        graph = load(config)
        target = Dv700.of(config.hardware, config.settings)._replace(transposed=True)
        return {
            level: plan(graph, config.name, target._replace(fusion=level)) for level in (Fusion.NONE, Fusion.DOCUMENTED)
        }


class Place(NamedTuple):
    """A run in the picture. command: the number of its command; row and column: its place in the module."""

    run: Run
    command: int
    row: int
    column: int


def module_of(program: Program) -> list[Layer]:
    return [layer for layer in program.layers if layer.name.startswith(MODULE) and layer.runs]


def places_of(commands: Sequence[Layer], program: Program) -> list[Place]:
    """A row for each run of a branch, a column for each branch."""
    found: list[Place] = []
    ends: dict[int, Place] = {}  # index of a layer -> its last run
    for number, layer in enumerate(commands):
        (source,) = layer.sources
        above = ends.get(source) if source is not None else None
        for run in layer.runs:
            row = above.row + 1 if above else 0
            column = above.column if above else 1 + max((place.column for place in found), default=-1)
            found.append(Place(run, number, row, column))
            above = None if run.external else found[-1]
        ends[program.layers.index(layer)] = found[-1]
    return found


def fusion() -> str:
    """A module of GoogLeNet with one command for each run, and with one command for all."""
    drawing = Drawing(
        840, 318, title="Commands of GoogLeNet's module inception_3a with fusion = none and fusion = documented"
    )
    for x, (level, program) in zip((12, 428), googlenet().items(), strict=True):
        _draw_module(drawing, x, level, program)
    drawing.text(12, 306, "gray: a feature map in external memory; blue: a command; white: a run", color=GRAY)
    return drawing.svg()


def _draw_module(drawing: Drawing, left: float, level: Fusion, program: Program) -> None:
    commands = module_of(program)
    places = places_of(commands, program)
    costs = zip(
        (layer for layer in program.layers if layer.runs),
        estimates(program, read_profile("dv700", Path())),
        strict=True,
    )
    traffic = sum(cost.nbytes for layer, cost in costs if layer in commands)
    step, width, height = 100, 86, 44
    boxes = {place: Box(left + 7 + place.column * step, 88 + place.row * 92, width, height) for place in places}
    above, below = (Box(left, y, 4 * step, 26) for y in (36, 260))
    many = f"{len(commands)} commands" if len(commands) > 1 else "1 command"
    drawing.text(left, 22, f"fusion = {level.value}: {many}, {traffic:,} bytes of traffic", bold=True)
    drawing.box(above, f"input, {places[0].run.input}", fill=PALE, bold=False)
    drawing.box(below, f"output, {_joined(places)}", fill=PALE, bold=False)
    for number in range(len(commands)):
        drawing.box(_around([box for place, box in boxes.items() if place.command == number]), fill=BLUE)
    for place, box in boxes.items():
        drawing.box(box, _name(place.run), str(place.run.output))
        next_ = next((p for p in places if (p.row, p.column) == (place.row + 1, place.column)), None)
        if place.row == 0:
            drawing.line((box.middle, above.bottom), (box.middle, box.y), tip=True)
        drawing.line((box.middle, box.bottom), (box.middle, boxes[next_].y if next_ else below.y), tip=True)
        if next_ and next_.command != place.command:
            drawing.box(Box(box.x + 4, box.bottom + 13, width - 8, 18), str(place.run.output), fill=PALE, bold=False)


def _around(boxes: Sequence[Box]) -> Box:
    """The box of a command around those of its runs."""
    left, top = min(box.x for box in boxes) - 6, min(box.y for box in boxes) - 6
    right, bottom = max(box.right for box in boxes) + 6, max(box.bottom for box in boxes) + 6
    return Box(left, top, right - left, bottom - top)


def _joined(places: Sequence[Place]) -> Shape:
    """The concatenation of the branches."""
    last = {place.column: place.run.output for place in places}
    height, width, _ = places[0].run.output
    return Shape(height, width, sum(shape.channels for shape in last.values()))


def _name(run: Run) -> str:
    """The first layer of the run."""
    return run.origins[0].layer.removeprefix(MODULE)


# --- unified buffer ------------------------------------------------------------------------------------------------------


def unified_buffer() -> str:
    """The tiles of a convolution, and what tiles and runs need of the unified buffer."""
    size = DV700.limits.ub_size
    window = Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))
    conv = ConvGeometry(Shape(112, 112, 64), 128, window)
    count = tiles(conv, ub_size=size)
    assert count is not None
    drawing = Drawing(800, 290, title="Tiles of a convolution, and bytes of the unified buffer")
    _draw_tiles(drawing, conv, count)
    command = module_of(googlenet()[Fusion.DOCUMENTED])[0]
    runs = command.runs
    need = unified_buffer_need(runs[0].input, [geometry(run, external=run.external) for run in runs])
    bars = {
        "conv2_1 in one tile": tile_bytes(conv, 1),
        f"conv2_1, widest of {count} tiles": tile_bytes(conv, count),
        f"inception_3a, {len(runs)} runs together": need,
    }
    x, y, scale = 400.0, 78.0, 380 / max(bars.values())
    limit = x + size * scale
    drawing.text(x, 22, "Bytes of the unified buffer", bold=True)
    for words, used in bars.items():
        drawing.text(x, y - 8, f"{words}: {used:,}")
        drawing.box(Box(x, y, used * scale, 24), fill=GREEN if used <= size else RED)
        drawing.line((limit, y - 4), (limit, y + 28), dashed=True)
        y += 66
    drawing.text(limit, y - 22, f"the buffer has {size:,}", anchor="middle", color=GRAY)
    return drawing.svg()


def _draw_tiles(drawing: Drawing, conv: ConvGeometry, count: int) -> None:
    """The input of the convolution from above."""
    left, top, height, scale = 12.0, 54.0, 224.0, 3.2
    columns = -(-conv.input.width // count)
    margin = conv.window.kernel.width // 2
    drawing.text(left, 22, f"VGG-16, conv2_1: 3x3, {conv.input} to {conv.kernels} channels", bold=True)
    drawing.text(left, 40, f"{count} tiles; neighbors both read the {2 * margin} columns in gray", color=GRAY)
    for number in range(count):
        first, stop = number * columns, min((number + 1) * columns, conv.input.width)
        read = f"columns {max(first - margin, 0)}-{min(stop + margin, conv.input.width) - 1}"
        box = Box(left + first * scale, top, (stop - first) * scale, height)
        drawing.box(box, f"tile {number}", read, fill=COLORS[number])
        if number:
            drawing.box(Box(box.x - margin * scale, top, 2 * margin * scale, height), fill=LINE)
