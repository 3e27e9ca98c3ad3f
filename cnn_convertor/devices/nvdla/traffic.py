"""The bytes of maps that steps move, and why steps end."""

from __future__ import annotations

from collections.abc import Sequence

from cnn_convertor.devices.nvdla.chains import Chain, functions_with, goes_on
from cnn_convertor.devices.nvdla.placement import map_bytes
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.target import Boundary, MapTraffic
from cnn_convertor.ir.graph import Graph


def map_traffic(graph: Graph, steps: Sequence[Chain]) -> MapTraffic:
    """Bytes that the steps of the device read and write; at least every map that two steps need is written and read once."""
    moved = 0
    for step in steps:
        if step.type is LayerType.CONV:
            moved += sum(map_bytes(graph, name) for name in (*step.reads, step.writes))
    return MapTraffic(moved, moved)


def boundaries(graph: Graph, steps: Sequence[Chain]) -> tuple[Boundary, ...]:
    """Why a step of the device ends where another one reads its map."""
    found = []
    device = {step.writes: step for step in steps if step.type is LayerType.CONV}
    for step in device.values():
        before = device.get(step.flowing)
        if before is not None:
            found.append(Boundary(before.writes, step.nodes[0].name, _reason(graph, before, step)))
    return tuple(found)


def _reason(graph: Graph, before: Chain, step: Chain) -> str:
    if not graph.is_private(before.writes):
        return "its map has another reader, or is an output"
    if not goes_on(before):
        return "nothing follows a pool or a normalization on the fly"
    if step.first is not None:
        return "a convolution reads memory"
    if functions_with(graph, before, step.nodes[0]) is None:
        return "the units of SDP are taken"
    return "chains of several operators are off"
