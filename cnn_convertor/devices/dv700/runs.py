"""What the device runs in the layers of a program: runs of convolutions and pools, and their packed weights."""

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from cnn_convertor.devices.dv700.weights.palette_report import Choice
from cnn_convertor.devices.dv700.weights.streams import PackedShape
from cnn_convertor.devices.program import LayerOf, ProgramOf, Tensor
from cnn_convertor.errors import Origin
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Function, Padding, Pair, Shape


class ConvolutionKind(IntEnum):
    """The values are those of the register conv_enable."""

    CONVOLUTION = 1
    DEPTHWISE = 3
    DECONVOLUTION = 5
    DEPTHWISE_DECONVOLUTION = 7

    @property
    def is_depthwise(self) -> bool:
        return self in {self.DEPTHWISE, self.DEPTHWISE_DECONVOLUTION}

    @property
    def is_transposed(self) -> bool:
        return self in {self.DECONVOLUTION, self.DEPTHWISE_DECONVOLUTION}


class PoolingKind(IntEnum):
    """The values are those of the register pool_enable."""

    MAX = 1
    AVERAGE = 2
    UPSAMPLE = 4


@dataclass(frozen=True, slots=True)
class Weights:
    """What a convolution reads from the weight buffer.

    offset: bytes from the start of the buffer. kernels: (M, C, ky, kx), as the device convolves with them (rotated for a
    deconvolution), but not transposed, padded or packed. bias: the layer's own, and slopes: (M,). where: the user's layer.
    choice: the palette, and why there is one or not; None before the choice.
    first, whole: where a branch of a command computes a slice of a convolution's channels, the first one, and how many there are.
    """

    offset: int
    packed: PackedShape
    kernels: Constant
    bias: Constant | None
    slopes: Constant | None
    where: Origin | None
    choice: Choice | None = None
    first: int = 0
    whole: int = 0

    @property
    def nbytes(self) -> int:
        return self.packed.nbytes

    @property
    def layer(self) -> str:
        """The name of the user's layer."""
        return "" if self.where is None else self.where.layer

    @property
    def stored_kernels(self) -> Constant:
        """The kernels in the weight buffer, but for what rounding to FP16 and to the palette changes."""
        return self.kernels if self.choice is None or self.choice.kernels is None else self.choice.kernels

    @property
    def stored_bias(self) -> Constant | None:
        """The bias in the weight buffer."""
        return self.bias if self.choice is None or self.choice.bias is None else self.choice.bias


@dataclass(frozen=True, slots=True)
class Convolution:
    """padding: the command's. A deconvolution's surrounds the input once zeros stand between its pixels."""

    kind: ConvolutionKind
    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Padding
    output: Shape
    weights: Weights


@dataclass(frozen=True, slots=True)
class Pooling:
    """factor: of the sum of a window (average only)."""

    kind: PoolingKind
    kernel: Pair
    stride: Pair
    padding: Padding
    factor: float = 0.0


@dataclass(frozen=True, slots=True)
class PackedByCpu:
    """A 1x1 convolution whose weights the CPU packs. offset: bytes from the start of the I/O buffer."""

    packed: PackedShape
    kind: ConvolutionKind = ConvolutionKind.DEPTHWISE
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One pass of the convolution block: convolution, then pooling, then activation.

    factors: the run is a 1x1 convolution with these in place of stored weights, and `convolution` is None.
    external: the run writes to external memory, and the next run reads the command's input. Otherwise it writes to the unified
    buffer, and the next run reads that. origins: the layers that it computes.
    """

    input: Shape
    output: Shape
    convolution: Convolution | None
    pooling: Pooling | None
    activation: Function | None
    external: bool = True
    origins: tuple[Origin, ...] = ()
    factors: PackedByCpu | None = None

    @property
    def weights(self) -> Weights | PackedByCpu | None:
        """What the run convolves with: the network's own, or factors."""
        return self.factors if self.convolution is None else self.convolution.weights

    @property
    def stored(self) -> Weights | None:
        """What it reads from the weight buffer."""
        return None if self.convolution is None else self.convolution.weights

    @property
    def kind(self) -> ConvolutionKind | None:
        """Of its convolution, also with factors."""
        if self.convolution is not None:
            return self.convolution.kind
        return None if self.factors is None else self.factors.kind


Layer: TypeAlias = LayerOf[Run]
Program: TypeAlias = ProgramOf[Run, Weights]


def operand_of(layer: Layer) -> Tensor | None:
    """What a command adds."""
    operands = layer.inputs[1 : len(layer.inputs) - any(run.factors is not None for run in layer.runs)]
    return operands[0] if layer.runs and operands else None


def topo_of(layer: Layer) -> int:
    """Which runs write to external memory: bit i is set for run i."""
    return sum(run.external << index for index, run in enumerate(layer.runs))
