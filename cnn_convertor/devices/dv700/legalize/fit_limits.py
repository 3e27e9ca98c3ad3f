"""Fits operators to the sizes that a command may have: channels in parts, and pixels in another shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.devices.dv700.commands import run_of
from cnn_convertor.devices.dv700.fusion.tiling import tiles
from cnn_convertor.devices.dv700.fusion.ub_fit import conv_geometry, strips
from cnn_convertor.devices.dv700.legalize.tile_maps import is_pointwise
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK, memory_order
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, Axis, Order, Padding, Shape

_Adder: TypeAlias = Callable[..., str]

_MOST_PARTS = 64  # more come from a wrong number in a definition, and the rules of sizes refuse them
_WHOLE = 64  # input channels that the device reads weights of at once


# --- channels ------------------------------------------------------------------------------------------------------------


def split_channels(graph: Graph, node: Node, limits: Limits, *, transposed: bool) -> Iterable[Node] | None:
    """Divide the channels where they are too many for a command, or for the unified buffer.

    Output channels become parts of a concatenation, which is exact. Input channels become terms of a sum: each term is rounded
    to FP16 before it is added. Slices of whole chunks are views, so no data moves.
    """
    op, most = node.op, limits.max_channels // CHUNK * CHUNK
    if most == 0 or graph.shape(node.name).channels > _MOST_PARTS * most:
        return None
    match op:
        case ops.Scale() | ops.Activation(function=ops.PRelu()):
            return _by_channel(graph, node, op, most)
        case ops.Conv2d() | ops.ConvTranspose2d() if op.is_depthwise:
            return _by_channel(graph, node, op, most)
        case ops.Conv2d() | ops.ConvTranspose2d() | ops.Dense():
            x = graph.shape(node.inputs[0])
            if op.weight.shape[0] > most:
                return _by_outputs(graph, node, op, most)
            if (x.size if isinstance(op, ops.Dense) else x.channels) > _MOST_PARTS * most:
                return None
            if isinstance(op, ops.Dense) and x.size > most:
                return _as_vector(graph, node, op, x, transposed=transposed)
            if isinstance(op, ops.Dense) or op.groups > 1:
                return None
            together = _channels_together(graph, node, limits)
            return None if together >= x.channels else _by_inputs(graph, node, op, together)
        case _:
            return None


def _channels_together(graph: Graph, node: Node, limits: Limits) -> int:
    """How many input channels a command of a convolution can have, in parts of about equal size."""
    x = graph.shape(node.inputs[0])
    convolution = conv_geometry(run_of(graph, (node,), transposed=True))
    assert convolution is not None, "depthwise convolutions have no sums"
    if isinstance(node.op, ops.Conv2d) and is_pointwise(node.op):
        pixels = refolded(convolution.input, limits)
        convolution = convolution._replace(input=pixels or convolution.input)
    count = -(-x.channels // (limits.max_channels // CHUNK * CHUNK))
    while True:
        together = _part(x.channels, count)
        shape = convolution.input._replace(channels=together)
        if together <= CHUNK or tiles(convolution._replace(input=shape), ub_size=limits.ub_size) is not None:
            return together if together > CHUNK or x.channels <= CHUNK else CHUNK
        count += 1


def _part(channels: int, count: int) -> int:
    """The channels of each of `count` parts but the last: whole chunks, or what the device reads weights of at once."""
    if count == 1:
        return channels
    unit = _WHOLE if channels >= _WHOLE * count else CHUNK
    return -(-channels // (count * unit)) * unit


def _ranges(channels: int, together: int) -> list[slice]:
    return [slice(first, min(first + together, channels)) for first in range(0, channels, together)]


class _Nodes:
    """Nodes that replace one."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node, self.parts = graph, node, list[Node]()

    def add(self, name: str, op: ops.Op, *inputs: str) -> str:
        name = self.graph.fresh(f"{self.node.name}/{name}")
        self.parts.append(replace(self.node, name=name, op=op, inputs=inputs))
        return name

    def slice(self, index: int, source: str, x: Shape, channels: slice) -> str:
        part = ops.Crop(Shape(0, 0, channels.start), Shape(x.height, x.width, channels.stop))
        return self.add(f"channels{index}", part, source)

    def done(self) -> list[Node]:
        """The nodes; the last one has the name of the node that they replace."""
        return [*self.parts[:-1], replace(self.parts[-1], name=self.node.name)]


