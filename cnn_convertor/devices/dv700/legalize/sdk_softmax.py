"""Gives softmaxes to the SDK's LT_SOFTMAX, in the form that it computes right: along an axis of a row-major array."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ArraySoftmax, Axis, Order, Reshape, Shape, Softmax


def sdk_softmax(graph: Graph, node: Node) -> Iterable[Node] | None:
    """A map is flattened first, and its result brought back into a map if a layer reads it.

    Axes of length 1 at either end are left out, since LT_SOFTMAX takes one, two or three of them.
    """
    if not isinstance(node.op, Softmax):
        return None
    shape = graph.shape(node.name)
    op = ArraySoftmax(*_array(shape, node.op.axis))
    if shape.is_vector:
        return (replace(node, op=op),)
    vector = Reshape(Shape(1, 1, shape.size), Order.HWC)
    flat = replace(node, name=graph.fresh(f"{node.name}/flat"), op=vector)
    if node.name in graph.outputs and not graph.users(node.name):
        return flat, replace(node, op=op, inputs=(flat.name,))
    result = replace(node, name=graph.fresh(f"{node.name}/array"), op=op, inputs=(flat.name,))
    return flat, result, replace(node, op=Reshape(shape, Order.HWC), inputs=(result.name,))


def _array(shape: Shape, axis: Axis) -> tuple[tuple[int, ...], int]:
    """The dims of the array that has the softmax's lines along an axis, and that axis."""
    position = list(Axis).index(axis)
    outer, inner = prod(shape[:position]), prod(shape[position + 1 :])
    dims = (outer, shape[position], inner)
    first, last = int(outer == 1), 3 - int(inner == 1)
    return dims[first:last], 1 - first
