"""Moves average pools before 1x1 convolutions, which then process fewer pixels."""

from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, AveragePool2d, Conv2d, Op, Window
from cnn_convertor.passes.swapping import Swapping, swap


def swap_pool_conv(graph: Graph) -> Graph:
    """convolution -> average pool becomes average pool -> convolution, as both are linear.

    The convolution is 1x1 without stride, padding and activation; it has no bias, or the pool computes true averages. The
    map between them must not grow.
    """

    def rule(swapping: Swapping, first: Node, second: Node) -> tuple[Op, Op] | None:
        match first.op, second.op:
            case Conv2d(activation=None) as conv, AveragePool2d(uncounted=uncounted) as pool if (
                conv.window == Window(ONE) and uncounted == NO_PADDING
            ):
                is_average = pool.factor is None and pool.window.padding == NO_PADDING
                height, width, _ = swapping.shape(second.name)
                grows = height * width * swapping.shape(first.inputs[0]).channels > swapping.shape(first.name).size
                if (conv.bias is None or is_average) and not grows:
                    return replace(pool, activation=None), replace(conv, activation=pool.activation)
        return None

    return swap(graph, rule)
