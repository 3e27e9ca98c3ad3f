"""Functions called between layers: keras.ops of Keras 3, and TensorFlow's in files of Keras 2."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cnn_convertor.frontends.arithmetic import crop
from cnn_convertor.frontends.keras.functions import (
    NAMED,
    RELU_LIMITS,
    RELUS,
    SELU,
    Named,
    add_function,
    celu,
    elu,
    relu,
    softmax,
)
from cnn_convertor.frontends.keras.merge import ALIKE, combined, joined
from cnn_convertor.frontends.keras.model import TensorPlace
from cnn_convertor.frontends.keras.normalizations import map_axes_of, scale_and_shift
from cnn_convertor.frontends.keras.reading import EPSILON, KerasReading, operations, plain
from cnn_convertor.frontends.keras.reshape import MOVES, is_order, permuted, reshaped
from cnn_convertor.frontends.keras.resize import INTERPOLATED, POOLS, RESIZING_FLAGS, pooled, refuse_flags, resized
from cnn_convertor.frontends.keras.tensors import Axes, Value
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array
from cnn_convertor.ir.ops import Axis, BinaryOp, Op, Order, Padding, Pair, Reduction, Shape, Window

MISSING = object()
# Names of an argument that is a tensor.
TENSORS = ("x", "inputs", "input", "tensor", "value", "features", "images", "logits", "a")
# What every operation may take.
ARGUMENTS = frozenset({*TENSORS, *(f"argument {position}" for position in range(10))})


def argument(reading: KerasReading, position: int, *names: str, default: Any = MISSING) -> Any:
    """An argument of the function, by name or by position."""
    for name in (*names, f"argument {position}"):
        if name in reading.settings:
            return reading.take(name)
    if default is MISSING:
        reading.refuse(f"the argument {names[0] if names else position!r} is missing", "save the model again")
    return default


def tensor(reading: KerasReading, position: int = 0, *names: str) -> Value:
    """An argument that is a tensor of the network."""
    given = argument(reading, position, *names, *TENSORS)
    if not isinstance(given, TensorPlace):
        reading.refuse(f"the operation works on {given!r}, which is no tensor of the network", "use a layer instead")
    return reading.inputs[given.input]


def integer(reading: KerasReading, given: Any, what: str) -> int:
    given = plain(given)
    if not isinstance(given, int) or isinstance(given, bool):
        reading.refuse(f"{what} is {given!r}, not a whole number")
    return given


# --- arithmetic ----------------------------------------------------------------------------------------------------------

NO_BATCH = "not along the batch"
OF_MAP = "of a map (height, width, channels)"
FLAGS = (*RESIZING_FLAGS, "preserve_aspect_ratio")

ARITHMETIC: Mapping[str, BinaryOp] = {
    **dict.fromkeys(("Add", "math.add", "add", "__operators__.add"), BinaryOp.ADD),
    **dict.fromkeys(("Subtract", "math.subtract", "subtract", "__operators__.sub"), BinaryOp.SUBTRACT),
    **dict.fromkeys(("Multiply", "math.multiply", "multiply", "__operators__.mul"), BinaryOp.MULTIPLY),
    **dict.fromkeys(("TrueDivide", "Divide", "math.truediv", "math.divide", "truediv", "realdiv"), BinaryOp.DIVIDE),
    **dict.fromkeys(("Maximum", "math.maximum", "maximum"), BinaryOp.MAXIMUM),
    **dict.fromkeys(("Minimum", "math.minimum", "minimum"), BinaryOp.MINIMUM),
}  # fmt: skip


@operations.reads(
    *ARITHMETIC, settings="x1 x2 y", makes=[ops.Add, ops.Binary, ops.Scale, ops.Power, ops.Clip, ops.Relu],
    limits=f"tensors of equal ranks; {ALIKE}; maximum, minimum: one constant",
)  # fmt: skip
def arithmetic(reading: KerasReading) -> Value:
    operation = ARITHMETIC[function_of(reading)]
    operands = [argument(reading, 0, "x1", "x"), argument(reading, 1, "x2", "y")]
    tensors = [reading.inputs[given.input] for given in operands if isinstance(given, TensorPlace)]
    if len(tensors) == 2:
        return combined(reading, operation, tensors, widen=False)
    if not tensors:
        reading.refuse("the operation is on constants only", "leave it out")
    swapped = not isinstance(operands[0], TensorPlace)
    numbers = reading.numbers("the constant", operands[0] if swapped else operands[1])
    rank = len(reading.sizes(tensors[0]))
    if numbers.ndim == rank + 1 and len(numbers) == 1:
        numbers = numbers[0]  # of the batch
    if (
        any(n not in (1, size) for n, size in zip(numbers.shape[::-1], reading.sizes(tensors[0])[::-1], strict=False))
        or numbers.ndim > rank
    ):
        reading.misfit(f"a constant of {numbers.shape} does not go with a tensor of {reading.sizes(tensors[0])}")
    return _with_constant(reading, operation, tensors[0], numbers, swapped=swapped)


def _with_constant(reading: KerasReading, operation: BinaryOp, value: Value, numbers: Array, *, swapped: bool) -> Value:
    match operation:
        case BinaryOp.ADD:
            return scale_and_shift(reading, value.node, 1.0, numbers)
        case BinaryOp.SUBTRACT if swapped:
            return scale_and_shift(reading, value.node, -1.0, numbers)
        case BinaryOp.SUBTRACT:
            return scale_and_shift(reading, value.node, 1.0, -numbers)
        case BinaryOp.MULTIPLY:
            return scale_and_shift(reading, value.node, numbers, None)
        case BinaryOp.DIVIDE if swapped:
            inverse = reading.add(ops.Unary(ops.Power(-1.0)), value.node, part="inverse")
            return scale_and_shift(reading, inverse, numbers, None)
        case BinaryOp.DIVIDE:
            return scale_and_shift(reading, value.node, 1 / numbers, None)
        case _ if numbers.size > 1:
            reading.refuse(
                f"{operation.value} with {numbers.size} different constants is not supported", "use one number"
            )
        case BinaryOp.MAXIMUM:
            return add_function(reading, value, ops.Clip(numbers.item(), math.inf) if numbers.any() else ops.Relu())
        case BinaryOp.MINIMUM:
            return add_function(reading, value, ops.Clip(-math.inf, numbers.item()))


@operations.reads(
    "Power", "math.pow", "pow", "__operators__.pow", settings="x1 x2 y", makes=[ops.Power],
    limits="a number as exponent",
)  # fmt: skip
def power(reading: KerasReading) -> Value:
    value, exponent = argument(reading, 0, "x1", "x"), argument(reading, 1, "x2", "y")
    if not isinstance(value, TensorPlace) or isinstance(exponent, TensorPlace):
        reading.refuse("an exponent that is a tensor is not supported", "use a number")
    number = reading.numbers("the exponent", exponent)
    if number.size != 1:
        reading.refuse("different exponents are not supported", "use one number")
    return add_function(reading, reading.inputs[value.input], ops.Power(number.item()))


# --- functions of one number ---------------------------------------------------------------------------------------------


def function_of(reading: KerasReading) -> str:
    return operation_name(reading.layer.type, reading.layer.config)


def operation_name(type: str, config: Mapping[str, Any]) -> str:
    """The name of an operation: Keras 3's class, or TensorFlow's function."""
    return str(config.get("function", type)).removeprefix("compat.v1.").removeprefix("compat.v2.")


FUNCTIONS: Mapping[str, Named] = {
    **dict.fromkeys(("Identity", "identity", "StopGradient", "stop_gradient", "Copy"), None),
    **dict.fromkeys(("Relu", "nn.relu"), ops.Relu()),
    **dict.fromkeys(("Relu6", "nn.relu6"), ops.Relu6()),
    **dict.fromkeys(("Sigmoid", "nn.sigmoid", "math.sigmoid", "sigmoid"), ops.Sigmoid()),
    **dict.fromkeys(("Tanh", "nn.tanh", "math.tanh", "tanh"), ops.Tanh()),
    **dict.fromkeys(("Silu", "nn.silu", "nn.swish"), ops.Swish()),
    **dict.fromkeys(("nn.elu",), ops.Elu()),
    **dict.fromkeys(("Selu", "nn.selu"), SELU),
    **dict.fromkeys(("Softplus", "nn.softplus", "math.softplus"), ops.Softplus()),
    **dict.fromkeys(("Softsign", "nn.softsign", "math.softsign"), ops.Softsign()),
    **dict.fromkeys(("Exp", "exp", "math.exp"), ops.Exponential()),
    **dict.fromkeys(("Log", "math.log"), ops.Logarithm()),
    **dict.fromkeys(("Absolute", "Abs", "abs", "math.abs"), ops.Absolute()),
    **dict.fromkeys(("Square", "square", "math.square"), ops.Power(2.0)),
    **dict.fromkeys(("Sqrt", "sqrt", "math.sqrt"), ops.Power(0.5)),
    **dict.fromkeys(("Rsqrt", "math.rsqrt"), ops.Power(-0.5)),
    **dict.fromkeys(("Reciprocal", "math.reciprocal"), ops.Power(-1.0)),
    **{name: NAMED[function] for name, function in {
        "HardSigmoid": "hard_sigmoid", "HardSilu": "hard_silu", "HardTanh": "hard_tanh", "LogSigmoid": "log_sigmoid",
        "math.log_sigmoid": "log_sigmoid", "Mish": "mish", "TanhShrink": "tanh_shrink", "SparsePlus": "sparse_plus",
        "SparseSigmoid": "sparse_sigmoid",
    }.items()},
}  # fmt: skip


@operations.reads(
    *FUNCTIONS,
    makes=[ops.Identity, ops.Relu, ops.Relu6, ops.Elu, ops.ScaledElu, ops.Sigmoid, ops.Tanh, ops.Swish, ops.HardSigmoid,
           ops.HardSwish, ops.Clip, ops.Mish, ops.Softplus, ops.Softsign, ops.Exponential, ops.Logarithm, ops.Absolute, ops.Power,
           ops.Scale, ops.Binary, ops.Add],
)  # fmt: skip
def function(reading: KerasReading) -> Value:
    return add_function(reading, tensor(reading), FUNCTIONS[function_of(reading)])


@operations.reads("Negative", "math.negative", "negative", makes=[ops.Scale])
def negative(reading: KerasReading) -> Value:
    return scale_and_shift(reading, tensor(reading).node, -1.0, None)


@operations.reads("Cast", "cast", settings="dtype", makes=[ops.Identity], limits="to floating-point numbers")
def cast(reading: KerasReading) -> Value:
    value, dtype = tensor(reading), str(argument(reading, 1, "dtype"))
    if not dtype.removeprefix("<dtype: '").startswith(("float", "bfloat")):
        reading.refuse(f"a cast to {dtype} is not supported", "leave it out")
    return add_function(reading, value, None)


@operations.reads(
    "Clip", "clip_by_value", settings="x_min clip_value_min x_max clip_value_max", makes=[ops.Relu6, ops.Clip],
    limits="two numbers as limits",
)  # fmt: skip
def clip(reading: KerasReading) -> Value:
    value = tensor(reading)
    low, high = argument(reading, 1, "x_min", "clip_value_min"), argument(reading, 2, "x_max", "clip_value_max")
    limits = [reading.numbers("a limit", limit) for limit in (low, high)]
    if any(limit.size != 1 for limit in limits):
        reading.refuse("limits that differ from element to element are not supported", "use two numbers")
    low, high = (limit.item() for limit in limits)
    return add_function(reading, value, ops.Relu6() if (low, high) == (0, 6) else ops.Clip(low, high))


def _of_last_axis(reading: KerasReading) -> Named:
    name = {"LogSoftmax": "log_softmax", "nn.log_softmax": "log_softmax", "Glu": "glu"}[function_of(reading)]
    axis, rank = reading.take("axis", -1), len(reading.sizes(reading.input)) + 1
    if axis not in (None, -1, rank - 1):
        reading.refuse(f"{name} over axis {axis} is not supported", "use the last axis")
    return NAMED[name]


def _shrink(reading: KerasReading) -> Named:
    name = {"SoftShrink": "soft_shrink", "HardShrink": "hard_shrink"}[function_of(reading)]
    if (given := reading.number("threshold", 0.5)) != 0.5:
        reading.refuse(f"{name} with threshold={given:g} is not supported", "use threshold=0.5")
    return NAMED[name]


def _square_plus(reading: KerasReading) -> Named:
    if (given := reading.number("b", 4.0)) != 4:
        reading.refuse(f"squareplus with b={given:g} is not supported", "use b=4")
    return NAMED["squareplus"]


# Functions that have settings.
SET: Mapping[str, Callable[[KerasReading], Named]] = {
    "ReLU": relu,
    "LeakyRelu": lambda reading: ops.Relu(reading.number("negative_slope", 0.2)),
    "nn.leaky_relu": lambda reading: ops.Relu(reading.number("alpha", 0.2)),
    "Elu": elu,
    "Celu": lambda reading: celu(reading.number("alpha", 1.0)),
    "Gelu": lambda reading: ops.Gelu(by_tanh=reading.flag("approximate", True)),
    "nn.gelu": lambda reading: ops.Gelu(by_tanh=reading.flag("approximate", False)),
    **dict.fromkeys(("Softmax", "nn.softmax"), softmax),
    **dict.fromkeys(("LogSoftmax", "nn.log_softmax", "Glu"), _of_last_axis),
    **dict.fromkeys(("SoftShrink", "HardShrink"), _shrink),
    "Squareplus": _square_plus,
}


@operations.reads("ReLU", settings="max_value negative_slope threshold", makes=RELUS, limits=RELU_LIMITS)
@operations.reads("LeakyRelu", "nn.leaky_relu", settings="alpha negative_slope", makes=[ops.Relu])
@operations.reads("Elu", settings="alpha", makes=[ops.Elu, ops.ScaledElu])
@operations.reads("Celu", settings="alpha", makes=[ops.Elu, ops.Scale])
@operations.reads("Gelu", "nn.gelu", settings="approximate", makes=[ops.Gelu])
@operations.reads("Softmax", "nn.softmax", settings="axis", makes=[ops.Softmax], limits="one axis")
@operations.reads(
    "LogSoftmax", "nn.log_softmax", settings="axis", limits="axis: the last one",
    makes=[ops.Reduce, ops.Binary, ops.Exponential, ops.Logarithm],
)  # fmt: skip
@operations.reads(
    "Glu", settings="axis", makes=[ops.Crop, ops.Sigmoid, ops.Binary], limits="axis: the last one, of an even length",
)  # fmt: skip
@operations.reads(
    "SoftShrink", "HardShrink", settings="threshold", limits="threshold: 0.5",
    makes=[ops.Clip, ops.Absolute, ops.Threshold, ops.Binary],
)  # fmt: skip
@operations.reads("Squareplus", settings="b", makes=[ops.Power, ops.Add, ops.Scale], limits="b: 4")
def set_function(reading: KerasReading) -> Value:
    return add_function(reading, tensor(reading), SET[function_of(reading)](reading))


# --- shapes --------------------------------------------------------------------------------------------------------------


@operations.reads("Reshape", "reshape", settings="newshape shape", makes=MOVES, limits="keeps the batch")
def reshape(reading: KerasReading) -> Value:
    value, given = tensor(reading), argument(reading, 1, "newshape", "shape")
    match given:
        case [-1 | None | 1, *sizes] if all(isinstance(n, int) for n in sizes):
            return reshaped(reading, value, sizes)
        case _:
            reading.refuse(
                f"a reshape to {given!r} is not supported", "use keras.layers.Reshape, which keeps the batch"
            )


@operations.reads("Transpose", "transpose", settings="axes perm", makes=MOVES, limits="keeps the batch")
def transpose(reading: KerasReading) -> Value:
    value, given = tensor(reading), argument(reading, 1, "axes", "perm", default=None)
    if not is_order(given, range(len(reading.sizes(value)) + 1)) or given[0] != 0:
        hint = "use keras.layers.Permute, which keeps the batch"
        reading.refuse(f"a transposition by {given!r} is not supported", hint)
    return permuted(reading, value, tuple(axis - 1 for axis in given[1:]))


def _places(reading: KerasReading, value: Value, given: Any) -> list[int]:
    """Axes of a tensor, counted without the batch, sorted; None is all of them."""
    rank = len(reading.sizes(value)) + 1
    items = plain(given)
    items = list(range(1, rank)) if items is None else items if isinstance(items, list) else [items]
    if not all(isinstance(item, int) and -rank <= item < rank for item in items):
        reading.refuse(f"a tensor of {rank} axes does not have the axes {given!r}")
    found = sorted({item % rank for item in items})
    if not found or found[0] == 0:
        reading.refuse("the axis of the batch is among the axes", "leave it out")
    return [axis - 1 for axis in found]


@operations.reads("Squeeze", "squeeze", settings="axis", makes=MOVES, limits=NO_BATCH)
def squeeze(reading: KerasReading) -> Value:
    value = tensor(reading)
    sizes = reading.sizes(value)
    given = argument(reading, 1, "axis", default=None)
    gone = [at for at, size in enumerate(sizes) if size == 1] if given is None else _places(reading, value, given)
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
    start, stop, step = (value.axes.shape([b[i] for b in bounds]) for i in range(3))
    start = Shape(*(n if letter in value.axes.value else 0 for n, letter in zip(start, "HWC", strict=True)))
    dropped = [isinstance(k, int) for k in keys[1:]]
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
    return [*keys[:at], *[everything] * missing, *keys[at + len(dots) :]]


def _bounds(reading: KerasReading, key: Any, size: int) -> tuple[int, int, int]:
    """Start, stop and step along an axis of that size."""
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
                if last > first:
                    return first, last, stride
    reading.refuse(f"the part {key!r} of an axis of {size} is not supported", "use slices with a positive step")


@operations.reads(
    "Split", "split", settings="indices_or_sections num_or_size_splits axis", makes=[ops.Crop], limits=NO_BATCH,
)  # fmt: skip
def split(reading: KerasReading) -> Sequence[Value]:
    value = tensor(reading)
    given = plain(argument(reading, 1, "indices_or_sections", "num_or_size_splits"))
    axis = integer(reading, argument(reading, 2, "axis", default=0), "axis")
    at, shape = value.axes.at(axis), reading.builder.shape(value.node)
    if at is None:
        reading.misfit(f"a split of axis {axis} is not supported")
    size = shape[at]
    if isinstance(given, int) and given > 0 and size % given == 0:
        borders = list(range(0, size + 1, size // given))
    elif isinstance(given, list) and all(isinstance(n, int) and 0 < n <= size for n in given):
        by_sizes = function_of(reading) == "split"  # TensorFlow takes sizes, Keras the positions of cuts
        borders = [0, *np.cumsum(given).tolist()] if by_sizes else [0, *given, size]
    else:
        reading.refuse(f"a split of {size} into {given!r} is not supported")
    return [
        Value(reading.add(crop(shape, {at: bounds}), value.node, part=f"part{count}"), value.axes)
        for count, bounds in enumerate(pairwise(borders))
    ]


@operations.reads(
    "Concatenate", "concat", settings="xs values axis", makes=[ops.Concat], limits=f"no constants; {ALIKE}",
)  # fmt: skip
def concatenate(reading: KerasReading) -> Value:
    return joined(reading, _listed(reading), argument(reading, 1, "axis", default=0))


def _listed(reading: KerasReading) -> list[Value]:
    """The tensors of an argument that is a list of them."""
    given = argument(reading, 0, "xs", "values", *TENSORS)
    if not isinstance(given, list) or not all(isinstance(item, TensorPlace) for item in given):
        reading.refuse("constants among the tensors that are joined are not supported", "join only tensors")
    return [reading.inputs[item.input] for item in given]


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
    value, widths = tensor(reading), plain(argument(reading, 1, "pad_width", "paddings"))
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


# --- maps ----------------------------------------------------------------------------------------------------------------


def _map(reading: KerasReading, *names: str) -> Value:
    """An argument that is a map, in the layout of data_format."""
    value = tensor(reading, 0, *names)
    if len(reading.sizes(value)) != 3:
        reading.misfit("the operation takes a map (height, width, channels)")
    is_first = reading.take("data_format") in ("NCHW", "channels_first")
    return reading.as_axes(value, Axes.CHW if is_first else Axes.HWC)


@operations.reads(
    "Resize", "image.resize", settings=f"data_format image size interpolation method {' '.join(FLAGS)}",
    ignores="fill_mode fill_value", makes=[ops.Resize], limits=f"{INTERPOLATED}; {', '.join(FLAGS)}: False",
)  # fmt: skip
def resize(reading: KerasReading) -> Value:
    value = _map(reading, "image")
    match plain(argument(reading, 1, "size")):
        case [int(height), int(width)] if min(height, width) > 0:
            size = Pair(height, width)
        case other:
            reading.refuse(f"a size of {other!r} is not supported", "use two numbers: (height, width)")
    refuse_flags(reading, FLAGS)
    return resized(reading, value, size, argument(reading, 2, "interpolation", "method", default="bilinear"))


@operations.reads(
    "DepthToSpace", "nn.depth_to_space", settings="data_format block_size", makes=[ops.TransposeReshape], limits=OF_MAP,
)  # fmt: skip
def depth_to_space(reading: KerasReading) -> Value:
    value, block = _map(reading), integer(reading, argument(reading, 1, "block_size"), "block_size")
    height, width, channels = shape = reading.builder.shape(value.node)
    if block < 1 or channels % block**2:
        reading.misfit(f"{channels} channels are not pixels of blocks of {block}x{block}")
    dims = (height, width, block, block, channels // block**2)
    result = Shape(height * block, width * block, dims[-1])
    assert result.size == shape.size
    return Value(reading.add(ops.TransposeReshape(dims, (0, 2, 1, 3, 4), result, Order.HWC), value.node), value.axes)


@operations.reads(
    "SpaceToDepth", "nn.space_to_depth", settings="data_format block_size", makes=[ops.SpaceToDepth], limits=OF_MAP,
)  # fmt: skip
def space_to_depth(reading: KerasReading) -> Value:
    value, block = _map(reading), integer(reading, argument(reading, 1, "block_size"), "block_size")
    if block < 1:
        reading.refuse(f"block_size is {block}")
    return Value(reading.add(ops.SpaceToDepth(Pair(block, block)), value.node), value.axes)


@operations.reads(
    "MaxPool", "AveragePool", settings="data_format pool_size strides padding", makes=POOLS, limits=OF_MAP,
)  # fmt: skip
def pool(reading: KerasReading) -> Value:
    value = _map(reading)
    kernel = reading.pair("pool_size", 2)
    stride = kernel if reading.take("strides") is None else reading.pair("strides")
    maximum = function_of(reading) == "MaxPool"
    return pooled(reading, value, Window(kernel, stride), same=reading.same(), maximum=maximum)


@operations.reads(
    "nn.local_response_normalization", "nn.lrn", settings="depth_radius bias alpha beta", makes=[ops.LocalResponseNorm],
    limits=OF_MAP,
)  # fmt: skip
def local_response_norm(reading: KerasReading) -> Value:
    """TensorFlow multiplies the sum by alpha, Caffe the mean."""
    value = tensor(reading)
    if value.axes.at(3) is not Axis.CHANNELS:
        reading.misfit("the operation takes a map (height, width, channels)")
    size = 2 * integer(reading, argument(reading, 1, "depth_radius", default=5), "depth_radius") + 1
    numbers = {name: reading.number(name, default) for name, default in (("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))}
    op = ops.LocalResponseNorm(size, numbers["alpha"] * size, numbers["beta"], numbers["bias"])
    return Value(reading.add(op, value.node), value.axes)


# --- along axes ----------------------------------------------------------------------------------------------------------

REDUCTIONS: Mapping[str, Reduction] = {
    **dict.fromkeys(("Mean", "math.reduce_mean"), Reduction.MEAN),
    **dict.fromkeys(("Max", "Amax", "math.reduce_max"), Reduction.MAXIMUM),
    **dict.fromkeys(("Min", "Amin", "math.reduce_min"), Reduction.MINIMUM),
    **dict.fromkeys(("Sum", "math.reduce_sum"), Reduction.SUM),
}


@operations.reads(
    *REDUCTIONS, settings="input_tensor axis keepdims", makes=[*POOLS, ops.Reduce],
    limits=f"at most four axes; {NO_BATCH}",
)  # fmt: skip
def reduction(reading: KerasReading) -> Value:
    value = tensor(reading, 0, "input_tensor")
    if value.axes is Axes.MANY:
        reading.misfit("a reduction of a tensor of more than four axes is not supported")
    gone = _places(reading, value, argument(reading, 1, "axis", default=None))
    return _along(reading, value, _reduced(reading, value, REDUCTIONS[function_of(reading)], gone), gone)


def _along(reading: KerasReading, value: Value, op: Op, gone: list[int]) -> Value:
    """An operator that makes these axes 1 long; they are dropped unless keepdims is set."""
    kept = bool(argument(reading, 2, "keepdims", default=False))
    result = value.computed_by(reading.add(op, value.node, part="" if kept else "kept"))
    if kept:
        return result
    return reshaped(reading, result, [n for at, n in enumerate(reading.sizes(result)) if at not in gone] or [1])


def _reduced(reading: KerasReading, value: Value, reduction: Reduction, places: list[int]) -> Op:
    """As a pool of the whole map where possible, since devices run pools."""
    shape = reading.builder.shape(value.node)
    axes = {axis for place in places if (axis := value.axes.at(place + 1)) is not None}
    whole = {axis for axis in (Axis.HEIGHT, Axis.WIDTH) if shape[axis] > 1}
    if whole and Axis.CHANNELS not in axes and whole <= axes:
        window = Window(Pair(shape.height, shape.width))
        match reduction:
            case Reduction.MEAN:
                return ops.AveragePool2d(window)
            case Reduction.MAXIMUM:
                return ops.MaxPool2d(window)
    return ops.Reduce(reduction, tuple(sorted(axes)))


@operations.reads(
    "Argmax", "math.argmax", settings="axis keepdims", ignores="output_type", makes=[ops.ArgMax], limits="one axis",
)  # fmt: skip
def arg_max(reading: KerasReading) -> Value:
    value = tensor(reading)
    axis = argument(reading, 1, "axis", default=None)
    if (at := value.axes.at(axis)) is None:
        reading.refuse(f"the position of the largest number along {axis!r} is not supported", "use one axis")
    return _along(reading, value, ops.ArgMax(at), _places(reading, value, axis))


@operations.reads(
    "Normalize", "math.l2_normalize", "nn.l2_normalize", settings="axis order epsilon", makes=[ops.L2Normalize],
    limits="order: 2",
)  # fmt: skip
def normalize(reading: KerasReading) -> Value:
    value = tensor(reading)
    keras_3 = function_of(reading) == "Normalize"
    if (order := argument(reading, 2, "order", default=2)) != 2:
        reading.refuse(f"a norm of the order {order!r} is not supported", "use order=2")
    _, axes = map_axes_of(reading, argument(reading, 1, "axis", default=-1))
    epsilon = argument(reading, 3, "epsilon", default=None)
    default = EPSILON if keras_3 else 1e-12
    smallest = float(default if epsilon is None else epsilon) ** (2 if keras_3 else 1)
    return Value(reading.add(ops.L2Normalize(axes, smallest, at_least=True), value.node), value.axes)
