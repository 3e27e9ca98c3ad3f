"""Removes rows and columns of kernels that see nothing but padding."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair


class _Taps(NamedTuple):
    """The taps of a kernel on one axis, from first to before end, and the padding of a window that has only these."""

    first: int
    end: int
    before: int
    after: int


def drop_taps(graph: Graph, node: Node, _limits: Limits) -> Iterable[Node] | None:
    """Remove the first and last rows and columns of a kernel that see nothing but padding, which is zeros.

    On a map of 8x8, a 3x3 kernel with dilation 12 and as much padding is a 1x1 kernel.
    """
    op = node.op
    if not isinstance(op, ops.Conv2d):
        return None
    x, y, (kernel, stride, dilation, pad) = graph.shape(node.inputs[0]), graph.shape(node.name), op.window
    rows = _taps_inside(kernel.height, stride.height, dilation.height, pad.top, size=x.height, count=y.height)
    columns = _taps_inside(kernel.width, stride.width, dilation.width, pad.left, size=x.width, count=y.width)
    left = Pair(rows.end - rows.first, columns.end - columns.first)
    window = op.window._replace(kernel=left, padding=Padding(rows.before, rows.after, columns.before, columns.after))
    if left == kernel or min(left) < 1 or window.slide(x, channels=y.channels) != y:
        return None
    weight = op.weight.map_rows(
        lambda values: values[:, :, rows.first : rows.end, columns.first : columns.end], (op.weight.shape[1], *left)
    )
    return (replace(node, op=replace(op, weight=weight, window=window)),)


def _taps_inside(kernel: int, stride: int, dilation: int, before: int, *, size: int, count: int) -> _Taps:
    """The taps that see an element of the axis, of `size` elements, in one of `count` windows; and those between them."""

    def sees(tap: int) -> bool:
        start = tap * dilation - before  # of the first window
        nearest = max(0, -(start // stride))  # the first window in which the tap is not before the axis
        return nearest < count and start + nearest * stride < size

    taps = [tap for tap in range(kernel) if sees(tap)] or [0]
    first = min(taps[0], before // dilation)  # padding is never negative
    extent = (taps[-1] - first) * dilation + 1
    pad = before - first * dilation
    return _Taps(first, taps[-1] + 1, pad, max(0, (count - 1) * stride + extent - size - pad))
