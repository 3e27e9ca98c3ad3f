"""The order in which the firmware programs and enables operations: two groups of registers an engine, and a graph of events."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from cnn_convertor.devices.nvdla.firmware import bdma_rubik, cdp, conv, pdp, sdp
from cnn_convertor.devices.nvdla.firmware.descriptors import Common, Engine, Event, Lut, MemoryKind, NetworkDescriptor
from cnn_convertor.devices.nvdla.firmware.register_settings import FieldError, Places, RegisterWrite, Setting, writes

_GROUPS: Final = (0, 1)
_CONV_BLOCKS: Final = ("CACC", "CMAC_A", "CMAC_B", "CSC", "CDMA")  # in the order in which they are enabled
# Bits of GLB.S_INTR_STATUS for group 0; those of group 1 follow.
_DONE: Final = {Engine.SDP: 0, Engine.CDP: 2, Engine.PDP: 4, Engine.BDMA: 6, Engine.RUBIK: 8, Engine.CONV: 20}
_FETCHED: Final = {Event.DATA_FETCHED: 16, Event.WEIGHTS_FETCHED: 18}


class FirmwareOperation(NamedTuple):
    """number: in the lists; the descriptor's own `index` may differ. common: its place in the graph.

    op, surfaces: descriptors of its engine. lut: its tables, if it has some.
    """

    number: int
    common: Common
    op: Any
    surfaces: Any
    lut: Lut | None

    @property
    def engine(self) -> Engine:
        return Engine(self.common.op_type)


class FirmwareTask(NamedTuple):
    network: NetworkDescriptor
    operations: tuple[FirmwareOperation, ...]


class Interrupt(NamedTuple):
    """A wait for GLB.S_INTR_STATUS to have these bits."""

    status: int


class GroupTurn(NamedTuple):
    """The groups of registers that an engine and its read DMA run next; those of a device after a reset."""

    consumer: int = 0
    reader: int = 0


Turns: TypeAlias = Mapping[Engine, GroupTurn]  # an engine that is missing has the turn after a reset


def settings_of(operation: FirmwareOperation, places: Places) -> Iterator[Setting]:
    """The registers of an operation, without pointers and enables."""
    op, surfaces, lut = operation.op, operation.surfaces, operation.lut
    match operation.engine:
        case Engine.BDMA:
            yield from bdma_rubik.bdma_settings(surfaces, places)
        case Engine.CONV:
            yield from conv.conv_settings(op, surfaces, places)
        case Engine.SDP:
            yield from sdp.sdp_settings(op, surfaces, places, lut)
        case Engine.PDP:
            yield from pdp.pdp_settings(op, surfaces, places)
        case Engine.CDP:
            yield from cdp.cdp_settings(op, surfaces, places, lut)
        case Engine.RUBIK:
            yield from bdma_rubik.rubik_settings(op, surfaces, places)


def _reads(operation: FirmwareOperation) -> bool:
    """Whether an operation uses its engine's read DMA, which has groups of its own."""
    match operation.engine:
        case Engine.SDP:
            return sdp.reads_memory(operation.op, operation.surfaces)
        case Engine.PDP:
            return not pdp.is_flying(operation.surfaces)
        case engine:
            return engine is Engine.CDP


@dataclass(slots=True)
class _Group:
    """A group of registers with an operation. reader: the group of the read DMA."""

    number: int
    operation: FirmwareOperation
    reader: int
    programmed: bool = False
    enabled: bool = False

    @property
    def table(self) -> int:
        """The number of the operation's tables, or -1."""
        return -1 if self.operation.lut is None else int(self.operation.op.lut_index)

    def may_be_programmed(self, other: _Group | None) -> bool:
        """Both groups share the engine's tables, which are locked while it runs, and the queue of copies until it is launched."""
        if other is None:
            return True
        if self.operation.engine is Engine.BDMA:
            return other.enabled
        if self.table < 0 or other.table == self.table:
            return True
        return other.table < 0 and not other.enabled


