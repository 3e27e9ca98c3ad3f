"""Makes nodes that only select or reorder channels part of the operators beside them."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate

import numpy as np

from cnn_convertor.devices.channel_moves import Channels, as_convolution, channels_of, gather
from cnn_convertor.devices.dv700.commands import run_of
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.ub_fit import strips
from cnn_convertor.devices.dv700.legalize.decompose_conv import groups, ungrouped
from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Shape


def join_gathers(graph: Graph, device: Device) -> Graph:
    """Make gathers of channels part of what they read or of what reads them, until nothing changes.

    Case 1: the operators before have weights, and nothing else reads them: their rows take the order. The same bits.
    Case 2: each reader has weights or gathers channels, too: the weights get columns of zeros for channels that are not read.
    The same products, which the device adds in another order. Only where that takes no longer than a command for the gather.
    Case 3: the channels are those of one part of a concatenation. The same bits.
    """
    while (after := _joined_below(_joined_above(_without_idle(graph), device), device)) != graph:
        graph = after
    return graph


def is_slice(x: Shape, channels: Channels) -> bool:
    """Whether the channels are a part of the map's memory: whole chunks, or any part of a vector."""
    first, last = int(channels[0]), int(channels[-1])
    if not np.array_equal(channels, np.arange(first, last + 1)):
        return False
    return x.is_vector or (first % CHUNK == 0 and ((last + 1) % CHUNK == 0 or last + 1 == x.channels))


def command_usec(x: Shape, op: Op, device: Device) -> float:
    """The time of a command for an operator with one input: the sum of both ends. Infinite where none can do it."""
    node = Node("y", op, ("x",))
    graph = Graph((Node("x", ops.Input(x)), node), ("y",))
    if strips(run_of(graph, (node,), transposed=True), ub_size=device.limits.ub_size) is None:
        return math.inf
    usec = device.estimate(graph, (node,)).usec
    return usec.low + usec.high


# --- what a gather reads -------------------------------------------------------------------------------------------------


def _without_idle(graph: Graph) -> Graph:
    """Case 3, and gathers that keep each channel in its place."""
    ends: dict[str, list[int]] = {}  # of the parts of each concatenation
    graph = graph.expand(lambda graph, node: _of_one_part(graph, node, ends))
    idle = []
    for node in graph.nodes:
        channels = None if graph.is_output(node.name) else channels_of(graph, node)
        if channels is not None and np.array_equal(channels, np.arange(graph.shape(node.inputs[0]).channels)):
            idle.append(node.name)
    return graph.bypass(idle)


def _of_one_part(graph: Graph, node: Node, ends: dict[str, list[int]]) -> list[Node] | None:
    channels = channels_of(graph, node)
    if channels is None or graph[node.inputs[0]].op != ops.Concat():
        return None
    concat = graph[node.inputs[0]]
    if concat.name not in ends:
        ends[concat.name] = list(accumulate(graph.shape(name).channels for name in concat.inputs))
    number = bisect_right(ends[concat.name], int(channels.min()))
    if channels.max() >= ends[concat.name][number]:
        return None
    part = concat.inputs[number]
    shape = graph.shape(part)
    start = ends[concat.name][number] - shape.channels
    return [replace(node, op=gather(shape, channels - start), inputs=(part,))]


def _joined_above(graph: Graph, device: Device) -> Graph:
    """Case 1."""

    def rule(graph: Graph, node: Node) -> list[Node] | None:
        channels = channels_of(graph, node)
        return None if channels is None else taken_above(graph, node, channels, device)

    return graph.expand(rule).without_dead()


