"""Moves of channels as 1x1 convolutions of zeros and ones: exact, since each output is one product with 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cnn_convertor.devices.channel_moves import as_convolution, channels_of
from cnn_convertor.devices.nvdla.chains import ATOM, joins_in_place
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis


def channel_gathers(graph: Graph, node: Node) -> Iterable[Node] | None:
    """A slice of whole surfaces is a view; every other choice of channels a convolution."""
    channels = channels_of(graph, node)
    if channels is None:
        return None
    first = int(channels[0])
    if first % ATOM == 0 and np.array_equal(channels, np.arange(first, first + len(channels))):
        return (replace(node, op=ops.ChannelSlice(first, len(channels))),)
    return (replace(node, op=as_convolution(channels, graph.shape(node.inputs[0]).channels)),)


def ragged_concatenations(graph: Graph, node: Node) -> Iterable[Node] | None:
    """A concatenation whose parts do not begin with surfaces is a sum: each part, between channels of zeros."""
    if not isinstance(node.op, ops.Concat) or node.op.axis is not Axis.CHANNELS or joins_in_place(graph, node):
        return None
    if graph.shape(node.name).is_vector:  # the CPU copies it in less time than the device multiplies
        return None
    whole = graph.shape(node.name).channels
    nodes: list[Node] = []
    start = 0
    for number, part in enumerate(node.inputs):
        count = graph.shape(part).channels
        channels = np.full(whole, -1, np.intp)  # no channel
        channels[start : start + count] = np.arange(count)
        start += count
        placed = Node(
            graph.fresh(f"{node.name}/placed{number}"), as_convolution(channels, count), (part,), node.origins
        )
        nodes.append(placed)
        if number:
            is_last = number == len(node.inputs) - 1
            name = node.name if is_last else graph.fresh(f"{node.name}/sum{number}")
            nodes.append(replace(node, name=name, op=ops.Add(), inputs=(nodes[-2].name, placed.name)))
    return nodes
