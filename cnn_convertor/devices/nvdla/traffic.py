"""The bytes of maps that steps move, and why steps end."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from cnn_convertor.devices.nvdla.chains import Chain, functions_with, goes_on, is_view
from cnn_convertor.devices.nvdla.placement import map_bytes
from cnn_convertor.devices.nvdla.pooling import flies
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.target import Boundary, MapTraffic
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node


def map_traffic(graph: Graph, steps: Sequence[Chain]) -> MapTraffic:
    """Bytes that the steps of the device read and write, and at least how many any steps would."""
    moved = 0
    for step in steps:
        if step.type is LayerType.CONV:
            moved += sum(map_bytes(graph, name) for name in (*step.reads, step.writes))
    return MapTraffic(moved, _least(graph))


def _least(graph: Graph) -> int:
    """Bytes if every map that can be handed on without memory is, however many functions a chain would need for that.

    Every other map is written once, and read by each operator that begins a chain, or once if there is none.
    """
    own = [node for node in graph.nodes if _kind(graph, node) is not None]
    flying = set(filter(None, (_handed_on(graph, node) for node in own)))
    least = sum(map_bytes(graph, node.name) for node in own if node.name not in flying)
    for node in graph.nodes:
        if node.name not in flying:
            readers = [_kind(graph, graph[user]) for user in graph.users(node.name)]
            begun = sum(kind in {_Kind.FIRST, _Kind.POOL} for kind in readers)
            others = any(kind is _Kind.FUNCTION for kind in readers)
            least += max(begun, int(others)) * map_bytes(graph, node.name)
    return least


class _Kind(Enum):
    """What an operator of the device is in a chain."""

    FIRST = "only its beginning"
    FUNCTION = "anything but behind a pool"
    POOL = "its end"


def _kind(graph: Graph, node: Node) -> _Kind | None:
    """None for what is not the device's, or no operation."""
    if is_view(graph, node):
        return None
    match node.op:
        case ops.Input() | ops.OnCpu() | ops.Custom() | ops.Concat():
            return None
        case ops.MaxPool2d() | ops.AveragePool2d():
            return _Kind.POOL
        case ops.Conv2d() | ops.LocalResponseNorm() | ops.TransposeReshape():
            return _Kind.FIRST
        case _:
            return _Kind.FUNCTION


def _handed_on(graph: Graph, reader: Node) -> str | None:
    """The largest map that a node can have without memory: from a convolution or a function, and for this node alone."""
    if _kind(graph, reader) is _Kind.FIRST:
        return None
    maps = []
    for name in reader.inputs:
        writer = graph[name]
        is_function = isinstance(writer.op, ops.Conv2d) or _kind(graph, writer) is _Kind.FUNCTION
        if is_function and graph.is_private(name):
            maps.append(name)
    return max(maps, key=lambda name: map_bytes(graph, name), default=None)


def boundaries(graph: Graph, steps: Sequence[Chain]) -> tuple[Boundary, ...]:
    """Why a step of the device ends where another one reads its map."""
    reasons = []
    device = {step.writes: step for step in steps if step.type is LayerType.CONV}
    for step in device.values():
        before = device.get(step.flowing)
        if before is not None:
            reasons.append(Boundary(before.writes, step.nodes[0].name, _reason(graph, before, step)))
    return tuple(reasons)


def _reason(graph: Graph, before: Chain, step: Chain) -> str:
    if not graph.is_private(before.writes):
        return "its map has another reader, or is an output"
    if not goes_on(before):
        return "nothing follows a pool or a normalization on the fly"
    if step.first is not None and isinstance(step.first.op, ops.Conv2d):
        return "a convolution reads memory"
    if step.first is not None:
        return "only functions of elements and pools follow on the fly"
    pool = step.nodes[0].op
    if isinstance(pool, ops.MaxPool2d | ops.AveragePool2d):
        is_whole = flies(pool, graph.shape(before.writes))
        return "its map is written in bands, or fusion is off" if is_whole else "the pool does not read its map whole"
    if functions_with(graph, before, step.nodes[0]) is None:
        return "the units of SDP are taken"
    return "chains of several operators are off"
