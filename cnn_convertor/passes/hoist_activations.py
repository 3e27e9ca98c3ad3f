"""Moves activations after a concatenation, an upsampling or a padding into the operators above."""

from dataclasses import replace

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Function
from cnn_convertor.passes.fold_padding import is_never_negative
from cnn_convertor.passes.hoisting import NO_CHANGE, Editing, Hoisted, Search, hoist_into_parts, search


def hoist_activations(graph: Graph) -> Graph:
    """operator -> operators between -> activation, where nothing else uses the maps between. The operators between:

    case 1: concatenation (at most one part that cannot carry the activation gets one inserted); case 2: upsampling; case 3:
    padding, if the function keeps zeros. Case 4: a ReLU of values >= 0 is removed.
    """
    editing = Editing(graph)

    def start(name: str, function: Function) -> Search[Function]:
        return _hoist(editing, name, function)

    for name in [node.name for node in graph.nodes if isinstance(node.op, ops.Activation)]:
        node = editing[name]
        if not isinstance(node.op, ops.Activation):
            continue
        hoisted = search(start, node.inputs[0], node.op.function, lambda _: None)
        if hoisted is not None and len(hoisted.between) <= 1 and (hoisted.ops or not hoisted.between):
            if editing.is_private(node.inputs[0]):
                editing.remove(node, hoisted)
            else:
                editing.bypass(node)
    return editing.done()


def _hoist(graph: Editing, name: str, function: Function) -> Search[Function]:
    """The changes that make the named node apply the function; None if impossible."""
    if function == ops.Relu() and is_never_negative(graph, name):
        return NO_CHANGE
    node = graph[name]
    passed = list[str]()
    while graph.is_private(node.name) and _keeps(node.op, function):
        passed.append(node.name)
        node = graph[node.inputs[0]]
    if not graph.is_private(node.name):
        return None
    if isinstance(node.op, ops.Activated):
        free = node.op.activation is None
        return Hoisted({node.name: replace(node.op, activation=function)}, {}, tuple(passed)) if free else None
    if isinstance(node.op, ops.Concat) and node.op.axis is ops.Axis.CHANNELS:

        def part(channels: slice) -> Function:
            return ops.for_channels(function, np.arange(channels.start, channels.stop))

        changes = yield from hoist_into_parts(graph, node, part, lambda channels: ops.Activation(part(channels)))
        return changes and changes.past(*passed)
    return None


def _keeps(op: ops.Op, function: Function) -> bool:
    """Whether the function may come before a node that copies elements, and adds zeros at most."""
    return isinstance(op, ops.Upsample) or (isinstance(op, ops.Pad) and not isinstance(function, ops.Sigmoid))
