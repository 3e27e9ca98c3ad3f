"""What a loadable leaves to the processor: powers and softmax of maps."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.layouts.layout import Layout
from cnn_convertor.layouts.nvdla.features import feature_data
from cnn_convertor.layouts.nvdla.memory_forms import FULL, SMALL, MemoryForm
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import Bytes, pack, unpack

Values: TypeAlias = NDArray[np.float32]


class ProcessorKind(IntEnum):
    POWER = 0
    SOFTMAX = 1


@dataclass(frozen=True, slots=True)
class ProcessorMap:
    """A map in memory. address: an index of the task's list. Strides in bytes."""

    address: int
    offset: int
    size: int
    precision: Precision
    form: MemoryForm
    width: int
    height: int
    channel: int
    line_stride: int
    surf_stride: int


@dataclass(frozen=True, slots=True)
class ProcessorOperation:
    """numbers: power, scale and shift of a power. input_scale, output_scale: of integers, in a softmax."""

    kind: ProcessorKind
    input_scale: float
    output_scale: float
    numbers: tuple[float, float, float]
    source: ProcessorMap
    target: ProcessorMap


@dataclass(frozen=True, slots=True)
class ProcessorTask:
    operations: tuple[ProcessorOperation, ...]


@dataclass(frozen=True, slots=True)
class _Packing:
    """How a release packs its descriptors. container: bytes of an operation."""

    container: int
    common: str
    map: str
    formats: tuple[tuple[Precision, MemoryForm] | None, ...]


_CHANNELS: Final = 1  # the axis of a softmax
_BUFFER: Final = 256  # bytes of a map's descriptor; an operation has two
_OLDER: Final = _Packing(
    container=16,
    common="<B",
    map="<hIHHHHII",
    formats=((Precision.INT8, FULL), None, (Precision.FP16, FULL)),
)
_NEWER: Final = _Packing(
    container=24,
    common="<B3xff",
    map="<hIIHHHHII",
    formats=((Precision.INT8, FULL), (Precision.INT8, SMALL), None, (Precision.FP16, FULL)),
)


def processor_task(content: Callable[[int], bytes]) -> ProcessorTask:
    """The task of the descriptors at an index of its list. Raises ValueError, or struct.error where they end early."""
    operations_at, maps_at, count = struct.unpack_from("<hhH", content(0))
    operations, maps = content(operations_at), content(maps_at)
    packing = _NEWER if len(operations) >= _NEWER.container * count else _OLDER
    sequence = []
    for number in range(count):
        place = number * packing.container
        kind, *scales = struct.unpack_from(packing.common, operations, place)
        if kind not in list(ProcessorKind):
            raise ValueError(f"operation {number} has the type {kind}; they are 0 (power) and 1 (softmax)")
        numbers = (1.0, 1.0, 0.0)
        if kind == ProcessorKind.POWER:
            numbers = struct.unpack_from("<fff", operations, place + struct.calcsize(packing.common))
        input_scale, output_scale = scales or (1.0, 1.0)
        source, target = (_map(packing, maps, each) for each in (2 * number, 2 * number + 1))
        if (source.precision, source.form) != (target.precision, target.form):
            raise ValueError(f"operation {number} reads and writes different formats")
        sequence.append(ProcessorOperation(ProcessorKind(kind), input_scale, output_scale, numbers, source, target))
    return ProcessorTask(tuple(sequence))


def _map(packing: _Packing, maps: bytes, number: int) -> ProcessorMap:
    address, *values = struct.unpack_from(packing.map, maps, number * _BUFFER)
    if packing is _OLDER:
        values.insert(0, 0)  # no offset
    offset, size, code, width, height, channel, line, surface = values
    known = packing.formats[code] if code < len(packing.formats) else None
    if known is None:
        raise ValueError(f"map {number} has the format {code}, which the runtime does not compute with")
    precision, form = known
    return ProcessorMap(address, offset, size, precision, form, width, height, channel, line, surface)


