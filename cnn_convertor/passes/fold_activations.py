"""Gives an activation to the operator before it, which can carry it."""

from __future__ import annotations

from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import (
    Activation,
    Add,
    AveragePool2d,
    Conv2d,
    ConvTranspose2d,
    Dense,
    MaxPool2d,
    Op,
    Scale,
)


def fold_activations(graph: Graph) -> Graph:
    """operator -> activation, where the operator has none yet."""
    return graph.fuse(_fold)


def _fold(_: Lookup, first: Node, second: Node) -> Op | None:
    match first.op, second.op:
        case (
            Conv2d(activation=None)
            | ConvTranspose2d(activation=None)
            | Dense(activation=None)
            | MaxPool2d(activation=None)
            | AveragePool2d(activation=None)
            | Scale(activation=None)
            | Add(activation=None)
        ) as before, Activation(function=function):
            return replace(before, activation=function)
        case _:
            return None
