"""Nodes that only select or reorder channels."""

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Op, Shape, Window
from cnn_convertor.passes.movement import movement_of

Channels = NDArray[np.intp]  # for each channel of a map, the channel of another one that it is


def channels_of(graph: Graph, node: Node) -> Channels | None:
    """Which channel of its input each channel of a node's output is; None where the node does anything else."""
    match node.op:
        case ops.Crop(start=start, stop=stop, stride=stride):
            x = graph.shape(node.inputs[0])
            is_whole = start[:2] == (0, 0) and stop[:2] == x[:2] and stride[:2] == (1, 1)
            return np.arange(start.channels, stop.channels, stride.channels) if is_whole else None
        case ops.Gather(rows=(), columns=(), channels=channels) if channels and min(channels) >= 0:
            return np.array(channels, np.intp)
        case ops.TransposeReshape():
            return _transposed(node.op, graph.shape(node.inputs[0]), graph.shape(node.name))
        case _:
            return None


def _transposed(op: ops.TransposeReshape, x: Shape, y: Shape) -> Channels | None:
    """The channels of a channel shuffle; None of other transposes."""
    movement = movement_of(op, x)
    if x != y or movement is None:
        return None
    if any(movement.before[axis] != movement.after[axis] for axis in (Axis.HEIGHT, Axis.WIDTH)):
        return None
    before = movement.before[Axis.CHANNELS]
    places = [before.index(run) for run in movement.after[Axis.CHANNELS]]
    return np.arange(x.channels).reshape([movement.lengths[run] for run in before]).transpose(places).reshape(-1)


def gather(x: Shape, channels: Channels) -> Op:
    """The operator that gives these channels of a map."""
    first, last = int(channels[0]), int(channels[-1])
    if np.array_equal(channels, np.arange(first, last + 1)):
        return ops.Crop(Shape(0, 0, first), Shape(x.height, x.width, last + 1))
    return ops.Gather(channels=tuple(channels.tolist()))


def as_convolution(channels: Channels, count: int) -> ops.Conv2d:
    """The gather of some of `count` channels as a 1x1 convolution of zeros and ones."""

    def read(rows: slice) -> Array:
        ones = np.equal(channels[rows, None], np.arange(count))
        return ones.astype(np.float32).reshape(-1, count, 1, 1)

    return ops.Conv2d(Constant((len(channels), count, 1, 1), read), None, Window(ops.ONE))
