"""Rewrites single operators: activations that must stand alone, operators without a command, and large pools."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from cnn_convertor.devices.dv700.commands import COPY
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.forms import shares_run
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.devices.split_pools import split_average, split_max
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, Function, Pair, Window


def split_activations(graph: Graph, device: Device, fusion: Fusion) -> Graph:
    """Move PReLU out of operators without kernels, whose slopes they stand beside, and out of dilated convolutions.

    Without fusion every activation of an addition moves out.
    """

    def rule(graph: Graph, node: Node) -> Iterable[Node] | None:
        match node.op:
            case ops.Add(activation=ops.PRelu()) | ops.MaxPool2d(activation=ops.PRelu()) if device.limits.holds(
                graph.shape(node.name)
            ) and any(
                isinstance(graph[name].op, ops.Conv2d | ops.ConvTranspose2d)
                and shares_run(graph, graph[name], node, fusion=fusion, device=device)
                for name in node.inputs
            ):
                return None
            case (
                ops.Add(activation=ops.PRelu() as function)
                | ops.MaxPool2d(activation=ops.PRelu() as function)
                | ops.AveragePool2d(activation=ops.PRelu() as function)
            ):
                pass
            case (
                ops.Conv2d(activation=ops.PRelu() as function) | ops.ConvTranspose2d(activation=ops.PRelu() as function)
            ) if node.op.window.dilation != ONE:
                pass
            case ops.Add(activation=function) if function is not None and fusion is Fusion.NONE:
                pass
            case _:
                return None
        bare = replace(node, name=graph.fresh(f"{node.name}/linear"), op=replace(node.op, activation=None))
        return bare, replace(node, op=ops.Activation(function), inputs=(bare.name,))

    return graph.expand(rule)


def single_operators(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Express operators without a command as a 1x1 depthwise convolution, a 1x1 average pool, or a deconvolution."""
    match node.op:
        case ops.Scale(factor=factor, shift=shift, activation=function):
            uniform = _uniform(factor)
            if uniform is not None and shift is None and not isinstance(function, ops.PRelu):
                return (replace(node, op=replace(COPY, factor=uniform, activation=function)),)
            return (replace(node, op=_depthwise(factor, shift, function)),)
        case ops.Activation(function=ops.PRelu() as function):
            ones = Constant.of(np.ones(graph.shape(node.name).channels))
            return (replace(node, op=_depthwise(ones, None, function)),)
        case ops.Activation(function=function):
            return (replace(node, op=replace(COPY, activation=function)),)
        case ops.Pad(padding=padding):
            op = _depthwise(Constant.of(np.ones(graph.shape(node.name).channels)), None, None)
            return (replace(node, op=replace(op, window=op.window._replace(padding=padding))),)
        case ops.Upsample(factor=factor) if factor != (2, 2):
            return _upsample(graph, node, factor, limits)
        case _:
            return None


def _depthwise(factor: Constant, shift: Constant | None, function: Function | None) -> ops.Conv2d:
    channels = factor.shape[0]
    weight = Constant.of(factor.load().reshape(channels, 1, 1, 1))
    return ops.Conv2d(weight, shift, Window(ONE), channels, function)


def _uniform(constant: Constant) -> float | None:
    """The value of a constant whose values are all equal; None if they differ."""
    values = constant.load()
    return float(values[0]) if np.all(values == values[0]) else None


def _upsample(graph: Graph, node: Node, factor: Pair, limits: Limits) -> Iterable[Node] | None:
    """Upsample by 4, 8, ... in doublings; by other factors with a depthwise deconvolution of ones."""
    if factor == ONE:
        return (replace(node, op=COPY),)
    if factor.height == factor.width and factor.height & (factor.height - 1) == 0:
        return _chain(graph, node, [ops.Upsample(Pair(2, 2))] * (factor.height.bit_length() - 1))
    channels = graph.shape(node.name).channels
    if max(factor) > min(limits.max_kernel_size, limits.max_stride) or channels > limits.max_channels:
        return None
    if not limits.deconvolves:
        return None
    ones = Constant.of(np.ones((channels, 1, *factor)))
    return (replace(node, op=ops.ConvTranspose2d(ones, None, Window(factor, factor), groups=channels)),)


def _chain(graph: Graph, node: Node, chain: Sequence[ops.MaxPool2d | ops.AveragePool2d | ops.Upsample]) -> list[Node]:
    """The operators as a chain; the last keeps the node's name."""
    nodes: list[Node] = []
    for position, op in enumerate(chain):
        last = position == len(chain) - 1
        name = node.name if last else graph.fresh(f"{node.name}/{position + 1}")
        nodes.append(replace(node, name=name, op=op, inputs=(nodes[-1].name,) if nodes else node.inputs))
    return nodes


def small_pools(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Split pools larger than the device's into chains; a 1x1 max pool becomes a copy."""
    match node.op:
        case ops.MaxPool2d(window=window) | ops.AveragePool2d(window=window) if window.dilation != ONE:
            return None
        case ops.MaxPool2d(window=window, activation=function) if window.kernel == ONE and window.padding == NO_PADDING:
            return (replace(node, op=ops.AveragePool2d(window, factor=1.0, activation=function)),)
        case ops.MaxPool2d(window=window, activation=function):
            if window.kernel.width in limits.max_pool_widths and window.kernel.height in limits.max_pool_heights:
                return None
            windows = split_max(window, graph.shape(node.inputs[0]), limits)
            if windows is None:
                return None
            *before, last = (ops.MaxPool2d(w) for w in windows)
            return _chain(graph, node, [*before, replace(last, activation=function)])
        case ops.AveragePool2d(window=window, uncounted=uncounted, factor=float()) if uncounted != NO_PADDING:
            # With a fixed factor, uncounted padding is padding.
            window = window._replace(padding=window.padding + uncounted)
            node = replace(node, op=replace(node.op, window=window, uncounted=NO_PADDING))
            return small_pools(graph, node, limits) or (node,)
        case ops.AveragePool2d(window=window, activation=function) if node.op.uncounted == NO_PADDING:
            if max(window.kernel) <= limits.max_average_pool:
                return None
            windows = split_average(window, graph.shape(node.inputs[0]), limits)
            if windows is None:
                return None
            return _chain(graph, node, _averages(windows, node.op.fixed_factor, function))
        case _:
            return None


def _averages(windows: Sequence[Window], factor: float, function: Function | None) -> list[ops.AveragePool2d]:
    """Average pools whose factors multiply to the given one; all but the last average, so that no sum overflows FP16."""
    pools, left = [], factor
    for window in windows[:-1]:
        area = window.kernel.height * window.kernel.width
        pools.append(ops.AveragePool2d(window))
        left *= area
    return [*pools, ops.AveragePool2d(windows[-1], factor=left, activation=function)]
