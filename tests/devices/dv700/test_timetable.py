"""Generated runtimes: whoever reads a map finds its newest version, whenever the device does its work and caches are written back."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.runs import Layer, Program, Run
from cnn_convertor.devices.dv700.timetable import Act, Action, Timetable, overlap_of, timetable_of
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.program import PLAIN, ElementType, LayerType, Tensor
from cnn_convertor.ir.ops import Shape
from cnn_convertor.memory import Plan

LINE = 64
NONE = Interval.of(0.0)
Bytes: TypeAlias = NDArray[np.int64]
NUMBERS = range(120)


def tensor(offset: int, nbytes: int) -> Tensor:
    return Tensor(Shape(1, 1, nbytes), ElementType.BYTE, offset, PLAIN)


def layer(index: int, inputs: list[Tensor], output: Tensor, *, device: bool) -> Layer:
    runs = (Run(inputs[0].shape, output.shape, None, None, None),) if device else ()
    kind = LayerType.CONV if device else LayerType.CUSTOM
    return Layer(f"layer{index}", kind, tuple(inputs), output, (), runs, sources=(None,) * len(inputs))


def program_of(
    layers: list[Layer], size: int, inputs: list[Tensor], outputs: list[Tensor], *, line: int = LINE
) -> Program:
    named = tuple((f"input{i}", each) for i, each in enumerate(inputs))
    results = tuple((f"output{i}", each) for i, each in enumerate(outputs))
    return Program("net", tuple(layers), named, (), results, Plan({}, size, size), True, cache_line=line)


def random_program(seed: int) -> Program:
    """Layers on both sides, which read whole maps that earlier ones have written. Maps may share lines, and take the place of old ones."""
    random = np.random.default_rng(seed)
    unit = int(random.choice([16, 32, LINE]))
    size = unit * int(random.integers(12, 60))
    places = [
        tensor(unit * int(start), unit * int(length))
        for start, length in zip(random.integers(0, size // unit - 3, 9), random.integers(1, 4, 9), strict=True)
    ]
    known = [places[0]]  # maps that nothing has overwritten
    layers = list[Layer]()
    for index in range(int(random.integers(3, 16))):
        reads = [known[int(random.integers(len(known)))] for _ in range(int(random.integers(1, 3)))]
        output = places[int(random.integers(len(places)))]
        if any(_overlap(output, each) for each in reads):
            continue
        layers.append(layer(index, reads, output, device=bool(random.random() < 0.6)))
        known = [each for each in known if not _overlap(each, output)] + [output]
    return program_of(layers, size, [places[0]], known[-2:])


def _overlap(one: Tensor, other: Tensor) -> bool:
    return one.offset < other.offset + other.nbytes and other.offset < one.offset + one.nbytes


class Board:
    """Both views of the memory, byte by byte. An element of a map is the number of the layer and execution that wrote it.

    late: the device does its work when it is waited for, otherwise at once. evicts: the cache writes changed lines back at every step.
    """

    def __init__(self, size: int, *, late: bool, evicts: bool) -> None:
        self.memory = np.zeros(size, np.int64)
        self.cache = np.zeros(size, np.int64)
        self.dirty = np.zeros(-(-size // LINE), bool)
        self.late, self.evicts = late, evicts

    def lines(self, offset: int, nbytes: int) -> range:
        return range(offset // LINE, -(-(offset + nbytes) // LINE))

    def clean(self, line: int) -> None:
        if self.dirty[line]:
            self.memory[line * LINE : (line + 1) * LINE] = self.cache[line * LINE : (line + 1) * LINE]
        self.dirty[line] = False

    def evict(self) -> None:
        """The cache writes back what it likes. It keeps the lines that are clean, old as they may be."""
        for line in range(len(self.dirty) if self.evicts else 0):
            self.clean(line)

    def write(self, part: Tensor, value: int) -> None:
        self.cache[part.offset : part.offset + part.nbytes] = value
        self.dirty[list(self.lines(part.offset, part.nbytes))] = True

    def hand_over(self, action: Action) -> None:
        for line in self.lines(action.offset, action.nbytes):
            self.clean(line)
            if action.act is Act.TO_CPU:
                self.cache[line * LINE : (line + 1) * LINE] = self.memory[line * LINE : (line + 1) * LINE]


class Execution:
    """One execution of a program. newest: of each map, who wrote it last by the order of the layers. expected: what layers find."""

    def __init__(self, program: Program, board: Board, number: int) -> None:
        self.program, self.board, self.number = program, board, number
        self.wrong = list[str]()
        self.newest = {(part.offset, part.nbytes): number + 999 for _, part in program.inputs}
        self.expected = list[list[int]]()
        for index, each in enumerate(program.layers):
            self.expected.append([self.newest[part.offset, part.nbytes] for part in each.inputs])
            self.newest[each.output.offset, each.output.nbytes] = number + index

    def check(self, view: Bytes, part: Tensor, expected: int, reader: str) -> None:
        found = set(view[part.offset : part.offset + part.nbytes].tolist())
        if found != {expected}:
            self.wrong.append(f"{reader} finds {sorted(found)} at {part.offset}, not {expected}")

    def read(self, index: int, view: Bytes) -> None:
        each = self.program.layers[index]
        for part, expected in zip(each.inputs, self.expected[index], strict=True):
            self.check(view, part, expected, each.name)

    def on_device(self, layers: tuple[int, ...]) -> None:
        for index in layers:
            self.read(index, self.board.memory)
            part = self.program.layers[index].output
            self.board.memory[part.offset : part.offset + part.nbytes] = self.number + index

    def run(self, timetable: Timetable) -> None:
        for _, part in self.program.inputs:
            self.board.write(part, self.number + 999)
        for action in timetable.actions:
            self.board.evict()
            match action.act:
                case Act.START | Act.WAIT:
                    if self.board.late == (action.act is Act.WAIT):
                        self.on_device(timetable.lists[action.number])
                case Act.RUN:
                    self.read(action.layer, self.board.cache)
                    self.board.write(self.program.layers[action.layer].output, self.number + action.layer)
                case Act.TO_DEVICE | Act.TO_CPU:
                    self.board.hand_over(action)
                case Act.END_ACCESS:
                    self.board.hand_over(Action(Act.TO_DEVICE, 0, 0, self.program.io_bytes))
                case Act.BEGIN_ACCESS:
                    self.board.hand_over(Action(Act.TO_CPU, 0, 0, self.program.io_bytes))
        for _, part in self.program.results:
            self.check(self.board.cache, part, self.newest[part.offset, part.nbytes], "the application")


def execute(program: Program, timetable: Timetable, *, late: bool, evicts: bool) -> list[str]:
    """What goes wrong in three executions one after the other."""
    board = Board(program.io_bytes, late=late, evicts=evicts)
    wrong = list[str]()
    for time in (1, 2, 3):
        execution = Execution(program, board, 1000 * time)
        execution.run(timetable)
        wrong += execution.wrong
    return wrong


def random_timetable(program: Program, seed: int) -> Timetable:
    random = np.random.default_rng(seed)
    costs = [Interval.of(float(random.integers(1, 50))) for _ in program.layers]
    return timetable_of(program, costs, Interval.of(float(random.choice([0, 5, 100]))))


WAYS = [(late, evicts) for late in (False, True) for evicts in (False, True)]


@pytest.mark.parametrize("seed", NUMBERS)
def test_everyone_reads_the_newest_version_of_each_map(seed: int) -> None:
    program = random_program(seed)
    timetable = random_timetable(program, seed)
    for late, evicts in WAYS:
        assert execute(program, timetable, late=late, evicts=evicts) == []


@pytest.mark.parametrize("seed", NUMBERS[:30])
def test_so_they_do_with_maintenance_of_the_whole_buffer(seed: int) -> None:
    program = replace(random_program(seed), cache_line=0)
    assert execute(program, random_timetable(program, seed), late=True, evicts=False) == []


def test_most_actions_are_needed() -> None:
    """Without any one of them, someone reads something old, but where the call only guards against what these caches do not do."""
    needed = total = 0
    for seed in NUMBERS[:60]:
        program = random_program(seed)
        timetable = random_timetable(program, seed)
        for number, action in enumerate(timetable.actions):
            if action.act in {Act.TO_DEVICE, Act.TO_CPU}:
                without = timetable._replace(actions=timetable.actions[:number] + timetable.actions[number + 1 :])
                total += 1
                needed += any(execute(program, without, late=late, evicts=evicts) for late, evicts in WAYS)
    assert total > 200 and needed > 0.8 * total


def test_the_cpu_works_while_the_device_does() -> None:
    """A branch on the CPU runs beside one on the device, unless the device has nothing to do meanwhile."""
    image, one, two, three, four = (tensor(LINE * place, LINE) for place in range(5))
    layers = [
        layer(0, [image], one, device=True),
        layer(1, [one], two, device=False),
        layer(2, [one], three, device=True),
        layer(3, [two, three], four, device=True),
    ]
    program = program_of(layers, 5 * LINE, [image], [four])
    costs = [Interval.of(100.0)] * 4
    timetable = timetable_of(program, costs, Interval.of(10.0))
    steps = [(each.act, each.layer) for each in timetable.actions if each.act in {Act.START, Act.WAIT, Act.RUN}]
    assert timetable.lists == ((0,), (2,), (3,))
    assert steps == [
        (Act.START, 0), (Act.WAIT, 0), (Act.START, 2), (Act.RUN, 1), (Act.WAIT, 2), (Act.START, 3), (Act.WAIT, 3)
    ]  # fmt: skip
    # A list more costs more than the CPU would wait.
    assert timetable_of(program, costs, Interval.of(200.0)).lists == ((0, 2), (3,))


def test_what_runs_at_the_same_time_is_the_shorter_side_of_each_list() -> None:
    costs = [Interval(4.0, 9.0), Interval(5.0, 6.0), Interval(1.0, 2.0), Interval(10.0, 20.0)]
    run, start, wait = ([Action(act, number) for number in range(4)] for act in (Act.RUN, Act.START, Act.WAIT))
    actions = (run[3], start[0], run[1], wait[0], run[3], start[2]._replace(number=1), run[3], wait[2])
    timetable = Timetable(((0,), (2,)), actions)
    assert overlap_of(timetable, costs) == Interval(4.0 + 1.0, 6.0 + 2.0)
    assert overlap_of(timetable._replace(actions=actions[:2] + actions[3:4] + actions[2:3]), costs) == NONE


def test_a_layer_waits_for_one_that_uses_its_memory() -> None:
    """The CPU may not write over a map that the device still reads, nor into a line of one that it writes."""
    image, one, two = (tensor(LINE * place, LINE) for place in range(3))
    layers = [layer(0, [two], one, device=True), layer(1, [image], two, device=False)]
    for output in (two, tensor(LINE, LINE // 2)):
        layers[1] = layer(1, [image], output, device=False)
        program = program_of(layers, 3 * LINE, [image, two], [output])
        acts = [each.act for each in timetable_of(program, [NONE] * 2, NONE).actions]
        assert acts.index(Act.WAIT) < acts.index(Act.RUN)
