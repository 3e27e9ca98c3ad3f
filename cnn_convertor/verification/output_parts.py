"""Finds the parts of an output that concatenations join, such as boxes and scores, which are compared apart."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import (
    Activation,
    Concat,
    Crop,
    Identity,
    Op,
    Order,
    Reshape,
    Scale,
    Shape,
    Sigmoid,
    Softmax,
    Tanh,
    TransposeReshape,
    Unary,
)
from cnn_convertor.verification.compare import layer_of

Mask: TypeAlias = NDArray[np.bool_]
_Labels: TypeAlias = NDArray[np.intp]

_DEPTH: Final = 3  # concatenations of concatenations
_MOST: Final = 24  # parts that a table has room for
_MOVED = Crop | Identity | Reshape | TransposeReshape
_PASSED = Activation | Crop | Identity | Reshape | Scale | TransposeReshape | Unary  # what keeps parts apart


def parts_of(graph: Graph, output: str) -> dict[str, Mask]:
    """Framework layer -> its elements of an output, (H, W, C), for layers that are joined before it; nothing for a single one."""
    names: list[str] = []
    labels = _labels(graph, output, names, _DEPTH)
    if len(set(names)) > _MOST:
        names.clear()
        labels = _labels(graph, output, names, 1)
    parts: dict[str, Mask] = {}
    for number, name in enumerate(names):
        mask = labels == number
        parts[name] = parts[name] | mask if name in parts else mask
    return {name: mask for name, mask in parts.items() if mask.any()} if 1 < len(parts) <= _MOST else {}


def probabilities(graph: Graph) -> frozenset[str]:
    """The outputs, and the layers, whose values are those of a sigmoid, a tanh or a softmax: at most 1."""
    names = set[str]()
    for node in graph.nodes:
        match graph[before(graph, node.name, _MOVED)[0]].op:
            case Softmax() | Activation(function=Sigmoid() | Tanh()) | Unary(function=Sigmoid() | Tanh()):
                names.add(layer_of(graph, node.name))
    ends = zip(graph.outputs, graph.output_names, strict=True)
    return frozenset(names | {name for output, name in ends if layer_of(graph, output) in names})


def _labels(graph: Graph, name: str, names: list[str], depth: int) -> _Labels:
    """The number of the part that each element of a map is of. names: of the parts so far."""
    joined, passed = before(graph, name, _PASSED)
    node = graph[joined]
    if isinstance(node.op, Concat) and depth:
        labels = np.concatenate([_labels(graph, each, names, depth - 1) for each in node.inputs], axis=node.op.axis)
        return moved(labels, passed)
    names.append(layer_of(graph, name))
    return np.full(graph.shape(name), len(names) - 1, np.intp)


def before(graph: Graph, name: str, kinds: type | UnionType) -> tuple[str, list[Op]]:
    """The last node before a chain of operators of some kinds that ends at a node, and these operators, in order."""
    passed: list[Op] = []
    while isinstance(graph[name].op, kinds):
        passed.insert(0, graph[name].op)
        name = graph[name].inputs[0]
    return name, passed


def moved(elements: NDArray[Any], passed: Sequence[Op]) -> NDArray[Any]:
    """Elements (H, W, C) at the places to which operators move them."""
    for op in passed:
        match op:
            case Reshape(shape=shape, order=order):
                elements = _rearranged(elements, (elements.size,), (0,), shape, order)
            case TransposeReshape(dims=dims, axes=axes, shape=shape, order=order):
                elements = _rearranged(elements, dims, axes, shape, order)
            case Crop(start=start, stop=stop, stride=stride):
                elements = elements[tuple(map(slice, start, stop, stride))]
    return elements


def _rearranged(
    elements: NDArray[Any], dims: tuple[int, ...], axes: tuple[int, ...], shape: Shape, order: Order
) -> NDArray[Any]:
    if order is Order.CHW:
        turned = elements.transpose(2, 0, 1).reshape(dims).transpose(axes)
        return turned.reshape(shape.channels, shape.height, shape.width).transpose(1, 2, 0)
    return elements.reshape(dims).transpose(axes).reshape(shape)
