"""Convolutions of groups as dense ones, each of some groups, with zeros for the channels of others."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from cnn_convertor.devices.nvdla.chains import ATOM
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, MisfitError, misfits
from cnn_convertor.devices.nvdla.grouped import blocks_of
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.layouts.nvdla.precision import Precision

AnyKernels = TypeVar("AnyKernels", bound="ops.Conv2d | ops.ConvTranspose2d")


def grouped_deconvolutions(graph: Graph, node: Node) -> Iterable[Node] | None:
    """Blocks of groups that begin with surfaces, each a deconvolution of one group with zeros."""
    op = node.op
    if not isinstance(op, ops.ConvTranspose2d) or op.groups == 1:
        return None
    outputs, per_group = op.weight.shape[0] // op.groups, op.weight.shape[1]
    least = math.lcm(*(ATOM // math.gcd(ATOM, channels) for channels in (outputs, per_group)))
    at_a_time = op.groups if op.groups % least else least
    nodes: list[Node] = []
    parts = []
    for number, first in enumerate(range(0, op.groups, at_a_time)):
        source = node.inputs[0]
        if at_a_time < op.groups:
            view = ops.ChannelSlice(first * per_group, at_a_time * per_group)
            slice_ = replace(node, name=graph.fresh(f"{node.name}/slice{number}"), op=view, inputs=(source,))
            nodes.append(slice_)
            source = slice_.name
        name = node.name if at_a_time == op.groups else graph.fresh(f"{node.name}/groups{number}")
        dense = _dense(op, first * outputs, at_a_time * outputs, at_a_time)
        nodes.append(replace(node, name=name, op=dense, inputs=(source,)))
        parts.append(name)
    if len(parts) > 1:
        nodes.append(replace(node, op=ops.Concat(), inputs=tuple(parts)))
    return nodes


def groups(graph: Graph, node: Node, configuration: Configuration) -> Iterable[Node] | None:
    """Each block of groups reads a slice of the channels, and writes a part of a concatenation in place."""
    op = node.op
    if not isinstance(op, ops.Conv2d) or op.groups == 1:
        return None
    size = ConvolutionSize(graph.shape(node.inputs[0]), op.weight.shape[0], op.window)
    try:
        blocks = blocks_of(size, op.groups, configuration, Precision.FP16)
    except MisfitError:
        return None
    if misfits(blocks[0].size, configuration, Precision.FP16):
        return None
    nodes: list[Node] = []
    parts = []
    for number, block in enumerate(blocks):
        source = node.inputs[0]
        if len(blocks) > 1:
            view = ops.ChannelSlice(block.first_input, block.size.input.channels)
            slice_ = replace(node, name=graph.fresh(f"{node.name}/slice{number}"), op=view, inputs=(source,))
            nodes.append(slice_)
            source = slice_.name
        name = node.name if len(blocks) == 1 else graph.fresh(f"{node.name}/groups{number}")
        dense = _dense(op, block.first_output, block.size.kernels, block.groups)
        nodes.append(replace(node, name=name, op=dense, inputs=(source,)))
        parts.append(name)
    if len(parts) > 1:
        nodes.append(replace(node, op=ops.Concat(), inputs=tuple(parts)))
    return nodes


def _dense(op: AnyKernels, first: int, kernels: int, count: int) -> AnyKernels:
    """So many kernels from the first one on, which are `count` groups, as one group."""
    part = ops.with_outputs(op, np.arange(first, first + kernels))

    def spread(values: Array, rows: slice) -> Array:
        number, channels, *taps = values.shape
        dense = np.zeros((number, count, channels, *taps), np.float32)
        dense[np.arange(number), np.arange(rows.start, rows.stop) // (kernels // count)] = values
        return dense.reshape(number, count * channels, *taps)

    _, channels, *taps = part.weight.shape
    weight: Constant = part.weight.map_rows_with(spread, (count * channels, *taps))
    return replace(part, weight=weight, groups=1)
