"""Rewrites pools into those of PDP: windows of up to 8 by 8, whose averages count padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.devices.nvdla.pooling import LARGEST_POOL, fits_pdp
from cnn_convertor.devices.split_pools import split_average, split_max
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, Op, Shape


class _Limits(NamedTuple):
    max_pool_heights: tuple[int, ...] = tuple(range(1, LARGEST_POOL + 1))
    max_pool_widths: tuple[int, ...] = tuple(range(1, LARGEST_POOL + 1))
    max_average_pool: int = LARGEST_POOL


_LIMITS: Final = _Limits()


def bare_pools(graph: Graph, node: Node) -> Iterable[Node] | None:
    """A pool without its activation: before a max pool, where SDP has it on the fly and that gives the same; else behind."""
    match node.op:
        case ops.MaxPool2d(activation=function) if function is not None and ops.never_decreases(function):
            first = Node(graph.fresh(f"{node.name}/activated"), ops.Activation(function), node.inputs, node.origins)
            return first, replace(node, op=replace(node.op, activation=None), inputs=(first.name,))
        case ops.MaxPool2d(activation=function) | ops.AveragePool2d(activation=function) if function is not None:
            bare = replace(node, name=graph.fresh(f"{node.name}/linear"), op=replace(node.op, activation=None))
            return bare, replace(node, op=ops.Activation(function), inputs=(bare.name,))
        case ops.AveragePool2d(window=window, factor=factor) if factor is not None:
            bare = replace(node, name=graph.fresh(f"{node.name}/average"), op=replace(node.op, factor=None))
            channels = graph.shape(node.name).channels
            times = Constant.wide(np.full(channels, factor * prod(window.kernel)))
            return bare, replace(node, op=ops.Scale(times), inputs=(bare.name,))
        case _:
            return None


def small_pools(graph: Graph, node: Node) -> Iterable[Node] | None:
    """A large pool as a chain of small ones, or a large average as a convolution of ones."""
    op = node.op
    if not isinstance(op, ops.MaxPool2d | ops.AveragePool2d) or fits_pdp(op) or op.window.dilation != ONE:
        return None
    x = graph.shape(node.inputs[0])
    if isinstance(op, ops.MaxPool2d):
        windows = split_max(op.window, x, _LIMITS)
        return None if windows is None else _chain(graph, node, [ops.MaxPool2d(window) for window in windows])
    if op.uncounted != NO_PADDING:
        return None
    windows = split_average(op.window, x, _LIMITS)
    if windows is None:
        return _summed(graph, node, op, x)
    averages: list[Op] = [ops.AveragePool2d(window) for window in windows]
    times = prod(prod(window.kernel) for window in windows) / prod(op.window.kernel)
    if times != 1:  # some windows reach beyond the large one, over zeros
        averages.append(ops.Scale(Constant.wide(np.full(x.channels, times))))
    return _chain(graph, node, averages)


def _chain(graph: Graph, node: Node, operators: Sequence[Op]) -> list[Node]:
    nodes = []
    read = node.inputs
    for number, op in enumerate(operators):
        is_last = number == len(operators) - 1
        name = node.name if is_last else graph.fresh(f"{node.name}/{number}")
        nodes.append(replace(node, name=name, op=op, inputs=read))
        read = (name,)
    return nodes


def _summed(graph: Graph, node: Node, op: ops.AveragePool2d, x: Shape) -> list[Node]:
    """The sums of the windows by a convolution of ones, then divided."""
    ones = Constant.of(np.ones((x.channels, 1, *op.window.kernel), np.float32))
    sums = replace(node, name=graph.fresh(f"{node.name}/sums"), op=ops.Conv2d(ones, None, op.window, groups=x.channels))
    share = Constant.wide(np.full(x.channels, 1 / prod(op.window.kernel)))
    return [sums, replace(node, op=ops.Scale(share), inputs=(sums.name,))]
