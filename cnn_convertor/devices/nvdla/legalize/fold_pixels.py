"""Maps with sides that are too long for a register, as maps of other rows and columns with the same bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, MisfitError, bands_of
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ONE, Order, Shape, Window
from cnn_convertor.layouts.nvdla.precision import Precision

LARGEST: Final = 8192  # rows, columns and channels of a map


def fold_pixels(graph: Graph, node: Node, configuration: Configuration) -> Iterable[Node] | None:
    """An operator that treats each pixel by itself has them in other rows, if all its maps have the same pixels."""
    shapes = [graph.shape(name) for name in (*node.inputs, node.name)]
    if not _is_of_pixels(node) or len({shape[:2] for shape in shapes}) > 1:
        return None
    if not _is_too_long(graph, node, shapes, configuration) or max(shape.channels for shape in shapes) > LARGEST:
        return None
    height, width, channels = shapes[-1]
    rows = _rows(height * width)
    if rows is None or rows == height:
        return None
    nodes = []
    for number, (name, shape) in enumerate(zip(node.inputs, shapes, strict=False)):
        folded = Shape(rows, height * width // rows, shape.channels)
        view = replace(
            node, name=graph.fresh(f"{node.name}/rows{number}"), op=ops.Reshape(folded, Order.HWC), inputs=(name,)
        )
        nodes.append(view)
    inner = replace(node, name=graph.fresh(f"{node.name}/pixels"), inputs=tuple(each.name for each in nodes))
    whole = ops.Reshape(Shape(height, width, channels), Order.HWC)
    return [*nodes, inner, replace(node, op=whole, inputs=(inner.name,))]


def _is_of_pixels(node: Node) -> bool:
    match node.op:
        case ops.Conv2d(window=window, groups=1):
            return window == Window(ONE)
        case ops.Unary() | ops.Activation() | ops.Scale() | ops.Add() | ops.Binary():
            return True
        case _:
            return False


def _rows(pixels: int) -> int | None:
    """The number of rows that makes a map as square as can be; None if a side is too long in every case."""
    for rows in range(math.isqrt(pixels), 0, -1):
        if pixels % rows == 0:
            return rows if pixels // rows <= LARGEST else None
    return None


def _is_too_long(graph: Graph, node: Node, shapes: Sequence[Shape], configuration: Configuration) -> bool:
    """Whether a side is, or a row of a convolution for the convolution buffer."""
    if max(map(max, shapes)) > LARGEST:
        return True
    if not isinstance(node.op, ops.Conv2d):
        return False
    size = ConvolutionSize(graph.shape(node.inputs[0]), node.op.weight.shape[0], node.op.window)
    try:
        bands_of(size, configuration, Precision.FP16)
    except MisfitError:
        return True
    return False
