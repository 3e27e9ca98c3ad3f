"""Divides convolutions over maps that are too large for a command, and those with steps that no command has.

The CPU moves the elements, and the device multiplies: no result changes.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from cnn_convertor.devices.dv700.fusion.tiling import ConvGeometry, tiles
from cnn_convertor.devices.dv700.legalize.decompose_conv import ungrouped
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, Axis, Padding, Pair, Shape, Window


class _Piece(NamedTuple):
    """A range of the input on one axis, from start to before stop, and the padding around it."""

    start: int
    stop: int
    before: int
    after: int


def tile_maps(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Divide a convolution over a map that is too large, or of which no strip fits the unified buffer.

    The CPU cuts the input into overlapping pieces and joins the outputs. 1x1 kernels are left to fit_limits.py, where no data
    moves.
    """
    op = node.op
    if not isinstance(op, ops.Conv2d) or is_pointwise(op):
        return None
    x, y = graph.shape(node.inputs[0]), graph.shape(node.name)
    most = limits.largest_map
    if _runs(op, x, y, most, limits):
        return None
    while not _runs(op, x, y, Pair(*(min(most[a], max(x[a], y[a])) for a in (0, 1))), limits, divided=True):
        axis = Axis.HEIGHT if most.height > 1 else Axis.WIDTH
        if most[axis] == 1:
            return None
        most = Pair(most.height // 2, most.width) if axis is Axis.HEIGHT else Pair(1, most.width // 2)
    return _tiled(graph, node, op, most)


def _runs(op: ops.Conv2d, x: Shape, y: Shape, most: Pair, limits: Limits, *, divided: bool = False) -> bool:
    """Whether maps of the size `most` fit the unified buffer, with as few channels as a command can have.

    divided: else the whole maps must not be larger than that, too.
    """
    if not divided and any(n > m for shape in (x, y) for n, m in zip(shape[:2], most, strict=True)):
        return False
    if op.is_depthwise:
        return True
    shape = Shape(*(most if divided else x[:2]), min(x.channels, CHUNK))
    return tiles(ConvGeometry(shape, op.weight.shape[0], op.window), ub_size=limits.ub_size) is not None


def is_pointwise(op: ops.Conv2d) -> bool:
    """Whether each output pixel depends on one input pixel, in the same order."""
    return op.window.kernel == ONE and op.window.stride == ONE and op.window.padding == NO_PADDING


def _tiled(graph: Graph, node: Node, op: ops.Conv2d, most: Pair) -> list[Node] | None:
    x = graph.shape(node.inputs[0])
    y = graph.shape(node.name)
    window = op.window
    pads = (window.padding[:2], window.padding[2:])
    axes = [
        [*_pieces(x[a], y[a], window.extent[a], window.stride[a], pads[a][0], most[a])]
        for a in (Axis.HEIGHT, Axis.WIDTH)
    ]
    if any(piece.start >= piece.stop for pieces in axes for piece in pieces):
        # A piece of nothing but padding: the CPU pads the whole map first.
        padded = replace(node, name=graph.fresh(f"{node.name}/padded"), op=ops.SpaceToDepth(ONE, window.padding))
        bare = replace(op, window=window._replace(padding=NO_PADDING))
        return [padded, replace(node, op=bare, inputs=(padded.name,))]
    nodes: list[Node] = []

    def add(name: str, op: ops.Op, *inputs: str) -> str:
        nodes.append(replace(node, name=graph.fresh(f"{node.name}/{name}"), op=op, inputs=inputs))
        return nodes[-1].name

    lines = []
    for i, rows in enumerate(axes[0]):
        line = []
        for j, columns in enumerate(axes[1]):
            start = Shape(rows.start, columns.start, 0)
            stop = Shape(rows.stop, columns.stop, x.channels)
            padding = Padding(rows.before, rows.after, columns.before, columns.after)
            piece = add(f"piece{i}_{j}", ops.Crop(start, stop), *node.inputs)
            line.append(add(f"tile{i}_{j}", replace(op, window=window._replace(padding=padding)), piece))
        lines.append(line[0] if len(line) == 1 else add(f"row{i}", ops.Concat(Axis.WIDTH), *line))
    if len(lines) > 1:
        add("tiles", ops.Concat(Axis.HEIGHT), *lines)
    return [*nodes[:-1], replace(nodes[-1], name=node.name)]


def _pieces(size: int, count: int, extent: int, stride: int, before: int, most: int) -> Iterator[_Piece]:
    """What the windows of each piece see: at most about `most` elements, with room for padding that a rewrite may add."""
    if max(size, count) <= most:
        yield _Piece(0, size, before, max(0, (count - 1) * stride + extent - size - before))
        return
    windows = max(1, (most - 2 * extent) // stride + 1)
    for first in range(0, count, min(windows, most)):
        last = min(first + min(windows, most), count) - 1
        start, stop = first * stride - before, last * stride - before + extent
        yield _Piece(max(0, start), min(stop, size), max(0, -start), max(0, stop - size))


def gather_taps(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Turn the taps of a kernel into channels where a command has no such stride or dilation. The CPU gathers them."""
    op = node.op
    if not isinstance(op, ops.Conv2d):
        return None
    (kernel, stride, dilation, pad), x, y = op.window, graph.shape(node.inputs[0]), graph.shape(node.name)
    reach = max((k - 1) * d // 2 for k, d in zip(kernel, dilation, strict=True) if d > 1) if dilation != ONE else 0
    if (
        max(stride) <= limits.max_stride
        and max(dilation) <= limits.max_dilation
        and reach <= limits.max_padding_left_top
    ):
        return None  # as much padding as the dilated kernel reaches keeps the size, which a command must
    nodes = []
    source, size = node.inputs, Pair(*x[:2])
    if pad != NO_PADDING:
        nodes.append(replace(node, name=graph.fresh(f"{node.name}/padded"), op=ops.SpaceToDepth(ONE, pad)))
        source, size = (nodes[-1].name,), pad.around(x)
    taps = []
    for i, j in product(range(kernel.height), range(kernel.width)):
        top, left = i * dilation.height, j * dilation.width
        bottom = top + (y.height - 1) * stride.height + 1
        right = left + (y.width - 1) * stride.width + 1
        assert bottom <= size.height and right <= size.width
        part = ops.Crop(Shape(top, left, 0), Shape(bottom, right, x.channels), Shape(*stride, 1))
        taps.append(replace(node, name=graph.fresh(f"{node.name}/tap{i}_{j}"), op=part, inputs=source))
    nodes += taps
    if len(taps) > 1:
        name = graph.fresh(f"{node.name}/taps")
        nodes.append(replace(node, name=name, op=ops.Concat(), inputs=tuple(tap.name for tap in taps)))
    channels = x.channels * math.prod(kernel)

    def gathered(values: Array) -> Array:
        return values.transpose(0, 2, 3, 1).reshape(len(values), channels, 1, 1)

    weight = ungrouped(op.weight, op.groups).map_rows(gathered, (channels, 1, 1))
    result = replace(op, weight=weight, window=Window(ONE), groups=1)
    return *nodes, replace(node, op=result, inputs=(nodes[-1].name,))
