"""Brings what is added to a map into the range of FP16 where only its sign matters, as with masks of infinity."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import (
    Activation,
    Clip,
    Concat,
    Crop,
    Elu,
    Gather,
    HardSigmoid,
    HardSwish,
    Identity,
    Op,
    Relu,
    Relu6,
    Reshape,
    Scale,
    Sigmoid,
    SpaceToDepth,
    Tanh,
    TransposeReshape,
    Unary,
    Upsample,
)

LARGEST = 65504.0  # in FP16
CLAMPED = 60000.0  # leaves room for a bias that it is added to
MARGIN = 32.0  # a function that saturates does so at this distance from 0: of a map up to CLAMPED - MARGIN, each sum is beyond
MOVES = (Concat, Crop, Gather, Identity, Reshape, SpaceToDepth, TransposeReshape, Upsample)


class Saturated(NamedTuple):
    """Whether a number beyond MARGIN gives the same as infinity: above 0, and below 0."""

    above: bool
    below: bool


NEITHER = Saturated(False, False)


def clamp_shifts(graph: Graph) -> Graph:
    """x + 1e9 -> sigmoid becomes x + 60000 -> sigmoid; the function may follow moves, and each reader must saturate."""
    sides: dict[str, Saturated] = {}  # of each map, as all of its readers see it
    for node in reversed(graph.nodes):
        readers = [_read_by(graph[name], sides) for name in graph.users(node.name)]
        sides[node.name] = NEITHER
        if readers and not graph.is_output(node.name):
            sides[node.name] = Saturated(all(each.above for each in readers), all(each.below for each in readers))
    return graph.expand(lambda _, node: _clamped(node, sides[node.name]))


def _read_by(reader: Node, sides: dict[str, Saturated]) -> Saturated:
    match reader.op:
        case Activation(function=function) | Unary(function=function):
            return _saturates(function)
        case op if isinstance(op, MOVES):
            return sides[reader.name]
        case _:
            return NEITHER


def _saturates(function: object) -> Saturated:
    match function:
        case Sigmoid() | Tanh() | Relu6():
            return Saturated(True, True)
        case Relu(slope=0) | Elu() | HardSwish():
            return Saturated(False, True)
        case HardSigmoid(slope=slope, shift=shift):
            return Saturated(slope * MARGIN + shift >= 1, shift - slope * MARGIN <= 0)
        case Clip(low=low, high=high):
            return Saturated(high <= MARGIN, low >= -MARGIN)
        case _:
            return NEITHER


def _clamped(node: Node, sides: Saturated) -> tuple[Node] | None:
    op: Op = node.op
    if not isinstance(op, Scale) or op.shift is None or op.activation is not None or sides == NEITHER:
        return None
    shift = op.shift.load_wide()
    too_large = (shift > LARGEST) & sides.above
    too_small = (shift < -LARGEST) & sides.below
    if not np.any(too_large | too_small):
        return None
    clamped = np.where(too_large, CLAMPED, np.where(too_small, -CLAMPED, shift))
    return (replace(node, op=replace(op, shift=Constant.wide(clamped))),)
