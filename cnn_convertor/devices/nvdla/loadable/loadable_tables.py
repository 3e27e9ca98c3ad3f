"""Lists what a loadable has: operations, surfaces, memories and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from cnn_convertor.devices.compiled import FactTable
from cnn_convertor.devices.nvdla.firmware.descriptors import BdmaSurfaces, Cube, MemoryKind
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareOperation, FirmwareTask
from cnn_convertor.devices.nvdla.firmware.ranges import PRECISIONS
from cnn_convertor.devices.nvdla.loadable.contents import LoadableContents, LoadableTask, MemoryFlag, PlacedMemory
from cnn_convertor.devices.nvdla.loadable.processor_tasks import ProcessorMap, ProcessorTask

_SHOWN: Final = 3  # names of a memory's contents


def _operations(contents: LoadableContents) -> FactTable:
    rows: list[tuple[str | int, ...]] = []
    for task in contents.tasks:
        if isinstance(task.contents, ProcessorTask):
            for number, each in enumerate(task.contents.operations):
                maps = _processor_size(each.source), _processor_size(each.target)
                rows.append((task.entry.id, number, each.kind.name, each.source.precision.name, *maps, ""))
            continue
        for number, operation in enumerate(task.contents.operations):
            rows.append((task.entry.id, number, operation.engine.name, *_operation_cells(operation)))
    columns = ("task", "operation", "engine", "precision", "reads", "writes", "waits for")
    return FactTable("operations", columns, tuple(rows))


def _processor_size(place: ProcessorMap) -> str:
    return f"{place.width}x{place.height}x{place.channel}"


def _operation_cells(operation: FirmwareOperation) -> tuple[str, str, str, int]:
    """Precision, what it reads and writes, and the events that it waits for."""
    waits = operation.common.dependency_count
    surfaces = operation.surfaces
    if isinstance(surfaces, BdmaSurfaces):
        total = sum(
            t.line_size * t.line_repeat * t.surface_repeat for t in surfaces.transfers[: surfaces.num_transfers]
        )
        return "", f"{total:,} bytes", f"{total:,} bytes", waits
    for field in ("src_precision", "in_precision", "precision"):
        number = getattr(operation.op, field, None)
        if number is not None:
            break
    precision = PRECISIONS[number] if number is not None and number < len(PRECISIONS) else str(number)
    return precision, _size(surfaces.src_data), _size(surfaces.dst_data), waits


def _size(cube: Cube) -> str:
    return f"{cube.width}x{cube.height}x{cube.channel}"


def _surfaces(contents: LoadableContents) -> FactTable:
    rows = []
    for task in contents.tasks:
        if not isinstance(task.contents, FirmwareTask):
            continue
        for number, operation in enumerate(task.contents.operations):
            for name, cube in _cubes(operation):
                spot = task.spots[cube.address] if 0 <= cube.address < len(task.spots) else None
                memory = "" if spot is None else spot.memory.entry.id
                rows.append(
                    (
                        task.entry.id,
                        number,
                        name,
                        _size(cube),
                        memory,
                        cube.offset,
                        cube.size,
                        cube.line_stride,
                        cube.surf_stride,
                    )
                )
    columns = ("task", "operation", "surface", "size", "memory", "offset", "bytes", "line stride", "surface stride")
    return FactTable("surfaces", columns, tuple(rows))


def _cubes(operation: FirmwareOperation) -> Iterator[tuple[str, Cube]]:
    """The cubes in memory, by name."""
    if isinstance(operation.surfaces, BdmaSurfaces):
        return
    for name in operation.surfaces.__dataclass_fields__:
        cube = getattr(operation.surfaces, name)
        if isinstance(cube, Cube) and cube.type != MemoryKind.HW and cube.size:
            yield name.removesuffix("_data"), cube


def _memories(contents: LoadableContents) -> FactTable:
    tensors = {tensor.id: tensor.name for tensor in contents.container.tensors}
    rows = []
    for number, placed in contents.memories.items():
        entry = placed.entry
        use = ""
        for flag in (MemoryFlag.INPUT, MemoryFlag.OUTPUT):
            if entry.flags & flag:
                use = f"{str(flag.name).lower()} {tensors[entry.tensor_desc_id]}"
        rows.append((number, f"{placed.address:#x}", entry.size, use, _names(placed)))
    return FactTable("memories", ("memory", "address", "bytes", "use", "contents"), tuple(rows))


def _weights(contents: LoadableContents) -> FactTable:
    rows = []
    for task in contents.tasks:
        if not isinstance(task.contents, FirmwareTask):
            continue
        for number, operation in enumerate(task.contents.operations):
            for name, cube in _cubes(operation):
                held = _held(task, cube)
                if held:
                    rows.append((task.entry.id, number, name, held, cube.size))
    return FactTable("weights", ("task", "operation", "surface", "contents", "bytes"), tuple(rows))


def _held(task: LoadableTask, cube: Cube) -> str:
    """What the file stores at a cube; empty for a map that is computed."""
    if not 0 <= cube.address < len(task.spots):
        return ""
    return _names(task.spots[cube.address].memory)


def _names(memory: PlacedMemory) -> str:
    """Of the first contents of a memory."""
    names = [blob.name for blob in islice(memory.pieces.values(), _SHOWN)]
    others = len(memory.pieces) - len(names)
    return ", ".join(names) + f" and {others} more" * (others > 0)


TABLES: Final[tuple[Callable[[LoadableContents], FactTable], ...]] = (_operations, _surfaces, _memories, _weights)
