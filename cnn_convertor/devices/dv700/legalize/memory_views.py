"""Rewrites what concerns memory: reshapes and slices that are views, shared parts of concatenations, and outputs."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.commands import COPY, buffer_owner, has_own_place, named_inputs
from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK, LARGEST, is_chunked, memory_order, same_memory
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Order, Shape


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
        producer = graph[node.inputs[0]]
        before = graph.shape(node.inputs[0])
        after = node.op.shape
        alike = same_memory(before, after, node.op.order, transposed=transposed)
        if alike or reorders_dense(graph, node):
            if not alike:
                rows = memory_order(after, transposed=transposed, order=node.op.order)
                nodes[producer.name] = replace(producer, op=_with_rows(nodes[producer.name].op, rows))
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


def reorders_dense(graph: Graph, node: Node) -> bool:
    """Whether a reshape follows a fully connected layer, whose rows can take another order."""
    producer = graph[node.inputs[0]]
    is_dense = isinstance(producer.op.op if isinstance(producer.op, ops.OnCpu) else producer.op, ops.Dense)
    return is_dense and graph.is_private(producer.name) and graph.shape(node.name).size <= LARGEST


def _with_rows(op: ops.Op, rows: NDArray[np.intp]) -> ops.Op:
    """A fully connected layer with its outputs in another order."""
    if isinstance(op, ops.OnCpu):
        return replace(op, op=_with_rows(op.op, rows))
    assert isinstance(op, ops.Dense)
    return ops.with_outputs(op, rows)


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
