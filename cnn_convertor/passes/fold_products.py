"""Lets products of matrices read and write maps as they are, instead of transposed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import Axis, MatMul, Matrices, Op, Scale
from cnn_convertor.passes.movement import Run, Runs, movement_of


def fold_products(graph: Graph) -> Graph:
    """Case 1: product -> transpose or reshape; case 2: transpose or reshape -> product; case 3: product -> a factor for all
    elements; case 4: such a factor -> product.
    """
    return graph.fuse(_into_result).expand(_into_inputs).without_dead()


def _into_result(lookup: Lookup, first: Node, second: Node) -> Op | None:
    if not isinstance(first.op, MatMul):
        return None
    if (factor := _factor(second.op)) is not None:
        return replace(first.op, factor=first.op.factor * factor)
    movement = movement_of(second.op, lookup.shape(first.name))
    result = None if movement is None else _moved(first.op.result, movement.before, movement.after, movement.lengths)
    return None if result is None else replace(first.op, result=result)


def _factor(op: Op) -> float | None:
    """By what a scale multiplies all elements; None if it does more."""
    if not isinstance(op, Scale) or op.shift is not None or op.activation is not None:
        return None
    factors = op.factor.load_wide()
    return float(factors[0]) if np.all(factors == factors[0]) else None


def _into_inputs(graph: Graph, node: Node) -> Iterable[Node] | None:
    if not isinstance(node.op, MatMul):
        return None
    x, y = (_source(graph, *of) for of in zip(node.inputs, (node.op.left, node.op.right), strict=True))
    if (x.name, y.name) == node.inputs:
        return None
    op = replace(node.op, left=x.matrices, right=y.matrices, factor=node.op.factor * x.factor * y.factor)
    return (replace(node, op=op, inputs=(x.name, y.name)),)


class _Source(NamedTuple):
    """A map that holds matrices, which are to be multiplied by a factor."""

    name: str
    matrices: Matrices
    factor: float = 1.0


def _source(graph: Graph, name: str, matrices: Matrices) -> _Source:
    """The map from which transposes, reshapes and scales make the named one."""
    source = _Source(name, matrices)
    while len(graph[source.name].inputs) == 1:
        op = graph[source.name].op
        (before,) = graph[source.name].inputs
        if (factor := _factor(op)) is not None:
            source = _Source(before, source.matrices, source.factor * factor)
        elif (movement := movement_of(op, graph.shape(before))) is None or (
            moved := _moved(source.matrices, movement.after, movement.before, movement.lengths)
        ) is None:
            break
        else:
            source = _Source(before, moved, source.factor)
    return source


def _moved(
    matrices: Matrices, held: Mapping[Axis, Runs], other: Mapping[Axis, Runs], lengths: Mapping[Run, int]
) -> Matrices | None:
    """How another map holds matrices, of which the runs of each axis are known; None if it cannot."""
    shared = held[matrices.batch]
    count = 0 if matrices.batch in (matrices.rows, matrices.columns) else len(shared)
    while math.prod(lengths[run] for run in shared[:count]) < matrices.number:
        count += 1
    if math.prod(lengths[run] for run in shared[:count]) != matrices.number:
        return None
    batch = shared[:count]
    inside = {**held, matrices.batch: shared[count:]}
    for of_batch, of_rows, of_columns in product(Axis, repeat=3):
        held_so: dict[Axis, Runs] = dict.fromkeys(Axis, ())
        held_so[of_batch] += batch
        held_so[of_rows] += inside[matrices.rows]
        held_so[of_columns] += inside[matrices.columns]
        if of_rows is not of_columns and held_so == other:
            return Matrices(matrices.number, of_batch, of_rows, of_columns)
    return None