@dataclass(slots=True)
class _Processor:
    """An engine. consumer, reader: the groups that the hardware runs next, of the engine and of its read DMA."""

    groups: dict[int, _Group] = field(default_factory=dict)
    next: int = -1  # the operation that is programmed next
    consumer: int = 0
    reader: int = 0

    def free_group(self) -> int:
        return self.consumer if not self.groups else 1 - next(iter(self.groups))

    def free_reader(self) -> int:
        used = [group.reader for group in self.groups.values() if _reads(group.operation)]
        return self.reader if len(used) != 1 else 1 - used[0]


class Firmware:
    """Runs a task: `start`, then `interrupt` with each status, until `done`. Each gives what the firmware writes meanwhile.

    turns: of the device before the task. Raises FieldError for descriptors that it refuses.
    """

    def __init__(self, task: FirmwareTask, places: Places, turns: Turns | None = None) -> None:
        self._task = task
        self._places = places
        self._counts = [operation.common.dependency_count for operation in task.operations]
        self._processors = {}
        for engine in Engine:
            turn = (turns or {}).get(engine, GroupTurn())
            self._processors[engine] = _Processor(consumer=turn.consumer, reader=turn.reader)
        self._settings: list[Setting] = []
        self._completed = 0

    @property
    def done(self) -> bool:
        return self._completed == len(self._task.operations)

    @property
    def turns(self) -> Turns:
        return {engine: GroupTurn(each.consumer, each.reader) for engine, each in self._processors.items()}

    def start(self) -> list[RegisterWrite]:
        for engine, head in zip(Engine, self._task.network.op_head, strict=True):
            self._processors[engine].next = head
            self._fill(engine)
            self._fill(engine)
        return self._written()

    def interrupt(self, status: int) -> list[RegisterWrite]:
        """What the firmware writes for a status of interrupts, which it clears first."""
        self._settings.append(("GLB.S_INTR_STATUS", status))
        for engine, processor in self._processors.items():
            for number in (processor.consumer, 1 - processor.consumer):  # in the order in which they complete
                group = processor.groups.get(number)
                if group is None:
                    continue
                for event, bit in _FETCHED.items():
                    if engine is Engine.CONV and status >> bit + number & 1:
                        self._tell(group.operation, event)
                if status >> _DONE[engine] + number & 1:
                    self._complete(engine, number)
        return self._written()

    def expected(self) -> int:
        """The bits of the interrupts that come when all enabled operations complete that can."""
        running = {engine: self._running(engine) for engine in Engine}
        convolutions, pools = iter(running.pop(Engine.CONV)), running.pop(Engine.PDP)
        poolings = iter([group for group in pools if pdp.is_flying(group.operation.surfaces)])
        done: list[_Group | None] = [group for group in pools if not pdp.is_flying(group.operation.surfaces)]
        for point in running.pop(Engine.SDP):
            chain: list[_Group | None] = [point]  # what completes together, or not at all
            if sdp.is_flying(point.operation.surfaces):
                chain.append(next(convolutions, None))
            if point.operation.surfaces.dst_data.type == MemoryKind.HW:
                chain.append(next(poolings, None))
            if None in chain:
                break  # the ones behind wait, too
            done += chain
        for groups in running.values():
            done += groups
        return sum(_interrupts(group) for group in done if group is not None)

    def _running(self, engine: Engine) -> list[_Group]:
        """The enabled operations in the order in which the hardware takes them."""
        processor = self._processors[engine]
        groups = []
        for number in (processor.consumer, 1 - processor.consumer):
            group = processor.groups.get(number)
            if group is None or not group.enabled:
                break
            groups.append(group)
        return groups

    def _written(self) -> list[RegisterWrite]:
        settings, self._settings = self._settings, []
        return list(writes(settings, self._places.configuration))

    def _fill(self, engine: Engine) -> None:
        """Give the next operation of an engine a group, if one is free."""
        processor = self._processors[engine]
        if processor.next < 0 or len(processor.groups) == len(_GROUPS):
            return
        operation = self._task.operations[processor.next]
        number = processor.free_group()
        group = _Group(number, operation, processor.free_reader())
        processor.groups[number] = group
        processor.next = operation.common.consumers[engine].index
        self._program(engine, group)

    def _program(self, engine: Engine, group: _Group) -> None:
        """Write the registers of a group, unless it must wait for the other one to complete."""
        operation = group.operation
        other = self._processors[engine].groups.get(1 - group.number)
        if not group.may_be_programmed(other):
            return
        group.programmed = True
        if other is not None and other.table == group.table:
            operation = operation._replace(lut=None)  # they are there, and locked; the firmware writes them in vain
        self._settings += _pointers(engine, group.number, group.reader)
        settings = list(settings_of(operation, self._places))
        unmask: list[Setting] = [("GLB.S_INTR_MASK", 0)]
        match engine:
            case Engine.CONV:
                self._settings += settings
            case Engine.BDMA:
                self._settings += settings + unmask
            case _:
                self._settings += unmask + settings
        self._tell(group.operation, Event.PROGRAMMED)
        self._enable_if_ready(group.operation)

    def _tell(self, operation: FirmwareOperation, event: Event) -> None:
        """Count an event down in the operations that wait for it."""
        for consumer in (*operation.common.consumers, operation.common.fused_parent):
            if consumer.index >= 0 and consumer.event == event:
                self._counts[consumer.index] -= 1
                self._enable_if_ready(self._task.operations[consumer.index])

    def _enable_if_ready(self, operation: FirmwareOperation) -> None:
        """Enable an operation that is programmed and waits for nothing."""
        if self._counts[operation.number] > 0:
            return
        engine = operation.engine
        for number, group in self._processors[engine].groups.items():
            if group.operation is operation and group.programmed and not group.enabled:
                group.enabled = True
                self._settings += _enables(engine, number, group)
                self._tell(operation, Event.ENABLED)

    def _complete(self, engine: Engine, number: int) -> None:
        processor = self._processors[engine]
        group = processor.groups.pop(number)
        processor.consumer = 1 - number
        if _reads(group.operation):
            processor.reader = 1 - group.reader
        self._completed += 1
        self._tell(group.operation, Event.COMPLETED)
        for other in processor.groups.values():
            if not other.programmed:
                self._program(engine, other)
        self._fill(engine)


