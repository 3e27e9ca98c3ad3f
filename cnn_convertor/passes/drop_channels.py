"""Leaves out channels that no output needs: weights whose results nobody reads, and parts of concatenations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import (
    Activation,
    AveragePool2d,
    Axis,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Crop,
    Dense,
    Input,
    MaxPool2d,
    Op,
    Pad,
    Scale,
    Shape,
    Unary,
    Upsample,
    for_channels,
    with_outputs,
)


class _Part(NamedTuple):
    """Channels from first to before stop."""

    first: int
    stop: int

    def within(self, first: int, stop: int) -> _Part | None:
        """What of the part lies in a range, counted from the range's start; None when nothing does."""
        part = _Part(max(self.first, first) - first, min(self.stop, stop) - first)
        return part if part.first < part.stop else None


def drop_channels(graph: Graph) -> Graph:
    """weights -> operators between -> crops: the weights give no channels but those that some crop needs.

    The operators between: those that treat each channel by itself, and concatenations, whose other parts are left out. Where
    several crops begin at different channels, those before the first one stay, so that what begins with a whole chunk of a
    device goes on to do so. A crop of a crop is one; a crop that takes everything is gone, and so is a concatenation of one part.
    """
    graph = graph.fuse(_join)
    if any(isinstance(node.op, Crop) for node in graph.nodes):
        graph = _narrowed(graph, _wanted(graph)).fuse(_join)
    gone = (node.name for node in graph.nodes if _does_nothing(graph, node))
    return graph.bypass(name for name in gone if name not in graph.outputs)


def _join(lookup: Lookup, first: Node, second: Node) -> Op | None:
    """A node and one that does nothing, but for inputs, which keep their names; a crop and a crop."""
    if _does_nothing(lookup, second):
        return None if isinstance(first.op, Input) else first.op
    if isinstance(first.op, Crop) and isinstance(second.op, Crop):
        start, stride = first.op.start, first.op.stride
        return Crop(
            Shape(*(a + b * s for a, b, s in zip(start, second.op.start, stride, strict=True))),
            Shape(*(a + (b - 1) * s + 1 for a, b, s in zip(start, second.op.stop, stride, strict=True))),
            Shape(*(s * t for s, t in zip(stride, second.op.stride, strict=True))),
        )
    return None


def _does_nothing(lookup: Lookup, node: Node) -> bool:
    is_one = isinstance(node.op, Crop | Concat) and len(node.inputs) == 1
    return is_one and lookup.shape(node.name) == lookup.shape(node.inputs[0])


# --- what is needed, from the outputs up ---------------------------------------------------------------------------------


def _wanted(graph: Graph) -> dict[str, _Part]:
    """The channels of each node that somebody needs, in one piece; who is not there is not needed."""
    readers: dict[str, list[_Part]] = {name: [_all(graph, name)] for name in graph.outputs}
    wanted: dict[str, _Part] = {}
    for node in reversed(graph.nodes):
        parts = readers.get(node.name)
        if parts is None:
            continue
        first = parts[0].first if len({part.first for part in parts}) == 1 else 0
        wanted[node.name] = _Part(first, max(part.stop for part in parts))
        for name, part in zip(node.inputs, _needed(graph, node, wanted[node.name]), strict=True):
            if part is not None:
                readers.setdefault(name, []).append(part)
    return wanted


def _needed(graph: Graph, node: Node, part: _Part) -> list[_Part | None]:
    """What of each of its inputs a node needs to give a part of its channels."""
    match node.op:
        case Crop() as crop:
            return [_cropped(crop, part)]
        case Concat(axis=Axis.CHANNELS):
            ends = list(accumulate(graph.shape(name).channels for name in node.inputs))
            return [part.within(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        case op if _is_by_channel(op):
            return [part]
        case _:
            return [_all(graph, name) for name in node.inputs]


def _cropped(crop: Crop, part: _Part) -> _Part:
    """Which channels of its input a part of a crop's channels are, in one piece."""
    first, stride = crop.start.channels, crop.stride.channels
    return _Part(first + part.first * stride, first + (part.stop - 1) * stride + 1)


def _all(graph: Graph, name: str) -> _Part:
    return _Part(0, graph.shape(name).channels)


def _is_by_channel(op: Op) -> bool:
    """Whether an operator with one input treats each channel by itself."""
    match op:
        case Conv2d() | ConvTranspose2d():
            return op.is_depthwise
        case Activation() | Unary() | AveragePool2d() | MaxPool2d() | Pad() | Scale() | Upsample():
            return True
        case _:
            return False


# --- what is given, from the inputs down ---------------------------------------------------------------------------------


def _narrowed(graph: Graph, wanted: dict[str, _Part]) -> Graph:
    """The graph in which every node that can gives what is wanted of it alone."""
    given: dict[str, _Part] = {}  # of each node's channels
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in wanted:
            node, given[node.name] = _narrow(graph, node, wanted[node.name], given)
        if node.name in wanted or isinstance(node.op, Input):
            nodes.append(node)
    return Graph(tuple(nodes), graph.outputs)


def _narrow(graph: Graph, node: Node, part: _Part, given: Mapping[str, _Part]) -> tuple[Node, _Part]:
    """The node with inputs that are as they are given, and what it gives then: at least the part of its channels."""
    match node.op:
        case Conv2d(groups=1) | ConvTranspose2d(groups=1) | Dense():
            return _cut(graph, node, part), part
        case Crop(start=start, stop=stop) as crop:
            first, last = (channel - given[node.inputs[0]].first for channel in _cropped(crop, part))
            narrow = replace(crop, start=start._replace(channels=first), stop=stop._replace(channels=last))
            return replace(node, op=narrow), part
        case Concat(axis=Axis.CHANNELS):
            return _with_parts(graph, node, part, given)
        case op if _is_by_channel(op):
            part = given[node.inputs[0]]
            return _cut(graph, node, part), part
        case _:
            return node, _all(graph, node.name)


def _with_parts(graph: Graph, concat: Node, part: _Part, given: Mapping[str, _Part]) -> tuple[Node, _Part]:
    """The concatenation of those inputs of which something is needed. Between the first and the last all is given."""
    ends = list(accumulate(graph.shape(name).channels for name in concat.inputs))
    starts = [0, *ends[:-1]]
    kept = [i for i, needed in enumerate(_needed(graph, concat, part)) if needed is not None]
    inputs = tuple(concat.inputs[i] for i in kept)
    made = _Part(starts[kept[0]] + given[inputs[0]].first, starts[kept[-1]] + given[inputs[-1]].stop)
    return replace(concat, inputs=inputs), made


def _cut(graph: Graph, node: Node, part: _Part) -> Node:
    return node if part == _all(graph, node.name) else replace(node, op=_with_channels(node.op, part))


def _with_channels(op: Op, part: _Part) -> Op:
    """What gives, and for operators between reads, a part of the channels alone."""
    channels = np.arange(part.first, part.stop)
    match op:
        case Conv2d(groups=1) | ConvTranspose2d(groups=1) | Dense():
            return with_outputs(op, channels)
        case Conv2d() | ConvTranspose2d():
            return replace(with_outputs(op, channels), groups=len(channels))
        case Scale(factor=factor, shift=shift, activation=function):
            shift = None if shift is None else shift.take_rows(channels)
            function = None if function is None else for_channels(function, channels)
            return Scale(factor.take_rows(channels), shift, function)
        case Activation(function=function):
            return Activation(for_channels(function, channels))
        case (MaxPool2d() | AveragePool2d()) as pool if pool.activation is not None:
            return replace(pool, activation=for_channels(pool.activation, channels))
        case _:
            return op
