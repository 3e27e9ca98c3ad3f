"""Operations wait for what they need, in every order in which the hardware may complete them, and never for each other."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.firmware.dependency_graph import task_of
from cnn_convertor.devices.nvdla.firmware.descriptors import BdmaSurfaces, Consumer, Cube, Engine, Event, MemoryKind
from cnn_convertor.devices.nvdla.firmware.dispatching import Firmware, FirmwareTask, Interrupt, accesses
from cnn_convertor.devices.nvdla.firmware.register_settings import Places, RegisterWrite
from cnn_convertor.devices.nvdla.loadable.loadable_file import read_loadable
from cnn_convertor.devices.nvdla.operations import HardwareOperation
from cnn_convertor.devices.nvdla.playing import Access, AccessKind, play
from cnn_convertor.devices.nvdla.register_table import registers
from devices.nvdla.operations_by_hand import (
    convolution,
    copy,
    cube,
    flying,
    point,
    pool,
    reshape,
    response,
    table,
)
from devices.nvdla.recorded_descriptors import cases

# Of an engine the bit of its interrupt for group 0, the block that is enabled last, and a register with an address.
DONE = {Engine.SDP: 0, Engine.CDP: 2, Engine.PDP: 4, Engine.BDMA: 6, Engine.RUBIK: 8, Engine.CONV: 20}
BLOCKS = {Engine.SDP: "SDP", Engine.CDP: "CDP", Engine.PDP: "PDP", Engine.RUBIK: "RBK", Engine.CONV: "CDMA"}
ADDRESSED = {
    Engine.SDP: "D_DST_BASE_ADDR_LOW",
    Engine.CDP: "D_DST_BASE_ADDR_LOW",
    Engine.PDP: "D_DST_BASE_ADDR_LOW",
    Engine.RUBIK: "D_DAOUT_ADDR_LOW",
    Engine.CONV: "D_WEIGHT_ADDR_LOW",
}
NAMES = {NV_FULL.bases[block] + row.offset: f"{block}.{name}" for (block, name), row in registers(initial=True).items()}
SLOTS = 6  # maps in memory
BASE = 0x8000_0000


def address_of(index: int, offset: int) -> int:
    return BASE + 0x10000 * max(index, 0) + offset


PLACES = Places(NV_FULL, address_of)


class Slots:
    """Maps that operations write again and again: who wrote each, and who reads it since."""

    def __init__(self) -> None:
        self.writers: dict[int, int] = {}
        self.readers = defaultdict[int, list[int]](list)

    def read(self, slot: int, reader: int) -> tuple[int, ...]:
        """What the reader waits for."""
        self.readers[slot].append(reader)
        return (self.writers[slot],) if slot in self.writers else ()

    def written(self, slot: int, writer: int) -> tuple[int, ...]:
        waits = [each for each in self.readers.pop(slot, []) if each != writer]
        waits += [self.writers[slot]] if slot in self.writers else []
        self.writers[slot] = writer
        return tuple(waits)


def spot(slot: int) -> Cube:
    """A map of 16 channels with one pixel, in a memory of its own."""
    return cube(0, 1, 1, 16, address=3 + slot)


def random_operations(random: Random, count: int) -> list[HardwareOperation]:
    found: list[HardwareOperation] = []
    slots = Slots()
    while len(found) < count:
        number = len(found)
        output, source, other = random.sample(range(SLOTS), 3)
        target = spot(output)
        kind = random.choice(["layer", "layer", "pooled layer", "sdp", "sdp", "pdp", "cdp", "rubik", "bdma"])
        lut = random.choice([None, None, table(0), table(1)])
        add = spot(other) if random.random() < 0.4 else None
        after = slots.read(source, number)
        if kind in ("layer", "pooled layer"):
            found.append(convolution(spot(source), 16, 1, 0, 0, after=after))
            number, after = number + 1, ()
        if add is not None and kind in ("layer", "pooled layer", "sdp"):
            after += slots.read(other, number)
        match kind:
            case "layer":
                after += _of_others(slots.written(output, number), number - 1)
                found.append(point(flying(target), target, add=add, lut=lut, after=after, fused_with=number - 1))
            case "pooled layer":
                chain: dict[str, Any] = {"after": after, "fused_with": number - 1}
                found.append(point(flying(target), flying(target), add=add, lut=lut, **chain))
                after = _of_others(slots.written(output, number + 1), number - 1)
                found.append(pool(flying(target), target, after=after, fused_with=number))
            case "sdp":
                after += slots.written(output, number)
                found.append(point(spot(source), target, add=add, lut=lut, after=after))
            case _:
                make: Any = {"pdp": pool, "cdp": response, "rubik": reshape, "bdma": copy}[kind]
                given = {"lut": lut or table(2)} if kind == "cdp" else {}
                after += slots.written(output, number)
                found.append(make(spot(source), target, after=after, **given))
    return found


def _of_others(waits: tuple[int, ...], first: int) -> tuple[int, ...]:
    """Without those of the chain that starts at `first`."""
    return tuple(each for each in waits if each < first)


def marked(operations: Sequence[HardwareOperation]) -> list[HardwareOperation]:
    """The operations, each with its number as the offset of a map in atoms."""
    found = []
    for number, operation in enumerate(operations):
        surfaces = operation.surfaces
        if not isinstance(surfaces, BdmaSurfaces):
            name = "weight_data" if operation.engine is Engine.CONV else "dst_data"
            place = dataclasses.replace(getattr(surfaces, name), offset=32 * number)
            surfaces = dataclasses.replace(surfaces, **{name: place})
        found.append(operation._replace(surfaces=surfaces))
    return found


class Device:
    """What hardware does of register writes: operations by their place in the queue of their engine.

    It knows what operations wait for, and nothing of the graph that the firmware reads.
    """

    def __init__(self, operations: Sequence[HardwareOperation]) -> None:
        self.operations = operations
        self.queues = {engine: [n for n, each in enumerate(operations) if each.engine == engine] for engine in Engine}
        self.completed: set[int] = set()
        self.enabled: set[int] = set()
        self.turns = Counter[Engine]()
        self.pointers: dict[str, int] = {}
        self.registers: dict[tuple[str, int], int] = {}
        self.tables: dict[Engine, list[int]] = {}

    def take(self, writes: Iterable[RegisterWrite]) -> None:
        for write in writes:
            name = NAMES[write.address]
            block = name.partition(".")[0]
            if name.endswith("S_POINTER"):
                self.pointers[block] = write.value
            self.registers[name, self.pointers.get(block, 0)] = write.value
            if ".S_LUT" in name:
                self._write_table(Engine[block], name, write.value)
            for engine, own in BLOCKS.items():
                if name == f"{own}.D_OP_ENABLE":
                    self._enable(engine, self.pointers[own])
            if name.startswith("BDMA.CFG_LAUNCH"):
                self._enable(Engine.BDMA, int(name[-1]))

    def _write_table(self, engine: Engine, name: str, value: int) -> None:
        running = self.enabled - self.completed
        readers = [n for n in running if self.operations[n].engine is engine and self.operations[n].lut is not None]
        assert not readers, "an operation that runs reads the tables"
        if name.endswith("ACCESS_CFG") and not value & 0x10000:
            self.tables[engine] = []
        if name.endswith("ACCESS_DATA"):
            self.tables[engine].append(value)

    def _enable(self, engine: Engine, group: int) -> None:
        """The operation of a group: of the two that are programmed, the one whose turn it is."""
        turn = self.turns[engine]
        number = self.queues[engine][turn + (turn + group) % 2]
        assert number not in self.enabled
        if engine is Engine.CONV or (engine in ADDRESSED and self.operations[number].surfaces.dst_data.address >= 0):
            place = self.registers[f"{BLOCKS[engine]}.{ADDRESSED[engine]}", group]
            assert place % 0x10000 == 32 * number, "the group has another operation's registers"
        waits = set(self.operations[number].after)
        assert waits <= self.completed, f"operation {number} starts before {waits - self.completed}"
        for later in (number + 1, number + 2):
            if later < len(self.operations) and self.operations[later].fused_with == later - 1 == number:
                assert later in self.enabled, "who takes its output starts first"
        self.enabled.add(number)

    def can_complete(self) -> list[int]:
        """The heads of queues that are enabled, whose producers are complete and whose takers run."""
        heads = {self.queues[engine][self.turns[engine]] for engine in Engine if self.left(engine)}
        found = []
        for number in sorted(heads & self.enabled):
            producer = self.operations[number].fused_with
            if (producer is None or producer in self.completed) and self._flows(number, heads):
                found.append(number)
        return found

    def left(self, engine: Engine) -> bool:
        return self.turns[engine] < len(self.queues[engine])

    def _flows(self, number: int, heads: set[int]) -> bool:
        """Whether what takes an operation's output has its turn."""
        taker = number + 1
        if taker < len(self.operations) and self.operations[taker].fused_with == number:
            return taker in heads and taker in self.enabled and self._flows(taker, heads)
        return True

    def complete(self, number: int) -> int:
        """Returns the interrupt."""
        engine, lut = self.operations[number].engine, self.operations[number].lut
        assert lut is None or self.tables[engine] == [*lut.linear_exp_table, *lut.linear_only_table]
        bit = DONE[engine] + self.turns[engine] % 2
        self.turns[engine] += 1
        self.completed.add(number)
        return 1 << bit


