"""Deconvolutions and upsampling: one convolution for all positions between two pixels of the input, which rubik then brings in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.devices.nvdla.chains import ATOM, spread
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ONE, Axis, Concat, Padding, Pair, Shape, Window

_BLOCK: Final = 64  # channels that are upsampled at a time: what the multipliers take in one step


class _Axis(NamedTuple):
    """How outputs lie on an axis. taps: for each of `stride` positions, the kernel's element for each tap, or -1.

    before, after: padding of the input. outputs: how many there are, at least as many as wanted.
    """

    taps: tuple[tuple[int, ...], ...]
    before: int
    after: int
    outputs: int


def _axis(window: Window, axis: Axis, cut: int, size: int, wanted: int) -> _Axis:
    """cut: outputs before the first one. size: of the input."""
    kernel, stride, dilation = window.kernel[axis], window.stride[axis], window.dilation[axis]
    # (position, element of the kernel) -> the input, from the one at the output's place
    places: dict[tuple[int, int], int] = {}
    for position in range(stride):
        for element in range(kernel):
            distance = position + cut - element * dilation
            if distance % stride == 0:
                places[position, element] = distance // stride
    low, high = min(0, *places.values()), max(0, *places.values())
    after = max(-(-wanted // stride) - 1 + high - (size - 1), 0)
    taps = [[-1] * (high - low + 1) for _ in range(stride)]
    for (position, element), place in places.items():
        taps[position][place - low] = element
    pixels = size - low + after - (high - low)
    return _Axis(tuple(map(tuple, taps)), -low, after, pixels * stride)


def deconvolutions(graph: Graph, node: Node) -> Iterable[Node] | None:
    """A deconvolution as a convolution and a spreading of its channels, cut where its output ends between two inputs."""
    op = node.op
    if not isinstance(op, ops.ConvTranspose2d) or op.groups != 1:
        return None
    x, y = graph.shape(node.inputs[0]), graph.shape(node.name)
    pad, stride = op.window.padding, op.window.stride
    vertical = _axis(op.window, Axis.HEIGHT, pad.top, x.height, y.height)
    horizontal = _axis(op.window, Axis.WIDTH, pad.left, x.width, y.width)
    rows = -(-y.channels // ATOM) * ATOM  # each position begins with a surface
    weight = _kernels(op.weight, vertical, horizontal, rows)
    bias = None if op.bias is None else _repeated(op.bias, rows, stride)
    function = op.activation
    if isinstance(function, ops.PRelu):
        function = ops.PRelu(_repeated(function.slopes, rows, stride))
    padding = Padding(vertical.before, vertical.after, horizontal.before, horizontal.after)
    window = Window(Pair(len(vertical.taps[0]), len(horizontal.taps[0])), padding=padding)
    conv = replace(
        node, name=graph.fresh(f"{node.name}/positions"), op=ops.Conv2d(weight, bias, window, activation=function)
    )
    size = Pair(vertical.outputs, horizontal.outputs)
    if size == y[:2]:
        return [conv, *_spread(graph, node, conv.name, size, stride, y.channels)]
    whole = replace(node, name=graph.fresh(f"{node.name}/whole"))
    crop = replace(node, op=ops.Crop(Shape(0, 0, 0), y), inputs=(whole.name,))
    return [conv, *_spread(graph, whole, conv.name, size, stride, y.channels), crop]


def _kernels(weight: Constant, vertical: _Axis, horizontal: _Axis, rows: int) -> Constant:
    """The kernels of all positions: (positions * rows, C, taps, taps). Those beyond the output's channels are 0."""
    kernels, channels = weight.shape[:2]
    shape = (channels, len(vertical.taps[0]), len(horizontal.taps[0]))
    columns = len(horizontal.taps)

    def read(part: slice) -> Array:
        values = np.zeros((part.stop - part.start, *shape), np.float32)
        for position in range(part.start // rows, -(-part.stop // rows)):
            first, last = max(part.start, position * rows), min(part.stop, position * rows + kernels)
            if first >= last:
                continue
            own = weight.load(slice(first - position * rows, last - position * rows))
            into = values[first - part.start : last - part.start]
            for row, element_y in enumerate(vertical.taps[position // columns]):
                for column, element_x in enumerate(horizontal.taps[position % columns]):
                    if min(element_y, element_x) >= 0:
                        into[:, :, row, column] = own[:, :, element_y, element_x]
        return values

    return Constant((len(vertical.taps) * columns * rows, *shape), read)


def _repeated(values: Constant, rows: int, stride: Pair) -> Constant:
    padded = np.zeros(rows, np.float32)
    padded[: values.size] = values.load()
    return Constant.of(np.tile(padded, stride.height * stride.width))


def _spread(graph: Graph, node: Node, source: str, size: Pair, stride: Pair, channels: int) -> list[Node]:
    """The node's map of a map that has the channels of each position one after the other, in whole surfaces."""
    rows = -(-channels // ATOM) * ATOM
    op = spread(Pair(size.height // stride.height, size.width // stride.width), stride, rows)
    if rows == channels:
        return [replace(node, op=op, inputs=(source,))]
    whole = replace(node, name=graph.fresh(f"{node.name}/surfaces"), op=op, inputs=(source,))
    return [whole, replace(node, op=ops.ChannelSlice(0, channels), inputs=(whole.name,))]


def upsampling(graph: Graph, node: Node) -> Iterable[Node] | None:
    """Upsampling of some channels at a time: a convolution repeats each channel, and rubik spreads them."""
    op = node.op
    if not isinstance(op, ops.Upsample):
        return None
    x = graph.shape(node.inputs[0])
    if x.channels > _BLOCK and x.channels % ATOM:
        return None
    nodes: list[Node] = []
    parts = []
    for first in range(0, x.channels, _BLOCK):
        count = min(_BLOCK, x.channels - first)
        source = node.inputs[0]
        if count < x.channels:
            part = replace(
                node, name=graph.fresh(f"{node.name}/slice{first}"), op=ops.ChannelSlice(first, count), inputs=(source,)
            )
            nodes.append(part)
            source = part.name
        repeat = replace(
            node, name=graph.fresh(f"{node.name}/repeat{first}"), op=_repeating(count, op.factor), inputs=(source,)
        )
        name = node.name if count == x.channels else graph.fresh(f"{node.name}/part{first}")
        height, width, _ = graph.shape(node.name)
        nodes += [repeat, *_spread(graph, replace(node, name=name), repeat.name, Pair(height, width), op.factor, count)]
        parts.append(name)
    if len(parts) > 1:
        nodes.append(replace(node, op=Concat(), inputs=tuple(parts)))
    return nodes


def _repeating(channels: int, factor: Pair) -> ops.Conv2d:
    rows = -(-channels // ATOM) * ATOM
    one = np.zeros((rows, channels, 1, 1), np.float32)
    one[range(channels), range(channels)] = 1
    return ops.Conv2d(Constant.of(np.tile(one, (factor.height * factor.width, 1, 1, 1))), None, Window(ONE))
