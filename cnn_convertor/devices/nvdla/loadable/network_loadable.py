"""The loadable of a program: one task with all operations of the hardware, and the runtime's own softmax behind them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.cubes import Place, packed_cube
from cnn_convertor.devices.nvdla.firmware.dependency_graph import task_of
from cnn_convertor.devices.nvdla.firmware.descriptors import Cube, MemoryKind
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareTask
from cnn_convertor.devices.nvdla.loadable.loadable_writing import (
    LoadableMemory,
    LoadableTensor,
    WritingError,
    loadable_bytes,
    places_of,
)
from cnn_convertor.devices.nvdla.loadable.processor_tasks import (
    ProcessorKind,
    ProcessorMap,
    ProcessorOperation,
    ProcessorTask,
)
from cnn_convertor.devices.nvdla.network_program import FIRST_EXTERNAL, NvdlaLayer, NvdlaProgram, external_maps
from cnn_convertor.devices.nvdla.operations import in_sequence
from cnn_convertor.devices.nvdla.storing import packed
from cnn_convertor.devices.program import LayerType, Tensor
from cnn_convertor.devices.words import describe
from cnn_convertor.errors import ConvertorWarning, Origin, UnsupportedError
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts.nvdla.precision import Precision

_FP16: Final = Precision.FP16
_NAMED: Final = 3  # layers, in a message
_LEFT_OUT: Final = "leave it to the application, with outputs = ... in [OUTPUT] or inputs = ... in [INPUT]; or set loadable = none in [OUTPUT]"
_OTHER_OUTPUTS: Final = "choose other outputs = ... in [OUTPUT], or set loadable = none there"
_TOO_LONG: Final = {
    "0.11": "set loadable = 0.12 in [OUTPUT], which needs few addresses, or loadable = none",
    "0.12": "set loadable = none in [OUTPUT], and run the generated sources",
}


class Obstacle(NamedTuple):
    """Why a network has no loadable. hint: a way out."""

    reason: str
    where: Origin
    hint: str


class _Binding(NamedTuple):
    """An input or output of the network, and the number of its memory."""

    name: str
    memory: int
    map: Tensor
    is_output: bool


def why_no_loadable(program: NvdlaProgram, configuration: Configuration) -> Obstacle | None:
    """What prevents a loadable of a program; None if nothing does."""
    others = [
        layer for layer in program.layers if layer.type is LayerType.CUSTOM and not _is_for_runtime(program, layer)
    ]
    if others:
        named = [f'"{layer.name}" ({_words(layer)})' for layer in others[:_NAMED]]
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        problem = "the device's runtime has no function for it, only softmax of a single pixel, at the end"
        where = others[0].origins[-1] if others[0].origins else Origin(program.name)
        return Obstacle(f"{', '.join(named)}{more} needs the CPU: {problem}", where, _LEFT_OUT)
    named_memories = {memory for memory, _ in places_of(_tasks(program, configuration))}
    maps = external_maps(program)
    bound = set[int]()
    for name, memory, tensor, _ in _bindings(program):
        whole = maps[memory - FIRST_EXTERNAL]
        if memory not in named_memories or tensor.offset != whole.offset or memory in bound:
            reason = f'"{name}" is a part of another map, and the runtime wants it apart'
            return Obstacle(reason, Origin(program.name), _OTHER_OUTPUTS)
        bound.add(memory)
    return None


def network_loadable(program: NvdlaProgram, configuration: Configuration, version: str) -> Iterator[NDArray[np.uint8]]:
    """The file of a program that `why_no_loadable` has nothing against. version: a key of RELEASES.

    Raises UnsupportedError for a network that does not fit its lists.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvertorWarning)  # of the weights' own file
        weights = b"".join(piece.tobytes() for piece in packed(program, configuration))
    memories = [LoadableMemory(len(weights), [(0, weights)]), LoadableMemory(program.io_bytes)]
    for memory, whole in enumerate(external_maps(program), FIRST_EXTERNAL):
        memories.append(LoadableMemory(_cube(whole.shape, Place(memory, 0), configuration).size))
    tensors = []
    for name, memory, tensor, is_output in _bindings(program):
        cube = _cube(tensor.shape, Place(memory, 0), configuration)
        height, width, channels = tensor.shape
        shape = (height, width, channels)
        tensors.append(LoadableTensor(name, memory, shape, cube.line_stride, cube.surf_stride, is_output))
    try:
        contents = loadable_bytes(_tasks(program, configuration), memories, tensors, version)
    except WritingError as error:
        problem = f"the network does not fit a loadable of version {version}: {error}"
        raise UnsupportedError.of("DV933", problem, Origin(program.name), _TOO_LONG[version]) from None
    yield np.frombuffer(contents, np.uint8)


