"""Layers that make one tensor of several: sums, products, concatenation."""

from collections.abc import Sequence

from cnn_convertor.frontends.keras.activations import scaled
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.reading import KerasReading, keras
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import BinaryOp, Op

ALIKE = "more than four axes: tensors of the same sizes"
MERGES = {
    "Add": BinaryOp.ADD,
    "Average": BinaryOp.ADD,
    "Subtract": BinaryOp.SUBTRACT,
    "Multiply": BinaryOp.MULTIPLY,
    "Maximum": BinaryOp.MAXIMUM,
    "Minimum": BinaryOp.MINIMUM,
}


@keras.reads(*MERGES, makes=[ops.Add, ops.Binary, ops.Scale], limits=ALIKE)
def merge(reading: KerasReading) -> Value:
    """A chain of combinations of two; the last one has the layer's name."""
    kind = reading.layer.type
    if len(reading.inputs) < 2 or (kind == "Subtract" and len(reading.inputs) > 2):
        required = "two" if kind == "Subtract" else "two or more"
        reading.misfit(f"the layer is given {len(reading.inputs)} inputs; it needs {required}")
    if kind != "Average":
        return combined(reading, MERGES[kind], reading.inputs)
    total = combined(reading, BinaryOp.ADD, reading.inputs, last="sum")
    return total._replace(node=reading.add(scaled(reading, total, 1 / len(reading.inputs)), total.node))


def combined(
    reading: KerasReading, operation: BinaryOp, inputs: Sequence[Value], *, last: str = "", widen: bool = True
) -> Value:
    """A chain of operators of two inputs; the last node is the part `last` of the layer.

    widen: tensors with fewer axes than others get axes of length 1 at the front, as in Keras's layers.
    """
    total, *rest = aligned(reading, inputs, widen=widen)
    for count, value in enumerate(rest, start=1):
        part = last if count == len(rest) else f"{operation.name.lower()}{count}"
        shapes = [reading.builder.shape(v.node) for v in (total, value)]
        if any(a != b and 1 not in (a, b) for a, b in zip(*shapes, strict=True)):
            sizes = " and ".join(map(str, shapes))
            reading.misfit(f"the layer combines maps of different sizes ({sizes})", "make the sizes equal before it")
        same = operation is BinaryOp.ADD and shapes[0] == shapes[1]
        op: Op = ops.Add() if same else ops.Binary(operation)
        total = Value(reading.add(op, total.node, value.node, part=part), total.axes)
    return total


def aligned(reading: KerasReading, inputs: Sequence[Value], *, widen: bool = True) -> list[Value]:
    """The same tensors, all in one layout."""
    ranks = [len(reading.sizes(value)) for value in inputs]
    longest = max(ranks)
    if longest > 3:
        if len({reading.sizes(value) for value in inputs}) > 1:
            reading.misfit("tensors of more than four axes must have the same sizes", "reshape them before the layer")
        return [Value(value.node, Axes.MANY, value.sizes) for value in inputs]
    if not widen and len(set(ranks)) > 1:
        reading.misfit(f"tensors of {' and '.join(str(rank + 1) for rank in ranks)} axes do not go together")
    axes = next(value.axes for value, rank in zip(inputs, ranks, strict=True) if rank == longest)
    if axes is Axes.HW:
        others = (value.axes for value, rank in zip(inputs, ranks, strict=True) if rank == longest)
        axes = next((other for other in others if other is not axes), axes)
    joined = []
    for count, value in enumerate(inputs, start=1):
        sizes = reading.sizes(value)
        wider = (1,) * (longest - len(sizes)) + sizes
        if value.axes is axes:
            joined.append(value)
        elif value.axes is Axes.C and axes in (Axes.HWC, Axes.WC):
            joined.append(Value(value.node, axes))  # the same map
        else:
            straight = tuple(range(len(wider)))
            joined.append(reading.lay_out(value, wider, straight, wider, axes, part=f"turned{count}"))
    return joined


@keras.reads("Concatenate", settings="axis", makes=[ops.Concat], limits=ALIKE)
def concatenate(reading: KerasReading) -> Value:
    return joined(reading, reading.inputs, reading.take("axis", -1))


def joined(reading: KerasReading, inputs: Sequence[Value], axis: object) -> Value:
    if not inputs or len({len(reading.sizes(value)) for value in inputs}) > 1:
        reading.misfit("the layer joins tensors of different kinds", "bring them to the same axes first")
    inputs = [value for value in inputs if value.node]
    if not inputs:
        reading.refuse("the layer joins tensors without elements", "leave it out")
    values = aligned(reading, inputs)
    axes = values[0].axes
    if (at := axes.at(axis)) is None:
        reading.misfit(f"joining tensors of {len(reading.sizes(values[0])) + 1} axes on axis {axis} is not supported")
    return Value(reading.add(ops.Concat(at), *(value.node for value in values)), axes)
