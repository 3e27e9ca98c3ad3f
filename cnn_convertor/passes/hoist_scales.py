"""Moves scales after a sum, a concatenation or a pool into the weights above."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant, Wide
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.passes.fold_scales import scaled, wide
from cnn_convertor.passes.hoisting import Editing, Hoisted, Search, hoist_into_parts, search


@dataclass(frozen=True)
class _Affine:
    """x * factor + shift, each (C,)."""

    factor: Wide
    shift: Wide

    @cached_property
    def shifts(self) -> bool:
        return bool(self.shift.any())

    @cached_property
    def keeps_order(self) -> bool:
        """Whether a larger x never gives a smaller result."""
        return bool(np.all(self.factor >= 0))

    @cached_property
    def is_uniform(self) -> bool:
        """Whether it is a product with one number."""
        return bool(np.all(self.factor == self.factor[0])) and not self.shifts

    @property
    def op(self) -> ops.Scale:
        return ops.Scale(Constant.wide(self.factor), Constant.wide(self.shift) if self.shifts else None)

    @property
    def linear(self) -> _Affine:
        return _Affine(self.factor, np.zeros_like(self.shift))

    def part(self, channels: slice) -> _Affine:
        return _Affine(self.factor[channels], self.shift[channels])


def hoist_scales(graph: Graph) -> Graph:
    """weights -> operators between -> scale, where nothing else uses the maps between. The operators between:

    case 1: sum (scales both inputs, shifts one); case 2: concatenation (at most one part without weights gets a scale
    inserted); case 3: max pool, by factors >= 0; case 4: average pool, unless there is a shift and zeros count; a uniform
    factor joins the pool's own; case 5: upsampling; case 6: padding, without a shift.
    """
    editing = Editing(graph)

    def start(name: str, by: _Affine) -> Search[_Affine]:
        return _hoist(editing, name, by)

    for name in [node.name for node in graph.nodes if isinstance(node.op, ops.Scale)]:
        node = editing[name]
        if isinstance(node.op, ops.Scale) and node.op.activation is None:
            hoisted = search(start, node.inputs[0], _Affine(*wide(node.op)), lambda by: by.shifts)
            if hoisted is not None and len(hoisted.between) <= 1 and hoisted.ops:
                editing.remove(node, hoisted)
    return editing.done()


def _hoist(graph: Editing, name: str, by: _Affine) -> Search[_Affine]:
    """The changes that scale the named node's output; None if impossible."""
    node = graph[name]
    passed = list[str]()
    while graph.is_private(node.name) and _commutes(node.op, by):
        passed.append(node.name)
        node = graph[node.inputs[0]]
    if not graph.is_private(node.name):
        return None
    changes = yield from _hoist_into(graph, node, by)
    return changes and changes.past(*passed)


def _hoist_into(graph: Editing, node: Node, by: _Affine) -> Search[_Affine]:
    """The changes that scale the output of a node that no scale passes alone; None if impossible."""
    match node.op:
        case ops.Conv2d() | ops.ConvTranspose2d() | ops.Dense() | ops.Scale() as op if op.activation is None:
            return Hoisted({node.name: scaled(op, by.factor, by.shift)}, {})
        case ops.Add(activation=None):
            first, second = node.inputs
            for one, other in ((by, by.linear), (by.linear, by)):
                of_first = yield first, one
                of_second = yield second, other
                if of_first is not None and of_second is not None:
                    return of_first.plus(of_second).past(node.name)
            return None
        case ops.Concat(axis=ops.Axis.CHANNELS):
            return (yield from hoist_into_parts(graph, node, by.part, lambda channels: by.part(channels).op))
        case ops.AveragePool2d(activation=None) as pool if _joins(pool, by):
            return Hoisted({node.name: replace(pool, factor=pool.fixed_factor * float(by.factor[0]))}, {})
        case _:
            return None


def _commutes(op: ops.Op, by: _Affine) -> bool:
    """Whether the scale may come before the operator instead, and has no better place in it."""
    match op:
        case ops.MaxPool2d(activation=None):
            return by.keeps_order
        case ops.AveragePool2d(activation=None) as pool:
            averages = pool.factor is None and pool.window.padding == ops.NO_PADDING
            return (averages or not by.shifts) and not _joins(pool, by)
        case ops.Upsample():
            return True
        case ops.Pad():
            return not by.shifts
        case _:
            return False


def _joins(pool: ops.AveragePool2d, by: _Affine) -> bool:
    """Whether the scale can be part of the pool's own factor, which is not 0: executors take 0 for no factor."""
    if not by.is_uniform or (pool.factor is None and pool.uncounted != ops.NO_PADDING):
        return False
    return bool(np.float32(pool.fixed_factor * float(by.factor[0])) != 0)
