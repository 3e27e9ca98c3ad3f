"""Lets average pools go before 1x1 convolutions, which then have fewer pixels to do."""

from __future__ import annotations

from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, AveragePool2d, Conv2d, Window


def swap_pool_conv(graph: Graph) -> Graph:
    """convolution -> average pool becomes average pool -> convolution, where nobody else sees the large map: both are linear.

    The convolution is 1x1 without stride, padding and activation; it has no bias, or the pool averages what is there. The map
    between them must not grow.
    """
    moved: dict[str, Node] = {}
    for pool in graph.nodes:
        if not isinstance(pool.op, AveragePool2d):
            continue
        conv = graph[pool.inputs[0]]
        if _commute(graph, conv, pool):
            assert isinstance(conv.op, Conv2d)
            after = replace(conv.op, activation=pool.op.activation)
            moved[conv.name] = replace(pool, name=conv.name, op=replace(pool.op, activation=None), inputs=conv.inputs)
            origins = conv.origins + pool.origins  # the second of two nodes that work on the pool's layer
            moved[pool.name] = replace(
                conv, name=pool.name, op=after, inputs=(conv.name,), origins=origins, main=conv.where
            )
    return Graph(tuple(moved.get(node.name, node) for node in graph.nodes), graph.outputs) if moved else graph


def _commute(graph: Graph, conv: Node, pool: Node) -> bool:
    """Whether the pool may go first, and is worth it."""
    match conv.op, pool.op:
        case (
            Conv2d(window=window, bias=bias, activation=None),
            AveragePool2d(window=pooling, uncounted=uncounted, factor=factor),
        ) if window == Window(ONE) and uncounted == NO_PADDING and graph.is_private(conv.name):
            if bias is not None and (factor is not None or pooling.padding != NO_PADDING):
                return False
            height, width, _ = graph.shape(pool.name)
            return height * width * graph.shape(conv.inputs[0]).channels <= graph.shape(conv.name).size
        case _:
            return False
