"""Moves a max pool from behind a concatenation into the runs of its convolutions."""

from dataclasses import replace

import numpy as np

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.forms import shares_run
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Concat, MaxPool2d, for_channels


def pool_parts(graph: Graph, *, fusion: Fusion, device: Device) -> Graph:
    """Turn concatenation -> max pool into max pools -> concatenation, if each pool joins the run of its part.

    The large map is then never written. A pool with a command of its own would gain nothing.
    """
    if fusion is Fusion.NONE:
        return graph
    for name in [node.name for node in graph.nodes if isinstance(node.op, MaxPool2d)]:
        pool, concat = graph[name], graph[graph[name].inputs[0]]
        if isinstance(concat.op, Concat) and concat.op.axis is Axis.CHANNELS and graph.is_private(concat.name):
            pools = _pools(graph, concat, pool)
            pooled = _pooled(graph, concat, pool, pools)
            if all(shares_run(pooled, pooled[p.inputs[0]], p, fusion=fusion, device=device) for p in pools):
                graph = pooled
    return graph


def _pools(graph: Graph, concat: Node, pool: Node) -> list[Node]:
    """The pool for each part, with its channels of the activation."""
    pools, start = [], 0
    for index, part in enumerate(concat.inputs):
        channels = np.arange(start, start := start + graph.shape(part).channels)
        op = pool.op
        assert isinstance(op, MaxPool2d)
        if op.activation is not None:
            op = replace(op, activation=for_channels(op.activation, channels))
        pools.append(replace(pool, name=graph.fresh(f"{pool.name}/{index}"), op=op, inputs=(part,)))
    return pools


def _pooled(graph: Graph, concat: Node, pool: Node, pools: list[Node]) -> Graph:
    """The graph with pooled parts; the concatenation takes the place of the pool."""
    joined = replace(
        concat,
        name=pool.name,
        inputs=tuple(p.name for p in pools),
        origins=concat.origins + pool.origins,
        main=concat.where,
    )
    nodes = [n for node in graph.nodes if node is not concat for n in ((*pools, joined) if node is pool else (node,))]
    return Graph(tuple(nodes), graph.outputs)
