"""The operators a network consists of, each with the rule for its output shape.

Feature maps are (height, width, channels); the batch is always one. A vector of n values is the map 1 x 1 x n.
An operator's `output_shape` raises `ShapeError` when its inputs do not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from cnn_convertor.ir.ops.computing import *
from cnn_convertor.ir.ops.data_movement import *
from cnn_convertor.ir.ops.detection import *
from cnn_convertor.ir.ops.functions import *
from cnn_convertor.ir.ops.geometry import *
from cnn_convertor.ir.ops.packed_weights import *
from cnn_convertor.ir.ops.reductions import *

Parameter: TypeAlias = bool | int | float | tuple[bool, ...] | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Custom:
    """A layer the application implements. parameters: (name, value) in the order of the C++ struct."""

    type: str
    parameters: tuple[tuple[str, Parameter], ...]
    shape: Shape

    def output_shape(self, *_: Shape) -> Shape:
        return self.shape


class PieceStep(NamedTuple):
    """A function of a map that is taken in pieces. reads: numbers of the inputs, which count on over the steps before it."""

    op: Op
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InPieces:
    """Functions that take a map piece by piece, each after those whose results it reads. Only on the CPU.

    The first input is such a map. Other inputs and results are, too, or repeat their pixels, their channels or both. The last
    result may be the average of the whole map. keeps_map: then the output is a vector of the averaged map, as it lies in memory,
    and of the averages.
    """

    steps: tuple[PieceStep, ...]
    keeps_map: bool = False

    def output_shape(self, *xs: Shape) -> Shape:
        shapes = [*xs]
        for op, reads in self.steps:
            shapes.append(op.output_shape(*(shapes[number] for number in reads)))
            if isinstance(op, AveragePool2d) and not shapes[-1].is_vector:
                raise ShapeError(f"{op.window.kernel} is not the whole map")
        return Shape(1, 1, shapes[-2].size + shapes[-1].size) if self.keeps_map else shapes[-1]


@dataclass(frozen=True, slots=True)
class OnCpu:
    """An operator that runs on the CPU. Only in legalized graphs.

    in_bytes: it writes one byte an element, and a block beside the CPU may do the work.
    """

    op: Op
    in_bytes: bool = False

    def output_shape(self, *xs: Shape) -> Shape:
        return self.op.output_shape(*xs)


Op: TypeAlias = LayerOp | PackedOp | ReducingOp | DataMovementOp | DetectionOp | InPieces | OnCpu | Custom
