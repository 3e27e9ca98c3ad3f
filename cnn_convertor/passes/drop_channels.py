"""Removes channels that no output needs, from weights and from concatenations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import Op

_ChannelWise: TypeAlias = (
    ops.Activation | ops.Unary | ops.AveragePool2d | ops.MaxPool2d | ops.Pad | ops.Scale | ops.Upsample
)


class _Channels(NamedTuple):
    """Channels from first up to, excluding, stop."""

    first: int
    stop: int

    def within(self, first: int, stop: int) -> _Channels | None:
        """The overlap with a range, relative to the range's start; None if empty."""
        part = _Channels(max(self.first, first) - first, min(self.stop, stop) - first)
        return part if part.first < part.stop else None


def drop_channels(graph: Graph) -> Graph:
    """weights -> operators between -> crops: the weights produce only channels that a crop needs.

    The operators between: channel-wise ones, and concatenations, whose unused parts are removed. Where crops begin at
    different channels, the channels before the first crop stay, so that chunks of a device stay aligned. Nested crops become
    one; crops of everything and concatenations of one part are removed.
    """
    graph = graph.fuse(_join)
    if any(isinstance(node.op, ops.Crop) for node in graph.nodes):
        graph = _narrowed(graph, _used_channels(graph)).fuse(_join)
    gone = (node.name for node in graph.nodes if _does_nothing(graph, node))
    return graph.bypass(name for name in gone if name not in graph.outputs)


def _join(lookup: Lookup, first: Node, second: Node) -> Op | None:
    """Fuse a node with one that does nothing (except after inputs, which keep their names), and nested crops."""
    if _does_nothing(lookup, second):
        return None if isinstance(first.op, ops.Input) else first.op
    if isinstance(first.op, ops.Crop) and isinstance(second.op, ops.Crop):
        start = stop = stride = ops.Shape(0, 0, 0)
        for axis in ops.Axis:
            at, step = first.op.start[axis], first.op.stride[axis]
            start = start.with_length(axis, at + second.op.start[axis] * step)
            stop = stop.with_length(axis, at + (second.op.stop[axis] - 1) * step + 1)
            stride = stride.with_length(axis, step * second.op.stride[axis])
        return ops.Crop(start, stop, stride)
    return None


def _does_nothing(lookup: Lookup, node: Node) -> bool:
    is_one = isinstance(node.op, ops.Crop | ops.Concat) and len(node.inputs) == 1
    return is_one and lookup.shape(node.name) == lookup.shape(node.inputs[0])


# --- needed channels, from the outputs up --------------------------------------------------------------------------------


def _used_channels(graph: Graph) -> dict[str, _Channels]:
    """The range of needed channels of each node that is needed at all."""
    readers: dict[str, list[_Channels]] = {name: [_all(graph, name)] for name in graph.outputs}
    used: dict[str, _Channels] = {}
    for node in reversed(graph.nodes):
        parts = readers.get(node.name)
        if parts is None:
            continue
        first = parts[0].first if len({part.first for part in parts}) == 1 else 0
        used[node.name] = _Channels(first, max(part.stop for part in parts))
        for name, part in zip(node.inputs, _needed(graph, node, used[node.name]), strict=True):
            if part is not None:
                readers.setdefault(name, []).append(part)
    return used