def _words(layer: NvdlaLayer) -> str:
    return "custom layer" if layer.cpu is None else describe(layer.cpu)


def _is_for_runtime(program: NvdlaProgram, layer: NvdlaLayer) -> bool:
    """Whether a layer of the CPU is a softmax of one pixel, which the device has written, behind all that the device does."""
    behind = program.layers[program.layers.index(layer) :]
    is_last = all(other.type is not LayerType.CONV for other in behind)
    (shape, *_) = (tensor.shape for tensor in layer.inputs)
    return is_last and layer.is_softmax and shape.height == shape.width == 1 and _writer(program, layer) is not None


def _tasks(program: NvdlaProgram, configuration: Configuration) -> list[FirmwareTask | ProcessorTask]:
    operations = [run.operation for layer in program.layers for run in layer.runs]
    tasks: list[FirmwareTask | ProcessorTask] = []
    if operations:
        tasks.append(task_of(in_sequence(operations), FIRST_EXTERNAL + len(external_maps(program))))
    softmaxes = [_softmax(program, layer, configuration) for layer in program.layers if layer.type is LayerType.CUSTOM]
    if softmaxes:
        tasks.append(ProcessorTask(tuple(softmaxes)))
    return tasks


def _softmax(program: NvdlaProgram, layer: NvdlaLayer, configuration: Configuration) -> ProcessorOperation:
    """It writes FP16, in place of the FP32 of the generated function."""
    source = _writer(program, layer)
    assert source is not None
    shape = layer.output.shape
    outputs = list(dict.fromkeys(program.outputs))
    target = Place(FIRST_EXTERNAL + len(program.inputs) + outputs.index(program.layers.index(layer)), 0)
    maps = [_processor_map(_cube(shape, place, configuration), configuration) for place in (source, target)]
    return ProcessorOperation(ProcessorKind.SOFTMAX, 1.0, 1.0, (1.0, 1.0, 0.0), maps[0], maps[1])


def _writer(program: NvdlaProgram, layer: NvdlaLayer) -> Place | None:
    """Where the device writes, or the application, what a layer of the CPU reads. None if the CPU writes it."""
    (source,), (tensor,) = layer.sources, layer.inputs
    if source is None:
        offsets = [whole.offset for _, whole in program.inputs]
        return Place(FIRST_EXTERNAL + offsets.index(tensor.offset), 0)
    maps = external_maps(program)
    for run in reversed([run for each in program.layers[: source + 1] for run in each.runs]):
        cube = run.operation.surfaces.dst_data
        before = maps[cube.address - FIRST_EXTERNAL].offset if cube.address >= FIRST_EXTERNAL else 0
        if cube.type != MemoryKind.HW and before + cube.offset == tensor.offset:
            return Place(cube.address, cube.offset)
    return None


def _bindings(program: NvdlaProgram) -> Iterator[_Binding]:
    for number, (name, tensor) in enumerate(program.inputs):
        yield _Binding(name, FIRST_EXTERNAL + number, tensor, False)
    outputs = list(dict.fromkeys(program.outputs))
    for (name, tensor), index in zip(program.results, program.outputs, strict=True):
        memory = FIRST_EXTERNAL + len(program.inputs) + outputs.index(index)
        yield _Binding(name, memory, tensor, True)


def _cube(shape: Shape, place: Place, configuration: Configuration) -> Cube:
    return packed_cube(shape, place, configuration, _FP16)


def _processor_map(cube: Cube, configuration: Configuration) -> ProcessorMap:
    sizes = (cube.width, cube.height, cube.channel, cube.line_stride, cube.surf_stride)
    return ProcessorMap(cube.address, cube.offset, cube.size, _FP16, configuration.form, *sizes)
