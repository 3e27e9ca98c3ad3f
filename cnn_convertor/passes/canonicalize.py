"""Reduces equivalent forms of a network to one, so that later passes have few cases."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import (
    ONE,
    Activation,
    Add,
    BatchNorm,
    Binary,
    BinaryOp,
    Conv2d,
    ConvTranspose2d,
    Identity,
    Op,
    PRelu,
    Reshape,
    Scale,
)
from cnn_convertor.passes.swapping import Swapping, swap


def remove_identities(graph: Graph) -> Graph:
    """Remove identities (Dropout, Split, linear activations), and reshapes that keep the shape or undo each other."""
    graph = graph.bypass(node.name for node in graph.nodes if isinstance(node.op, Identity))
    graph = graph.fuse(lambda _, first, second: joined_reshapes(first.op, second.op), shared=True)
    return graph.bypass(
        node.name
        for node in graph.nodes
        if isinstance(node.op, Reshape) and graph.shape(node.inputs[0]) == node.op.shape
    )


def joined_reshapes(first: Op, second: Op) -> Reshape | None:
    """The reshape that does what two do, one after the other; None if it takes two, or they are other operators."""
    match first, second:
        case Reshape(order=order, shape=shape), Reshape() as after if after.order is order or (
            shape.is_vector and after.shape.is_vector  # vectors are the same in every order
        ):
            return replace(after, order=order)
        case _:
            return None


def batch_norms_to_scales(graph: Graph) -> Graph:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta becomes x * factor + shift; computed in FP64."""

    def rule(_: Graph, node: Node) -> Iterable[Node] | None:
        return (replace(node, op=as_scale(node.op)),) if isinstance(node.op, BatchNorm) else None

    return graph.expand(rule)


def as_scale(norm: BatchNorm) -> Scale:
    """The same affine map with precomputed factors."""
    gamma = 1.0 if norm.gamma is None else norm.gamma.load_wide()
    beta = 0.0 if norm.beta is None else norm.beta.load_wide()
    factor = gamma / np.sqrt(norm.variance.load_wide() + norm.epsilon)
    shift = beta - norm.mean.load_wide() * factor
    return Scale(Constant.wide(factor), Constant.wide(shift))


def differences_to_sums(graph: Graph) -> Graph:
    """x - y of equal shapes becomes x + y * -1; other layers' weights may absorb the factor."""

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


def deconvolutions_to_convolutions(graph: Graph) -> Graph:
    """A deconvolution with stride 1 becomes a convolution, which shares commands and folds padding; exact.

    One that drops more pixels of its output than its kernel reaches stays: the padding would be negative.
    """

    def rule(_: Graph, node: Node) -> Iterable[Node] | None:
        op = node.op
        if not isinstance(op, ConvTranspose2d) or op.window.stride != ONE or min(op.input_padding) < 0:
            return None
        window = op.window._replace(padding=op.input_padding)
        return (replace(node, op=Conv2d(op.rotated, op.bias, window, op.groups, op.activation)),)

    return graph.expand(rule)


def sink_reshapes(graph: Graph) -> Graph:
    """reshape -> activation becomes activation -> reshape; element-wise operators commute with reshapes."""

    def rule(_: Swapping, first: Node, second: Node) -> tuple[Op, Op] | None:
        match first.op, second.op:
            case Reshape() as reshape, Activation(function=function) as activation if not isinstance(function, PRelu):
                return activation, reshape
            case _:
                return None

    return swap(graph, rule)
