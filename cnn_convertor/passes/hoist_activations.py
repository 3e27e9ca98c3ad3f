"""Moves activations after a concatenation, an upsampling or a padding into the operators above."""

from dataclasses import replace

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Function
from cnn_convertor.passes.fold_padding import is_never_negative
from cnn_convertor.passes.hoisting import NO_CHANGE, Hoisted, hoist_into_parts, without


def hoist_activations(graph: Graph) -> Graph:
    """operator -> operators between -> activation, where nothing else uses the maps between. The operators between:

    case 1: concatenation (at most one part that cannot carry the activation gets one inserted); case 2: upsampling; case 3:
    padding, if the function keeps zeros. Case 4: a ReLU of values >= 0 is removed.
    """
    for name in [node.name for node in graph.nodes if isinstance(node.op, ops.Activation)]:
        node = graph[name]
        if not isinstance(node.op, ops.Activation):
            continue
        hoisted = _hoist(graph, node.inputs[0], node.op.function)
        if hoisted is not None and len(hoisted.between) <= 1 and (hoisted.ops or not hoisted.between):
            graph = without(graph, node, hoisted) if graph.is_private(node.inputs[0]) else graph.bypass([name])
    return graph


def _hoist(graph: Graph, name: str, function: Function) -> Hoisted | None:
    """The changes that make the named node apply the function; None if impossible."""
    if function == ops.Relu() and is_never_negative(graph, name):
        return NO_CHANGE
    node = graph[name]
    while graph.is_private(node.name) and _keeps(node.op, function):
        node = graph[node.inputs[0]]
    if not graph.is_private(node.name):
        return None
    if isinstance(node.op, ops.Activated):
        return Hoisted({node.name: replace(node.op, activation=function)}, {}) if node.op.activation is None else None
    if isinstance(node.op, ops.Concat) and node.op.axis is ops.Axis.CHANNELS:

        def part(channels: slice) -> Function:
            return ops.for_channels(function, np.arange(channels.start, channels.stop))

        return hoist_into_parts(
            graph,
            node,
            lambda name, channels: _hoist(graph, name, part(channels)),
            lambda channels: ops.Activation(part(channels)),
        )
    return None


def _keeps(op: ops.Op, function: Function) -> bool:
    """Whether the function may come before a node that copies elements, and adds zeros at most."""
    return isinstance(op, ops.Upsample) or (isinstance(op, ops.Pad) and not isinstance(function, ops.Sigmoid))
