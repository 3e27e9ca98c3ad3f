"""Convolutions that the convolution buffer does not hold with all channels, as sums of such of fewer channels.

The sums so far lie in memory as FP16 between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cnn_convertor.devices.nvdla.chains import ATOM
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, MisfitError, bands_of, channels_that_fit
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.layouts.nvdla.precision import Precision


def split_channels(graph: Graph, node: Node, configuration: Configuration) -> Iterable[Node] | None:
    op = node.op
    if not isinstance(op, ops.Conv2d) or op.groups != 1:
        return None
    size = ConvolutionSize(graph.shape(node.inputs[0]), op.weight.shape[0], op.window)
    try:
        bands_of(size, configuration, Precision.FP16)
    except MisfitError:
        most = channels_that_fit(size, configuration, Precision.FP16) // ATOM * ATOM
    else:
        return None
    channels = size.input.channels
    if most == 0:
        return None
    nodes: list[Node] = []
    total = ""  # the sum so far
    for number, first in enumerate(range(0, channels, most)):
        count = min(most, channels - first)
        view = ops.ChannelSlice(first, count)
        slice_ = replace(node, name=graph.fresh(f"{node.name}/slice{number}"), op=view, inputs=node.inputs)
        is_last = first + count == channels
        part = replace(_of_channels(op, first, count), bias=op.bias if is_last else None, activation=None)
        conv = replace(node, name=graph.fresh(f"{node.name}/channels{number}"), op=part, inputs=(slice_.name,))
        nodes += [slice_, conv]
        if number:
            name = node.name if is_last else graph.fresh(f"{node.name}/sum{number}")
            add = ops.Add(op.activation if is_last else None)
            nodes.append(replace(node, name=name, op=add, inputs=(total, conv.name)))
        total = nodes[-1].name
    return nodes


def _of_channels(op: ops.Conv2d, first: int, count: int) -> ops.Conv2d:
    def part(weights: Array) -> Array:
        return weights[:, first : first + count]

    return replace(op, weight=op.weight.map_rows(part, (count, *op.weight.shape[2:])))
