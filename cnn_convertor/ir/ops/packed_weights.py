"""Operators that multiply a map by matrices that the CPU packs as the device's weights. Only in legalized graphs."""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from cnn_convertor.ir.ops.computing import Matrices
from cnn_convertor.ir.ops.geometry import Shape, ShapeError

MATRIX_NAME: Final = re.compile(r"/matrix(\d+)$")  # how the name of a node ends whose map is one matrix of another's


@dataclass(frozen=True, slots=True)
class PackedMatrices:
    """The matrices of a map, times a factor, as the packed weights of 1x1 convolutions, in FP16; one after the other.

    A row of a matrix is a kernel, and its columns are the channels. For each 8 kernels: 8 biases of 0, then for each 64 channels
    72 elements a kernel.
    """

    matrices: Matrices
    factor: float = 1.0

    def output_shape(self, x: Shape) -> Shape:
        rows, columns = self.matrices.size_in(x)
        return Shape(1, 1, self.matrices.number * packed_matrix(rows, columns))


def packed_matrix(kernels: int, channels: int) -> int:
    """How many elements a packed matrix has."""
    return 8 * -(-kernels // 8) + 72 * kernels * -(-channels // 64)


@dataclass(frozen=True, slots=True)
class TimesPacked:
    """A map, the channels of each pixel times a packed matrix: a 1x1 convolution with so many kernels."""

    kernels: int

    def output_shape(self, x: Shape, packed: Shape) -> Shape:
        if packed != Shape(1, 1, packed_matrix(self.kernels, x.channels)):
            raise ShapeError(f"{packed} do not pack {self.kernels} kernels for the channels of {x}")
        return x._replace(channels=self.kernels)


PackedOp: TypeAlias = PackedMatrices | TimesPacked  # the operators of this file
