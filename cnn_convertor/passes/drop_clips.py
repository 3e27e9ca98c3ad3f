"""Drops functions that change nothing, since the values that they get are known to lie in a range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ElementFunction, Function, Op


class _Range(NamedTuple):
    """What all values of a map lie between."""

    low: float
    high: float

    def clipped(self, low: float, high: float) -> _Range:
        return _Range(min(max(self.low, low), high), min(max(self.high, low), high))

    def within(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high

    def with_zero(self) -> _Range:
        return _Range(min(self.low, 0.0), max(self.high, 0.0))


_ANY: Final = _Range(-math.inf, math.inf)
_Functions = Function | ElementFunction


def drop_clips(graph: Graph) -> Graph:
    """Case 1: a clip, ReLU or ReLU6 of values that it keeps, as behind sigmoid, ReLU6 or another clip.

    Case 2: a clip from below 0 of values of 0 or more; it becomes one from 0. Case 3: a ReLU before a clip from 0 alone.
    """
    ranges: dict[str, _Range] = {}
    idle = []
    for node in graph.nodes:
        ranges[node.name] = _of(node.op, [ranges[name] for name in node.inputs])
        if not graph.is_output(node.name) and _changes_nothing(graph, node, ranges):
            idle.append(node.name)
            ranges[node.name] = ranges[node.inputs[0]]  # what its readers get

    def rule(_: Graph, node: Node) -> list[Node] | None:
        match node.op:
            case ops.Unary(function=ops.Clip(low=low, high=high)) if low < 0 <= ranges[node.inputs[0]].low < high:
                return [replace(node, op=ops.Unary(ops.Clip(0.0, high)))]
            case _:
                return None

    return graph.expand(rule).bypass(idle)


def _changes_nothing(graph: Graph, node: Node, ranges: dict[str, _Range]) -> bool:
    function = _function(node.op)
    if function is None:
        return False
    before = ranges[node.inputs[0]]
    match function:
        case ops.Clip(low=low, high=high):
            return before.within(low, high)
        case ops.Relu6():
            return before.within(0, 6)
        case ops.Relu():
            users = [_function(graph[name].op) for name in graph.users(node.name)]
            is_clipped = all(isinstance(user, ops.Clip) and user.low == 0 for user in users)
            return before.low >= 0 or (function.slope == 0 and bool(users) and is_clipped)
        case _:
            return False


def _function(op: Op) -> _Functions | None:
    return op.function if isinstance(op, ops.Activation | ops.Unary) else None


def _of(op: Op, inputs: Sequence[_Range]) -> _Range:
    """What the results of an operator lie between."""
    hull = _Range(min((each.low for each in inputs), default=0.0), max((each.high for each in inputs), default=0.0))
    function = getattr(op, "activation", None)
    match op:
        case ops.Activation() | ops.Unary():
            return _after(op.function, hull)
        case ops.Softmax():
            return _Range(0.0, 1.0)
        case ops.Pad() | ops.SpaceToDepth():
            return hull.with_zero()
        case ops.Gather(filling=filling):
            return _Range(min(hull.low, filling), max(hull.high, filling))
        case ops.AveragePool2d(factor=None):
            return hull.with_zero() if function is None else _after(function, hull.with_zero())
        case ops.MaxPool2d():
            return hull if function is None else _after(function, hull)
        case ops.Binary(operation=ops.BinaryOp.MAXIMUM | ops.BinaryOp.MINIMUM):
            return hull
        case (
            ops.Identity() | ops.Concat() | ops.Upsample() | ops.Crop() | ops.Reshape() | ops.Resize()
            | ops.TransposeReshape()
        ):  # fmt: skip
            return hull
        case _:
            return _ANY if function is None else _after(function, _ANY)


def _after(function: _Functions, before: _Range) -> _Range:
    """What the results of a function lie between."""
    match function:
        case ops.Relu(slope=slope) if slope >= 0:
            low = min(slope * before.low, before.low) if slope and before.low < 0 else max(before.low, 0.0)
            return _Range(low, max(before.high, 0.0))
        case ops.Relu6():
            return before.clipped(0.0, 6.0)
        case ops.Clip(low=low, high=high):
            return before.clipped(low, high)
        case ops.Sigmoid() | ops.HardSigmoid():
            return _Range(0.0, 1.0)
        case ops.Tanh() | ops.Softsign() | ops.Sine() | ops.Cosine() | ops.ErrorFunction():
            return _Range(-1.0, 1.0)
        case _:
            return _ANY
