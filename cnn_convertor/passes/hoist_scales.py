"""Moves scales after a sum, a concatenation or a pool into the weights above."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant, Wide
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes.fold_scales import scaled, wide
from cnn_convertor.passes.hoisting import Hoisted, hoist_into_parts, without


class _Affine(NamedTuple):
    """x * factor + shift, each (C,)."""

    factor: Wide
    shift: Wide

    @property
    def op(self) -> ops.Scale:
        return ops.Scale(Constant.wide(self.factor), Constant.wide(self.shift) if self.shift.any() else None)

    @property
    def linear(self) -> _Affine:
        return self._replace(shift=np.zeros_like(self.shift))

    def part(self, channels: slice) -> _Affine:
        return _Affine(self.factor[channels], self.shift[channels])


def hoist_scales(graph: Graph) -> Graph:
    """weights -> operators between -> scale, where nothing else uses the maps between. The operators between:

    case 1: sum (scales both inputs, shifts one); case 2: concatenation (at most one part without weights gets a scale
    inserted); case 3: max pool, by factors >= 0; case 4: average pool, unless there is a shift and zeros count; a uniform
    factor joins the pool's own; case 5: upsampling; case 6: padding, without a shift.
    """
    for name in [node.name for node in graph.nodes if isinstance(node.op, ops.Scale)]:
        node = graph[name]
        if isinstance(node.op, ops.Scale) and node.op.activation is None:
            hoisted = _hoist(graph, node.inputs[0], _Affine(*wide(node.op)))
            if hoisted is not None and len(hoisted.between) <= 1 and hoisted.ops:
                graph = without(graph, node, hoisted)
    return graph


def _hoist(graph: Graph, name: str, by: _Affine) -> Hoisted | None:
    """The changes that scale the named node's output; None if impossible."""
    node = graph[name]
    while graph.is_private(node.name) and _commutes(node.op, by):
        node = graph[node.inputs[0]]
    if not graph.is_private(node.name):
        return None
    match node.op:
        case ops.Conv2d() | ops.ConvTranspose2d() | ops.Dense() | ops.Scale() as op if op.activation is None:
            return Hoisted({node.name: scaled(op, *by)}, {})
        case ops.Add(activation=None):
            first, second = node.inputs
            return _both(graph, (first, by), (second, by.linear)) or _both(graph, (first, by.linear), (second, by))
        case ops.Concat(axis=ops.Axis.CHANNELS):
            return hoist_into_parts(
                graph,
                node,
                lambda name, channels: _hoist(graph, name, by.part(channels)),
                lambda channels: by.part(channels).op,
            )
        case ops.AveragePool2d(activation=None) as pool if _joins(pool, by):
            return Hoisted({node.name: replace(pool, factor=pool.fixed_factor * float(by.factor[0]))}, {})
        case _:
            return None


def _commutes(op: ops.Op, by: _Affine) -> bool:
    """Whether the scale may come before the operator instead, and has no better place in it."""
    match op:
        case ops.MaxPool2d(activation=None):
            return bool(np.all(by.factor >= 0))
        case ops.AveragePool2d(activation=None) as pool:
            averages = pool.factor is None and pool.window.padding == ops.NO_PADDING
            return (averages or not by.shift.any()) and not _joins(pool, by)
        case ops.Upsample():
            return True
        case ops.Pad():
            return not by.shift.any()
        case _:
            return False


def _joins(pool: ops.AveragePool2d, by: _Affine) -> bool:
    """Whether the scale can be part of the pool's own factor."""
    uniform = np.all(by.factor == by.factor[0]) and not by.shift.any()
    return bool(uniform) and (pool.factor is not None or pool.uncounted == ops.NO_PADDING)


def _both(graph: Graph, *inputs: tuple[str, _Affine]) -> Hoisted | None:
    """The changes that scale both inputs of a sum."""
    both = [_hoist(graph, name, by) for name, by in inputs]
    return None if both[0] is None or both[1] is None else both[0].plus(both[1])
