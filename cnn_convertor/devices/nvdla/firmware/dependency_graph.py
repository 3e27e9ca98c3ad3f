"""The firmware's task of operations: which events each of them waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from cnn_convertor.devices.nvdla.firmware.descriptors import Common, Consumer, Engine, Event, Lut, NetworkDescriptor
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareOperation, FirmwareTask
from cnn_convertor.devices.nvdla.operations import HardwareOperation

_Key: TypeAlias = "tuple[int, Engine]"  # an operation, and an engine
_Edges: TypeAlias = "dict[_Key, Consumer]"  # of that engine, what waits for the operation, and for which event
_NOBODY: Final = Consumer(-1, Event.COMPLETED)


def task_of(operations: Sequence[HardwareOperation], addresses: int) -> FirmwareTask:
    """The task of operations, of which each waits only for earlier ones.

    addresses: how many the task's list has before those of the descriptors: one for the network, and one for each memory.
    """
    edges = _edges(operations)
    counts = Counter(edge.index for edge in edges.values())
    counts.update(operation.fused_with for operation in operations if operation.fused_with is not None)
    tables: dict[Lut, int] = {}
    numbered = []
    for number, operation in enumerate(operations):
        consumers = tuple(edges.get((number, engine), _NOBODY) for engine in Engine)
        parent = _NOBODY
        if operation.fused_with is not None:
            parent = Consumer(operation.fused_with, Event.ENABLED)
        common = Common(number, 0, operation.engine, counts[number], consumers, parent)
        op = operation.op
        if operation.lut is not None:
            op = replace(op, lut_index=tables.setdefault(operation.lut, len(tables)))
        numbered.append(FirmwareOperation(number, common, op, operation.surfaces, operation.lut))
    heads = {operation.engine: number for number, operation in reversed(list(enumerate(operations)))}
    network = NetworkDescriptor(
        dependency_graph_index=addresses,
        operation_desc_index=addresses + 1,
        surface_desc_index=addresses + 2,
        lut_data_index=addresses + 3,
        roi_array_index=-1,
        surface_index=-1,
        stat_list_index=-1,
        op_head=tuple(heads.get(engine, -1) for engine in Engine),
        num_rois=1,
        num_operations=len(numbered),
        num_luts=len(tables),
        num_addresses=addresses + 5,  # with one that nothing uses, at the end
        input_layer=0,
        dynamic_roi=0,
    )
    return FirmwareTask(network, tuple(numbered))


def _edges(operations: Sequence[HardwareOperation]) -> _Edges:
    """Who waits for whom.

    An engine has two groups of registers, so that an operation is programmed when the one two before it is complete, with all
    that this one waited for. What more is needed is between an operation and the next one of its engine.
    """
    edges: _Edges = {}
    previous: dict[int, int] = {}  # operation -> the one before it on its engine
    latest: dict[Engine, int] = {}
    for number, operation in enumerate(operations):
        engine = operation.engine
        if engine in latest:
            previous[number] = latest[engine]
            edges[latest[engine], engine] = Consumer(number, Event.PROGRAMMED)
        latest[engine] = number
        if operation.fused_with is not None:
            assert operation.fused_with == number - 1 and operations[number - 1].engine == engine - 1
            edges[number - 1, engine] = Consumer(number, Event.PROGRAMMED)
    ends = _ends(operations)
    for number, operation in enumerate(operations):
        needed: dict[Engine, int] = {}  # an engine completes its operations in order: the last one is enough
        for earlier in sorted(operation.after):
            assert ends[earlier] < number, "an operation waits for itself or for a later one"
            needed[operations[ends[earlier]].engine] = ends[earlier]
        for engine, producer in needed.items():
            if engine == operation.engine:
                if previous[number] == producer:
                    edges[producer, engine] = Consumer(number, Event.COMPLETED)
                continue
            # A producer names one operation of an engine. The next one there is enabled after that one: to come after it in the
            # queue is not enough, since a read DMA that the first one does not use would not wait.
            first = edges.setdefault((producer, operation.engine), Consumer(number, Event.COMPLETED)).index
            if first == previous.get(number) and edges[first, operation.engine].event == Event.PROGRAMMED:
                edges[first, operation.engine] = Consumer(number, Event.ENABLED)
    return edges


def _ends(operations: Sequence[HardwareOperation]) -> list[int]:
    """For each operation the last one that its output flows into, which completes after it; itself if it writes to memory."""
    ends = list(range(len(operations)))
    for number in reversed(range(len(operations))):
        producer = operations[number].fused_with
        if producer is not None:
            ends[producer] = ends[number]
    return ends
