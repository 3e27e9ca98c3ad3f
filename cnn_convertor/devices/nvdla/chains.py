"""Steps of a network on NVDLA: chains of engines that hand a map on without memory, and what stands between them."""

from __future__ import annotations

from typing import Final, NamedTuple

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, bands_of
from cnn_convertor.devices.nvdla.point_units import MapOperand, PointFunction, assigned, functions_of
from cnn_convertor.devices.nvdla.pooling import flies
from cnn_convertor.devices.program import LayerType
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node, origins_of
from cnn_convertor.ir.ops import Axis, Order, Pair, Shape
from cnn_convertor.layouts.nvdla.precision import Precision

ATOM: Final = 16  # channels of FP16 that lie together
_MOST_POSITIONS: Final = 32  # that rubik spreads along an axis


class Chain(NamedTuple):
    """One step. A step of the device reads a map and convolves it or not, computes functions of each element, and pools or not.

    first: what reads the map if no function of an element does: a convolution, or another engine's operator. functions: of SDP.
    pool: on the fly behind them, or alone.
    """

    type: LayerType
    nodes: tuple[Node, ...]
    flowing: str = ""
    first: Node | None = None
    functions: tuple[PointFunction, ...] = ()
    pool: Node | None = None

    @property
    def writes(self) -> str:
        return self.nodes[-1].name

    @property
    def operands(self) -> tuple[str, ...]:
        """The maps that SDP reads beside the one that flows, each once."""
        maps = [each.operand.name for each in self.functions if isinstance(each.operand, MapOperand)]
        return tuple(dict.fromkeys(maps))

    @property
    def reads(self) -> tuple[str, ...]:
        if self.type is not LayerType.CONV:
            return self.nodes[0].inputs
        return tuple(dict.fromkeys((self.flowing, *self.operands)))

    @property
    def origins(self) -> tuple[Origin, ...]:
        return origins_of(self.nodes)


def is_view(graph: Graph, node: Node) -> bool:
    """Whether a node shows memory of its input and computes nothing: whole surfaces of its channels, or its pixels in other rows."""
    match node.op:
        case ops.ChannelSlice(first=first):
            return first % ATOM == 0
        case ops.Reshape(order=order):
            has_pixels = graph.shape(node.inputs[0]).channels == graph.shape(node.name).channels
            return has_pixels and (order is not Order.CHW or graph.shape(node.name).channels == 1)
        case _:
            return False


def owner(graph: Graph, name: str) -> Node:
    """The node that writes the memory of a map, which may be a view."""
    node = graph[name]
    while is_view(graph, node):
        node = graph[node.inputs[0]]
    return node


def joins_in_place(graph: Graph, concat: Node) -> bool:
    """Whether the parts of a concatenation can be written in place: each begins with a surface of channels."""
    assert isinstance(concat.op, ops.Concat)
    return concat.op.axis is Axis.CHANNELS and all(
        graph.shape(name).channels % ATOM == 0 for name in concat.inputs[:-1]
    )


def spread(pixels: Pair, stride: Pair, channels: int) -> ops.TransposeReshape:
    """Rubik's contraction: a map of these pixels has the channels of each of `stride` positions, one after the other.

    They become pixels side by side.
    """
    shape = Shape(pixels.height * stride.height, pixels.width * stride.width, channels)
    return ops.TransposeReshape((*pixels, *stride, channels), (0, 2, 1, 3, 4), shape, Order.HWC)


def spreading_of(node: Node) -> Pair | None:
    """The positions that a node spreads; None if it is another one."""
    match node.op:
        case ops.TransposeReshape(dims=(height, width, y, x, channels)) as op:
            is_spread = op == spread(Pair(height, width), Pair(y, x), channels) and channels % ATOM == 0
            return Pair(y, x) if is_spread and max(y, x) <= _MOST_POSITIONS else None
        case _:
            return None


def chains_of(graph: Graph, configuration: Configuration, *, fuses: bool) -> tuple[Chain, ...]:
    """The steps of a legal graph, in execution order. fuses: chains may have more than one operator."""
    steps: dict[str, Chain] = {}  # by the map that each writes
    for node in graph.nodes:
        step = _alone(graph, node)
        if step is None:
            continue
        before = _joined(graph, steps, node, configuration) if fuses else None
        if before is not None:
            name, step = before
            del steps[name]
        steps[node.name] = step
    return tuple(steps.values())


def _alone(graph: Graph, node: Node) -> Chain | None:
    """The step of a node that joins no other; None for one that computes nothing."""
    match node.op:
        case ops.Input():
            return None
        case _ if is_view(graph, node):
            return None
        case ops.OnCpu() | ops.Custom():
            return Chain(LayerType.CUSTOM, (node,))
        case ops.Concat():
            return Chain(LayerType.CONCAT, (node,))
        case ops.Conv2d():
            functions = functions_of(graph, node, node.inputs[0])
            assert functions is not None
            return Chain(LayerType.CONV, (node,), node.inputs[0], node, functions)
        case ops.MaxPool2d() | ops.AveragePool2d():
            return Chain(LayerType.CONV, (node,), node.inputs[0], pool=node)
        case ops.LocalResponseNorm() | ops.TransposeReshape():
            return Chain(LayerType.CONV, (node,), node.inputs[0], node)
        case _:
            for flowing in reversed(node.inputs):
                functions = functions_of(graph, node, flowing)
                if functions is not None:
                    return Chain(LayerType.CONV, (node,), flowing, functions=functions)
            raise AssertionError(f"{node.name} should have been rewritten before this")


def _joined(
    graph: Graph, steps: dict[str, Chain], node: Node, configuration: Configuration
) -> tuple[str, Chain] | None:
    """The step that a node continues, by the map that it writes, and the step with both."""
    for name in reversed(steps):
        step = steps[name]
        if name not in node.inputs or not graph.is_private(name) or not goes_on(step):
            continue
        if isinstance(node.op, ops.MaxPool2d | ops.AveragePool2d):
            if flies(node.op, graph.shape(name)) and _is_one_operation(graph, step, configuration):
                return name, step._replace(nodes=(*step.nodes, node), pool=node)
            continue
        functions = functions_with(graph, step, node)
        if functions is not None:
            return name, step._replace(nodes=(*step.nodes, node), functions=functions)
    return None


def functions_with(graph: Graph, step: Chain, node: Node) -> tuple[PointFunction, ...] | None:
    """The functions of a step and of a node that reads what it writes; None where one operation cannot have both."""
    functions = None if isinstance(node.op, ops.Conv2d) else functions_of(graph, node, step.writes)
    if functions is None:
        return None
    both = (*step.functions, *functions)
    return both if assigned(both) is not None else None


def goes_on(step: Chain) -> bool:
    """Whether SDP or PDP can follow on the fly."""
    is_sdp = step.first is None or isinstance(step.first.op, ops.Conv2d)
    return step.type is LayerType.CONV and step.pool is None and is_sdp


def _is_one_operation(graph: Graph, step: Chain, configuration: Configuration) -> bool:
    """Whether SDP has the whole map in one operation, not in bands."""
    if step.first is None or not isinstance(step.first.op, ops.Conv2d):
        return True
    op = step.first.op
    size = ConvolutionSize(graph.shape(step.flowing), op.weight.shape[0], op.window)
    return len(bands_of(size, configuration, Precision.FP16).bands) == 1
