"""A loadable's memory and tasks: what its lists mean together, checked as the runtime checks them and more."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntFlag
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.firmware.descriptors import (
    OPERATIONS,
    SURFACES,
    BdmaSurfaces,
    Common,
    Engine,
    Lut,
    NetworkDescriptor,
    size_of,
    unpack_descriptor,
)
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareOperation, FirmwareTask, Interrupt, accesses
from cnn_convertor.devices.nvdla.firmware.register_settings import FieldError, Places, RegisterWrite
from cnn_convertor.devices.nvdla.loadable.container import Container, ContentBlob, MemoryEntry, TaskEntry, TensorEntry
from cnn_convertor.devices.nvdla.loadable.processor_tasks import ProcessorTask, processor_task
from cnn_convertor.layouts.packing import Bytes

T = TypeVar("T")

MOST_MEMORY: Final = 1 << 29  # bytes of all memories
FIRST_ADDRESS: Final = 0x8000_0000  # of the first memory, where the vendor's runtime has it, too
_PAGE: Final = 4096  # bytes; each memory begins at a multiple, as the runtime's do
MOST_ADDRESSES: Final = 6144  # of a task
CONTAINERS: Final = {"operation": 116, "surface": 644}  # bytes of a descriptor of any engine
_NEWEST_OLDER: Final = 11  # minor version; its cubes and those before have no `offset`
DLA, PROCESSOR = 1, 2  # interfaces of tasks


class MemoryFlag(IntFlag):
    ALLOC = 1
    SET = 2
    INPUT = 4
    OUTPUT = 8


class ContentsError(ValueError):
    """The lists of a loadable contradict each other, or a descriptor is none."""


@dataclass(frozen=True, slots=True)
class PlacedMemory:
    """A memory, and its address on the device. pieces: offset -> what it holds at first."""

    entry: MemoryEntry
    address: int
    pieces: Mapping[int, ContentBlob]

    @property
    def initial(self) -> Bytes:
        """All its bytes before the first task; those that are zero take no space until one is written."""
        content: Bytes = np.zeros(self.entry.size, np.uint8)
        for offset, blob in self.pieces.items():
            content[offset : offset + len(blob.data)] = np.frombuffer(blob.data, np.uint8)
        return content


@dataclass(frozen=True, slots=True)
class AddressSpot:
    """A place that a task's list of addresses names. size: bytes from there to the end of the memory."""

    memory: PlacedMemory
    offset: int

    @property
    def address(self) -> int:
        return self.memory.address + self.offset

    @property
    def size(self) -> int:
        return self.memory.entry.size - self.offset


@dataclass(frozen=True, slots=True)
class LoadableTask:
    """A task and its list of addresses; contents: the operations of the accelerator, or those of the processor."""

    entry: TaskEntry
    spots: tuple[AddressSpot, ...]
    contents: FirmwareTask | ProcessorTask
    older: bool


@dataclass(frozen=True)
class LoadableContents:
    container: Container
    memories: Mapping[int, PlacedMemory]
    tasks: tuple[LoadableTask, ...]  # in the order in which they are submitted

    @cached_property
    def inputs(self) -> tuple[TensorEntry, ...]:
        return self._bound(MemoryFlag.INPUT)

    @cached_property
    def outputs(self) -> tuple[TensorEntry, ...]:
        return self._bound(MemoryFlag.OUTPUT)

    def _bound(self, flag: MemoryFlag) -> tuple[TensorEntry, ...]:
        """The tensors of memories with a flag, in the order of their binding."""
        tensors = {tensor.id: tensor for tensor in self.container.tensors}
        entries = [memory.entry for memory in self.memories.values() if memory.entry.flags & flag]
        return tuple(tensors[entry.tensor_desc_id] for entry in sorted(entries, key=lambda entry: entry.bind_id))


def contents_of(container: Container) -> LoadableContents:
    """Raises ContentsError."""
    for name in ("submits", "tasks", "memories"):
        if not getattr(container, name):
            raise ContentsError(f"it has no {name}")
    memories = _memories(container)
    addresses = _by_id("address", container.addresses)
    tasks = _by_id("task", container.tasks)
    placed: dict[int, LoadableTask] = {}
    for submit in container.submits:
        for number in submit.task_id:
            if number not in tasks or number in placed:
                problem = "twice" if number in placed else "which it does not have"
                raise ContentsError(f"it submits task {number} {problem}")
            placed[number] = _task(tasks[number], _spots(tasks[number], addresses, memories))
    _check_bindings(container)
    return LoadableContents(container, memories, tuple(placed.values()))


