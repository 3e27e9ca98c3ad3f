"""Functions that move elements: reshape, transpose, slices, concatenation, padding."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cnn_convertor.frontends.arithmetic import crop
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.merge import ALIKE, joined
from cnn_convertor.frontends.keras.model import TensorIndex
from cnn_convertor.frontends.keras.operations.arguments import (
    NO_BATCH,
    TENSORS,
    argument,
    axes_of,
    function_of,
    integer,
    tensor,
)
from cnn_convertor.frontends.keras.reading import KerasReading, operations, plain
from cnn_convertor.frontends.keras.reshape import MOVES, is_order, permuted, reshaped
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Padding


@operations.reads("Reshape", "reshape", settings="newshape shape", makes=MOVES, limits="keeps the batch")
def reshape(reading: KerasReading) -> Value:
    value = tensor(reading)
    target = argument(reading, 1, "newshape", "shape")
    match target:
        case [-1 | None | 1, *sizes] if all(isinstance(n, int) for n in sizes):
            return reshaped(reading, value, sizes)
        case _:
            reading.refuse(
                f"a reshape to {target!r} is not supported", "use keras.layers.Reshape, which keeps the batch"
            )


@operations.reads("Transpose", "transpose", settings="axes perm", makes=MOVES, limits="keeps the batch")
def transpose(reading: KerasReading) -> Value:
    value = tensor(reading)
    order = argument(reading, 1, "axes", "perm", default=None)
    if not is_order(order, range(len(reading.sizes(value)) + 1)) or order[0] != 0:
        hint = "use keras.layers.Permute, which keeps the batch"
        reading.refuse(f"a transposition by {order!r} is not supported", hint)
    return permuted(reading, value, tuple(axis - 1 for axis in order[1:]))


@operations.reads("Squeeze", "squeeze", settings="axis", makes=MOVES, limits=NO_BATCH)
def squeeze(reading: KerasReading) -> Value:
    value = tensor(reading)
    sizes = reading.sizes(value)
    axis = argument(reading, 1, "axis", default=None)
    gone = [at for at, size in enumerate(sizes) if size == 1] if axis is None else axes_of(reading, value, axis)
    if any(sizes[at] != 1 for at in gone):
        reading.refuse(f"axes of {sizes} that are longer than 1 cannot be squeezed")
    return reshaped(reading, value, [size for at, size in enumerate(sizes) if at not in gone])


@operations.reads("ExpandDims", "expand_dims", settings="axis", makes=MOVES, limits="after the batch")
def expand_dims(reading: KerasReading) -> Value:
    value = tensor(reading)
    axis = integer(reading, argument(reading, 1, "axis"), "axis")
    return reshaped(reading, value, _widened(reading, value, axis))


def _widened(reading: KerasReading, value: Value, axis: int) -> list[int]:
    sizes = list(reading.sizes(value))
    at = axis % (len(sizes) + 2)
    if at == 0:
        reading.refuse("an axis before the batch is not supported")
    return [*sizes[: at - 1], 1, *sizes[at - 1 :]]


@operations.reads(
    "GetItem", "__operators__.getitem", "strided_slice", settings="slice_spec key", makes=[ops.Crop],
    limits="keeps the batch; slices with positive steps; at most four axes",
)  # fmt: skip
def get_item(reading: KerasReading) -> Value:
    value = tensor(reading)
    if value.axes is Axes.MANY:
        reading.misfit("parts of a tensor of more than four axes are not supported", "take them before the reshape")
    key = argument(reading, 1, "slice_spec", "key")
    sizes = reading.sizes(value)
    keys = _full(reading, key if isinstance(key, list) else [key], len(sizes) + 1)
    if isinstance(keys[0], int) or _bounds(reading, keys[0], 1) != (0, 1, 1):
        reading.refuse("a part of the batch is not supported", "keep the batch: x[:, ...]")
    bounds = [_bounds(reading, k, size) for k, size in zip(keys[1:], sizes, strict=True)]
    dropped = [isinstance(k, int) for k in keys[1:]]
    if any(first == last for first, last, _ in bounds):
        if any(dropped):
            reading.refuse("a part without elements, of fewer axes, is not supported", "leave it out")
        return Value("", value.axes, tuple(-(-(last - first) // step) for first, last, step in bounds))
    starts, stops, steps = zip(*bounds, strict=True)
    start = value.axes.shape(starts)
    for axis in Axis:
        if "HWC"[axis] not in value.axes.value:
            start = start.with_length(axis, 0)
    stop = value.axes.shape(stops)
    step = value.axes.shape(steps)
    part = "kept" if any(dropped) else ""
    node = reading.add(ops.Crop(start, stop, step), value.node, part=part)
    taken = Value(node, value.axes)
    if not any(dropped):
        return taken
    kept = [size for size, gone in zip(reading.sizes(taken), dropped, strict=True) if not gone]
    return reshaped(reading, taken, kept)


def _full(reading: KerasReading, keys: list[Any], rank: int) -> list[Any]:
    """One key an axis."""
    dots = [i for i, key in enumerate(keys) if isinstance(key, dict) and key.get("class_name") == "__ellipsis__"]
    everything = {"start": None, "stop": None, "step": None}
    missing = rank - (len(keys) - len(dots))
    if missing < 0 or len(dots) > 1:
        reading.refuse(f"a part with {len(keys)} indices of a tensor of {rank} axes is not supported")
    at = dots[0] if dots else len(keys)
    return keys[:at] + [everything] * missing + keys[at + len(dots) :]


def _bounds(reading: KerasReading, key: Any, size: int) -> tuple[int, int, int]:
    """Start, stop and step along an axis of that size; start and stop are the same for a part without elements."""
    if isinstance(key, dict) and key.get("class_name") == "__slice__":
        key = key.get("config")
    match key:
        case bool():
            pass
        case int(index) if -size <= index < size:
            return index % size, index % size + 1, 1
        case {"start": start, "stop": stop, "step": step} if all(
            n is None or isinstance(n, int) for n in (start, stop, step)
        ):
            if step is None or step > 0:
                first, last, stride = slice(start, stop, step).indices(size)
                return first, max(first, last), stride
    reading.refuse(f"the part {key!r} of an axis of {size} is not supported", "use slices with a positive step")


@operations.reads(
    "Split", "split", settings="indices_or_sections num_or_size_splits axis", makes=[ops.Crop], limits=NO_BATCH,
)  # fmt: skip
def split(reading: KerasReading) -> Sequence[Value]:
    value = tensor(reading)
    cuts = plain(argument(reading, 1, "indices_or_sections", "num_or_size_splits"))
    axis = integer(reading, argument(reading, 2, "axis", default=0), "axis")
    at = value.axes.at(axis)
    shape = reading.builder.shape(value.node)
    if at is None:
        reading.misfit(f"a split of axis {axis} is not supported")
    size = shape[at]
    borders = [0]
    if isinstance(cuts, int) and cuts > 0 and size % cuts == 0:
        borders = list(range(0, size + 1, size // cuts))
    elif isinstance(cuts, list) and all(isinstance(n, int) and 0 <= n <= size for n in cuts):
        by_sizes = function_of(reading) == "split"  # TensorFlow takes sizes, Keras the positions of cuts
        borders = [0, *np.cumsum(cuts).tolist()] if by_sizes else [0, *cuts, size]
    if borders[-1] != size or any(start > end for start, end in pairwise(borders)):
        reading.refuse(f"a split of {size} into {cuts!r} is not supported")
    parts = []
    for count, (start, end) in enumerate(pairwise(borders)):
        if start == end:
            parts.append(Value("", value.axes, value.axes.sizes(shape.with_length(at, 0))))
        else:
            part = crop(shape, {at: (start, end)})
            parts.append(Value(reading.add(part, value.node, part=f"part{count}"), value.axes))
    return parts


@operations.reads(
    "Concatenate", "concat", settings="xs values axis", makes=[ops.Concat], limits=f"no constants; {ALIKE}",
)  # fmt: skip
def concatenate(reading: KerasReading) -> Value:
    return joined(reading, _listed(reading), argument(reading, 1, "axis", default=0))


def _listed(reading: KerasReading) -> list[Value]:
    """The tensors of an argument that is a list of them."""
    tensors = argument(reading, 0, "xs", "values", *TENSORS)
    if not isinstance(tensors, list) or not all(isinstance(item, TensorIndex) for item in tensors):
        reading.refuse("constants among the tensors that are joined are not supported", "join only tensors")
    return [reading.inputs[item.input] for item in tensors]


@operations.reads("Stack", "stack", settings="xs values axis", makes=[ops.Concat], limits=f"no constants; {ALIKE}")
def stack(reading: KerasReading) -> Value:
    values = _listed(reading)
    axis = integer(reading, argument(reading, 1, "axis", default=0), "axis")
    wider = []
    for count, value in enumerate(values, start=1):
        sizes = tuple(_widened(reading, value, axis))
        axes = {2: Axes.WC, 3: Axes.HWC}.get(len(sizes), Axes.MANY)
        wider.append(reading.lay_out(value, sizes, tuple(range(len(sizes))), sizes, axes, part=f"wider{count}"))
    return joined(reading, wider, axis)


@operations.reads(
    "Pad", "pad", settings="pad_width paddings mode constant_values", makes=[ops.Pad],
    limits="height and width, with zeros",
)  # fmt: skip
def pad(reading: KerasReading) -> Value:
    value = tensor(reading)
    widths = plain(argument(reading, 1, "pad_width", "paddings"))
    mode = str(argument(reading, 2, "mode", default="constant")).lower()
    fill = argument(reading, 3, "constant_values", default=None)
    if mode != "constant" or (fill is not None and np.any(reading.numbers("constant_values", fill))):
        reading.refuse(f"padding in the mode {mode} with {fill!r} is not supported", "pad with zeros")
    rank = len(reading.sizes(value)) + 1
    pairs = [[widths, widths]] * rank if isinstance(widths, int) else widths
    if not (isinstance(pairs, list) and len(pairs) == rank) or value.axes is Axes.MANY:
        reading.refuse(f"a padding of {widths!r} is not supported", "use a ZeroPadding2D layer")
    sides: dict[Axis, list[int]] = {}
    for at, pair in enumerate(pairs):
        match pair:
            case [0, 0]:
                continue
            case [int(before), int(after)] if (
                at > 0 and value.axes.at(at) is not Axis.CHANNELS and min(before, after) >= 0
            ):
                axis = value.axes.at(at)
                assert axis is not None
                sides[axis] = [before, after]
            case _:
                reading.refuse(f"a padding of {widths!r} is not supported", "pad only height and width")
    padding = Padding(*sides.get(Axis.HEIGHT, [0, 0]), *sides.get(Axis.WIDTH, [0, 0]))
    return Value(reading.add(ops.Pad(padding), value.node), value.axes)
