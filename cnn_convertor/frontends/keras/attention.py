"""Layers that multiply tensors of the network by each other: products, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cnn_convertor.frontends.builder import prefix_of
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.model import TensorIndex
from cnn_convertor.frontends.keras.normalizations import smallest_sum
from cnn_convertor.frontends.keras.reading import KerasReading, keras
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.ops import ONE, Axis, Matrices, Window

MOVES = (ops.TransposeReshape, ops.Reshape, ops.Identity)
UNMASKED = "without masks"


def multiplied(
    reading: KerasReading, x: Value, y: Value, *, turned: tuple[bool, bool] = (False, False), factor: float = 1.0,
    part: str = "",
) -> Value:  # fmt: skip
    """The products of the matrices in the last two axes, times a factor. turned: which of the two are transposed."""
    x_sizes = reading.sizes(x)
    y_sizes = reading.sizes(y)
    if len(x_sizes) != len(y_sizes) or len(x_sizes) < 2:
        reading.misfit(f"tensors of {len(x_sizes) + 1} and {len(y_sizes) + 1} axes cannot be multiplied as matrices")
    rows, inner = x_sizes[-1:-3:-1] if turned[0] else x_sizes[-2:]
    inputs, columns = y_sizes[-1:-3:-1] if turned[1] else y_sizes[-2:]
    counts = {math.prod(x_sizes[:-2]), math.prod(y_sizes[:-2])}
    if inner != inputs or (x_sizes[:-2] != y_sizes[:-2] and 1 not in counts):
        reading.misfit(f"matrices of {_text(x_sizes)} and {_text(y_sizes)} cannot be multiplied")
    batch = max(x_sizes[:-2], y_sizes[:-2], key=math.prod)
    inside = prefix_of(part)
    x = stacked(reading, x, f"{inside}stacked0")
    y = stacked(reading, y, f"{inside}stacked1")
    left = _matrices(reading, x, turned[0])
    right = _matrices(reading, y, turned[1])
    result = _matrices(reading, x, False)._replace(number=max(counts))
    is_stack = len(x_sizes) > 3
    op = ops.MatMul(left, right, result, factor)
    product = Value(reading.add(op, x.node, y.node, part=f"{inside}product" if is_stack else part), x.axes)
    if not is_stack:
        return product
    unstacked = (*batch, rows, columns)
    return reading.lay_out(product, unstacked, tuple(range(len(unstacked))), unstacked, Axes.MANY, part=part)


def stacked(reading: KerasReading, value: Value, part: str) -> Value:
    """A tensor of many axes as a stack of matrices; others as they are."""
    sizes = reading.sizes(value)
    if value.axes is not Axes.MANY:
        return value
    flat = (math.prod(sizes[:-2]), *sizes[-2:])
    return reading.lay_out(value, sizes, tuple(range(len(sizes))), flat, Axes.HWC, part=part)


def _matrices(reading: KerasReading, value: Value, turned: bool) -> Matrices:
    """How the map of a tensor of three axes, or four, holds the matrices of the last two."""
    *_, rows, columns = (Axis("HWC".index(letter)) for letter in value.axes.value)
    (batch,) = {*Axis} - {rows, columns}
    number = reading.builder.shape(value.node)[batch]
    if turned:
        return Matrices(number, batch, columns, rows)
    return Matrices(number, batch, rows, columns)


def _text(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _listed(reading: KerasReading, least: int, most: int) -> list[Value]:
    """The tensors of the list that the layer is called with."""
    arguments = reading.arguments
    inputs = arguments.positional[0] if arguments.positional else arguments.keywords.get("inputs")
    listed = [item for item in (inputs if isinstance(inputs, list) else [inputs]) if isinstance(item, TensorIndex)]
    _refuse_masks(reading, len(listed))
    if not least <= len(listed) <= most:
        wanted = "two" if least == most else "two or three"
        reading.misfit(f"the layer takes a list of {wanted} tensors, not of {len(listed)}")
    return [reading.inputs[item.input] for item in listed]


def _refuse_masks(reading: KerasReading, tensors: int) -> None:
    if tensors != len(reading.inputs):
        reading.refuse("the layer is called with a mask", "call it without masks")


@keras.reads(
    "Dot", settings="axes normalize", makes=[ops.MatMul, ops.L2Normalize, *MOVES], limits="not along the batch"
)
def dot(reading: KerasReading) -> Value:
    """Sums the products along an axis of each tensor; the other axes of the first come before those of the second."""
    values = _listed(reading, 2, 2)
    axes = reading.take("axes")
    if not (isinstance(axes, list) and len(axes) == 2):
        axes = [axes, axes]
    summed = [_position(reading, value, axis) for value, axis in zip(values, axes, strict=True)]
    length, other_length = (reading.sizes(value)[axis] for value, axis in zip(values, summed, strict=True))
    if length != other_length:
        reading.misfit(f"the layer sums along axes of different lengths: {length} and {other_length}")
    normalizes = reading.flag("normalize", False)
    matrices = []
    kept: tuple[int, ...] = ()  # sizes of the other axes of both
    for at, (value, axis) in enumerate(zip(values, summed, strict=True)):
        sizes = reading.sizes(value)
        if normalizes:
            value = _normalized(reading, value, axis, at)
        rest = tuple(other for other in range(len(sizes)) if other != axis)
        rest_sizes = tuple(sizes[other] for other in rest)
        kept += rest_sizes
        order = (axis, *rest)
        shape = (length, math.prod(rest_sizes))
        if at == 0:  # its columns are summed, and the rows of the second
            order = (*rest, axis)
            shape = shape[::-1]
        matrices.append(reading.lay_out(value, sizes, order, shape, Axes.WC, part=f"matrix{at}"))
    product = multiplied(reading, matrices[0], matrices[1], part="product")
    result = kept or (1,)
    axes = reading.map_axes(len(result) + 1)
    return reading.lay_out(product, reading.sizes(product), (0, 1), result, Axes.WC if axes is Axes.HW else axes)


def _position(reading: KerasReading, value: Value, axis: object) -> int:
    """An axis, counted without the batch."""
    rank = len(reading.sizes(value)) + 1
    if not isinstance(axis, int) or not -rank <= axis < rank or axis % rank == 0:
        reading.refuse(f"a tensor of {rank} axes has no axis {axis!r} to sum along", "name one behind the batch")
    return axis % rank - 1


def _normalized(reading: KerasReading, value: Value, position: int, at: int) -> Value:
    axis = value.axes.at(position + 1)
    if axis is None:
        reading.misfit("normalizing a tensor of more than four axes is not supported")
    op = ops.L2Normalize((axis,), smallest_sum(reading), at_least=True)
    return value.computed_by(reading.add(op, value.node, part=f"normal{at}"))


@keras.reads(
    "Attention", settings="use_scale score_mode causal", ignores="dropout seed", makes=[ops.MatMul, ops.Softmax, *MOVES],
    limits=f"score_mode: dot; {UNMASKED}",
)  # fmt: skip
def attention(reading: KerasReading) -> Value:
    """softmax(scale * Q K') V, of [query, value] or [query, value, key]."""
    query, value, *keys = _listed(reading, 2, 3)
    if (mode := reading.take("score_mode", "dot")) != "dot":
        reading.refuse(f"scores of the mode {mode!r} are not supported", "use score_mode='dot'")
    if reading.flag("causal", False):
        reading.refuse("causal attention is not supported")
    scale = float(reading.whole("scale", ())) if reading.flag("use_scale", False) else 1.0
    key = keys[0] if keys else value
    scores = multiplied(reading, query, key, turned=(False, True), factor=scale, part="scores")
    if (along := scores.axes.at(len(reading.sizes(scores)))) is None:
        reading.misfit("attention on more than four axes is not supported", "reshape the tensors before it")
    weights = scores.computed_by(reading.add(ops.Softmax(along), scores.node, part="weights"))
    return multiplied(reading, weights, value)


@keras.reads(
    "MultiHeadAttention", settings="num_heads key_dim value_dim use_bias output_shape attention_axes use_gate sliding_window",
    ignores="dropout seed flash_attention query_shape key_shape value_shape",
    makes=[ops.Conv2d, ops.MatMul, ops.Softmax, *MOVES],
    limits=f"attention_axes: all; output_shape: one number; use_gate: False; sliding_window: None; {UNMASKED}",
)  # fmt: skip
def multi_head_attention(reading: KerasReading) -> Value:
    """Attention of several heads, which lie side by side in the channels."""
    query, key, value = _roles(reading)
    for name in ("use_gate", "sliding_window"):
        if setting := reading.take(name):
            reading.refuse(f"{name}={setting!r} is not supported", f"leave {name} out")
    heads = reading.integer("num_heads")
    depth = reading.integer("key_dim")
    value_depth = depth if reading.take("value_dim") is None else reading.integer("value_dim")
    sizes = reading.sizes(query)
    _check_axes(reading, len(sizes))
    outputs = _outputs(reading, sizes[-1])
    if reading.sizes(key)[:-1] != reading.sizes(value)[:-1]:
        reading.misfit("the layer is given different numbers of keys and values")
    queries = _projected(reading, _rows(reading, query, "query"), "query", (heads, depth))
    keys = _projected(reading, _rows(reading, key, "key"), "key", (heads, depth))
    values = _projected(reading, _rows(reading, value, "value"), "value", (heads, value_depth))
    inside = Matrices(heads, Axis.CHANNELS, Axis.WIDTH, Axis.CHANNELS)
    turned = Matrices(heads, Axis.CHANNELS, Axis.CHANNELS, Axis.WIDTH)
    apart = Matrices(heads, Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)
    scores = reading.add(ops.MatMul(inside, turned, apart, depth**-0.5), queries, keys, part="scores")
    weights = reading.add(ops.Softmax(Axis.WIDTH), scores, part="weights")
    mixed = Value(reading.add(ops.MatMul(apart, inside, inside), weights, values, part="heads"), Axes.WC)
    projected = Value(_projected(reading, mixed, "attention_output", (outputs,), (heads, value_depth)), Axes.WC)
    axes = {2: Axes.WC, 3: Axes.HWC}.get(len(sizes), Axes.MANY)
    return reading.lay_out(projected, reading.sizes(projected), (0, 1), (*sizes[:-1], outputs), axes)


def _roles(reading: KerasReading) -> tuple[Value, Value, Value]:
    """Query, key and value; without a key, the values are the keys."""
    names = ("query", "value", "key")
    arguments = reading.arguments
    named = {**dict(zip(names, arguments.positional, strict=False)), **arguments.keywords}
    tensors = {name: named[name] for name in names if isinstance(named.get(name), TensorIndex)}
    _refuse_masks(reading, len(tensors))
    if not {"query", "value"} <= tensors.keys():
        reading.misfit("the layer takes a query and a value")
    query, value, key = (reading.inputs[tensors.get(name, tensors["value"]).input] for name in names)
    return query, key, value


def _check_axes(reading: KerasReading, rank: int) -> None:
    """rank: of the query, without the batch."""
    axes = reading.take("attention_axes")
    axes = axes if isinstance(axes, list) or axes is None else [axes]
    if rank < 2:
        reading.misfit("the layer takes tensors of three axes or more", "reshape the vector before it")
    if axes is not None and axes != list(range(1, rank)):
        reading.refuse(f"attention along the axes {axes} of {rank + 1} is not supported", "leave attention_axes out")


def _outputs(reading: KerasReading, channels: int) -> int:
    match reading.take("output_shape"):
        case None | []:
            return channels
        case int(count) | [int(count)] if count > 0:
            return count
        case other:
            reading.refuse(f"output_shape is {other!r}, not one number")


def _rows(reading: KerasReading, value: Value, part: str) -> Value:
    """A tensor as rows: all pixels of a map, one after the other."""
    sizes = reading.sizes(value)
    flat = (math.prod(sizes[:-1]), sizes[-1])
    return reading.lay_out(value, sizes, tuple(range(len(sizes))), flat, Axes.WC, part=f"{part}/rows")


def _projected(
    reading: KerasReading, rows: Value, part: str, outputs: tuple[int, ...], split: tuple[int, ...] = ()
) -> str:
    """Rows times the kernel of a part of the layer, whose axes are those of the inputs and the outputs.

    split: the axes of the inputs, where there are several.
    """
    channels = reading.builder.shape(rows.node).channels
    count = math.prod(outputs)
    kernel = reading.variable(f"{part}/kernel", (split or (channels,)) + outputs)

    def read(selected: slice) -> Array:
        matrix: Array = kernel.read((slice(None),) * len(kernel.shape)).reshape(channels, count)
        return matrix.T[selected][..., None, None]

    bias = None
    if reading.flag("use_bias", True):
        numbers = reading.variable(f"{part}/bias", outputs)
        bias = Constant((count,), lambda selected: numbers.read((slice(None),) * len(outputs)).reshape(-1)[selected])
    return reading.add(
        ops.Conv2d(Constant((count, channels, 1, 1), read).in_pieces(), bias, Window(ONE)), rows.node, part=part
    )
