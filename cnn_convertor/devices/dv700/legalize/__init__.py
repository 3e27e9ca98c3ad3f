"""Rewrites operators that the device lacks into equal ones that it has; rules.py refuses the rest."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from cnn_convertor.devices.dv700.commands import (
    COPY,
    buffer_owner,
    has_own_place,
    named_inputs,
)
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.forms import shares_run
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.legalize.assign_cpu import on_cpu, pools_on_cpu
from cnn_convertor.devices.dv700.legalize.clamp_strides import clamp_strides
from cnn_convertor.devices.dv700.legalize.decompose_conv import KERNELS, Rule
from cnn_convertor.devices.dv700.legalize.maximizers import classes_in_bytes
from cnn_convertor.devices.dv700.legalize.sdk_softmax import sdk_softmax
from cnn_convertor.devices.dv700.legalize.split_concat_pool import pool_parts
from cnn_convertor.devices.dv700.legalize.split_pools import split_average, split_max
from cnn_convertor.devices.dv700.legalize.split_slopes import NO_PALETTES, PaletteTargets, split_slopes
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK, LARGEST, is_chunked, memory_order, same_memory
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, Function, Order, Pair, Shape, Window


def legalize(
    graph: Graph,
    device: Device,
    *,
    transposed: bool,
    fusion: Fusion = Fusion.FULL,
    uses_sdk_softmax: bool = False,
    palettes: PaletteTargets = NO_PALETTES,
) -> Graph:
    """Run every rewrite, in order. palettes: the layers that are to have them."""
    limits = device.limits
    rewrites: tuple[Callable[[Graph], Graph], ...] = (
        partial(_each, rule=clamp_strides, limits=limits),
        partial(_each, rule=small_pools, limits=limits),
        partial(_each, rule=pools_on_cpu, limits=limits),  # those that are no chain of small ones
        *(partial(_each, rule=rule, limits=limits) for rule in KERNELS),
        partial(pool_parts, fusion=fusion, device=device),  # pools and convolutions are final
        lambda g: split_activations(g, device, fusion),  # needs to know which nodes can share a run
        partial(split_slopes, targets=palettes),
        partial(_each, rule=single_operators, limits=limits),  # also those that these two make
        lambda g: g.expand(sdk_softmax) if uses_sdk_softmax else g,
        lambda g: free_reshapes(g, transposed=transposed),
        lambda g: g.expand(channel_slices),
        partial(_each, rule=on_cpu, limits=limits),  # the rest
        copies_for_shared_parts,  # after the reshapes: a flattened map may be a part
        flattened_outputs,  # outputs are final
        lambda g: classes_in_bytes(g, device),  # last: no layer reads an output that has none so far
    )
    for rewrite in rewrites:
        graph = rewrite(graph)
    return graph


def _each(graph: Graph, *, rule: Rule, limits: Limits) -> Graph:
    return graph.expand(lambda whole, node: rule(whole, node, limits))


# --- one operator at a time ----------------------------------------------------------------------------------------------


def split_activations(graph: Graph, device: Device, fusion: Fusion) -> Graph:
    """Move PReLU out of operators without kernels, whose slopes they stand beside, and out of dilated convolutions.

    Without fusion every activation of an addition moves out.
    """

    def rule(graph: Graph, node: Node) -> Iterable[Node] | None:
        match node.op:
            case ops.Add(activation=ops.PRelu()) | ops.MaxPool2d(activation=ops.PRelu()) if any(
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
    if max(factor) > limits.max_kernel_size or not limits.deconvolves:
        return None
    channels = graph.shape(node.name).channels
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


# --- reshapes, concatenations, outputs -----------------------------------------------------------------------------------


def free_reshapes(graph: Graph, *, transposed: bool) -> Graph:
    """Make reshapes views (Order.MEMORY) where possible.

    Case 1: both maps have the same bytes. Case 2: the reshape follows a fully connected layer, whose rows take the memory order
    of the map. Case 3: elements move between two maps, and the second lies in memory like a vector: the map is flattened, then
    viewed. A flatten in HWC order stays: the runtime does it on the CPU.
    """
    nodes: dict[str, Node] = {}
    for node in graph.nodes:
        nodes[node.name] = node
        if not isinstance(node.op, ops.Reshape):
            continue
        producer, before, after = graph[node.inputs[0]], graph.shape(node.inputs[0]), node.op.shape
        alike = same_memory(before, after, node.op.order, transposed=transposed)
        if alike or (isinstance(producer.op, ops.Dense) and graph.is_private(producer.name) and after.size <= LARGEST):
            if not alike:
                rows = memory_order(after, transposed=transposed, order=node.op.order)
                dense = nodes[producer.name].op
                assert isinstance(dense, ops.Dense)
                nodes[producer.name] = replace(producer, op=ops.with_outputs(dense, rows))
            nodes[node.name] = replace(node, op=replace(node.op, order=Order.MEMORY))
            continue
        vector = Shape(1, 1, before.size)
        moves = not (before.is_vector or after.is_vector)
        if moves and same_memory(vector, after, node.op.order, transposed=transposed):
            flat = Node(graph.fresh(f"{node.name}/flat"), ops.Reshape(vector, node.op.order), node.inputs, node.origins)
            del nodes[node.name]
            nodes[flat.name] = flat
            nodes[node.name] = replace(node, inputs=(flat.name,), op=replace(node.op, order=Order.MEMORY))
    return Graph(tuple(nodes.values()), graph.outputs)


def channel_slices(graph: Graph, node: Node) -> Iterable[Node] | None:
    """Turn crops of whole chunks of channels, and of vectors, into views. Maps of custom layers have no chunks."""
    match node.op:
        case ops.Crop(start=(0, 0, first), stop=(height, width, stop), stride=(1, 1, 1)):
            x = graph.shape(node.inputs[0])
            ends_whole = x.is_vector or stop % CHUNK == 0 or stop == x.channels
            in_chunks = x.is_vector or not isinstance(buffer_owner(graph, node.inputs[0]).op, ops.Custom)
            if (height, width) == x[:2] and first % CHUNK == 0 and ends_whole and in_chunks:
                return (replace(node, op=ops.ChannelSlice(first, stop - first)),)
    return None


def copies_for_shared_parts(graph: Graph) -> Graph:
    """Copy a map for each concatenation after the first that it is a part of: it has one place in memory.

    Copy, too, a slice that is a part, an output or a named input of a custom layer, and an input that is an output.
    """
    placed: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.op, ops.Concat) or named_inputs(node):
            inputs = []
            for position, name in enumerate(node.inputs):
                home = buffer_owner(graph, name).name
                taken = isinstance(node.op, ops.Concat) and home in placed
                if taken or not has_own_place(graph, name):
                    nodes.append(Node(graph.fresh(f"{node.name}/copy{position}"), COPY, (name,), node.origins))
                    name = nodes[-1].name
                elif isinstance(node.op, ops.Concat):
                    placed.add(home)
                inputs.append(name)
            node = replace(node, inputs=tuple(inputs))
        nodes.append(node)
    copies: dict[str, str] = {}
    for name in graph.outputs:
        if (
            isinstance(buffer_owner(graph, name).op, ops.Input) or not has_own_place(graph, name)
        ) and name not in copies:
            nodes.append(Node(graph.fresh(f"{name}/copy"), COPY, (name,), graph[name].origins))
            copies[name] = nodes[-1].name
    return Graph(tuple(nodes), tuple(copies.get(name, name) for name in graph.outputs))


def flattened_outputs(graph: Graph) -> Graph:
    """Flatten outputs in chunks to HWC order, in which applications read them."""
    flattened: dict[str, Node] = {}
    for name in graph.outputs:
        shape = graph.shape(name)
        if is_chunked(shape) and not _writes_plain(graph, name):
            vector = ops.Reshape(Shape(1, 1, shape.size), Order.HWC)
            flattened[name] = Node(graph.fresh(f"{name}/flatten"), vector, (name,), graph[name].origins)
    outputs = tuple(flattened[name].name if name in flattened else name for name in graph.outputs)
    return Graph((*graph.nodes, *flattened.values()), outputs)


def _writes_plain(graph: Graph, name: str) -> bool:
    """Whether the writer of an output can write HWC order: a CPU layer can if only CPU layers read it."""
    users = (graph[user].op for user in graph.users(name))
    match graph[name].op:
        case ops.OnCpu():
            return all(isinstance(user, ops.OnCpu) for user in users)
        case _:
            return isinstance(buffer_owner(graph, name).op, ops.ArraySoftmax | ops.Custom)
