"""Makes nodes that work on arrays of any number of axes, which maps hold in the order channels, height, width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cnn_convertor.errors import Origin
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.frontends.nchw import Dims, is_plain, shape_of
from cnn_convertor.ir.ops import Identity, Op, Order, Reshape, Shape, ShapeError, TransposeReshape


class ChwArray(Protocol):
    """The node that computes an array, and the array's length along each axis."""

    @property
    def node(self) -> str: ...

    @property
    def dims(self) -> Dims: ...


def append(
    builder: Builder, op: Op, inputs: Sequence[ChwArray], name: str, where: Origin, dims: Dims | None
) -> tuple[str, Dims]:
    """Append a node; gives its unique name and the dims of its result.

    dims: of the result; None for those of the first input, with the lengths that the operator gives them. A map that holds the
    result's elements in another form is reshaped.
    """
    nodes = [value.node for value in inputs]
    if dims is not None and _shape_after(op, [builder.shape(node) for node in nodes]) not in (None, shape_of(dims)):
        nodes = [builder.add(f"{name}/counted", op, nodes, where)]
        op = Reshape(shape_of(dims), Order.CHW)
    node = builder.add(name, op, nodes, where)
    result_dims = _dims_after(builder, node, inputs[0]) if dims is None else tuple(dims)
    assert shape_of(result_dims) == builder.shape(node), f"{result_dims} of {builder.shape(node)}"
    return node, result_dims


def _shape_after(op: Op, shapes: Sequence[Shape]) -> Shape | None:
    """The operator's output shape; None when its inputs do not fit, which the builder reports."""
    try:
        return op.output_shape(*shapes)
    except (ShapeError, TypeError):
        return None


def _dims_after(builder: Builder, node: str, first: ChwArray) -> Dims:
    """The first input's dims, with the lengths of the node's map."""
    if builder.shape(node) == builder.shape(first.node):
        return first.dims
    assert is_plain(first.dims), first.dims
    height, width, channels = builder.shape(node)
    return (1, channels, height, width)[: len(first.dims)]


def reshape(shape: Shape, dims: Dims) -> Op:
    """The operator that gives the elements of a map of this shape other axes."""
    target = shape_of(dims)
    return Identity() if target == shape else Reshape(target, Order.CHW)


def permute(shape: Shape, split: Dims, axes: Sequence[int], dims: Dims) -> Op:
    """The operator that sees a map as an array of the lengths `split`, permutes its axes as numpy does, and sees it as dims."""
    moved = [axis for axis in axes if split[axis] != 1]
    if moved == sorted(moved):
        return reshape(shape, dims)
    kept = sorted(moved)
    lengths = tuple(split[axis] for axis in kept)
    order = tuple(map(kept.index, moved))
    return TransposeReshape(lengths, order, shape_of(dims), Order.CHW)
