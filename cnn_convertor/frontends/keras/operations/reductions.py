"""Functions along axes: reductions, arg max and norms."""

from collections.abc import Mapping

from cnn_convertor.frontends.arithmetic import whole_map
from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.normalizations import map_axes_of
from cnn_convertor.frontends.keras.operations.arguments import NO_BATCH, argument, axes_of, function_of, tensor
from cnn_convertor.frontends.keras.reading import EPSILON, KerasReading, operations
from cnn_convertor.frontends.keras.reshape import reshaped
from cnn_convertor.frontends.keras.resize import POOLS
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Op, Reduction

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
    gone = axes_of(reading, value, argument(reading, 1, "axis", default=None))
    return _along(reading, value, _reduced(reading, value, REDUCTIONS[function_of(reading)], gone), gone)


def _along(reading: KerasReading, value: Value, op: Op, gone: list[int]) -> Value:
    """An operator that makes these axes 1 long; they are dropped unless keepdims is set."""
    kept = bool(argument(reading, 2, "keepdims", default=False))
    result = value.computed_by(reading.add(op, value.node, part="" if kept else "kept"))
    if kept:
        return result
    return reshaped(reading, result, [n for at, n in enumerate(reading.sizes(result)) if at not in gone] or [1])


def _reduced(reading: KerasReading, value: Value, reduction: Reduction, positions: list[int]) -> Op:
    shape = reading.builder.shape(value.node)
    axes = tuple(sorted({axis for position in positions if (axis := value.axes.at(position + 1)) is not None}))
    is_point = shape.height == shape.width == 1
    return ops.Reduce(reduction, axes) if is_point else whole_map(reduction, shape, axes)


@operations.reads(
    "Argmax", "math.argmax", settings="axis keepdims", ignores="output_type", makes=[ops.ArgMax], limits="one axis",
)  # fmt: skip
def arg_max(reading: KerasReading) -> Value:
    value = tensor(reading)
    axis = argument(reading, 1, "axis", default=None)
    if (at := value.axes.at(axis)) is None:
        reading.refuse(f"the position of the largest number along {axis!r} is not supported", "use one axis")
    return _along(reading, value, ops.ArgMax(at), axes_of(reading, value, axis))


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
