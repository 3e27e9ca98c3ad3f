"""Kernels with zeros at their borders, so that padding is smaller than the kernel, as the device asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Window


class _Zeros(NamedTuple):
    """Elements of a kernel, at both ends of an axis."""

    before: int
    after: int


def _zeros(before: int, after: int, extent: int, dilation: int) -> _Zeros:
    """Zeros at one end make room for padding at the other. before, after: the padding."""
    return _Zeros(max(-(-(after - extent + 1) // dilation), 0), max(-(-(before - extent + 1) // dilation), 0))


def wide_padding(_: Graph, node: Node) -> Iterable[Node] | None:
    op = node.op
    if not isinstance(op, ops.Conv2d):
        return None
    kernel, stride, dilation, pad = op.window
    rows = _zeros(pad.top, pad.bottom, op.window.extent.height, dilation.height)
    columns = _zeros(pad.left, pad.right, op.window.extent.width, dilation.width)
    if not any((*rows, *columns)):
        return None
    larger = Pair(kernel.height + sum(rows), kernel.width + sum(columns))

    def surrounded(values: Array) -> Array:
        return np.pad(values, ((0, 0), (0, 0), rows, columns))

    more = Padding(
        rows.before * dilation.height,
        rows.after * dilation.height,
        columns.before * dilation.width,
        columns.after * dilation.width,
    )
    weight = op.weight.map_rows(surrounded, (op.weight.shape[1], *larger))
    return (replace(node, op=replace(op, weight=weight, window=Window(larger, stride, dilation, pad + more))),)
