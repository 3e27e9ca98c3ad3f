"""Products of matrices, both of which are tensors of the network."""

from cnn_convertor.frontends.keras.attention import MOVES, multiplied
from cnn_convertor.frontends.keras.axes import Value
from cnn_convertor.frontends.keras.operations.arguments import tensor
from cnn_convertor.frontends.keras.reading import KerasReading, operations
from cnn_convertor.ir import ops


@operations.reads(
    "Matmul", "linalg.matmul", settings="x1 x2 b transpose_a transpose_b", makes=[ops.MatMul, *MOVES],
    limits="two tensors of as many axes, three or more",
)  # fmt: skip
def matmul(reading: KerasReading) -> Value:
    turned = (reading.flag("transpose_a", False), reading.flag("transpose_b", False))
    return multiplied(reading, tensor(reading, 0, "x1"), tensor(reading, 1, "x2", "b"), turned=turned)
