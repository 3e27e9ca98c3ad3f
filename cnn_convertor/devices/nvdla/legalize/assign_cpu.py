"""Assigns to the CPU the operators that no rewrite adapts to the device."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cnn_convertor.devices.nvdla.chains import is_view, joins_in_place, spreading_of
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, misfits
from cnn_convertor.devices.nvdla.function_tables import RANGE, RANGE_OF_SQUARES, response_table, table_of
from cnn_convertor.devices.nvdla.legalize.fold_pixels import LARGEST
from cnn_convertor.devices.nvdla.point_units import PointAction, assigned, functions_of
from cnn_convertor.devices.nvdla.pooling import fits_pdp
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import BinaryOp, Interpolation, Op, Pair, Sampling
from cnn_convertor.layouts.nvdla.precision import Precision

_RESPONSES = (3, 5, 7, 9)  # channels


def on_cpu(graph: Graph, node: Node, configuration: Configuration) -> Iterable[Node] | None:
    """A node as the CPU's, with its activation apart where the device can have that; None for the device's own nodes."""
    if isinstance(node.op, ops.Input | ops.OnCpu | ops.Custom) or on_device(graph, node, configuration):
        return None
    if not isinstance(node.op, ops.Activated) or node.op.activation is None:
        return (replace(node, op=ops.OnCpu(_as_function(graph, node))),)
    function = ops.Activation(node.op.activation)
    bare = replace(node, name=graph.fresh(f"{node.name}/linear"), op=replace(node.op, activation=None))
    return replace(bare, op=ops.OnCpu(_as_function(graph, bare))), replace(node, op=function, inputs=(bare.name,))


def on_device(graph: Graph, node: Node, configuration: Configuration) -> bool:
    """Whether an engine computes a node as it is."""
    op = node.op
    if is_view(graph, node):
        return True
    if max(max(graph.shape(name)) for name in (*node.inputs, node.name)) > LARGEST:
        return False
    match op:
        case ops.Concat():
            return joins_in_place(graph, node)
        case ops.TransposeReshape():
            return spreading_of(node) is not None
        case ops.Conv2d(groups=groups, window=window, weight=weight):
            size = ConvolutionSize(graph.shape(node.inputs[0]), weight.shape[0], window)
            fits = groups == 1 and not misfits(size, configuration, Precision.FP16)
            return fits and _has_point_functions(graph, node)
        case ops.MaxPool2d() | ops.AveragePool2d():
            return fits_pdp(op)
        case ops.LocalResponseNorm(size=size, alpha=alpha, beta=beta, bias=bias, across_channels=True):
            return size in _RESPONSES and response_table(size, alpha, beta, bias, *RANGE_OF_SQUARES) is not None
        case _:
            return _has_point_functions(graph, node)


def _has_point_functions(graph: Graph, node: Node) -> bool:
    """Whether SDP has the functions of each element."""
    for flowing in node.inputs:
        functions = functions_of(graph, node, flowing)
        if functions is None or assigned(functions) is None:
            continue
        tables = [each.function for each in functions if each.action is PointAction.TABLE]
        if all(function is not None and table_of(function, *RANGE) is not None for function in tables):
            return True
    return False


def _as_function(graph: Graph, node: Node) -> Op:
    """The operator as the CPU computes it."""
    match node.op:
        case ops.Upsample():
            height, width, _ = graph.shape(node.name)
            return ops.Resize(Pair(height, width), Interpolation.NEAREST, Sampling.ASYMMETRIC)
        case ops.Pad(padding=pad):
            rows, columns, _ = graph.shape(node.inputs[0])
            return ops.Gather(_padded(rows, pad.top, pad.bottom), _padded(columns, pad.left, pad.right))
        case ops.Reshape(order=order, shape=shape):
            return ops.TransposeReshape((shape.size,), (0,), shape, order)
        case ops.Add():
            return ops.Binary(BinaryOp.ADD)
        case ops.Activation(function=ops.Relu(slope=slope)):
            return ops.Unary(ops.BoundedRelu(slope, 0.0, np.inf))
        case ops.Activation(function=ops.Relu6()):
            return ops.Unary(ops.Clip(0.0, 6.0))
        case ops.Activation(function=ops.Elu()):
            return ops.Unary(ops.ScaledElu(1.0))
        case ops.Activation(function=ops.Sigmoid() | ops.Tanh() as function):
            return ops.Unary(function)
        case op:
            return op


def _padded(size: int, before: int, after: int) -> tuple[int, ...]:
    """The places on an axis with zeros around it; negative padding cuts."""
    inside = range(max(-before, 0), size - max(-after, 0))
    return (*(-1 for _ in range(before)), *inside, *(-1 for _ in range(after)))
