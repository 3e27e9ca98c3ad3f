"""Assigns the arg max at the end of a network to the device's maximizer."""

from dataclasses import replace

from cnn_convertor.devices.dv700.commands import buffer_owner, buffer_users
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis

BLOCK = "maximizer"
CLASSES = range(2, 256)
PIXELS = 1 << 24
SIZE = 65_535  # width and height have 16 bits


def classes_in_bytes(graph: Graph, device: Device) -> Graph:
    """Let an arg max over the channels of a device map write bytes, where it is an output that no layer reads."""
    if BLOCK not in device.blocks:
        return graph
    return Graph(tuple(_in_bytes(graph, node) for node in graph.nodes), graph.outputs)


def _in_bytes(graph: Graph, node: Node) -> Node:
    match node.op:
        case ops.OnCpu(op=ops.ArgMax(axis=Axis.CHANNELS, count=1, values=False)) if _fits(graph, node):
            return replace(node, op=replace(node.op, in_bytes=True))
        case _:
            return node


def _fits(graph: Graph, node: Node) -> bool:
    """Whether a command of the maximizer can do the node's work."""
    height, width, channels = graph.shape(node.inputs[0])
    writer = buffer_owner(graph, node.inputs[0]).op
    return (
        channels in CLASSES
        and height * width < PIXELS
        and max(height, width) <= SIZE
        and not isinstance(writer, ops.OnCpu | ops.ArraySoftmax | ops.Custom | ops.Reshape)
        and any(buffer_owner(graph, output) is node for output in graph.outputs)
        and not buffer_users(graph, node.name)
    )
