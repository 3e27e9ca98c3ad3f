"""Commands: the nodes and runs of each layer of a program, before its maps have offsets."""

from functools import cache, partial
from typing import NamedTuple

from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK, memory_order
from cnn_convertor.devices.dv700.operators import OPERATORS
from cnn_convertor.devices.dv700.runs import (
    Convolution,
    ConvolutionKind,
    PackedByCpu,
    Pooling,
    PoolingKind,
    Run,
    Weights,
)
from cnn_convertor.devices.dv700.weights.streams import PackedShape
from cnn_convertor.devices.program import LayerType
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node, origins_of
from cnn_convertor.ir.ops import ONE, Function, Order, Shape, Window

COPY = ops.AveragePool2d(Window(ONE), factor=1.0)  # copies a map
WITH_PACKED = (ops.ScaledBy, ops.TimesPacked)  # convolve with weights that the CPU packs: their second input


class RunAssignment(NamedTuple):
    """One run of a command, and the nodes that it computes."""

    nodes: tuple[Node, ...]
    run: Run


class Command(NamedTuple):
    """One layer of the program: the nodes that it computes, the names of the maps that it reads and writes, and its runs.

    A layer on the CPU has no runs. parts: the nodes whose maps lie inside the written map, if the runs write a concatenation.
    slices: the number of branches, if each computes a slice of the channels of the same layers.
    """

    type: LayerType
    nodes: tuple[Node, ...]
    reads: tuple[str, ...]
    writes: str
    assignments: tuple[RunAssignment, ...] = ()
    parts: tuple[str, ...] = ()
    slices: int = 1

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(assignment.run for assignment in self.assignments)

    @property
    def origins(self) -> tuple[Origin, ...]:
        return origins_of(self.nodes)


def is_view(node: Node) -> bool:
    """Whether the node reads its input's memory in another shape or in part, and computes nothing."""
    return isinstance(node.op, ops.ChannelSlice) or (isinstance(node.op, ops.Reshape) and node.op.order is Order.MEMORY)


def buffer_owner(graph: Graph, name: str) -> Node:
    """The node that writes the memory of the named node, which may be a view."""
    node = graph[name]
    while is_view(node):
        node = graph[node.inputs[0]]
    return node


def buffer_users(graph: Graph, name: str) -> list[Node]:
    """The nodes that read the memory of the named node, directly or through views."""
    users = []
    for user in map(graph.__getitem__, graph.users(name)):
        users += buffer_users(graph, user.name) if is_view(user) else [user]
    return users


def has_own_place(graph: Graph, name: str) -> bool:
    """Whether the named map is a whole buffer, not a slice of one."""
    node = graph[name]
    while is_view(node):
        if isinstance(node.op, ops.ChannelSlice):
            return False
        node = graph[node.inputs[0]]
    return True


def named_inputs(node: Node) -> tuple[str, ...]:
    """The inputs of a custom layer that finds them by the layers that write them: each of those writes that map only."""
    return node.inputs if isinstance(node.op, ops.Custom) and len(node.inputs) > 1 else ()


def why_own_layer(graph: Graph, node: Node) -> str | None:
    """Why a layer of the program must write the node's map and nothing else; None if it need not."""
    if any(buffer_owner(graph, output) is node for output in graph.outputs):
        return f'the map of "{node.name}" is an output of the network'
    reader = next((reader for reader in buffer_users(graph, node.name) if named_inputs(reader)), None)
    return None if reader is None else f'"{reader.name}", a layer of the firmware, looks for the map of "{node.name}"'


def inputs_are_layers(graph: Graph) -> bool:
    """Whether the program needs LT_INPUT layers: with several inputs, or when a layer lists its inputs or reads a slice of one.

    Otherwise the first layer reads the input where the application writes it. A CPU layer without inputs may come before it.
    """
    listing = [
        n
        for n in graph.nodes
        if isinstance(n.op, ops.Concat) or (isinstance(n.op, ops.Custom | ops.OnCpu) and len(n.inputs) != 1)
    ]
    listed = {buffer_owner(graph, name).name for node in listing for name in node.inputs}
    idle = any(not node.inputs for node in listing)
    sliced = {buffer_owner(graph, node.name).name for node in graph.nodes if isinstance(node.op, ops.ChannelSlice)}
    return len(graph.inputs) > 1 or idle or any(node.name in listed | sliced for node in graph.inputs)


def joins_run(nodes: tuple[Node, ...], node: Node) -> bool:
    """Whether a run that computes `nodes` can compute the next node, too.

    The order inside a run: convolution, element-wise addition, max pool, activation; or average pool, addition, activation.
    """
    first, last = nodes[0].op, nodes[-1].op
    if isinstance(first, ops.Conv2d | ops.ConvTranspose2d) and first.window.dilation != ONE:
        return False
    match last, node.op:
        case (ops.Conv2d() | ops.ConvTranspose2d() | ops.Dense() | ops.AveragePool2d()) as carrier, ops.Add():
            return len(nodes) == 1 and carrier.activation is None
        case ops.ScaledBy(), ops.Add():
            return len(nodes) == 1
        case (ops.Conv2d() | ops.ConvTranspose2d() | ops.Add()) as pooled, ops.MaxPool2d(activation=after):
            if not isinstance(first, ops.Conv2d | ops.ConvTranspose2d):
                return False
            return pooled.activation is None or (after is None and ops.never_decreases(pooled.activation))
        case _:
            return False


