"""The operators a network consists of, each with the rule for its output shape.

Feature maps are (height, width, channels); the batch is always one. A vector of n values is the map 1 x 1 x n.
An operator's `output_shape` raises `ShapeError` when its inputs do not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from cnn_convertor.ir.ops.computing import *
from cnn_convertor.ir.ops.data_movement import *
from cnn_convertor.ir.ops.detection import *
from cnn_convertor.ir.ops.functions import *
from cnn_convertor.ir.ops.geometry import *
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


@dataclass(frozen=True, slots=True)
class OnCpu:
    """An operator that runs on the CPU. Only in legalized graphs.

    in_bytes: it writes one byte an element, and a block beside the CPU may do the work. reason: why it runs there, if the device
    could do it, too.
    """

    op: Op
    in_bytes: bool = False
    reason: str = field(default="", compare=False, repr=False)

    def output_shape(self, *xs: Shape) -> Shape:
        return self.op.output_shape(*xs)


Op: TypeAlias = LayerOp | ReducingOp | DataMovementOp | DetectionOp | OnCpu | Custom