def after_completing(
    task: FirmwareTask, operations: Sequence[HardwareOperation], order: Sequence[int]
) -> Iterator[tuple[Device, int]]:
    """The device after each completion."""
    firmware, device = Firmware(task, PLACES), Device(operations)
    device.take(firmware.start())
    for number in order:
        assert number in device.can_complete()
        device.take(firmware.interrupt(device.complete(number)))
    yield device, int(firmware.done)


@pytest.mark.parametrize("seed", range(12))
def test_every_order_of_completion_starts_operations_after_what_they_need(seed: int) -> None:
    """All orders; two that complete the same operations leave the same device."""
    operations = marked(random_operations(Random(seed), 8))
    task = task_of(operations, 3 + SLOTS)
    seen: set[frozenset[int]] = set()
    orders: list[tuple[int, ...]] = [()]
    while orders:
        order = orders.pop()
        for device, done in after_completing(task, operations, order):
            assert done == (len(order) == len(operations))
            assert done or device.can_complete(), f"after {order} nothing runs"
            for number in device.can_complete():
                state = frozenset((*order, number))
                if state not in seen:
                    seen.add(state)
                    orders.append((*order, number))
    assert frozenset(range(len(operations))) in seen


@pytest.mark.parametrize("seed", range(20))
def test_long_tasks_end_in_random_orders(seed: int) -> None:
    random = Random(seed)
    complete_in_random_order(random_operations(random, 60), random)