class PackedProcessorTask(NamedTuple):
    """Its network descriptor, its operations, and their maps."""

    network: bytes
    operations: bytes
    maps: bytes


def stride_places(number: int, *, older: bool) -> tuple[int, int]:
    """Where the line stride and the surface stride of a map are in the list: those of operation n are 2 n and 2 n + 1."""
    packing = _OLDER if older else _NEWER
    end = number * _BUFFER + struct.calcsize(packing.map)
    return end - 8, end - 4


def pack_processor_task(
    task: ProcessorTask, operations_at: int, maps_at: int, *, older: bool = False
) -> PackedProcessorTask:
    """The reverse of `processor_task`; its lists are at these indices. older: as the runtime of version 0.11 reads it."""
    packing = _OLDER if older else _NEWER
    operations, maps = b"", b""
    for operation in task.operations:
        common = [int(operation.kind)]
        scales = [operation.input_scale, operation.output_scale]
        packed = struct.pack(packing.common, *common, *([] if older else scales))
        if operation.kind is ProcessorKind.POWER:
            packed += struct.pack("<fff", *operation.numbers)
        else:
            packed += bytes([_CHANNELS])
        operations += packed.ljust(packing.container, b"\0")
        for place in (operation.source, operation.target):
            maps += _packed_map(packing, place).ljust(_BUFFER, b"\0")
    network = struct.pack("<hhH", operations_at, maps_at, len(task.operations)).ljust(_BUFFER, b"\0")
    return PackedProcessorTask(network, operations, maps)


def _packed_map(packing: _Packing, place: ProcessorMap) -> bytes:
    numbers = [place.address, place.offset, place.size, packing.formats.index((place.precision, place.form))]
    if packing is _OLDER:
        assert numbers.pop(1) == 0, "maps before version 0.12 have no offset"
    sizes = (place.width, place.height, place.channel, place.line_stride, place.surf_stride)
    return struct.pack(packing.map, *numbers, *sizes)


def computed(operation: ProcessorOperation, source: Bytes, target: Bytes) -> None:
    """Compute an operation. source, target: memory from the begin of its maps on. Raises ConvertorError where one does not fit."""
    place = operation.source
    element = place.precision.element
    if operation.kind is ProcessorKind.SOFTMAX:
        size = place.channel * element.itemsize  # side by side in the memory, whatever the atom
        if size > min(source.size, target.size):
            raise ValueError(f"a softmax of {place.channel} values needs {size} bytes")
        values = source[:size].view(element).astype(np.float32)
        target[:size] = _softmax(values, operation).view(np.uint8)
        return
    shape = (place.channel, place.height, place.width)
    power, scale, shift = (np.float32(number) for number in operation.numbers)
    values = unpack(source, _layout(place), shape).astype(np.float32)
    with np.errstate(all="ignore"):  # as the runtime, which does not ask whether a result is a number
        result = _narrowed((shift + scale * values) ** power, place.precision)
    pack(result, _layout(operation.target), target, fill=False)


def _layout(place: ProcessorMap) -> Layout:
    strides = {"line_stride": place.line_stride, "surface_stride": place.surf_stride}
    return feature_data(place.precision, place.form, **strides)


def _softmax(values: Values, operation: ProcessorOperation) -> NDArray[Any]:
    """In FP32; integers are scaled before and after, through FP16, and cut off."""
    precision = operation.source.precision
    if precision is Precision.INT8:
        values = (values * np.float32(operation.input_scale)).astype(np.float16).astype(np.float32)
    powers = np.exp(values - values.max(initial=-np.inf))
    result: NDArray[np.float16] = (powers / powers.sum(dtype=np.float32)).astype(np.float16)
    if precision is Precision.INT8:
        with np.errstate(all="ignore"):
            return _narrowed(np.trunc(result.astype(np.float32) / np.float32(operation.output_scale)), precision)
    return result


def _narrowed(values: Values, precision: Precision) -> NDArray[Any]:
    if precision is Precision.FP16:
        return values.astype(np.float16)
    return np.nan_to_num(values).clip(-128, 127).astype(np.int8)
