"""Writes a network as a loadable, with the lists of the vendor's compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from cnn_convertor.devices.nvdla.firmware.descriptors import (
    BdmaSurfaces,
    Cube,
    Lut,
    MemoryKind,
    pack_descriptor,
    size_of,
)
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareTask
from cnn_convertor.devices.nvdla.loadable.container import (
    AddressEntry,
    Container,
    ContentBlob,
    EventEntry,
    LoadableVersion,
    MemoryEntry,
    RelocationEntry,
    SubmitEntry,
    TaskEntry,
    TensorEntry,
    container_bytes,
)
from cnn_convertor.devices.nvdla.loadable.contents import CONTAINERS, DLA, MOST_ADDRESSES, PROCESSOR, MemoryFlag
from cnn_convertor.devices.nvdla.loadable.processor_tasks import ProcessorTask, pack_processor_task, stride_places

_ALIGNMENT: Final = 4096
_DUMMY: Final = 4096  # bytes of memories that only fill the lists
_FILE_VERSION: Final = LoadableVersion(0, 7, 0)
_PROCESSOR_VERSION: Final = LoadableVersion(0, 0, 1)
_NO_VERSION: Final = LoadableVersion(0, 0, 0)
_MOST_IDS: Final = 1 << 16
_WAIT, _SIGNAL = 0, 1
_LINE, _SURFACE = 1, 2  # strides of relocations
_FORMAT, _HALF, _FEATURE, _FEATURE_PIXELS = 3, 2, 2, 36  # data_format (NCxHWx), data_type, data_category, pixel_format
# Kinds of a task's contents, and of the memories without contents that fill its list.
_SUB_INTERFACES: Final = {"addr0": 1, "dep_graph": 2, "op_list": 3, "surf_list": 4, "op_buf_list": 4, "lut_list": 5}
_FILLERS: Final = {DLA: 1, PROCESSOR: 3}


class WritingError(ValueError):
    """A network does not fit the lists of a loadable."""


class _Release(NamedTuple):
    """older: descriptors without offsets, and lists that name the network descriptor twice."""

    version: LoadableVersion
    older: bool


RELEASES: Final[Mapping[str, _Release]] = {
    "0.12": _Release(LoadableVersion(0, 12, 3), False),
    "0.11": _Release(LoadableVersion(0, 11, 0), True),
}


class LoadableMemory(NamedTuple):
    """size: bytes. pieces: (offset, contents), what the file holds for it."""

    size: int
    pieces: Sequence[tuple[int, bytes]] = ()


class LoadableTensor(NamedTuple):
    """A network's input or output: FP16 feature data at the begin of a memory. shape: (H, W, C). Strides in bytes."""

    name: str
    memory: int
    shape: tuple[int, int, int]
    line_stride: int
    surface_stride: int
    is_output: bool


def loadable_bytes(
    tasks: Sequence[FirmwareTask | ProcessorTask],
    memories: Sequence[LoadableMemory],
    tensors: Sequence[LoadableTensor],
    version: str = "0.12",
) -> memoryview:
    """The file of tasks that run one after the other.

    memories: those of the addresses 1, 2, ... of descriptors. tensors: inputs and outputs, each of a memory of its own.
    version: of the firmware's interface, a key of RELEASES.
    Raises WritingError.
    """
    writer = _Writer(RELEASES[version], tasks, memories)
    for tensor in tensors:
        writer.bind(tensor)
    for number, task in enumerate(tasks):
        writer.add(number, task)
    return container_bytes(writer.container())


def cubes_of(tasks: Sequence[FirmwareTask | ProcessorTask]) -> Iterator[Any]:
    """All cubes and maps in memory that descriptors name, but those of copies."""
    for task in tasks:
        for operation in task.operations:
            surfaces: Any = getattr(operation, "surfaces", operation)  # the processor's have their maps themselves
            if not isinstance(surfaces, BdmaSurfaces):
                for _, place in _maps_of(surfaces):
                    yield place


def places_of(tasks: Sequence[FirmwareTask | ProcessorTask]) -> set[tuple[int, int]]:
    """All places that descriptors name: (memory, offset)."""
    places = {(cube.address, cube.offset) for cube in cubes_of(tasks)}
    for task in tasks:
        for operation in task.operations:
            surfaces = getattr(operation, "surfaces", None)
            if isinstance(surfaces, BdmaSurfaces):
                for transfer in surfaces.transfers[: surfaces.num_transfers]:
                    places |= {(transfer.source_address, 0), (transfer.destination_address, 0)}
    return places


def _maps_of(surfaces: Any) -> Iterator[tuple[str, Any]]:
    """The cubes in memory of an operation, or the maps of the processor's one, by the names of their fields."""
    for each in dataclasses.fields(surfaces):
        value = getattr(surfaces, each.name)
        if isinstance(value, Cube) and value.type == MemoryKind.HW:
            continue
        if getattr(value, "address", 0) > 0:  # 0 is the network's descriptor: the cube is not used
            yield each.name, value


