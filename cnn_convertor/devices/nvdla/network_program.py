"""A program for NVDLA: layers whose runs are operations of the hardware, and what they read from the weight buffer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from cnn_convertor.devices.nvdla.named_functions import NamedTable
from cnn_convertor.devices.nvdla.operations import HardwareOperation
from cnn_convertor.devices.nvdla.weight_packing import StoredArrays, StoredKernels
from cnn_convertor.devices.program import ElementType, LayerOf, ProgramOf, StoredArray, Tensor
from cnn_convertor.errors import Origin
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts.layout import Layout, Term

ATOMS: Final = Layout("hwc", (Term("c", 16), Term("h"), Term("w"), Term("c", 1, 16)), name="nvdla_feature_fp16")
WEIGHTS: Final = 1  # number of a memory in descriptors: the weight buffer
IO: Final = 2  # the I/O buffer
# Inputs, then outputs of the network: parts of the I/O buffer, or memories of their own in a loadable.
FIRST_EXTERNAL: Final = 3


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream of the weight buffer: kernels of a convolution, or operands of SDP for each channel.

    offset, nbytes: in the buffer, in bytes. unrounded: it holds FP32, and its arrays' own offsets are half of those.
    """

    offset: int
    nbytes: int
    arrays: tuple[StoredArrays, ...]
    unrounded: bool = False

    @property
    def kernels(self) -> Constant:
        """The first constant."""
        first = self.arrays[0]
        return first.weight if isinstance(first, StoredKernels) else first.arrays[0][1]

    @property
    def layer(self) -> str:
        where = self.arrays[0].where
        return where.layer if where else ""

    @property
    def choice(self) -> None:
        """No weights are narrow."""


class NvdlaRun(NamedTuple):
    """An operation of the hardware. does: in words. reason: why a convolution uses its buffer as it does.

    table: what its table stands for.
    """

    operation: HardwareOperation
    input: Shape
    output: Shape
    origins: tuple[Origin, ...]
    does: str
    stored: StoredStream | None = None
    reason: str = ""
    table: NamedTable | None = None


NvdlaLayer: TypeAlias = LayerOf[NvdlaRun]


@dataclass(frozen=True)
class NvdlaProgram(ProgramOf[NvdlaRun, StoredStream]):
    """unrounded: its elements are FP32, at twice the offset that its operations name."""

    unrounded: bool = False

    def generated(self) -> NvdlaProgram:
        program = super().generated()
        assert isinstance(program, NvdlaProgram)
        return program


def external_maps(program: NvdlaProgram) -> tuple[Tensor, ...]:
    """The maps that are memories of their own in a loadable, from FIRST_EXTERNAL on: inputs, then those of outputs, each once."""
    inputs = (tensor for _, tensor in program.inputs)
    return (*inputs, *(program.layers[index].output for index in dict.fromkeys(program.outputs)))


def unrounded_program(program: NvdlaProgram) -> NvdlaProgram:
    """The program with every element in FP32, at twice its offset."""
    layers = tuple(map(_unrounded_layer, program.layers))
    inputs = tuple((name, _doubled(tensor)) for name, tensor in program.inputs)
    results = tuple((name, _doubled(tensor)) for name, tensor in program.results)
    plan = program.plan._replace(size=2 * program.plan.size)
    return replace(program, layers=layers, inputs=inputs, results=results, plan=plan, unrounded=True)


def _unrounded_layer(layer: NvdlaLayer) -> NvdlaLayer:
    runs = []
    for run in layer.runs:
        stored = run.stored
        if stored is not None:
            stored = replace(stored, offset=2 * stored.offset, nbytes=2 * stored.nbytes, unrounded=True)
        runs.append(run._replace(stored=stored))
    return replace(
        layer,
        inputs=tuple(map(_doubled, layer.inputs)),
        output=_doubled(layer.output),
        runs=tuple(runs),
        constants=tuple(map(_wide_array, layer.constants)),
    )


def _doubled(tensor: Tensor) -> Tensor:
    return tensor._replace(type=ElementType.FLOAT, offset=2 * tensor.offset)


def _wide_array(array: StoredArray) -> StoredArray:
    return replace(array, type=ElementType.FLOAT, offset=2 * array.offset)
