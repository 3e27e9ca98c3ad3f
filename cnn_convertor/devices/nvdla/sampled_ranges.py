"""The ranges of what functions with a table read on samples, for which their tables are then chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, frexp, ldexp
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from cnn_convertor.devices.nvdla.firmware.descriptors import Engine
from cnn_convertor.devices.nvdla.network_program import NvdlaLayer, NvdlaProgram, NvdlaRun
from cnn_convertor.devices.nvdla.point_units import PointAction, activation_functions
from cnn_convertor.emulation.feature_maps import Maps, as_maps
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node

if TYPE_CHECKING:
    from cnn_convertor.emulation.network import EmulatedNetwork

SAMPLES: Final = 8  # at most: each one runs on the twin
_MARGIN: Final = 1.125  # beyond what samples show


class SampledRange(NamedTuple):
    """What the function of a node reads: values in low..high; of CDP, sums of squares. node: of the legal graph."""

    node: str
    low: float
    high: float


def tables_apart(graph: Graph, node: Node) -> Iterable[Node] | None:
    """An operator without its activation, if that has a table: what the table reads is then a map."""
    if not isinstance(node.op, ops.Activated) or isinstance(node.op, ops.OnCpu) or node.op.activation is None:
        return None
    function = node.op.activation
    if all(each.action is not PointAction.TABLE for each in activation_functions(function)):
        return None
    bare = replace(node, name=graph.fresh(f"{node.name}/linear"), op=replace(node.op, activation=None))
    return bare, replace(node, op=ops.Activation(function), inputs=(bare.name,))


def has_tables(program: NvdlaProgram) -> bool:
    return any(run.table is not None for layer in program.layers for run in layer.runs)


def sampled_ranges(network: EmulatedNetwork, inputs: Mapping[str, Maps]) -> tuple[SampledRange, ...]:
    """Of each function that has an operation of its own, as `tables_apart` leaves it."""
    program = network.program
    assert isinstance(program, NvdlaProgram)
    samples = {name: maps[:SAMPLES] for name, maps in inputs.items()}
    layers = network.run(samples, layers=True).layers
    ranges: dict[str, SampledRange] = {}
    for layer in program.layers:
        for run in layer.runs:
            if run.table is not None:
                ranges[layer.name] = _range_of(layer, run, _read(program, layer, layers, samples))
    return tuple(ranges.values())


def _read(program: NvdlaProgram, layer: NvdlaLayer, layers: Sequence[Maps], samples: Mapping[str, Maps]) -> Maps:
    """The map that flows into a layer, (N, H, W, C); of a view, all that it shows a part of."""
    source = layer.sources[0]
    if source is not None:
        written = program.layers[source]
        return as_maps(layers[source], written, written.output.shape)
    offset = layer.inputs[0].offset
    return next(samples[name] for name, tensor in program.inputs if tensor.offset == offset)


def _range_of(layer: NvdlaLayer, run: NvdlaRun, maps: Maps) -> SampledRange:
    if run.operation.engine is Engine.CDP:
        return SampledRange(layer.name, 0.0, _outward(_largest_sum(maps, run.operation.op.local_size)))
    return SampledRange(layer.name, -_outward(-float(maps.min())), _outward(float(maps.max())))


def _largest_sum(maps: Maps, size: int) -> float:
    """Of the squares of so many channels side by side."""
    squares = np.square(maps, dtype=np.float64)
    around = np.pad(squares, ((0, 0), (0, 0), (0, 0), (size // 2, size // 2)))
    sums = np.zeros_like(squares)
    for first in range(size):
        sums += around[..., first : first + maps.shape[-1]]
    return float(sums.max())


def _outward(bound: float) -> float:
    """With a margin, and with two binary digits, so that layers can share tables; an end on the other side of 0 becomes 0."""
    if bound <= 0:
        return 0.0
    part, exponent = frexp(bound * _MARGIN)
    return ldexp(ceil(part * 4), exponent - 2)