def _by_id(what: str, entries: Iterable[Any]) -> dict[int, Any]:
    by_id: dict[int, Any] = {}
    for entry in entries:
        if entry.id in by_id:
            raise ContentsError(f"{what} {entry.id} is there twice")
        by_id[entry.id] = entry
    return by_id


def _memories(container: Container) -> dict[int, PlacedMemory]:
    """The memories one after the other, with what they hold."""
    blobs = {blob.name: blob for blob in container.blobs}
    placed = {}
    address = FIRST_ADDRESS
    for number, entry in _by_id("memory", container.memories).items():
        placed[number] = PlacedMemory(entry, address, _pieces(entry, blobs))
        address += -(-max(entry.size, 1) // _PAGE) * _PAGE
        if address > FIRST_ADDRESS + MOST_MEMORY:
            raise ContentsError(f"its memories need more than {MOST_MEMORY >> 20:,} MB")
    return placed


def _pieces(entry: MemoryEntry, blobs: Mapping[str, ContentBlob]) -> dict[int, ContentBlob]:
    if len(entry.contents) != len(entry.offsets):
        raise ContentsError(f"memory {entry.id} names {len(entry.contents)} contents at {len(entry.offsets)} offsets")
    pieces = {}
    for name, offset in zip(entry.contents, entry.offsets, strict=True):
        if not name:  # hand-made files have an empty name for no content
            continue
        if name not in blobs:
            raise ContentsError(f'memory {entry.id} holds "{name}", which the file does not have')
        if offset + len(blobs[name].data) > entry.size:
            raise ContentsError(f'memory {entry.id} of {entry.size:,} bytes cannot hold "{name}" at {offset:,}')
        pieces[offset] = blobs[name]
    return pieces


def _spots(
    task: TaskEntry, addresses: Mapping[int, Any], memories: Mapping[int, PlacedMemory]
) -> tuple[AddressSpot, ...]:
    if len(task.address_list) > MOST_ADDRESSES:
        raise ContentsError(f"task {task.id} has {len(task.address_list):,} addresses, more than {MOST_ADDRESSES:,}")
    spots = []
    for number in task.address_list:
        entry = addresses.get(number)
        if entry is None or entry.mem_id not in memories:
            raise ContentsError(f"task {task.id} names address {number}, which is nowhere")
        memory = memories[entry.mem_id]
        if entry.offset > memory.entry.size:
            raise ContentsError(f"address {number} is behind the end of memory {entry.mem_id}")
        spots.append(AddressSpot(memory, entry.offset))
    return tuple(spots)


def _check_bindings(container: Container) -> None:
    """Inputs and outputs are numbered from 0, each with its tensor."""
    tensors = _by_id("tensor", container.tensors)
    for flag in (MemoryFlag.INPUT, MemoryFlag.OUTPUT):
        bound = [entry for entry in container.memories if entry.flags & flag]
        name = str(flag.name).lower()
        if sorted(entry.bind_id for entry in bound) != list(range(len(bound))):
            raise ContentsError(f"its {name}s are not numbered from 0")
        for entry in bound:
            tensor = tensors.get(entry.tensor_desc_id)
            if tensor is None:
                raise ContentsError(f"{name} {entry.bind_id} has no tensor")
            if tensor.mem_id != entry.id or tensor.offset + tensor.size > entry.size:
                raise ContentsError(f'tensor "{tensor.name}" is not in its memory')
    for name, count in Counter(tensor.name for tensor in container.tensors).items():
        if count > 1:
            raise ContentsError(f'{count} tensors are called "{name}"')


class SpotReader:
    """Reads descriptors from the file's contents of a task's memories."""

    def __init__(self, task: TaskEntry, spots: tuple[AddressSpot, ...]) -> None:
        self._task = task
        self._spots = spots
        self._pieces: dict[int, tuple[ContentBlob, int]] = {}

    def bytes_at(self, index: int, what: str) -> bytes:
        """What the file has for an index of the list."""
        blob, start = self._piece(index, what)
        return blob.data[start:]

    def version_at(self, index: int) -> int:
        """The minor version of what is there."""
        return self._piece(index, "network")[0].version.minor

    def read(self, kind: type[T], index: int, what: str, offset: int = 0, *, older: bool = False) -> T:
        blob, start = self._piece(index, what)
        try:
            return unpack_descriptor(kind, blob.data, start + offset, older=older)
        except struct.error:
            raise ContentsError(f"task {self._task.id}: its {what} ends after byte {offset:,}") from None

    def _piece(self, index: int, what: str) -> tuple[ContentBlob, int]:
        """The contents with an index of the list, and the place in them."""
        if index in self._pieces:
            return self._pieces[index]
        if not 0 <= index < len(self._spots):
            raise ContentsError(f"task {self._task.id}: its {what} is at address {index}, which it does not have")
        spot = self._spots[index]
        for start, blob in spot.memory.pieces.items():
            if start <= spot.offset < start + max(len(blob.data), 1):
                self._pieces[index] = blob, spot.offset - start
                return self._pieces[index]
        raise ContentsError(f"task {self._task.id}: the file holds nothing for its {what}")


def _task(task: TaskEntry, spots: tuple[AddressSpot, ...]) -> LoadableTask:
    reader = SpotReader(task, spots)
    if task.interface == PROCESSOR:
        try:
            return LoadableTask(task, spots, processor_task(lambda index: reader.bytes_at(index, "operations")), True)
        except (struct.error, ValueError) as error:
            raise ContentsError(f"task {task.id}, for the processor: {error}") from None
    if task.interface != DLA:
        raise ContentsError(f"task {task.id} is for interface {task.interface}; {DLA} and {PROCESSOR} exist")
    older = reader.version_at(0) <= _NEWEST_OLDER
    network = reader.read(NetworkDescriptor, 0, "network")
    operations = tuple(_operations(reader, network, older))
    _check_graph(task, network, operations)
    return LoadableTask(task, spots, FirmwareTask(network, operations), older)


def _operations(reader: SpotReader, network: NetworkDescriptor, older: bool) -> Iterator[FirmwareOperation]:
    for number in range(network.num_operations):
        place = number * size_of(Common)
        common = reader.read(Common, network.dependency_graph_index, "dependency graph", place)
        if common.op_type not in list(Engine):
            raise ContentsError(f"operation {number} has the type {common.op_type}; they are 0 to {max(Engine)}")
        engine = Engine(common.op_type)
        place = number * CONTAINERS["operation"]
        op = reader.read(OPERATIONS[engine], network.operation_desc_index, "list of operations", place)
        place = number * CONTAINERS["surface"]
        surfaces = reader.read(SURFACES[engine], network.surface_desc_index, "list of surfaces", place, older=older)
        if isinstance(surfaces, BdmaSurfaces) and surfaces.num_transfers > len(surfaces.transfers):
            raise ContentsError(f"operation {number} has {surfaces.num_transfers} transfers, more than 20")
        table = getattr(op, "lut_index", -1)
        lut = None
        if table >= 0:
            lut = reader.read(Lut, network.lut_data_index, "list of tables", table * size_of(Lut))
        yield FirmwareOperation(number, common, op, surfaces, lut)


def _check_graph(task: TaskEntry, network: NetworkDescriptor, operations: tuple[FirmwareOperation, ...]) -> None:
    """Every operation names only others that exist, and is one that its engine comes to."""
    count = len(operations)
    reached = set[int]()
    for operation in operations:
        for consumer in (*operation.common.consumers, operation.common.fused_parent):
            if not -1 <= consumer.index < count:
                raise ContentsError(f"task {task.id}: operation {operation.number} names operation {consumer.index}")
    for engine, head in zip(Engine, network.op_head, strict=True):
        number = head
        while number != -1:
            if not 0 <= number < count or number in reached or operations[number].engine is not engine:
                raise ContentsError(f"task {task.id}: the chain of {engine.name} operations breaks at {number}")
            reached.add(number)
            number = operations[number].common.consumers[engine].index
    if len(reached) != count:
        missing = min(set(range(count)) - reached)
        raise ContentsError(f"task {task.id}: no engine comes to operation {missing}")


def accesses_of(
    task: LoadableTask, firmware: FirmwareTask, configuration: Configuration
) -> Iterator[RegisterWrite | Interrupt]:
    """What the firmware does with the registers for a task. Raises FieldError for descriptors that it refuses."""

    def address(index: int, offset: int) -> int:
        if index == -1:  # nowhere, and nothing reads it
            return 0
        if not 0 <= index < len(task.spots):
            raise FieldError(f"a descriptor names address {index}, which the task does not have")
        return task.spots[index].address + offset

    return accesses(firmware, Places(configuration, address))