def _interrupts(group: _Group) -> int:
    """The bits that an operation sets until it is complete."""
    engine = group.operation.engine
    bits = {_DONE[engine]}
    if engine is Engine.CONV:
        bits |= set(_FETCHED.values())
    return sum(1 << bit + group.number for bit in bits)


def _pointers(engine: Engine, number: int, reader: int) -> Iterator[Setting]:
    """Choose the group that the next writes are for."""
    match engine:
        case Engine.BDMA:
            return
        case Engine.CONV:
            for block in _CONV_BLOCKS:
                yield f"{block}.S_POINTER", number
        case Engine.RUBIK:
            yield "RBK.S_POINTER", number
        case _:
            yield f"{engine.name}.S_POINTER", number
            yield f"{engine.name}_RDMA.S_POINTER", reader


def _enables(engine: Engine, number: int, group: _Group) -> Iterator[Setting]:
    yield from _pointers(engine, number, group.reader)
    match engine:
        case Engine.BDMA:
            yield f"BDMA.CFG_LAUNCH{number}", 1
        case Engine.CONV:
            for block in _CONV_BLOCKS:
                yield f"{block}.D_OP_ENABLE", 1
        case Engine.RUBIK:
            yield "RBK.D_OP_ENABLE", 1
        case _:
            if _reads(group.operation):
                yield f"{engine.name}_RDMA.D_OP_ENABLE", 1
            yield f"{engine.name}.D_OP_ENABLE", 1


def accesses(
    task: FirmwareTask, places: Places, turns: Turns | None = None
) -> Generator[RegisterWrite | Interrupt, None, Turns]:
    """All that the firmware does with a task, if every operation completes before the firmware looks.

    Returns the turns after the task, for the next one on a device that is not reset.
    Raises FieldError, also for a graph in which operations wait for each other.
    """
    firmware = Firmware(task, places, turns)
    yield from firmware.start()
    while not firmware.done:
        status = firmware.expected()
        if not status:
            raise FieldError("its operations wait for each other, so the firmware would never finish")
        yield Interrupt(status)
        yield from firmware.interrupt(status)
    return firmware.turns
