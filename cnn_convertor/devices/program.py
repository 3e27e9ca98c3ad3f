"""A program: layers and what runs in each, tensors with their places in memory, every number fixed."""

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from cnn_convertor.devices.settings import Runtime
from cnn_convertor.errors import Origin
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ArraySoftmax, Axis, Op, Parameter, Shape, Softmax
from cnn_convertor.layouts.layout import Layout, Term, nbytes
from cnn_convertor.memory import Plan

SMALLEST_BUFFER = 16  # bytes
PLAIN = Layout("hwc", tuple(map(Term, "hwc")), name="HWC")


class ElementType(Enum):
    """The value is the size of an element in bytes."""

    BYTE = 1
    HALF = 2
    FLOAT = 4


class Tensor(NamedTuple):
    """A map in the I/O buffer. offset: bytes. layout: of its elements, without their type."""

    shape: Shape
    type: ElementType
    offset: int
    layout: Layout

    @property
    def is_plain(self) -> bool:
        """Whether the elements lie in the order H, W, C."""
        return self.layout == PLAIN

    @property
    def elements(self) -> int:
        """How many elements the memory has, with those that pad the map."""
        return nbytes(self.layout, self.shape) if self.layout.pads else self.shape.size

    @property
    def nbytes(self) -> int:
        return self.elements * self.type.value

    def reads_as(self, shape: Shape) -> bool:
        """Whether a map of this shape has as many elements, and so has its memory."""
        return self.shape.size == shape.size and self.elements == self._replace(shape=shape).elements


class PackedWeights(Protocol):
    """What a pass reads from the weight buffer, as far as other rooms read it. offset: bytes. kernels: as the network has them."""

    @property
    def offset(self) -> int: ...

    @property
    def kernels(self) -> Constant: ...


class DevicePass(Protocol):
    """One pass of a device, as far as other rooms read it. origins: the layers that it computes."""

    @property
    def input(self) -> Shape: ...

    @property
    def output(self) -> Shape: ...

    @property
    def origins(self) -> tuple[Origin, ...]: ...

    @property
    def stored(self) -> Any:
        """What it reads from the weight buffer, with its `nbytes`; None without."""


R_co = TypeVar("R_co", bound=DevicePass, covariant=True)
W_co = TypeVar("W_co", covariant=True)


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


@dataclass(frozen=True)  # typing sets an attribute of generic values, which slots would refuse
class LayerOf(Generic[R_co]):
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
    runs: tuple[R_co, ...] = ()
    sources: tuple[int | None, ...] = ()
    custom: CustomCall | None = None
    cpu: Op | None = None
    constants: tuple[StoredArray, ...] = ()
    reason: str = ""
    softmax: ArraySoftmax | None = None
    from_device: bool = False
    is_output: bool = False

    @property
    def lists_sources(self) -> bool:
        """Whether the layer has a list of input layers. In the SDK that list shares its memory with a callback's pointer."""
        return self.type in {LayerType.CONCAT, LayerType.COPY_CONCAT}

    @property
    def is_softmax(self) -> bool:
        """Whether the layer is a softmax over the channels of a map of the output's shape."""
        by_function = isinstance(self.cpu, Softmax) and self.cpu.axis is Axis.CHANNELS
        return by_function or (self.softmax is not None and len(self.softmax.dims) == 1)


Layer: TypeAlias = LayerOf[Any]  # of any device


class ByteInput(NamedTuple):
    """How the device converts an input of bytes. policy: the SDK's name of it. table: FP16 bits for each byte and channel.

    swapped: the application writes the channels in the opposite order. So the first kernels have, and the table.
    """

    policy: str
    table: tuple[tuple[int, ...], ...]
    swapped: bool = False


@dataclass(frozen=True)  # typing sets an attribute of generic values, which slots would refuse
class ProgramOf(Generic[R_co, W_co]):
    """layers in execution order; `order` has that of the generated network.

    outputs: indices into layers, in the order of the user's definition. results: the name of each output, and its map, which
    may have another shape than the layer's. byte_input: None for an input of FP16. cpu_threads: that share the work of a generated
    function; 0: as many as the board has cores. cache_line: bytes, where a generated runtime maintains the cache for ranges; 0: for the
    whole I/O buffer.
    """

    name: str
    layers: tuple[LayerOf[R_co], ...]
    inputs: tuple[tuple[str, Tensor], ...]
    outputs: tuple[int, ...]
    results: tuple[tuple[str, Tensor], ...]
    plan: Plan
    transposed: bool
    byte_input: ByteInput | None = None
    cpu_threads: int = 1
    runtime: Runtime = Runtime.SDK
    cache_line: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """Indices into layers, as the generated network numbers them: concatenations in place come last.

        The runtime does nothing for them, but between two commands they would end a list of commands.
        """
        return tuple(sorted(range(len(self.layers)), key=lambda index: self.layers[index].type is LayerType.CONCAT))

    def generated(self) -> "ProgramOf[R_co, W_co]":
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

    @cached_property
    def arrays_offset(self) -> int:
        """Where the arrays of the CPU's functions begin in the weight buffer."""
        return sum(run.stored.nbytes for layer in self.layers for run in layer.runs if run.stored is not None)

    @property
    def arrays(self) -> tuple[StoredArray, ...]:
        """All arrays of functions, in the order of the weight buffer."""
        return tuple(array for layer in self.layers for array in layer.constants)

    @property
    def io_bytes(self) -> int:
        return self.plan.size

    @property
    def weights(self) -> tuple[W_co, ...]:
        """All packed weights, in the order of the weight buffer."""
        runs = (run for layer in self.layers for run in layer.runs)
        return tuple(cast(W_co, run.stored) for run in runs if run.stored is not None)


Program: TypeAlias = ProgramOf[Any, Any]  # of any device