def _needed(graph: Graph, node: Node, part: _Channels) -> list[_Channels | None]:
    """The channels of each input that a node needs to compute a part of its own."""
    match node.op:
        case ops.Crop() as crop:
            return [_cropped(crop, part)]
        case ops.Concat(axis=ops.Axis.CHANNELS):
            ends = list(accumulate(graph.shape(name).channels for name in node.inputs))
            return [part.within(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        case op if _is_by_channel(op):
            return [part]
        case _:
            return [_all(graph, name) for name in node.inputs]


def _cropped(crop: ops.Crop, part: _Channels) -> _Channels:
    """The range of input channels of a part of a crop's channels."""
    first, stride = crop.start.channels, crop.stride.channels
    return _Channels(first + part.first * stride, first + (part.stop - 1) * stride + 1)


def _all(graph: Graph, name: str) -> _Channels:
    return _Channels(0, graph.shape(name).channels)


def _is_by_channel(op: Op) -> bool:
    """Whether an operator with one input is channel-wise."""
    return op.is_depthwise if isinstance(op, ops.Conv2d | ops.ConvTranspose2d) else isinstance(op, _ChannelWise)


# --- computed channels, from the inputs down -----------------------------------------------------------------------------


def _narrowed(graph: Graph, used: dict[str, _Channels]) -> Graph:
    """The graph whose nodes, where possible, compute only used channels."""
    narrowed: dict[str, _Channels] = {}  # the channels each node computes
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in used:
            node, narrowed[node.name] = _narrow(graph, node, used[node.name], narrowed)
        if node.name in used or isinstance(node.op, ops.Input):
            nodes.append(node)
    return Graph(tuple(nodes), graph.outputs)


def _narrow(graph: Graph, node: Node, part: _Channels, channels_of: Mapping[str, _Channels]) -> tuple[Node, _Channels]:
    """The node for narrowed inputs, and the channels it computes: at least the given part."""
    match node.op:
        case ops.Conv2d(groups=1) | ops.ConvTranspose2d(groups=1) | ops.Dense():
            return _cut(graph, node, part), part
        case ops.Crop(start=start, stop=stop) as crop:
            first, last = (channel - channels_of[node.inputs[0]].first for channel in _cropped(crop, part))
            narrow = replace(crop, start=start._replace(channels=first), stop=stop._replace(channels=last))
            return replace(node, op=narrow), part
        case ops.Concat(axis=ops.Axis.CHANNELS):
            return _with_parts(graph, node, part, channels_of)
        case op if _is_by_channel(op):
            part = channels_of[node.inputs[0]]
            return _cut(graph, node, part), part
        case _:
            return node, _all(graph, node.name)


def _with_parts(
    graph: Graph, concat: Node, part: _Channels, channels_of: Mapping[str, _Channels]
) -> tuple[Node, _Channels]:
    """The concatenation of the needed inputs."""
    ends = list(accumulate(graph.shape(name).channels for name in concat.inputs))
    starts = [0, *ends[:-1]]
    kept = [i for i, needed in enumerate(_needed(graph, concat, part)) if needed is not None]
    inputs = tuple(concat.inputs[i] for i in kept)
    joined = _Channels(starts[kept[0]] + channels_of[inputs[0]].first, starts[kept[-1]] + channels_of[inputs[-1]].stop)
    return replace(concat, inputs=inputs), joined


def _cut(graph: Graph, node: Node, part: _Channels) -> Node:
    return node if part == _all(graph, node.name) else replace(node, op=_with_channels(node.op, part))


def _with_channels(op: Op, part: _Channels) -> Op:
    """The operator for a part of the channels."""
    channels = np.arange(part.first, part.stop)
    match op:
        case ops.Conv2d(groups=1) | ops.ConvTranspose2d(groups=1) | ops.Dense():
            return ops.with_outputs(op, channels)
        case ops.Conv2d() | ops.ConvTranspose2d():
            return replace(ops.with_outputs(op, channels), groups=len(channels))
        case ops.Scale(factor=factor, shift=shift, activation=function):
            shift = None if shift is None else shift.take_rows(channels)
            function = None if function is None else ops.for_channels(function, channels)
            return ops.Scale(factor.take_rows(channels), shift, function)
        case ops.Activation(function=function):
            return ops.Activation(ops.for_channels(function, channels))
        case (ops.MaxPool2d() | ops.AveragePool2d()) as pool if pool.activation is not None:
            return replace(pool, activation=ops.for_channels(pool.activation, channels))
        case _:
            return op
