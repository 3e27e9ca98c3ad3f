"""Brings the many spellings of a network into few, so that the passes after it have few cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Activation, Add, BatchNorm, Binary, BinaryOp, Identity, PRelu, Reshape, Scale


def remove_identities(graph: Graph) -> Graph:
    """Dropout, Split, linear activations, and reshapes to the shape that the map has already, vanish."""

    def does_nothing(node: Node) -> bool:
        match node.op:
            case Identity():
                return True
            case Reshape(shape=shape):
                return graph.shape(node.inputs[0]) == shape
            case _:
                return False

    return graph.bypass(node.name for node in graph.nodes if does_nothing(node))


def batch_norms_to_scales(graph: Graph) -> Graph:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta is x * factor + shift; computed in FP64."""

    def rule(_: Graph, node: Node) -> Iterable[Node] | None:
        if not isinstance(node.op, BatchNorm):
            return None
        return (replace(node, op=as_scale(node.op)),)

    return graph.expand(rule)


def as_scale(norm: BatchNorm) -> Scale:
    """The same affine map with its factors worked out."""
    gamma = 1.0 if norm.gamma is None else norm.gamma.load().astype(np.float64)
    beta = 0.0 if norm.beta is None else norm.beta.load().astype(np.float64)
    factor = gamma / np.sqrt(norm.variance.load().astype(np.float64) + norm.epsilon)
    shift = beta - norm.mean.load().astype(np.float64) * factor
    return Scale(Constant.of(factor), Constant.of(shift))


def differences_to_sums(graph: Graph) -> Graph:
    """x - y of maps of one size is the sum of x and y * -1, and the factor may find weights that take it."""

    def rule(graph: Graph, node: Node) -> Iterable[Node] | None:
        if node.op != Binary(BinaryOp.SUBTRACT):
            return None
        x, y = node.inputs
        if graph.shape(x) != graph.shape(y):
            return None
        factor = Scale(Constant.of(np.full(graph.shape(y).channels, -1.0)))
        negative = replace(node, name=graph.fresh(f"{node.name}/negative"), op=factor, inputs=(y,))
        return negative, replace(node, op=Add(), inputs=(x, negative.name))

    return graph.expand(rule)


def sink_reshapes(graph: Graph) -> Graph:
    """reshape -> activation becomes activation -> reshape: element by element, the order does not matter."""
    moved: dict[str, Node] = {}
    for node in graph.nodes:
        if not isinstance(node.op, Activation) or isinstance(node.op.function, PRelu):
            continue
        reshape = moved.get(node.inputs[0], graph[node.inputs[0]])
        if isinstance(reshape.op, Reshape) and graph.is_private(reshape.name):
            moved[reshape.name] = replace(node, name=reshape.name, inputs=reshape.inputs)
            origins = reshape.origins + node.origins  # it gives what the activation gave
            moved[node.name] = replace(
                reshape, name=node.name, inputs=(reshape.name,), origins=origins, main=reshape.where
            )
    return Graph(tuple(moved.get(node.name, node) for node in graph.nodes), graph.outputs) if moved else graph
