"""Arithmetic of tensors and constants: add, multiply, power."""

import math
from collections.abc import Mapping

from cnn_convertor.frontends.keras.activations import add_function
from cnn_convertor.frontends.keras.axes import Value
from cnn_convertor.frontends.keras.merge import ALIKE, combined
from cnn_convertor.frontends.keras.model import TensorIndex
from cnn_convertor.frontends.keras.normalizations import scale_and_shift
from cnn_convertor.frontends.keras.operations.arguments import argument, function_of
from cnn_convertor.frontends.keras.reading import KerasReading, operations
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array
from cnn_convertor.ir.ops import BinaryOp

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
    tensors = [reading.inputs[operand.input] for operand in operands if isinstance(operand, TensorIndex)]
    if len(tensors) == 2:
        return combined(reading, operation, tensors, widen=False)
    if not tensors:
        reading.refuse("the operation is on constants only", "leave it out")
    swapped = not isinstance(operands[0], TensorIndex)
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
        case BinaryOp.MASK:
            raise AssertionError("no function of Keras is a mask")


@operations.reads(
    "Power", "math.pow", "pow", "__operators__.pow", settings="x1 x2 y", makes=[ops.Power],
    limits="a number as exponent",
)  # fmt: skip
def power(reading: KerasReading) -> Value:
    value = argument(reading, 0, "x1", "x")
    exponent = argument(reading, 1, "x2", "y")
    if not isinstance(value, TensorIndex) or isinstance(exponent, TensorIndex):
        reading.refuse("an exponent that is a tensor is not supported", "use a number")
    number = reading.numbers("the exponent", exponent)
    if number.size != 1:
        reading.refuse("different exponents are not supported", "use one number")
    return add_function(reading, reading.inputs[value.input], ops.Power(number.item()))