@dataclass(slots=True)
class _Writer:
    """Fills the lists. Address 0 and memory 0 are fillers; then come those of descriptors, then those of each task."""

    release: _Release
    tasks: Sequence[FirmwareTask | ProcessorTask]
    given: Sequence[LoadableMemory]
    memories: list[MemoryEntry] = field(default_factory=list)
    addresses: list[AddressEntry] = field(default_factory=list)
    blobs: list[ContentBlob] = field(default_factory=list)
    tensors: list[TensorEntry] = field(default_factory=list)
    entries: list[TaskEntry] = field(default_factory=list)
    relocations: list[RelocationEntry] = field(default_factory=list)
    places: dict[tuple[int, int], int] = field(default_factory=dict)  # (memory, offset) -> its address
    bound: dict[int, int] = field(default_factory=dict)  # a tensor's memory -> its address, if its strides may change

    def __post_init__(self) -> None:
        self._add_memory(MemoryFlag.ALLOC, _DUMMY)
        names = 0
        for memory in self.given:
            pieces = []
            for offset, contents in memory.pieces:
                assert offset + len(contents) <= memory.size
                pieces.append((offset, f"tb-{names}"))
                self._add_blob(f"tb-{names}", contents, 0, _NO_VERSION)
                names += 1
            self._add_memory(MemoryFlag.ALLOC, memory.size, pieces)
        named = places_of(self.tasks)
        everywhere = {(index, 0) for index in range(1, len(self.given) + 1)}
        self.addresses.append(AddressEntry(0, 0, 0, _DUMMY))
        for index, offset in sorted(everywhere | named if self.release.older else everywhere):
            number = len(self.addresses)
            self.places[index, offset] = number
            self.addresses.append(AddressEntry(number, index, offset, self.given[index - 1].size - offset))
        split = {index for index, offset in named if offset}
        self.bound = {index: self.places[index, 0] for index, _ in everywhere if index not in split}

    def bind(self, tensor: LoadableTensor) -> None:
        """Make a memory an input or an output."""
        flag = MemoryFlag.OUTPUT if tensor.is_output else MemoryFlag.INPUT
        entry = self.memories[tensor.memory]
        whole = (tensor.line_stride, tensor.surface_stride)
        cubes = [cube for cube in cubes_of(self.tasks) if cube.address == tensor.memory]
        if any((cube.line_stride, cube.surf_stride) != whole for cube in cubes):
            self.bound.pop(tensor.memory, None)  # an operation sees the map in another form, with strides of its own
        assert not entry.flags & (MemoryFlag.INPUT | MemoryFlag.OUTPUT), "two tensors share a memory"
        number = len(self.tensors)
        before = sum(1 for each in self.memories if each.flags & flag)
        flags = entry.flags | flag
        self.memories[tensor.memory] = replace(entry, flags=flags, bind_id=before, tensor_desc_id=number)
        height, width, channels = tensor.shape
        kind = (_FORMAT, _HALF, _FEATURE, _FEATURE_PIXELS, 0)
        strides = (2, tensor.line_stride, tensor.surface_stride, 0, 0, 0, 0, 0)
        sizes = (1, channels, height, width)
        self.tensors.append(TensorEntry(tensor.name, number, tensor.memory, entry.size, 0, *kind, *sizes, *strides))

    def add(self, number: int, task: FirmwareTask | ProcessorTask) -> None:
        interface = PROCESSOR if isinstance(task, ProcessorTask) else DLA
        first = len(self.addresses)  # of the task's own
        shared = list(range(1, len(self.places) + 1))
        lists = [first, *shared, first] if self.release.older else [first, *shared]
        contents = self._contents(task, len(lists), first)
        own = range(first + 1, first + len(contents) + _FILLERS[interface])
        addresses = (*lists, *own)
        if len(addresses) > MOST_ADDRESSES:
            raise WritingError(f"a task has {len(addresses):,} addresses, more than the runtime's {MOST_ADDRESSES:,}")
        version = _PROCESSOR_VERSION if interface == PROCESSOR else self.release.version
        for kind, content in contents.items():
            name = f"task-{number}-{kind}"
            self._add_blob(name, content, interface, version, _SUB_INTERFACES[kind])
            self._add_own(MemoryFlag.ALLOC, len(content), [(0, name)])
        for _ in range(_FILLERS[interface]):
            self._add_own(MemoryFlag.ALLOC, _DUMMY)
        waits = (2 * number - 1,) if number else ()
        self.entries.append(TaskEntry(number, interface, -1, addresses, waits, (2 * number,)))

    def container(self) -> Container:
        if len(self.addresses) > _MOST_IDS:
            raise WritingError(f"it has {len(self.addresses):,} addresses, more than {_MOST_IDS:,}")
        events: list[EventEntry] = []
        for number in range(len(self.entries)):
            if number:
                events.append(EventEntry(len(events), 0, 0, number, _WAIT))
            events.append(EventEntry(len(events), 0, 0, number + 1, _SIGNAL))
        return Container(
            version=_FILE_VERSION,
            tasks=tuple(self.entries),
            memories=tuple(self.memories),
            addresses=tuple(self.addresses),
            events=tuple(events),
            blobs=tuple(sorted(self.blobs, key=lambda blob: blob.name)),
            tensors=tuple(self.tensors),
            relocations=tuple(self.relocations),
            submits=tuple(SubmitEntry(task.id, (task.id,)) for task in self.entries),
        )

    def _contents(self, task: FirmwareTask | ProcessorTask, behind: int, first: int) -> dict[str, bytes]:
        """Kind -> what the file holds, in the order of the addresses. behind: the index of the second one; first: its address."""
        older = self.release.older
        if isinstance(task, ProcessorTask):
            operations = tuple(self._placed(operation) for operation in task.operations)
            self._relocate_processor(task, first + 2)
            packed = pack_processor_task(ProcessorTask(operations), behind, behind + 1, older=older)
            return {"addr0": packed.network, "op_list": packed.operations, "op_buf_list": packed.maps}
        self._relocate(task, first + 3)
        graph, ops, surfaces = [], [], []
        tables: dict[int, Lut] = {}
        for operation in task.operations:
            graph.append(pack_descriptor(operation.common))
            ops.append(pack_descriptor(operation.op).ljust(CONTAINERS["operation"], b"\0"))
            placed = pack_descriptor(self._placed(operation.surfaces), older=older)
            surfaces.append(placed.ljust(CONTAINERS["surface"], b"\0"))
            if operation.lut is not None:
                tables[operation.op.lut_index] = operation.lut
        luts = b"".join(pack_descriptor(tables[number]) for number in range(len(tables)))
        network = replace(
            task.network,
            dependency_graph_index=behind,
            operation_desc_index=behind + 1,
            surface_desc_index=behind + 2,
            lut_data_index=behind + 3,
            num_addresses=behind + 5,
        )
        return {
            "addr0": pack_descriptor(network),
            "dep_graph": b"".join(graph),
            "op_list": b"".join(ops),
            "surf_list": b"".join(surfaces),
            "lut_list": luts or bytes(size_of(Lut)),
        }

    def _placed(self, surfaces: Any) -> Any:
        """Maps at the addresses of this file."""
        if not self.release.older:
            return surfaces
        if isinstance(surfaces, BdmaSurfaces):
            moved = []
            for transfer in surfaces.transfers:
                source = self.places.get((transfer.source_address, 0), -1)
                target = self.places.get((transfer.destination_address, 0), -1)
                moved.append(replace(transfer, source_address=source, destination_address=target))
            return replace(surfaces, transfers=tuple(moved))
        changes = {}
        for name, place in _maps_of(surfaces):
            changes[name] = replace(place, address=self.places[place.address, place.offset], offset=0)
        return replace(surfaces, **changes)

    def _relocate(self, task: FirmwareTask, held_at: int) -> None:
        """Say where the strides of inputs and outputs are, which an application may change. held_at: the address of surfaces."""
        size = size_of(Cube, older=self.release.older)
        for number, operation in enumerate(task.operations):
            if isinstance(operation.surfaces, BdmaSurfaces):
                continue
            names = [each.name for each in dataclasses.fields(operation.surfaces)]
            for name, place in _maps_of(operation.surfaces):
                end = number * CONTAINERS["surface"] + (names.index(name) + 1) * size
                self._add_relocations(place.address, held_at, DLA, (end - 12, end - 8))

    def _relocate_processor(self, task: ProcessorTask, held_at: int) -> None:
        for number, operation in enumerate(task.operations):
            for side, place in enumerate((operation.source, operation.target)):
                strides = stride_places(2 * number + side, older=self.release.older)
                self._add_relocations(place.address, held_at, PROCESSOR, strides)

    def _add_relocations(self, memory: int, held_at: int, interface: int, strides: tuple[int, int]) -> None:
        flags = self.memories[memory].flags
        if memory not in self.bound or not flags & (MemoryFlag.INPUT | MemoryFlag.OUTPUT):
            return
        for kind, offset in zip((_LINE, _SURFACE), strides, strict=True):
            entry = RelocationEntry(self.bound[memory], held_at, offset, interface, _SUB_INTERFACES["surf_list"], kind)
            self.relocations.append(entry)

    def _add_memory(self, flags: MemoryFlag, size: int, pieces: Sequence[tuple[int, str]] = ()) -> None:
        if pieces:
            flags |= MemoryFlag.SET
        names = tuple(name for _, name in pieces)
        offsets = tuple(offset for offset, _ in pieces)
        self.memories.append(MemoryEntry(len(self.memories), 0, int(flags), size, _ALIGNMENT, names, offsets, 0, 0))

    def _add_own(self, flags: MemoryFlag, size: int, pieces: Sequence[tuple[int, str]] = ()) -> None:
        """A memory of a task, and its address."""
        self.addresses.append(AddressEntry(len(self.addresses), len(self.memories), 0, 0))
        self._add_memory(flags, size, pieces)

    def _add_blob(
        self, name: str, contents: bytes, interface: int, version: LoadableVersion, sub_interface: int = 0
    ) -> None:
        kind = 0 if self.release.older else sub_interface
        self.blobs.append(ContentBlob(name, len(contents), interface, kind, version, contents))
