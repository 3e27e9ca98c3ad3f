"""The device's program: layers with runs, tensors and packed weights, every number fixed."""

from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import NamedTuple

from cnn_convertor.devices.dv700.weights.palette_report import Choice
from cnn_convertor.devices.dv700.weights.streams import PackedShape
from cnn_convertor.errors import Origin
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ArraySoftmax, Axis, Function, Op, Padding, Pair, Parameter, Shape, Softmax
from cnn_convertor.memory import Plan

SMALLEST_BUFFER = 16  # bytes


class ElementType(Enum):
    """The value is the size of an element in bytes."""

    BYTE = 1
    HALF = 2
    FLOAT = 4


class Tensor(NamedTuple):
    """A map in the I/O buffer. offset: bytes. is_plain: in the order H, W, C, independent of the device's order."""

    shape: Shape
    type: ElementType
    offset: int
    is_plain: bool = False

    @property
    def nbytes(self) -> int:
        return self.shape.size * self.type.value


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
class PackedScale:
    """A 1x1 depthwise convolution whose weights the CPU packs. offset: bytes from the start of the I/O buffer."""

    packed: PackedShape
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One pass of the convolution block: convolution, then pooling, then activation.

    factors: the run is a 1x1 depthwise convolution with these in place of stored weights, and `convolution` is None.
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
    factors: PackedScale | None = None

    @property
    def weights(self) -> Weights | PackedScale | None:
        """What the run convolves with: the network's own, or factors."""
        return self.factors if self.convolution is None else self.convolution.weights

    @property
    def kind(self) -> ConvolutionKind | None:
        """Of its convolution, also with factors."""
        if self.convolution is not None:
            return self.convolution.kind
        return None if self.factors is None else ConvolutionKind.DEPTHWISE


class LayerType(Enum):
    """The values are the SDK's names."""

    INPUT = "LT_INPUT"
    CONV = "LT_CONV"
    FLATTEN = "LT_FLATTEN"
    CONCAT = "LT_CONCAT"
    COPY_CONCAT = "LT_COPY_CONCAT"
    SOFTMAX = "LT_SOFTMAX"
    CUSTOM = "LT_CUSTOM"

    @property
    def executor(self) -> str:
        """Where a layer of this type is computed: device, cpu or none, for inputs and concatenations in place."""
        match self:
            case LayerType.CONV:
                return "device"
            case LayerType.INPUT | LayerType.CONCAT:
                return "none"
            case _:
                return "cpu"


@dataclass(frozen=True, slots=True)
class StoredArray:
    """Numbers in the weight buffer that a function of the CPU reads: a vector, or a map in the order H, W, C.

    offset: bytes from the end of the packed weights.
    """

    offset: int
    type: ElementType
    values: Constant
    where: Origin | None

    @property
    def shape(self) -> Shape:
        return Shape(*self.values.shape) if len(self.values.shape) == 3 else Shape(1, 1, self.values.size)

    @property
    def nbytes(self) -> int:
        return self.values.size * self.type.value


@dataclass(frozen=True, slots=True)
class CustomCall:
    """A layer type that the firmware implements, with the parameters of this layer."""

    type: str
    parameters: tuple[tuple[str, Parameter], ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the SDK's runtime.

    inputs: of a command, the map that its runs read, the second operand of an addition, and the factors of its first run.
    sources: for each input the index of the layer that wrote it; None for the application.
    custom: of a custom layer. cpu: the operator of a generated function, constants: what that reads beside maps, reason: why it is
    the CPU's, if the device could run it. softmax: of an LT_SOFTMAX.
    from_device: is_input_hw_layout.
    """

    name: str
    type: LayerType
    inputs: tuple[Tensor, ...]
    output: Tensor
    origins: tuple[Origin, ...]
    runs: tuple[Run, ...] = ()
    sources: tuple[int | None, ...] = ()
    custom: CustomCall | None = None
    cpu: Op | None = None
    constants: tuple[StoredArray, ...] = ()
    reason: str = ""
    softmax: ArraySoftmax | None = None
    from_device: bool = False
    is_output: bool = False

    @property
    def operand(self) -> Tensor | None:
        """What a command adds."""
        operands = self.inputs[1 : len(self.inputs) - any(run.factors is not None for run in self.runs)]
        return operands[0] if self.runs and operands else None

    @property
    def lists_sources(self) -> bool:
        """Whether the layer has a list of input layers. In the SDK that list shares its memory with a callback's pointer."""
        return self.type in {LayerType.CONCAT, LayerType.COPY_CONCAT}

    @property
    def is_softmax(self) -> bool:
        """Whether the layer is a softmax over the channels of a map of the output's shape."""
        by_function = isinstance(self.cpu, Softmax) and self.cpu.axis is Axis.CHANNELS
        return by_function or (self.softmax is not None and len(self.softmax.dims) == 1)

    @property
    def topo(self) -> int:
        """Which runs write to external memory: bit i is set for run i."""
        return sum(run.external << index for index, run in enumerate(self.runs))


class ByteInput(NamedTuple):
    """How the device converts an input of bytes. policy: the SDK's name of it. table: FP16 bits for each byte and channel.

    swapped: the application writes the channels in the opposite order. So the first kernels have, and the table.
    """

    policy: str
    table: tuple[tuple[int, ...], ...]
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """layers in execution order; `order` has that of the generated network.

    outputs: indices into layers, in the order of the user's definition. results: the name of each output, and its map, which
    may have another shape than the layer's. byte_input: None for an input of FP16. cpu_threads: that share the work of a generated
    function; 0: as many as the board has cores.
    """

    name: str
    layers: tuple[Layer, ...]
    inputs: tuple[tuple[str, Tensor], ...]
    outputs: tuple[int, ...]
    results: tuple[tuple[str, Tensor], ...]
    plan: Plan
    transposed: bool
    byte_input: ByteInput | None = None
    cpu_threads: int = 1

    @property
    def order(self) -> tuple[int, ...]:
        """Indices into layers, as the generated network numbers them: concatenations in place come last.

        The runtime does nothing for them, but between two commands they would end a list of commands.
        """
        return tuple(sorted(range(len(self.layers)), key=lambda index: self.layers[index].type is LayerType.CONCAT))

    def generated(self) -> "Program":
        """The program with the layers in the order of the generated network."""
        numbers = {index: number for number, index in enumerate(self.order)}
        numbered = []
        for index in self.order:
            layer = self.layers[index]
            sources = tuple(None if source is None else numbers[source] for source in layer.sources)
            numbered.append(replace(layer, sources=sources))
        outputs = tuple(numbers[output] for output in self.outputs)
        return replace(self, layers=tuple(numbered), outputs=outputs)

    @property
    def weight_bytes(self) -> int:
        """Size of the weight buffer and of its file. The driver allocates no empty buffer."""
        arrays = [self.arrays_offset + array.offset + array.nbytes for array in self.arrays]
        return max(SMALLEST_BUFFER, self.arrays_offset, *arrays)

    @property
    def arrays_offset(self) -> int:
        """Where the arrays of the CPU's functions begin in the weight buffer."""
        return sum(weights.nbytes for weights in self.weights)

    @property
    def arrays(self) -> tuple[StoredArray, ...]:
        """All arrays of functions, in the order of the weight buffer."""
        return tuple(array for layer in self.layers for array in layer.constants)

    @property
    def io_bytes(self) -> int:
        return self.plan.size

    @property
    def weights(self) -> tuple[Weights, ...]:
        """All packed weights, in the order of the weight buffer."""
        runs = (run for layer in self.layers for run in layer.runs)
        return tuple(run.convolution.weights for run in runs if run.convolution is not None)
