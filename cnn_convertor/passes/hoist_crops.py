"""Moves crops above transposes and reshapes, so that only what is needed moves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Crop, Reshape, Shape, TransposeReshape
from cnn_convertor.passes.movement import movement_of


def hoist_crops(graph: Graph) -> Graph:
    """transpose or reshape -> crop along one axis; becomes crop -> transpose.

    Only where all users of the transpose are such crops, as behind the layer that computes queries, keys and values.
    """
    return graph.expand(_hoisted).without_dead()


def _hoisted(graph: Graph, node: Node) -> Iterable[Node] | None:
    if not isinstance(node.op, Crop):
        return None
    (first,) = node.inputs
    users = (graph[name] for name in graph.users(first))
    if first in graph.outputs or any(_parts(graph, user) is None for user in users):
        return None
    parts = _parts(graph, node)
    assert parts is not None
    crop, moved = parts
    cropped = replace(node, name=graph.fresh(f"{node.name}/part"), op=crop, inputs=graph[first].inputs)
    return cropped, replace(node, op=moved, inputs=(cropped.name,), origins=graph[first].origins + node.origins)


def _parts(graph: Graph, node: Node) -> tuple[Crop, TransposeReshape | Reshape] | None:
    """The crop of the map before the transpose, and the transpose of what it leaves."""
    crop = node.op
    first = graph[node.inputs[0]]
    if not isinstance(crop, Crop) or not isinstance(first.op, TransposeReshape | Reshape):
        return None
    source = graph.shape(first.inputs[0])
    shape = graph.shape(first.name)
    movement = movement_of(first.op, source)
    axes = [axis for axis in Axis if (crop.start[axis], crop.stop[axis]) != (0, shape[axis])]
    if movement is None or len(axes) != 1 or crop.stride != (1, 1, 1):
        return None
    (axis,) = axes
    run, *inner = movement.after[axis]
    start, stop = crop.start[axis], crop.stop[axis]
    step = math.prod(movement.lengths[other] for other in inner)
    of_source = next((at for at in Axis if movement.before[at][:1] == (run,)), None)
    if of_source is None or start % step or stop % step:
        return None
    length = source[of_source] // movement.lengths[run]
    begin = Shape(0, 0, 0).with_length(of_source, start // step * length)
    lengths = {**movement.lengths, run: (stop - start) // step}
    runs = sorted(lengths)
    cropped = shape.with_length(axis, stop - start)
    moved: TransposeReshape | Reshape = replace(first.op, shape=cropped)
    if isinstance(first.op, TransposeReshape):
        axes_of_runs = tuple(map(runs.index, lengths))
        moved = replace(first.op, dims=tuple(map(lengths.__getitem__, runs)), axes=axes_of_runs, shape=cropped)
    return Crop(begin, source.with_length(of_source, stop // step * length)), moved
