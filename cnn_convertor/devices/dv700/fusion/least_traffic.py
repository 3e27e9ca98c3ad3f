"""The bytes of feature maps that commands move, and a lower bound on them."""

from __future__ import annotations

from collections.abc import Sequence

from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.partition import FusionPlanner
from cnn_convertor.devices.dv700.memory.placement import nbytes
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.devices.target import MapTraffic
from cnn_convertor.ir.graph import Graph


def map_traffic(legal: Graph, graph: Graph, steps: Sequence[Command], *, fusion: Fusion, device: Device) -> MapTraffic:
    """legal: the graph before it was partitioned into the steps; graph: the one with a node for the map of each."""
    least = FusionPlanner(legal, fusion, device).least_map_bytes()
    return MapTraffic(sum(map_bytes(graph, step) for step in steps), least)


def map_bytes(graph: Graph, step: Command) -> int:
    """Bytes of feature maps that a command moves, each tile's own columns only; 0 for other layers."""
    if not step.assignments:
        return 0
    starts = sum(run.external for run in step.runs)
    first, *operands = step.reads
    return starts * nbytes(graph, first) + sum(nbytes(graph, name) for name in (*operands, step.writes))