def joins_in_place(graph: Graph, concat: Node) -> bool:
    """Whether the parts of a concatenation can be written in place: each must start on a whole chunk of channels."""
    return all(graph.shape(name).channels % CHUNK == 0 for name in concat.inputs[:-1])


def layer_type(graph: Graph, node: Node) -> LayerType:
    """The type of a node's layer in a legal graph."""
    if isinstance(node.op, ops.Concat) and not joins_in_place(graph, node):
        return LayerType.COPY_CONCAT
    layer = OPERATORS[type(node.op)].layer
    assert layer is not None, f"{type(node.op).__name__} should have been rewritten before this"
    return layer


# --- runs ----------------------------------------------------------------------------------------------------------------


def run_of(graph: Graph, nodes: tuple[Node, ...], *, transposed: bool, external: bool = True) -> Run:
    """The run that computes nodes that `joins_run` accepts, with FP16 weights.

    external: it writes to external memory rather than to the unified buffer for the next run.
    """
    first, last = nodes[0], nodes[-1]
    x, y = graph.shape(first.inputs[0]), graph.shape(last.name)
    pooling: Pooling | None = None
    convolution: ops.Conv2d | ops.ConvTranspose2d | None = None
    function: Function | None = None
    factors: PackedByCpu | None = None
    for node in nodes:
        match node.op:
            case ops.Conv2d() | ops.ConvTranspose2d() as op:
                convolution = op
            case ops.Dense() as op:
                convolution = _as_convolution(op, x, transposed=transposed)
                x = Shape(1, 1, x.size)
            case ops.MaxPool2d(window=window):
                pooling = _pooling(PoolingKind.MAX, window)
            case ops.AveragePool2d(window=window):
                pooling = _pooling(PoolingKind.AVERAGE, window, node.op.fixed_factor)
            case ops.Upsample(factor=factor):
                pooling = _pooling(PoolingKind.UPSAMPLE, Window(factor, factor))
            case ops.ScaledBy():
                factors = PackedByCpu(PackedShape(x.channels, 1, ONE))
            case ops.TimesPacked(kernels=kernels):
                factors = PackedByCpu(PackedShape(kernels, x.channels, ONE), ConvolutionKind.CONVOLUTION)
            case ops.Add() if node is first:
                pooling = _pooling(PoolingKind.AVERAGE, Window(ONE), 1.0)
        function = getattr(node.op, "activation", None) or function
    slopes = function.slopes if isinstance(function, ops.PRelu) else None
    assert convolution is not None or slopes is None, "slopes travel with kernels"
    return Run(
        input=x,
        output=y,
        convolution=None
        if convolution is None
        else _convolution(convolution, graph.shape(first.name), slopes, first.where),
        pooling=pooling,
        activation=function,
        external=external,
        factors=factors,
    )


def _pooling(kind: PoolingKind, window: Window, factor: float = 0.0) -> Pooling:
    return Pooling(kind, window.kernel, window.stride, window.padding, factor)


def _as_convolution(dense: ops.Dense, x: Shape, *, transposed: bool) -> ops.Conv2d:
    """A 1x1 convolution over the map as a vector, in memory order."""
    out = dense.weight.shape[0]
    if x.is_vector:
        weight = dense.weight
    else:
        order = cache(partial(memory_order, x, transposed=transposed))
        weight = dense.weight.map_rows(lambda w: w.reshape(len(w), -1, 1, 1), (x.size, 1, 1)).take_columns(order)
    assert weight.shape == (out, x.size, 1, 1)
    return ops.Conv2d(weight, dense.bias, Window(ONE), activation=dense.activation)


def _convolution(
    op: ops.Conv2d | ops.ConvTranspose2d,
    output: Shape,
    slopes: Constant | None,
    where: Origin | None,
) -> Convolution:
    window = op.window
    kernels = op.weight
    match op:
        case ops.Conv2d():
            kind = ConvolutionKind.DEPTHWISE if op.is_depthwise else ConvolutionKind.CONVOLUTION
            padding = window.padding
        case ops.ConvTranspose2d():
            kind = ConvolutionKind.DEPTHWISE_DECONVOLUTION if op.is_depthwise else ConvolutionKind.DECONVOLUTION
            kernels, padding = op.rotated, op.input_padding
    packed = PackedShape(
        kernels=kernels.shape[0],
        channels=kernels.shape[1],
        kernel=window.kernel,
        dilated=window.dilation != ONE,
        prelu=slopes is not None,
    )
    weights = Weights(0, packed, kernels, op.bias, slopes, where)
    return Convolution(kind, window.kernel, window.stride, window.dilation, padding, output, weights)
