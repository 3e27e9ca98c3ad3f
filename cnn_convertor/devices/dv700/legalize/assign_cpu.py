"""Assigns to the CPU the operators that no rewrite adapts to the device."""

from collections.abc import Iterable
from dataclasses import replace

from cnn_convertor.devices.dv700.commands import joins_in_place
from cnn_convertor.devices.dv700.legalize.decompose_conv import pads_beyond
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.operators import OPERATORS, Executor
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, Axis, Op, Order, Pair, Window


def pools_on_cpu(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Pools that the device does not support, and that are not a chain of smaller ones. Their activation stays on the device.

    The device has no dilated pools. Upsampling to a map that is too large is the CPU's, too.
    """
    op = node.op
    match op:
        case ops.Upsample() if not limits.holds(graph.shape(node.name)):
            return (replace(node, op=ops.OnCpu(resized(graph, node))),)
        case ops.MaxPool2d(window=window) | ops.AveragePool2d(window=window) if _exceeds(graph, node, window, limits):
            pass
        case ops.MaxPool2d(window=window) | ops.AveragePool2d(window=window) if window.dilation != ONE:
            pass
        case ops.MaxPool2d(window=Window(kernel=kernel)):
            fits = kernel.width in limits.max_pool_widths and kernel.height in limits.max_pool_heights
            if fits and _is_even_enough(kernel, limits):
                return None
        case ops.AveragePool2d(window=Window(kernel=kernel), uncounted=uncounted):
            if uncounted == NO_PADDING and max(kernel) <= limits.max_average_pool and _is_even_enough(kernel, limits):
                return None
        case _:
            return None
    function = op.activation
    if function is None:
        return (replace(node, op=ops.OnCpu(op)),)
    bare = replace(node, name=graph.fresh(f"{node.name}/linear"), op=ops.OnCpu(replace(op, activation=None)))
    return bare, replace(node, op=ops.Activation(function), inputs=(bare.name,))


def _exceeds(graph: Graph, node: Node, window: Window, limits: Limits) -> bool:
    """Whether the sizes of a pool are too large for a command. Copies are left to fit_limits.py."""
    if window == Window(ONE):
        return False
    x = graph.shape(node.inputs[0])
    y = graph.shape(node.name)
    pad = window.padding
    return (
        not (limits.holds(x) and limits.holds(y) and x.channels <= limits.max_field)
        or max(window.stride) > limits.max_stride
        or any(value > most for value, most in zip(pad, limits.largest_padding, strict=True))
        or (not limits.pads_beyond_map and pads_beyond(pad, x))
    )


def resized(graph: Graph, node: Node) -> ops.Resize:
    """An upsampling as the CPU does it."""
    height, width, _ = graph.shape(node.name)
    return ops.Resize(Pair(height, width), ops.Interpolation.NEAREST, ops.Sampling.ASYMMETRIC)


def _is_even_enough(kernel: Pair, limits: Limits) -> bool:
    return limits.pools_unevenly or kernel.width == kernel.height


def on_cpu(graph: Graph, node: Node, _limits: Limits) -> Iterable[Node] | None:
    """All other operators that the CPU runs."""
    op = without_device(graph, node)
    return None if op is None else (replace(node, op=ops.OnCpu(op)),)


def without_device(graph: Graph, node: Node) -> Op | None:
    """What the CPU does for a node; None where the device or the runtime does it."""
    op = node.op
    match op:
        case ops.Upsample(factor=factor):
            return None if factor == (2, 2) else resized(graph, node)
        case ops.Concat(axis=axis):
            joins = axis is Axis.CHANNELS and (graph.shape(node.name).is_vector or joins_in_place(graph, node))
            return None if joins else op
        case ops.Reshape(order=order, shape=shape):  # the runtime can flatten
            stays = order is Order.MEMORY or (order is Order.HWC and shape.is_vector)
            return None if stays else ops.TransposeReshape((shape.size,), (0,), shape, order)
        case _:
            operator = OPERATORS[type(op)]
            is_function = operator.executor in (Executor.CPU, Executor.CHEAPER) and operator.layer is None
            return op if is_function else None
