"""The operators that a network is made of, each with the rule for its output's shape.

Maps are (height, width, channels); the batch is always one. A vector of n values is the map 1 x 1 x n.
An operator's `output_shape` raises `ShapeError` when its inputs do not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cnn_convertor.ir.ops.detection import (
    BoxCode as BoxCode,
    DetectionOutput as DetectionOutput,
    PriorBox as PriorBox,
)
from cnn_convertor.ir.ops.functions import (
    Absolute as Absolute,
    BoundedRelu as BoundedRelu,
    Clip as Clip,
    Elu as Elu,
    Exponential as Exponential,
    Function as Function,
    Gelu as Gelu,
    HardSigmoid as HardSigmoid,
    HardSwish as HardSwish,
    Logarithm as Logarithm,
    Mish as Mish,
    Power as Power,
    PRelu as PRelu,
    Relu as Relu,
    Relu6 as Relu6,
    ScalarFunction as ScalarFunction,
    ScaledElu as ScaledElu,
    Sigmoid as Sigmoid,
    Softplus as Softplus,
    Softsign as Softsign,
    Swish as Swish,
    Tanh as Tanh,
    Threshold as Threshold,
    for_channels as for_channels,
    never_decreases as never_decreases,
    never_negative as never_negative,
)
from cnn_convertor.ir.ops.layers import (
    Activation as Activation,
    Add as Add,
    Unary as Unary,
    AveragePool2d as AveragePool2d,
    BatchNorm as BatchNorm,
    BinaryOp as BinaryOp,
    Binary as Binary,
    Conv2d as Conv2d,
    ConvTranspose2d as ConvTranspose2d,
    Dense as Dense,
    Identity as Identity,
    Input as Input,
    MaxPool2d as MaxPool2d,
    MaxUnpool as MaxUnpool,
    Scale as Scale,
    with_outputs as with_outputs,
)
from cnn_convertor.ir.ops.reductions import (
    ArgMax as ArgMax,
    LocalResponseNorm as LocalResponseNorm,
    L2Normalize as L2Normalize,
    Reduce as Reduce,
    Reduction as Reduction,
    Softmax as Softmax,
    MeanVarianceNorm as MeanVarianceNorm,
)
from cnn_convertor.ir.ops.data_movement import (
    ChannelSlice as ChannelSlice,
    Concat as Concat,
    Crop as Crop,
    Interpolation as Interpolation,
    Order as Order,
    Pad as Pad,
    TransposeReshape as TransposeReshape,
    Reshape as Reshape,
    Resize as Resize,
    Sampling as Sampling,
    SpaceToDepth as SpaceToDepth,
    Upsample as Upsample,
)
from cnn_convertor.ir.ops.shapes import (
    NO_MORE as NO_MORE,
    NO_PADDING as NO_PADDING,
    ONE as ONE,
    Axis as Axis,
    Padding as Padding,
    Pair as Pair,
    Shape as Shape,
    ShapeError as ShapeError,
    Window as Window,
)

Parameter: TypeAlias = bool | int | float | tuple[bool, ...] | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Custom:
    """A layer that the firmware's author implements. parameters: (name, value) in the order of the C++ struct."""

    type: str
    parameters: tuple[tuple[str, Parameter], ...]
    shape: Shape

    def output_shape(self, *_: Shape) -> Shape:
        return self.shape


@dataclass(frozen=True, slots=True)
class OnCpu:
    """What the device's processor does, since the device cannot. Made when a graph is fitted to a device."""

    op: Op

    def output_shape(self, *xs: Shape) -> Shape:
        return self.op.output_shape(*xs)


Op: TypeAlias = (
    Input
    | Identity
    | Conv2d
    | ConvTranspose2d
    | Dense
    | MaxPool2d
    | AveragePool2d
    | Upsample
    | MaxUnpool
    | BatchNorm
    | Scale
    | Activation
    | Add
    | Concat
    | Pad
    | Reshape
    | Softmax
    | Unary
    | Binary
    | LocalResponseNorm
    | MeanVarianceNorm
    | L2Normalize
    | Reduce
    | ArgMax
    | Resize
    | Crop
    | TransposeReshape
    | SpaceToDepth
    | PriorBox
    | DetectionOutput
    | ChannelSlice
    | OnCpu
    | Custom
)
