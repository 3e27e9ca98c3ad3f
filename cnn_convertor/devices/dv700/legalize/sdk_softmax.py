"""Gives softmaxes to the SDK's LT_SOFTMAX, in the form that it computes right: along an axis of a row-major array."""

from collections.abc import Iterable
from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ArraySoftmax, Axis, Order, Reshape, Shape, Softmax


def sdk_softmax(graph: Graph, node: Node) -> Iterable[Node] | None:
    """A map is flattened first, and the result becomes a map again if a layer reads it."""
    if not isinstance(node.op, Softmax):
        return None
    shape = graph.shape(node.name)
    op = ArraySoftmax(*_array(shape, node.op.axis))
    if shape.is_vector:
        return (replace(node, op=op),)
    vector = Reshape(Shape(1, 1, shape.size), Order.HWC)
    flat = replace(node, name=graph.fresh(f"{node.name}/flat"), op=vector)
    if graph.is_output(node.name) and not graph.users(node.name):
        return flat, replace(node, op=op, inputs=(flat.name,))
    result = replace(node, name=graph.fresh(f"{node.name}/array"), op=op, inputs=(flat.name,))
    return flat, result, replace(node, op=Reshape(shape, Order.HWC), inputs=(result.name,))


def _array(shape: Shape, axis: Axis) -> tuple[tuple[int, ...], int]:
    """The dims of the row-major array, and its axis."""
    height, width, channels = shape
    if axis is not Axis.CHANNELS:
        return tuple(shape), list(Axis).index(axis)
    return ((channels,), 0) if shape.is_vector else ((height * width, channels), 1)
