"""Copies of maps that would lie in two places: parts of several concatenations, inputs and views as parts, inputs and slices as outputs."""

from __future__ import annotations

from dataclasses import replace

from cnn_convertor.devices.nvdla.chains import owner
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node


def copies_for_shared_parts(graph: Graph) -> Graph:
    """Each part of a concatenation in place is a map of its own that no other one holds and no application reads or writes.

    Each output is the whole of what a node writes.
    """
    taken: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if not isinstance(node.op, ops.Concat):
            nodes.append(node)
            continue
        inputs = []
        for number, part in enumerate(node.inputs):
            is_own = owner(graph, part).name == part and not isinstance(graph[part].op, ops.Input)
            if is_own and part not in taken and not graph.is_output(part):
                taken.add(part)
                inputs.append(part)
                continue
            copy = Node(graph.fresh(f"{node.name}/part{number}"), COPY, (part,), graph[part].origins)
            nodes.append(copy)
            inputs.append(copy.name)
        nodes.append(replace(node, inputs=tuple(inputs)))
    outputs = []
    for output in graph.outputs:
        home = owner(graph, output)
        if isinstance(home.op, ops.Input) or graph.shape(home.name).size > graph.shape(output).size:
            copy = Node(graph.fresh(f"{output}/output"), COPY, (output,), graph[output].origins)
            nodes.append(copy)
            outputs.append(copy.name)
        else:
            outputs.append(output)
    return Graph(tuple(nodes), tuple(outputs))


COPY = ops.Unary(ops.Clip(-65504.0, 65504.0))  # what FP16 holds at all passes through
