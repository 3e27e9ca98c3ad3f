"""Moves activations that follow a concatenation, an upsampling or a padding into the operators above them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import (
    Activation,
    Add,
    AveragePool2d,
    Axis,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Dense,
    Function,
    MaxPool2d,
    Pad,
    Relu,
    Scale,
    Sigmoid,
    Upsample,
    for_channels,
)
from cnn_convertor.passes.fold_padding import is_never_negative
from cnn_convertor.passes.hoisting import NO_CHANGE, Hoisted, without


def hoist_activations(graph: Graph) -> Graph:
    """operator -> operators between -> activation, where nobody else sees what lies between. The operators between:

    case 1: concatenation (one part that cannot apply it gets an activation of its own); case 2: upsampling; case 3: padding, if the
    function keeps zeros. Case 4: a ReLU of what is never negative is gone.
    """
    for name in [node.name for node in graph.nodes if isinstance(node.op, Activation)]:
        node = graph[name]
        if not isinstance(node.op, Activation):
            continue
        hoisted = _hoist(graph, node.inputs[0], node.op.function)
        if hoisted is not None and len(hoisted.between) <= 1 and (hoisted.ops or not hoisted.between):
            graph = without(graph, node, hoisted) if graph.is_private(node.inputs[0]) else graph.bypass([name])
    return graph


def _hoist(graph: Graph, name: str, function: Function) -> Hoisted | None:
    """What changes so that the named node gives its output with the function applied; None when that cannot be."""
    node = graph[name]
    if function == Relu() and is_never_negative(graph, name):
        return NO_CHANGE
    if not graph.is_private(name):
        return None
    match node.op:
        case Conv2d() | ConvTranspose2d() | Dense() | MaxPool2d() | AveragePool2d() | Scale() | Add() as op if (
            op.activation is None
        ):
            return Hoisted({name: replace(op, activation=function)}, {})
        case Concat(axis=Axis.CHANNELS):
            return _hoist_parts(graph, node, function)
        case Upsample():
            return _hoist(graph, node.inputs[0], function)
        case Pad() if not isinstance(function, Sigmoid):
            return _hoist(graph, node.inputs[0], function)
        case _:
            return None


def _hoist_parts(graph: Graph, concat: Node, function: Function) -> Hoisted:
    """What changes so that the function is applied to all parts of a concatenation."""
    result, start = NO_CHANGE, 0
    for position, name in enumerate(concat.inputs):
        channels = np.arange(start, start := start + graph.shape(name).channels)
        share = for_channels(function, channels)
        made = _hoist(graph, name, share)
        result = result.plus(Hoisted({}, {(concat.name, position): Activation(share)}) if made is None else made)
    return result