def complete_in_random_order(given: Sequence[HardwareOperation], random: Random) -> None:
    operations = marked(given)
    firmware, device = Firmware(task_of(operations, 3 + SLOTS), PLACES), Device(operations)
    device.take(firmware.start())
    while not firmware.done:
        status = device.complete(random.choice(device.can_complete()))
        while device.can_complete() and random.random() < 0.6:  # before the firmware looks
            status |= device.complete(random.choice(device.can_complete()))
        device.take(firmware.interrupt(status))
    assert device.completed == device.enabled == set(range(len(operations)))


@pytest.mark.parametrize("seed", range(6))
def test_decoders_wait_for_their_encoders(seed: int) -> None:
    """Each pooled map is read twice, the last one first, so that the waits of convolutions contain each other."""
    maps = [spot(slot) for slot in range(4)]
    operations = [pool(maps[0], maps[1]) for _ in range(8)]
    for pooled in (*range(8), *reversed(range(8))):
        operations.append(convolution(maps[1], 16, 1, 0, 0, after=(pooled,)))
        operations.append(point(flying(maps[2]), maps[2], fused_with=len(operations) - 1))
        if pooled % 3 == 0:
            operations.append(point(maps[2], maps[3], lut=table(pooled % 2)))
    complete_in_random_order(operations, Random(seed))


@pytest.mark.parametrize("seed", range(4))
def test_tasks_on_one_device_leave_what_single_operations_leave(compiler: None, seed: int) -> None:
    """Three tasks on a device that is not reset, and every operation as a task of its own."""
    random = Random(seed)
    tasks = [random_operations(random, 12) for _ in range(3)]
    alone: list[list[HardwareOperation]] = []
    for operations in tasks:
        alone += _without_chains(operations)
    whole = _memory_after([task_of(operations, 3 + SLOTS) for operations in tasks], seed)
    single = _memory_after([task_of(operations, 3 + SLOTS) for operations in alone], seed)
    assert whole == single != _memory(seed)


def _without_chains(operations: Sequence[HardwareOperation]) -> Iterator[list[HardwareOperation]]:
    """Each chain as a list of its own."""
    chain: list[HardwareOperation] = []
    for operation in operations:
        if operation.fused_with is None and chain:
            yield chain
            chain = []
        fused = None if operation.fused_with is None else len(chain) - 1
        chain.append(operation._replace(after=(), fused_with=fused))
    yield chain


def _memory(seed: int) -> dict[int, bytes]:
    """Of the weights, and of each map."""
    values = np.random.default_rng(seed).normal(0, 0.5, (SLOTS + 1, 256)).astype(np.float16)
    memory = {address_of(1, 0): values[SLOTS].tobytes()}
    for slot in range(SLOTS):
        memory[address_of(3 + slot, 0)] = values[slot, :16].tobytes()
    return memory


