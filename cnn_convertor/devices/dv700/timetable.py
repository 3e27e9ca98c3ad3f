"""In which order a generated runtime starts lists of commands, runs layers on the CPU, waits, and hands maps over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.cache_lines import Bytes, CacheLines, RangeAccess
from cnn_convertor.devices.dv700.cpu_costs import estimate_on_cpu
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.runs import Layer, Program
from cnn_convertor.devices.intervals import Interval, smaller, total

_LOOK = 16  # layers on the CPU in front of which a list may end


class Act(Enum):
    """The names are those of the generated sources."""

    TO_DEVICE = "kToDevice"  # a range; number: flags
    TO_CPU = "kToCpu"  # a range
    END_ACCESS = "kEndAccess"  # of the CPU, to the whole I/O buffer
    BEGIN_ACCESS = "kBeginAccess"
    START = "kStart"  # number: of a list
    WAIT = "kWait"
    RUN = "kRun"


class Action(NamedTuple):
    """layer: that it is for."""

    act: Act
    layer: int
    offset: int = 0
    nbytes: int = 0
    number: int = 0


class Timetable(NamedTuple):
    """lists: indices of the layers whose commands each has. actions: what one execution of the network does, in order."""

    lists: tuple[tuple[int, ...], ...]
    actions: tuple[Action, ...]

    @property
    def maintained(self) -> int:
        """Bytes of the ranges that change sides."""
        return sum(action.nbytes for action in self.actions)


class Turn(NamedTuple):
    """One of the layers that the device, or the CPU, runs in order. needs: how many layers of the other side go first."""

    layer: int
    needs: int
    usec: Interval


class _Step(NamedTuple):
    act: Act
    layer: int
    number: int = 0


def timetable_of(program: Program, costs: Sequence[Interval], list_usec: Interval) -> Timetable:
    """The timetable of a program whose layers have the order of the generated network.

    costs: of each layer in microseconds. list_usec: of a list of commands.
    """
    if not program.cache_line:
        steps, lists = _one_by_one(program)
        return Timetable(lists, tuple(_whole(steps)))
    accesses = [access_of(layer) for layer in program.layers]
    device, cpu = _sides(program, accesses, costs)
    steps, lists = _side_by_side(device, cpu, list_usec)
    return Timetable(lists, tuple(_with_ranges(program, accesses, steps, lists)))


def costs_of(program: Program, commands: Sequence[Interval], profile: Profile) -> tuple[Interval, ...]:
    """The time of each layer. commands: of each command, in order. What nothing is known of counts as nothing."""
    of_commands = iter(commands)
    costs = []
    for layer in program.layers:
        on_cpu = None if layer.runs else estimate_on_cpu(layer, profile, program.cpu_threads)
        if layer.runs:
            costs.append(next(of_commands))
        else:
            costs.append(Interval.of(0.0) if on_cpu is None else on_cpu.usec)
    return tuple(costs)


def overlap_of(timetable: Timetable, costs: Sequence[Interval]) -> Interval:
    """How long device and CPU work at the same time: the commands of a list, and what the CPU runs before it waits for them.

    costs: of each layer in microseconds.
    """
    overlap = commands = on_cpu = Interval.of(0.0)
    for action in timetable.actions:
        if action.act is Act.START:
            commands = total(costs[layer] for layer in timetable.lists[action.number])
            on_cpu = Interval.of(0.0)
        elif action.act is Act.RUN:
            on_cpu += costs[action.layer]
        elif action.act is Act.WAIT:
            overlap += smaller(commands, on_cpu)
    return overlap


def access_of(layer: Layer) -> RangeAccess:
    reads = [Bytes(tensor.offset, tensor.offset + tensor.nbytes) for tensor in layer.inputs]
    output = layer.output
    return RangeAccess(tuple(reads), (Bytes(output.offset, output.offset + output.nbytes),))


# --- which layer waits for which -----------------------------------------------------------------------------------------


class _Last:
    """For each line, how many layers of a side go first up to the last one that wrote it, or read it."""

    def __init__(self, lines: int) -> None:
        self.wrote: NDArray[np.int32] = np.zeros(lines, np.int32)
        self.read: NDArray[np.int32] = np.zeros(lines, np.int32)


def _sides(
    program: Program, accesses: Sequence[RangeAccess], costs: Sequence[Interval]
) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """What the device and what the CPU runs. A layer waits for the last one of the other side that uses a line that it writes, or
    writes a line that it uses."""
    lines = CacheLines(program.io_bytes, program.cache_line, ())
    sides: dict[str, list[Turn]] = {"device": [], "cpu": []}
    last = {side: _Last(len(lines.dirty)) for side in sides}
    for index, (layer, access) in enumerate(zip(program.layers, accesses, strict=True)):
        side = layer.type.executor
        if side not in sides:
            continue
        other = last["cpu" if side == "device" else "device"]
        needs = 0
        for part in access.reads:
            needs = max(needs, int(other.wrote[lines.lines(part)].max(initial=0)))
        for part in access.writes:
            of_lines = lines.lines(part)
            needs = max(needs, int(other.wrote[of_lines].max(initial=0)), int(other.read[of_lines].max(initial=0)))
        sides[side].append(Turn(index, needs, costs[index]))
        count = len(sides[side])
        for part in access.reads:
            last[side].read[lines.lines(part)] = count
        for part in access.writes:
            last[side].wrote[lines.lines(part)] = count
    return tuple(sides["device"]), tuple(sides["cpu"])


# --- what runs when ------------------------------------------------------------------------------------------------------


def _one_by_one(program: Program) -> tuple[list[_Step], tuple[tuple[int, ...], ...]]:
    """The layers in their order; commands that follow each other are in one list."""
    steps = list[_Step]()
    lists = list[tuple[int, ...]]()
    open_list = list[int]()

    def close() -> None:
        if open_list:
            steps.append(_Step(Act.START, open_list[0], len(lists)))
            steps.append(_Step(Act.WAIT, open_list[-1], len(lists)))
            lists.append(tuple(open_list))
            open_list.clear()

    for index, layer in enumerate(program.layers):
        match layer.type.executor:
            case "device":
                open_list.append(index)
            case "cpu":
                close()
                steps.append(_Step(Act.RUN, index))
            case _:
                pass
    close()
    return steps, tuple(lists)


def _side_by_side(
    device: Sequence[Turn], cpu: Sequence[Turn], list_usec: Interval
) -> tuple[list[_Step], tuple[tuple[int, ...], ...]]:
    """Both sides at work: one list runs at a time, and meanwhile the CPU what does not wait for it.

    A simulated clock decides which side goes on where both can; the middles of the intervals are its times.
    """
    steps = list[_Step]()
    lists = list[tuple[int, ...]]()
    started = done = at = 0  # commands that have started, those that were waited for, and layers that the CPU has run
    now = free = 0.0
    while at < len(cpu) or done < len(device):
        is_busy = done < started
        is_runnable = at < len(cpu) and cpu[at].needs <= done
        ready = started
        while ready < len(device) and device[ready].needs <= at:
            ready += 1
        if is_runnable and (ready == started or (is_busy and free > now)):
            steps.append(_Step(Act.RUN, cpu[at].layer))
            now += _middle(cpu[at].usec)
            at += 1
            continue
        if is_busy:
            steps.append(_Step(Act.WAIT, device[started - 1].layer, len(lists) - 1))
            now, done = max(now, free), started
            continue
        end = started + _length(device[started:ready], cpu[at : at + _LOOK], started, list_usec)
        steps.append(_Step(Act.START, device[started].layer, len(lists)))
        lists.append(tuple(turn.layer for turn in device[started:end]))
        free = now + _middle(list_usec) + sum(_middle(turn.usec) for turn in device[started:end])
        started = end
    return steps, tuple(lists)


def _middle(usec: Interval) -> float:
    return (usec.low + usec.high) / 2


def _length(ready: Sequence[Turn], cpu: Sequence[Turn], before: int, list_usec: Interval) -> int:
    """How many of the commands that are ready a list has: all, or fewer where the CPU would wait longer for the rest than another
    list costs. cpu: its next layers. before: how many commands have started."""
    for position, turn in enumerate(cpu):
        wanted = turn.needs - before
        if 0 < wanted < len(ready):
            rest = total(each.usec for each in ready[wanted:])
            meanwhile = total(each.usec for each in cpu[position:] if each.needs <= turn.needs)
            if min(rest.low, meanwhile.low) > list_usec.high:
                return wanted
    return len(ready)


# --- what changes sides --------------------------------------------------------------------------------------------------


def _whole(steps: Sequence[_Step]) -> Iterator[Action]:
    """Steps with maintenance of the whole I/O buffer, as the SDK's runtime has it. The CPU has access at the start and the end."""
    has_access = True
    for step in steps:
        if step.act is Act.START:
            yield Action(Act.END_ACCESS, step.layer)
            has_access = False
        elif step.act is Act.RUN and not has_access:
            yield Action(Act.BEGIN_ACCESS, step.layer)
            has_access = True
        yield Action(step.act, step.layer, number=step.number)
    if not has_access:
        yield Action(Act.BEGIN_ACCESS, steps[-1].layer)


