"""Clamps large strides on axes with a single window, where they have no effect."""

from collections.abc import Iterable
from dataclasses import replace

from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, Padding, Pair, Shape, Window


def clamp_strides(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Replace strides above the limit that move no window by the smallest without effect."""
    op = node.op
    match op:
        case ops.Conv2d() | ops.MaxPool2d() | ops.AveragePool2d() if max(op.window.stride) > limits.max_stride:
            extra = op.uncounted if isinstance(op, ops.AveragePool2d) else NO_PADDING
            stride = _smallest(op.window, graph.shape(node.inputs[0]), extra, limits)
        case ops.ConvTranspose2d() if max(op.window.stride) > limits.max_stride:
            x = graph.shape(node.inputs[0])
            stride = Pair(*(1 if size == 1 else s for size, s in zip(x[:2], op.window.stride, strict=True)))
        case _:
            return None
    if stride == op.window.stride:
        return None
    return (replace(node, op=replace(op, window=op.window._replace(stride=stride))),)


def _smallest(window: Window, shape: Shape, extra: Padding, limits: Limits) -> Pair:
    """The stride, reduced on axes with one window to the least that has no second window."""
    pad = window.padding + extra
    rooms = (
        shape.height + pad.top + pad.bottom - window.extent.height,
        shape.width + pad.left + pad.right - window.extent.width,
    )
    return Pair(
        *(room + 1 if limits.max_stride < s and room < s else s for room, s in zip(rooms, window.stride, strict=True))
    )