def _memory_after(tasks: Sequence[FirmwareTask], seed: int) -> dict[int, bytes]:
    given = []
    turns = None
    for task in tasks:
        steps = accesses(task, PLACES, turns)
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                turns = end.value
                break
            if isinstance(step, Interrupt):
                given.append(Access(AccessKind.WAIT, value=step.status))
            else:
                given.append(Access(AccessKind.WRITE, step.address, step.value))
    played = play(NV_FULL, _memory(seed), given)
    assert not played.refusal
    assert len(played.operations) == sum(len(task.operations) for task in tasks)
    return {address: bytes(contents) for address, contents in played.memory.items()}


def given_back(task: FirmwareTask) -> list[HardwareOperation]:
    """The operations of a recorded task: what each waits for, by the addresses of what it reads."""
    writers: dict[int, int] = {}
    found = []
    for number, operation in enumerate(task.operations):
        surfaces = operation.surfaces
        fused = None
        after = []
        assert not isinstance(surfaces, BdmaSurfaces)
        for field in dataclasses.fields(surfaces):
            place = getattr(surfaces, field.name)
            if not isinstance(place, Cube) or field.name == "dst_data":
                continue
            if place.type != MemoryKind.HW and place.address in writers:
                after.append(writers[place.address])
            if field.name == "src_data" and place.type == MemoryKind.HW:
                fused = number - 1
        if surfaces.dst_data.type != MemoryKind.HW:
            writers[surfaces.dst_data.address] = number
        found.append(HardwareOperation(operation.engine, operation.op, surfaces, operation.lut, tuple(after), fused))
    return found


def without_ends(task: FirmwareTask) -> list[object]:
    """The graph; the event of nobody differs between recordings."""
    nobody = Consumer(-1, Event.COMPLETED)
    found: list[object] = [task.network.op_head]
    for operation in task.operations:
        common = operation.common
        consumers = tuple(nobody if each.index < 0 else each for each in common.consumers)
        parent = nobody if common.fused_parent.index < 0 else common.fused_parent
        found.append(dataclasses.replace(common, consumers=consumers, fused_parent=parent))
    return found


def test_recorded_networks_have_the_same_graph(shared: Path) -> None:
    compared = []
    vectors = shared / "vectors" / "nvdla_ops"
    tasks = [(case.name, case.task) for case in cases(shared) if "network" in case.name or "conv_sdp_pdp" in case.name]
    lenet = read_loadable(vectors / "regression" / "NN_L0_0" / "loadable.fbuf").contents.tasks
    tasks += [("LeNet", task.contents) for task in lenet if isinstance(task.contents, FirmwareTask)]
    for name, recorded in tasks:
        assert without_ends(task_of(given_back(recorded), 3)) == without_ends(recorded), name
        compared.append(name)
    assert len(compared) == 20


def test_a_second_consumer_of_an_engine_waits_for_the_first() -> None:
    """SDP 0 -> convolutions 1 and 3; the second's graph names the first, which the producer names."""
    maps = [spot(slot) for slot in range(4)]
    operations = [
        point(maps[0], maps[1]),
        convolution(maps[1], 16, 1, 0, 0, after=(0,)),
        point(flying(maps[2]), maps[2], fused_with=1),
        convolution(maps[1], 16, 1, 0, 0, after=(0,)),
        point(flying(maps[3]), maps[3], fused_with=3),
    ]
    common = [operation.common for operation in task_of(operations, 7).operations]
    assert common[0].consumers[Engine.CONV] == Consumer(1, Event.COMPLETED)
    assert common[1].consumers[Engine.CONV] == Consumer(3, Event.ENABLED)
    assert [each.dependency_count for each in common] == [0, 2, 2, 2, 2]


def test_tables_are_numbered_once() -> None:
    maps = [spot(slot) for slot in range(4)]
    tables = (table(0), table(1), table(0))
    operations = [point(maps[n], maps[n + 1], lut=lut, after=tuple(range(n))) for n, lut in enumerate(tables)]
    task = task_of(operations, 7)
    assert [operation.op.lut_index for operation in task.operations] == [0, 1, 0]
    assert task.network.num_luts == 2


def test_an_operation_that_waits_for_a_later_one_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="waits for itself or for a later one"):
        task_of([point(spot(0), spot(1), after=(0,))], 7)