def _with_ranges(
    program: Program, accesses: Sequence[RangeAccess], steps: Sequence[_Step], lists: Sequence[Sequence[int]]
) -> list[Action]:
    """Steps with maintenance of the ranges that change sides.

    One execution begins with what the application has written, and with the state that any execution ends with.
    """
    starts = [part.offset for access in accesses for part in (*access.reads, *access.writes)]
    start = CacheLines(program.io_bytes, program.cache_line, starts)
    while True:
        state = start.copy()
        actions = list(_maintained(program, accesses, steps, lists, state))
        if not start.merge(state):
            return actions


def _maintained(
    program: Program,
    accesses: Sequence[RangeAccess],
    steps: Sequence[_Step],
    lists: Sequence[Sequence[int]],
    state: CacheLines,
) -> Iterator[Action]:
    inputs = tuple(Bytes(tensor.offset, tensor.offset + tensor.nbytes) for _, tensor in program.inputs)
    outputs = [Bytes(tensor.offset, tensor.offset + tensor.nbytes) for _, tensor in program.results]
    list(state.before_cpu(RangeAccess((), inputs)))  # nothing is due: the end of each execution has seen to it
    for step in steps:
        due = list[Action]()
        layers = lists[step.number] if step.act is Act.START else [step.layer] if step.act is Act.RUN else []
        for layer in layers:
            change = state.before_device if step.act is Act.START else state.before_cpu
            for call in change(accesses[layer]):
                act = Act.TO_DEVICE if call.to_device else Act.TO_CPU
                due.append(Action(act, layer, call.offset, call.nbytes, call.flags))
        yield from _joined(due)
        yield Action(step.act, step.layer, number=step.number)
    last = len(program.layers) - 1
    edges = tuple(edge for part in inputs for edge in state.shared_edges(part))
    for call in state.before_cpu(RangeAccess((*outputs, *edges), ())):
        yield Action(Act.TO_CPU, last, call.offset, call.nbytes)


def _joined(due: Sequence[Action]) -> list[Action]:
    """Calls for neighboring ranges as one."""
    joined = list[Action]()
    for action in due:
        before = joined[-1] if joined else None
        if (
            before is not None
            and (before.act, before.number) == (action.act, action.number)
            and before.offset + before.nbytes == action.offset
        ):
            joined[-1] = before._replace(nbytes=before.nbytes + action.nbytes)
        else:
            joined.append(action)
    return joined
