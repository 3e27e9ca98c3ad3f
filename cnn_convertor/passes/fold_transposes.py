"""Fuses consecutive transposes, and turns transposes that move no data into reshapes."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate

from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import (
    Activation,
    Axis,
    Crop,
    Op,
    Order,
    Pad,
    Padding,
    PRelu,
    Reshape,
    Shape,
    TransposeReshape,
    Unary,
)
from cnn_convertor.passes.movement import COUNTED, cut, movement_of
from cnn_convertor.passes.swapping import Swapping, swap


def fold_transposes(graph: Graph) -> Graph:
    """Case 1: transpose -> reshape; case 2: reshape -> transpose; case 3: transpose -> transpose; all in one order.
    Before, transposes go below functions of single elements, crops, and padding that others follow, towards each other. Then case 4: a transpose that moves no data;
    case 5: a transpose to a vector in the other order (SSD's heads), which is a reshape in that order. A reshape that keeps the
    shape goes. All this is repeated, since a transpose that goes can bring two others together.
    """
    while (folded := _folded(graph)) != graph:
        graph = folded
    return graph


def _folded(graph: Graph) -> Graph:
    folded = swap(graph, _below).fuse(_fold).expand(_as_reshape)
    same = []  # reshapes that keep the shape
    shared = {}
    for node in folded.nodes:
        if isinstance(node.op, Reshape) and folded.shape(node.inputs[0]) == node.op.shape:
            same.append(node.name)
            if _completes(folded, node):
                shared.update(dict.fromkeys(folded.users(node.name), folded[node.inputs[0]]))
    return _with_origins(folded.bypass(same), shared)


def _completes(graph: Graph, node: Node) -> bool:
    """Whether the node's input alone is not yet the output of its layer: a transpose of that layer was folded into the node."""
    layer = graph[node.inputs[0]].where
    return layer in node.origins and layer != node.where


def _with_origins(graph: Graph, shared: Mapping[str, Node]) -> Graph:
    """The graph in which each of these nodes also completes the layer of another one, so that no map passes for its output."""
    nodes = []
    for node in graph.nodes:
        if node.name in shared:
            origins = dict.fromkeys(shared[node.name].origins + node.origins)
            node = replace(node, origins=tuple(origins))
        nodes.append(node)
    return Graph(tuple(nodes), graph.outputs)


def _below(swapping: Swapping, first: Node, second: Node) -> tuple[Op, Op] | None:
    match first.op, second.op:
        case TransposeReshape() as moves, (Unary() | Activation()) as function:
            return None if isinstance(function.function, PRelu) else (function, moves)
        case TransposeReshape() as moves, Crop() as crop:
            return _below_crop(moves, crop, swapping.shape(first.inputs[0]))
        case TransposeReshape() as moves, Pad() as pad:
            is_undone = swapping.is_private(second.name) and isinstance(
                swapping.user(second.name).op, TransposeReshape | Crop | Pad
            )
            return _below_pad(moves, pad, swapping.shape(first.inputs[0])) if is_undone else None
        case _:
            return None


def _sources(moves: TransposeReshape, x: Shape) -> Mapping[Axis, Axis] | None:
    """For each axis of a transposed map, the axis that it was; None where axes do not stay whole."""
    movement = movement_of(moves, x)
    if movement is None or moves.shape.is_vector or x.is_vector:
        return None
    axis_of = {runs: axis for axis, runs in movement.before.items()}
    sources = {axis: axis_of[runs] for axis, runs in movement.after.items() if runs in axis_of}
    return sources if len(set(sources.values())) == len(Axis) else None


def _transposed(moves: TransposeReshape, x: Shape, sources: Mapping[Axis, Axis]) -> TransposeReshape:
    """The same transpose of a map of another shape."""
    counted = COUNTED[moves.order]
    axes = tuple(counted.index(sources[axis]) for axis in counted)
    shape = Shape(*(x[sources[axis]] for axis in Axis))
    return TransposeReshape(tuple(x[axis] for axis in counted), axes, shape, moves.order)


def _below_crop(moves: TransposeReshape, crop: Crop, x: Shape) -> tuple[Op, Op] | None:
    sources = _sources(moves, x)
    if sources is None:
        return None
    of_source = {source: axis for axis, source in sources.items()}

    def turned(values: Shape) -> Shape:
        return Shape(*(values[of_source[axis]] for axis in Axis))

    before = Crop(turned(crop.start), turned(crop.stop), turned(crop.stride))
    return before, _transposed(moves, before.output_shape(x), sources)


def _below_pad(moves: TransposeReshape, pad: Pad, x: Shape) -> tuple[Op, Op] | None:
    sources = _sources(moves, x)
    if sources is None:
        return None
    sides = {sources[Axis.HEIGHT]: pad.padding[:2], sources[Axis.WIDTH]: pad.padding[2:]}
    if sides.pop(Axis.CHANNELS, (0, 0)) != (0, 0):
        return None
    before = Pad(Padding(*sides.get(Axis.HEIGHT, (0, 0)), *sides.get(Axis.WIDTH, (0, 0))))
    return before, _transposed(moves, before.output_shape(x), sources)


def _fold(_: Lookup, first: Node, second: Node) -> Op | None:
    match first.op, second.op:
        case TransposeReshape(order=order, shape=shape) as before, Reshape() as after if after.order is order or (
            shape.is_vector and after.shape.is_vector
        ):
            return replace(before, shape=after.shape)
        case Reshape(order=order), TransposeReshape() as after if after.order is order:
            return after
        case TransposeReshape(order=order) as before, TransposeReshape() as after if after.order is order:
            lengths = tuple(before.dims[axis] for axis in before.axes)
            pieces = cut(lengths, after.dims)
            after_pieces = cut(after.dims, lengths)
            if pieces is None or after_pieces is None:
                return None
            return _composed(before, after, pieces, after_pieces)
        case _:
            return None


def _composed(
    before: TransposeReshape, after: TransposeReshape, pieces: list[list[int]], after_pieces: list[list[int]]
) -> TransposeReshape:
    """Both transposes as one, of smaller axes. pieces: of the axes between the two, as either of them has these."""
    of_axis = dict(zip(before.axes, pieces, strict=True))
    split = [(axis, place) for axis in range(len(before.dims)) for place in range(len(of_axis[axis]))]
    between = [split.index((axis, place)) for axis in before.axes for place in range(len(of_axis[axis]))]
    starts = list(accumulate(map(len, after_pieces), initial=0))
    axes = [between[starts[axis] + place] for axis in after.axes for place in range(len(after_pieces[axis]))]
    if not axes:  # one element
        return replace(after, dims=(1,), axes=(0,))
    return replace(after, dims=tuple(of_axis[axis][place] for axis, place in split), axes=tuple(axes))


def _as_reshape(graph: Graph, node: Node) -> Iterable[Node] | None:
    op = node.op
    if not isinstance(op, TransposeReshape):
        return None
    dims, axes = _plain(op)
    order = op.order
    if len(dims) > 1:
        if (dims, axes) != (_halves(graph.shape(node.inputs[0]), order), (1, 0)) or not op.shape.is_vector:
            return None
        order = Order.HWC if order is Order.CHW else Order.CHW
    return (replace(node, op=Reshape(op.shape, order)),)


def _halves(x: Shape, order: Order) -> tuple[int, int]:
    """A map as a matrix in the given order: (channels, pixels) or (pixels, channels)."""
    pixels = x.height * x.width
    return (x.channels, pixels) if order is Order.CHW else (pixels, x.channels)


def _plain(op: TransposeReshape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dims and axes without axes of length 1, with axes that stay together merged."""
    moved = [axis for axis in op.axes if op.dims[axis] != 1]
    rank = {axis: place for place, axis in enumerate(sorted(moved))}
    runs: list[list[int]] = []
    for axis in moved:
        if runs and rank[axis] == rank[runs[-1][-1]] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    lengths = {run[0]: math.prod(op.dims[axis] for axis in run) for run in runs}
    heads = sorted(lengths)
    return tuple(lengths[head] for head in heads) or (1,), tuple(heads.index(run[0]) for run in runs)