def taken_above(graph: Graph, node: Node, channels: Channels, device: Device) -> list[Node] | None:
    """Operators that give these channels of what a node reads, the last one in its place; None where that needs a command.

    Between the node and the weights may be operators that treat each channel by itself.
    """
    path: list[Node] = []
    name = node.inputs[0]
    while True:
        above = graph[name]
        if not graph.is_private(name) or len(above.inputs) != 1:
            return None
        path.insert(0, above)
        if isinstance(above.op, ops.Conv2d | ops.ConvTranspose2d | ops.Dense) and not _is_depthwise(above.op):
            break
        if not _is_channelwise(above.op):
            return None
        (name,) = above.inputs
    chunks = -(-graph.shape(path[0].name).channels // CHUNK)
    if len(channels) > CHUNK * chunks or groups(graph, path[0], device, dilates_depthwise=True) is not None:
        return None
    nodes: list[Node] = []
    for above in path:
        inputs = (nodes[-1].name,) if nodes else above.inputs
        nodes.append(
            replace(
                above, name=graph.fresh(f"{above.name}/channels"), op=of_channels(above.op, channels), inputs=inputs
            )
        )
    last = nodes[-1]
    nodes[-1] = replace(last, name=node.name, origins=last.origins + node.origins, main=last.where)
    return nodes


def _is_depthwise(op: Op) -> bool:
    return isinstance(op, ops.Conv2d | ops.ConvTranspose2d) and op.is_depthwise


def _is_channelwise(op: Op) -> bool:
    return _is_depthwise(op) or isinstance(
        op, ops.MaxPool2d | ops.AveragePool2d | ops.Upsample | ops.Pad | ops.Scale | ops.Activation
    )


def of_channels(op: Op, channels: Channels) -> Op:
    """An operator with weights, or one that treats each channel by itself, for some of its channels."""
    match op:
        case ops.Conv2d() | ops.ConvTranspose2d() if op.is_depthwise:
            return replace(ops.with_outputs(op, channels), groups=len(channels))
        case ops.Conv2d() | ops.ConvTranspose2d():
            return ops.with_outputs(replace(op, weight=ungrouped(op.weight, op.groups), groups=1), channels)
        case ops.Dense():
            return ops.with_outputs(op, channels)
        case ops.Scale(factor=factor, shift=shift, activation=function):
            shift = None if shift is None else shift.take_rows(channels)
            return ops.Scale(factor.take_rows(channels), shift, _of_some(function, channels))
        case ops.MaxPool2d(activation=function) | ops.AveragePool2d(activation=function):
            return replace(op, activation=_of_some(function, channels))
        case ops.Activation(function=function):
            return ops.Activation(ops.for_channels(function, channels))
        case _:
            return op


def _of_some(function: ops.Function | None, channels: Channels) -> ops.Function | None:
    return None if function is None else ops.for_channels(function, channels)


# --- what reads a gather -------------------------------------------------------------------------------------------------


def _joined_below(graph: Graph, device: Device) -> Graph:
    """Case 2."""
    joined: dict[str, Channels] = {}
    for node in graph.nodes:
        channels = channels_of(graph, node)
        if channels is None or node.inputs[0] in joined:
            continue
        x = graph.shape(node.inputs[0])
        alone = 0.0 if is_slice(x, channels) else command_usec(x, as_convolution(channels, x.channels), device)
        if usec_below(graph, node, x, channels, device) < alone:
            joined[node.name] = channels

    def rule(graph: Graph, node: Node) -> list[Node] | None:
        name = node.inputs[0] if node.inputs else ""
        if name not in joined:
            return None
        before = graph[name]
        own = channels_of(graph, node)
        x = graph.shape(before.inputs[0])
        op = _with_columns(node.op, joined[name], x) if own is None else gather(x, joined[name][own])
        return [replace(node, op=op, inputs=before.inputs, origins=before.origins + node.origins, main=node.where)]

    return graph.expand(rule).without_dead()


def usec_below(graph: Graph, node: Node, x: Shape, channels: Channels, device: Device) -> float:
    """How much longer the readers of a node take that read the map x, of which it has these channels: the sum of both ends.

    Infinite where one cannot.
    """
    readers = [graph[name] for name in graph.users(node.name)]
    if graph.is_output(node.name) or not readers or len({*channels.tolist()}) < len(channels):
        return math.inf
    if x.channels > device.limits.max_channels:
        return math.inf
    more = 0.0
    for reader in readers:
        if channels_of(graph, reader) is not None:
            continue
        if not isinstance(reader.op, ops.Conv2d | ops.Dense) or getattr(reader.op, "groups", 1) > 1:
            return math.inf
        wide = command_usec(x, _with_columns(reader.op, channels, x), device)
        more += wide - command_usec(graph.shape(node.name), reader.op, device)
    return more


def _with_columns(op: Op, channels: Channels, x: Shape) -> Op:
    """An operator with weights that reads these channels among those of x."""
    assert isinstance(op, ops.Conv2d | ops.Dense)
    _, _, *kernel = op.weight.shape

    def spread(rows: Array) -> Array:
        wide = np.zeros((len(rows), x.channels, *kernel), np.float32)
        wide[:, channels] = rows
        return wide

    return replace(op, weight=op.weight.map_rows(spread, (x.channels, *kernel)))