def _by_channel(graph: Graph, node: Node, op: ops.Op, most: int) -> list[Node] | None:
    """Operators that treat each channel by itself."""
    x = graph.shape(node.inputs[0])
    nodes = _Nodes(graph, node)
    parts = list[str]()
    if x.channels <= most:
        return None
    for index, channels in enumerate(_ranges(x.channels, _part(x.channels, -(-x.channels // most)))):
        rows = np.arange(channels.start, channels.stop)
        source = nodes.slice(index, node.inputs[0], x, channels)
        match op:
            case ops.Scale(factor=factor, shift=shift, activation=function):
                shift = None if shift is None else shift.take_rows(rows)
                function = None if function is None else ops.for_channels(function, rows)
                part: ops.Op = ops.Scale(factor.take_rows(rows), shift, function)
            case ops.Activation(function=function):
                part = ops.Activation(ops.for_channels(function, rows))
            case ops.Conv2d() | ops.ConvTranspose2d():
                part = replace(ops.with_outputs(op, rows), groups=len(rows))
            case _:
                raise AssertionError(type(op).__name__)
        parts.append(nodes.add(f"part{index}", part, source))
    nodes.add("joined", ops.Concat(), *parts)
    return nodes.done()


def _by_outputs(graph: Graph, node: Node, op: ops.Weighted, most: int) -> list[Node]:
    nodes, count = _Nodes(graph, node), op.weight.shape[0]
    parts = [
        nodes.add(f"part{index}", ops.with_outputs(op, np.arange(rows.start, rows.stop)), *node.inputs)
        for index, rows in enumerate(_ranges(count, _part(count, -(-count // most))))
    ]
    nodes.add("joined", ops.Concat(), *parts)
    return nodes.done()


def _as_vector(graph: Graph, node: Node, op: ops.Dense, x: Shape, *, transposed: bool) -> list[Node]:
    """A fully connected layer as a 1x1 convolution of the map's memory."""
    nodes, vector = _Nodes(graph, node), Shape(1, 1, x.size)
    order = cache(partial(memory_order, x, transposed=transposed))
    weight = op.weight.map_rows(lambda rows: rows.reshape(len(rows), -1, 1, 1), (x.size, 1, 1)).take_columns(order)
    nodes.add("vector", ops.Reshape(vector, Order.MEMORY), *node.inputs)
    nodes.add("sum", ops.Conv2d(weight, op.bias, ops.Window(ONE), activation=op.activation), nodes.parts[-1].name)
    return nodes.done()


def _by_inputs(graph: Graph, node: Node, op: ops.Conv2d | ops.ConvTranspose2d, together: int) -> list[Node]:
    """A sum of convolutions of some channels each. The first has the bias, and the last sum the activation."""
    x, nodes = graph.shape(node.inputs[0]), _Nodes(graph, node)
    _, channels, *kernel = op.weight.shape
    ranges, total = _ranges(channels, together), ""
    for index, part in enumerate(ranges):
        source = nodes.slice(index, node.inputs[0], x, part)
        weight = _columns(op.weight, part, kernel)
        bias = op.bias if index == 0 else None
        term = nodes.add(f"term{index}", replace(op, weight=weight, bias=bias, activation=None), source)
        is_last = part is ranges[-1]
        total = nodes.add(f"sum{index}", ops.Add(op.activation if is_last else None), total, term) if total else term
    return nodes.done()


def _columns(weight: Constant, columns: slice, kernel: Sequence[int]) -> Constant:
    return weight.map_rows(lambda rows: rows[:, columns], (columns.stop - columns.start, *kernel))


# --- pixels --------------------------------------------------------------------------------------------------------------


def refolded(shape: Shape, limits: Limits) -> Shape | None:
    """A map of the same memory within the limits of height and width, of as few rows as possible; None if there is none.

    In both orders of memory, the pixels of a chunk of channels lie one after the other: height and width only count them.
    """
    pixels = shape.height * shape.width
    for height in range(-(-pixels // limits.max_width), limits.max_height + 1):
        if pixels % height == 0:
            return Shape(height, pixels // height, shape.channels)
    return None


def divide_pixels(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Divide the pixels where no map of a command has so many. The CPU cuts the inputs and joins the outputs."""
    if not _by_pixel(node.op):
        return None
    y, most = graph.shape(node.name), limits.max_height * limits.max_width
    pixels = y.height * y.width
    if not most < pixels <= _MOST_PARTS * most or _folds(graph, node, limits) is not None:
        return None
    nodes = _Nodes(graph, node)
    lines = [
        nodes.add(f"line{i}", ops.Reshape(Shape(1, pixels, graph.shape(name).channels), Order.MEMORY), name)
        for i, name in enumerate(node.inputs)
    ]
    channels, parts = graph.shape(node.inputs[0]).channels, []
    for index, part in enumerate(_ranges(pixels, most)):
        crop = ops.Crop(Shape(0, part.start, 0), Shape(1, part.stop, channels))
        parts.append(nodes.add(f"part{index}", node.op, *(nodes.add(f"{line}/{index}", crop, line) for line in lines)))
    joined = nodes.add("joined", ops.Concat(Axis.WIDTH), *parts)
    nodes.add("map", ops.Reshape(y, Order.MEMORY), joined)
    return nodes.done()


class _Folds(NamedTuple):
    """How an operator reads and writes its maps.

    padded: the pixels with those behind them that make the number divisible; None where it is. x, y: the shapes instead.
    """

    x: Shape
    y: Shape
    padded: int | None = None


def fit_pixels(graph: Graph, limits: Limits) -> Graph:
    """Divide the pixels where they are too many for any map; refold them where the map is too high or too wide."""
    return refold_pixels(graph.expand(lambda graph, node: divide_pixels(graph, node, limits)), limits)


def refold_pixels(graph: Graph, limits: Limits) -> Graph:
    """Give operators that treat each pixel by itself maps of another height and width where theirs are too large.

    Case 1: another map has as many pixels: reshapes that move no data. Case 2: sums and activations treat each element by
    itself, so channels may become pixels, too. Case 3: the CPU adds pixels, and removes them after the operator.
    """
    nodes: list[Node] = []
    inside: dict[str, str] = {}  # the map of a refolded operator -> the one in its other shape
    shapes: dict[str, Shape] = {}
    for node in graph.nodes:
        folds = _folds(graph, node, limits)
        if folds is None:
            nodes.append(node)
            continue

        def add(name: str, op: ops.Op, *inputs: str, node: Node = node) -> str:
            name = graph.fresh(f"{node.name}/{name}")
            nodes.append(replace(node, name=name, op=op, inputs=inputs))
            return name

        inputs = []
        for position, name in enumerate(node.inputs):
            known = inside.get(name)
            if known is None or shapes[known] != folds.x:
                known = _folded(add, name, folds, graph.shape(name), position)
            inputs.append(known)
        done, shape = add("refolded", node.op, *inputs), graph.shape(node.name)
        inside[node.name], shapes[done] = done, folds.y
        if folds.padded is not None:
            pixels = shape.height * shape.width
            line = add("line", ops.Reshape(Shape(1, folds.padded, shape.channels), Order.MEMORY), done)
            done = add("cut", ops.Crop(Shape(0, 0, 0), Shape(1, pixels, shape.channels)), line)
        nodes.append(replace(node, op=ops.Reshape(shape, Order.MEMORY), inputs=(done,)))
    return _without_unread(Graph(tuple(nodes), graph.outputs), inside) if inside else graph


def _folded(add: _Adder, name: str, folds: _Folds, shape: Shape, position: int) -> str:
    """The name of an operator's input in its other shape."""
    if folds.padded is not None:
        pixels = shape.height * shape.width
        line = add(f"pixels{position}", ops.Reshape(Shape(1, pixels, shape.channels), Order.MEMORY), name)
        more = Padding(0, 0, 0, folds.padded - pixels)
        name = add(f"padded{position}", ops.SpaceToDepth(ONE, more), line)
    return add(f"input{position}", ops.Reshape(folds.x, Order.MEMORY), name)


def _folds(graph: Graph, node: Node, limits: Limits) -> _Folds | None:
    """Other shapes for an operator whose own are too large."""
    op = node.op
    if not _by_pixel(op):
        return None
    x, y = graph.shape(node.inputs[0]), graph.shape(node.name)
    fits_buffer = not isinstance(op, ops.Conv2d) or _fits_buffer(graph, node, limits)
    if limits.holds(x) and x.channels <= limits.max_field and fits_buffer:
        return None
    if x.channels <= limits.max_field and (other := refolded(x, limits)) is not None:
        return None if other == x else _Folds(other, other._replace(channels=y.channels))
    if not isinstance(op, ops.Conv2d):  # each element by itself
        for width in range(limits.max_width, 0, -1):
            if x.size % width == 0 and x.size // width <= limits.max_field:
                shape = Shape(1, width, x.size // width)
                return _Folds(shape, shape)
    if x.channels > limits.max_field:
        return None
    pixels = x.height * x.width
    height = -(-pixels // limits.max_width)
    if height > limits.max_height:
        return None
    width = -(-pixels // height)
    return _Folds(Shape(height, width, x.channels), Shape(height, width, y.channels), height * width)


def _by_pixel(op: ops.Op) -> bool:
    """Whether a command treats each pixel by itself, and all alike."""
    match op:
        case ops.AveragePool2d(window=window, uncounted=uncounted):
            return (window, uncounted) == (ops.Window(ONE), NO_PADDING)
        case ops.Conv2d():
            return is_pointwise(op)
        case _:
            return isinstance(op, ops.Add)


def _fits_buffer(graph: Graph, node: Node, limits: Limits) -> bool:
    return strips(run_of(graph, (node,), transposed=True), ub_size=limits.ub_size) is not None


def _without_unread(graph: Graph, candidates: Iterable[str]) -> Graph:
    """Remove the reshapes back that nothing reads, since the next operator has the same shape."""
    unread = {name for name in candidates if not graph.users(name) and name not in graph.outputs}
    return Graph(tuple(node for node in graph.nodes if node.name not in unread), graph.outputs)
