"""Joins functions of the CPU that take a map piece by piece, one after the other: the maps between them are in no memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK
from cnn_convertor.devices.dv700.memory.placement import element_type, is_plain
from cnn_convertor.devices.program import ElementType
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Order, Pair, PieceStep, Shape, Window

_MOST_STEPS: Final = 32  # of one node: each that joins looks at those before it, and no known network has half as many


def in_pieces(graph: Graph) -> Graph:
    """The graph with one node for functions that follow each other, the last one perhaps an average of the whole map.

    That saves the time to write and read the maps between them where the cache cannot hold them. Where it can, as on a PC, the
    pieces took 1.5 to 14 % longer; no board has measured it. A map that others read, too, is written, and then its average
    beside it.
    """
    while (joined := _with_joined_functions(graph)) != graph:
        graph = joined  # a map with two readers has one once these are joined
    return _with_averages(graph)


def _with_joined_functions(graph: Graph) -> Graph:
    nodes: dict[str, Node] = {}
    for node in graph.nodes:
        nodes[node.name] = node
        for name in dict.fromkeys(node.inputs):
            before = nodes.get(name)
            if before is not None and _joins(graph, before, nodes[node.name]):
                nodes[node.name] = _joined(graph, before, nodes[node.name])
                del nodes[name]
    return Graph(tuple(nodes.values()), graph.outputs)


def _with_averages(graph: Graph) -> Graph:
    """The graph with averages in the pass that writes a map, of which both become views of one buffer."""
    averages = {node.name: average for node in graph.nodes if (average := _average_beside(graph, node)) is not None}
    whole = {node: graph.fresh(f"{node}/with its average") for node in averages}
    writers = {average.name: name for name, average in averages.items()}

    def rule(_: Graph, node: Node) -> tuple[Node, ...] | None:
        shape = graph.shape(node.name)
        if (average := averages.get(node.name)) is not None:
            both = _joined(graph, node, average)
            assert isinstance(both.op, ops.OnCpu) and isinstance(both.op.op, ops.InPieces)
            both = replace(both, name=whole[node.name], op=replace(both.op, op=replace(both.op.op, keeps_map=True)))
            flat = replace(node, name=f"{both.name}/map", op=ops.ChannelSlice(0, shape.size), inputs=(both.name,))
            return both, flat, replace(node, op=ops.Reshape(shape, Order.MEMORY), inputs=(flat.name,))
        if (writer := writers.get(node.name)) is not None:
            first = graph.shape(writer).size
            return (replace(node, op=ops.ChannelSlice(first, shape.size), inputs=(whole[writer],)),)
        return None

    return graph.expand(rule)


def _average_beside(graph: Graph, node: Node) -> Node | None:
    """The average of a node's whole map that the pass which writes the map can take."""
    shape = graph.shape(node.name)
    if not _is_of_elements(node) or shape.channels % CHUNK != 0 or not _has_pieces(graph, node, shape):
        return None
    for user in map(graph.__getitem__, graph.users(node.name)):
        both = (node.name, user.name)
        are_parts = any(isinstance(graph[reader].op, ops.Concat) for name in both for reader in graph.users(name))
        are_floats = all(element_type(graph, name) is ElementType.FLOAT for name in both)
        fits = user.inputs == (node.name,) and _averages_all(user, shape)  # other inputs may come later
        if fits and are_floats and not are_parts and not any(map(graph.is_output, both)):
            return user
    return None


def _joins(graph: Graph, before: Node, node: Node) -> bool:
    """Whether a node can take the map of the one before it in pieces."""
    shape = graph.shape(before.name)
    takes = (_is_of_elements(node) and graph.shape(node.name) == shape) or _averages_all(node, shape)
    is_between = graph.is_private(before.name) and _is_of_elements(before)
    is_short = len(_steps(before)) + len(_steps(node)) <= _MOST_STEPS
    return is_between and takes and is_short and all(_has_pieces(graph, each, shape) for each in (before, node))


def _has_pieces(graph: Graph, node: Node, shape: Shape) -> bool:
    """Whether the maps of a node can be cut as one of a shape is, and one of those that it reads has this shape."""
    height, width, channels = shape
    repeated = {Shape(1, 1, 1), Shape(1, 1, channels), Shape(height, width, 1)}
    whole = [name for name in (*node.inputs, node.name) if graph.shape(name) == shape]
    others = {graph.shape(name) for name in node.inputs} - {shape}
    return (
        not shape.is_vector
        and others <= repeated
        and any(name in node.inputs for name in whole)
        and not any(is_plain(graph, name) for name in whole)
    )


def _steps(node: Node) -> tuple[PieceStep, ...]:
    """What a node does on the CPU, in order."""
    match node.op:
        case ops.OnCpu(op=ops.InPieces(steps=steps)):
            return steps
        case ops.OnCpu(op=op):
            return (PieceStep(op, tuple(range(len(node.inputs)))),)
        case _:
            return ()


def _is_of_elements(node: Node) -> bool:
    """Whether a node works on each element by itself. What functions with jumps read stays in memory, where it can be judged."""
    jumping = ops.Floor | ops.Round | ops.Threshold
    steps = [step.op for step in _steps(node)]
    of_elements = [
        (isinstance(op, ops.Unary) and not isinstance(op.function, jumping)) or isinstance(op, ops.Binary)
        for op in steps
    ]
    return bool(steps) and all(of_elements)


def _averages_all(node: Node, shape: Shape) -> bool:
    """Whether a node gives the average of a whole map."""
    whole = Window(Pair(shape.height, shape.width))
    averages = [step.op for step in _steps(node) if isinstance(step.op, ops.AveragePool2d)]
    return any(op == ops.AveragePool2d(whole, factor=op.factor) for op in averages)


def _joined(graph: Graph, before: Node, node: Node) -> Node:
    """One node for both. Its steps count its inputs first, and then the steps."""
    shape = graph.shape(before.name)
    names = dict.fromkeys((*before.inputs, *node.inputs))
    inputs = tuple(
        sorted(names.keys() - {before.name}, key=lambda name: (graph.shape(name) != shape, [*names].index(name)))
    )
    steps: list[PieceStep] = []
    for each in (before, node):
        base = len(inputs) + len(steps)
        places = [inputs.index(name) if name in inputs else base - 1 for name in each.inputs]
        for op, reads in _steps(each):
            steps.append(PieceStep(op, tuple(places[i] if i < len(places) else base + i - len(places) for i in reads)))
    reasons = dict.fromkeys((before.reason, node.reason))
    origins = tuple(dict.fromkeys((*before.origins, *node.origins)))
    op = ops.OnCpu(ops.InPieces(tuple(steps)))
    return replace(node, op=op, inputs=inputs, origins=origins, reason="; ".join(filter(None, reasons)))
