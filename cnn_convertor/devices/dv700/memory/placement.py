"""Schedules the commands and allocates the feature maps: their live ranges, shared memory and offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypedDict

from cnn_convertor.budget import Budget
from cnn_convertor.devices.dv700.commands import Command, buffer_owner, buffer_users, is_view, joins_in_place
from cnn_convertor.devices.dv700.memory.memory_layout import is_chunked
from cnn_convertor.devices.program import ElementType, LayerType
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import (
    ArraySoftmax,
    Binary,
    ChannelSlice,
    Concat,
    Custom,
    InPieces,
    Input,
    OnCpu,
    TimesPacked,
    Unary,
)
from cnn_convertor.memory import NODES, Buffer, Plan, Task, grouped, plan, schedule

ALIGNMENT = 16  # bytes


class Placement(NamedTuple):
    """offsets: node name -> bytes from the start of the I/O buffer."""

    offsets: dict[str, int]
    plan: Plan


def element_type(graph: Graph, name: str) -> ElementType:
    """The type of the elements in the map's memory.

    Custom layers write FP32. So do generated functions whose result only the application and other functions read, except for
    bytes. All else is FP16.
    """
    node = buffer_owner(graph, name)
    match node.op:
        case Custom():
            return ElementType.FLOAT
        case OnCpu(in_bytes=True):
            return ElementType.BYTE
        case OnCpu() if all(isinstance(reader.op, OnCpu) for reader in buffer_users(graph, node.name)):
            return ElementType.FLOAT
        case _:
            return ElementType.HALF


def is_plain(graph: Graph, name: str) -> bool:
    """Whether the map lies in the order H, W, C: generated functions write outputs so, LT_SOFTMAX and custom layers all maps."""
    node = buffer_owner(graph, name)
    match node.op:
        case ArraySoftmax() | Custom():
            return True
        case OnCpu():
            return is_chunked(graph.shape(node.name)) and graph.is_output(node.name)
        case _:
            return False


class MemorySchedule(NamedTuple):
    """Steps in execution order, and the memory of their maps."""

    steps: tuple[Command, ...]
    placement: Placement


def schedule_and_allocate(graph: Graph, steps: Sequence[Command], *, line: int = ALIGNMENT) -> MemorySchedule:
    """The steps in the order that needs the least memory; of such orders, one with fewer changes between device and CPU.

    The given order wins ties.

    A concatenation in place becomes a copy on the CPU where that makes the plan smaller. A plan that is proven smallest cannot
    gain from it, since at no single step does a copy need fewer bytes. line: as in `place`.
    """
    commands, budget = tuple(steps), Budget.of("memory")
    part = budget.part(2)
    ordered = _in_best_order(graph, commands, part, line)
    budget.take_back(part)
    best = MemorySchedule(ordered, place(graph, ordered, line=line, budget=budget))
    if ordered != commands:  # the maps of a smaller peak may fit together worse
        best = _smaller(best, MemorySchedule(commands, place(graph, commands, line=line, nodes=0, budget=budget)))
    best = _with_fewer_changes(graph, best, budget, line)
    for index, step in enumerate(best.steps):
        if best.placement.plan.proven or budget.is_spent:
            break
        if step.type is LayerType.CONCAT and can_be_copied(graph, step):
            apart = step._replace(type=LayerType.COPY_CONCAT)
            tried = (*best.steps[:index], apart, *best.steps[index + 1 :])
            best = _smaller(best, MemorySchedule(tried, place(graph, tried, line=line, nodes=0, budget=budget)))
    return best


def _with_fewer_changes(graph: Graph, best: MemorySchedule, budget: Budget, line: int) -> MemorySchedule:
    """The steps in an order that changes less often between device and CPU, if one needs no more memory."""
    sides = [step.type.executor.replace("none", "") for step in best.steps]
    if _changes(sides) < 2:
        return best
    tasks = _Tasks.of(graph, best.steps, line)
    order = grouped(tasks.tasks, tasks.sizes, sides, best.placement.plan.size, **tasks.constraints, budget=budget)
    if order is None or _changes([sides[i] for i in order]) >= _changes(sides):
        return best
    steps = tuple(best.steps[i] for i in order)
    regrouped = MemorySchedule(steps, place(graph, steps, line=line, budget=budget))
    return regrouped if regrouped.placement.plan.size <= best.placement.plan.size else best


def _changes(sides: Iterable[str]) -> int:
    return sum(one != other for one, other in pairwise(side for side in sides if side))


def can_be_copied(graph: Graph, step: Command) -> bool:
    """Whether LT_COPY_CONCAT can copy the parts: it takes the channels of each from the layer that wrote it."""
    return all(graph.shape(name) == graph.shape(buffer_owner(graph, name).name) for name in step.reads)


def _smaller(one: MemorySchedule, other: MemorySchedule) -> MemorySchedule:
    return other if other.placement.plan.size < one.placement.plan.size else one


def place(
    graph: Graph, steps: Sequence[Command], *, line: int = ALIGNMENT, nodes: int = NODES, budget: Budget | None = None
) -> Placement:
    """Offsets of all maps.

    Inputs live from the start, outputs until the end. A concatenation in place is one buffer that holds its parts; each part
    lives from the step that writes it. A function of the CPU writes over an input where that can be and takes no more memory.
    line: bytes, of which no two maps that live at one step share one; but parts of a concatenation may. nodes, budget: limits of
    the search for a plan.
    """
    maps = _Maps(graph, steps)
    best = _place(maps, steps, line, nodes, budget)
    if best.plan.proven or not maps.takes:
        return best
    apart = _place(_Maps(graph, steps, takes={}), steps, line, nodes, budget)
    return apart if apart.plan.size < best.plan.size else best


def _place(maps: _Maps, steps: Sequence[Command], line: int, nodes: int, budget: Budget | None) -> Placement:
    born = dict.fromkeys(maps.inputs, 0)
    dies = dict(born)
    for index, step in enumerate(steps):
        for name in maps.touched(step):
            born.setdefault(name, index)
            dies[name] = index
    dies |= dict.fromkeys(maps.outputs, len(steps))
    planned = plan(_buffers(maps, born, dies), alignment=ALIGNMENT, line=line, nodes=nodes, budget=budget)
    homes = maps.homes.items()
    offsets = {name: planned.offsets[home] + at for name, (home, at) in homes if home in planned.offsets}
    return Placement(offsets, planned)


def _in_best_order(graph: Graph, steps: Sequence[Command], budget: Budget, line: int) -> tuple[Command, ...]:
    """The steps in the best order. The first step stays first, since its input is the network's; inputs keep their order."""
    tasks = _Tasks.of(graph, steps, line)
    chosen = schedule(tasks.tasks, tasks.sizes, **tasks.constraints, budget=budget)
    return tuple(steps[index] for index in chosen.order)


class _Constraints(TypedDict):
    inputs: tuple[str, ...]
    kept: tuple[str, ...]
    before: list[tuple[int, int]]


class _Tasks(NamedTuple):
    """Steps as tasks, the sizes of their maps, and what holds of every order."""

    tasks: list[Task]
    sizes: dict[str, int]
    constraints: _Constraints

    @staticmethod
    def of(graph: Graph, steps: Sequence[Command], line: int) -> _Tasks:
        maps = _Maps(graph, steps)
        tasks = [
            Task(
                () if step.type is LayerType.INPUT else maps.read(step),
                maps.written(step),
                maps.takes.get(step.writes, ""),
            )
            for step in steps
        ]
        sizes = {name: -(-nbytes(graph, name) // line) * line for name in maps.leaves}
        inputs = [index for index, step in enumerate(steps) if step.type is LayerType.INPUT]
        before = [*((0, index) for index in range(1, len(steps))), *pairwise(inputs), *_one_product(graph, steps)]
        return _Tasks(tasks, sizes, _Constraints(inputs=maps.inputs, kept=maps.outputs, before=before))


def _one_product(graph: Graph, steps: Sequence[Command]) -> Iterator[tuple[int, int]]:
    """Which steps come before which, so that the commands of a product of maps follow each other: else each could change sides.

    They come after all that they multiply, and before all that reads what they write.
    """
    products: dict[str, list[int]] = {}  # what the CPU has packed -> the commands
    written_by: dict[str, int] = {}
    readers: dict[int, list[int]] = {}
    for index, step in enumerate(steps):
        for name in step.reads:
            writer = written_by.get(buffer_owner(graph, name).name)
            if writer is not None:
                readers.setdefault(writer, []).append(index)
        written_by |= dict.fromkeys((*step.parts, step.writes), index)
        if step.nodes and isinstance(step.nodes[0].op, TimesPacked):
            products.setdefault(buffer_owner(graph, step.nodes[0].inputs[1]).name, []).append(index)
    for commands in products.values():
        yield from pairwise(commands)
        for index in commands:
            for name in steps[index].reads:
                writer = written_by.get(buffer_owner(graph, name).name)
                if writer is not None:
                    yield writer, commands[0]
            for reader in readers.get(index, ()):
                yield commands[-1], reader


class _Maps:
    """The memory of the steps' maps.

    homes, takes: as in `homes_of`. leaves: map -> the maps that it consists of, none of which is a concatenation in place.
    """

    def __init__(self, graph: Graph, steps: Sequence[Command], takes: Mapping[str, str] | None = None) -> None:
        self.graph = graph
        self.takes = taken_inputs(graph) if takes is None else takes
        copied = {step.writes for step in steps if step.type is LayerType.COPY_CONCAT}
        self.homes = homes_of(graph, copied=copied, takes=self.takes)
        self.leaves: dict[str, tuple[str, ...]] = {}
        for node in graph.nodes:
            if is_view(node):
                self.leaves[node.name] = self.leaves[node.inputs[0]]
            elif isinstance(node.op, Concat) and joins_in_place(graph, node) and node.name not in copied:
                self.leaves[node.name] = tuple(leaf for part in node.inputs for leaf in self.leaves[part])
            else:
                self.leaves[node.name] = (node.name,)
        self.inputs = self._all(node.name for node in graph.inputs)
        self.outputs = self._all(graph.outputs)

    def _all(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(leaf for name in names for leaf in self.leaves[name]))

    def read(self, step: Command) -> tuple[str, ...]:
        return self._all(step.reads)

    def written(self, step: Command) -> tuple[str, ...]:
        """What the step itself writes, without parts in place and without what the application writes."""
        here = self._all((step.writes,))
        return () if step.type in {LayerType.INPUT, LayerType.CONCAT} else here

    def touched(self, step: Command) -> tuple[str, ...]:
        return self._all((*step.reads, step.writes))


def _buffers(maps: _Maps, born: Mapping[str, int], dies: Mapping[str, int]) -> list[Buffer]:
    """One for each home, with what lives inside of it. A home that is written in parts does not live by itself."""
    sizes = {maps.homes[leaf][0]: nbytes(maps.graph, maps.homes[leaf][0]) for leaf in born}
    buffers = [Buffer(home, size, born.get(home, 0), dies.get(home, -1)) for home, size in sizes.items()]
    over = {taken: name for name, taken in maps.takes.items()}
    for leaf in born:
        home, at = maps.homes[leaf]
        inside, start = (over[leaf], 0) if leaf in over else (home, at)
        if leaf != home:
            buffers.append(Buffer(leaf, nbytes(maps.graph, leaf), born[leaf], dies[leaf], inside, start))
    return buffers


def taken_inputs(graph: Graph) -> dict[str, str]:
    """Map -> the one before it, in whose memory a function of the CPU can write it: it reads each element before it writes it.

    Nothing else reads the map before, and its elements lie as those of the output do.
    """
    takes: dict[str, str] = {}
    for node in graph.nodes:
        match node.op:
            case OnCpu(op=InPieces(keeps_map=True)):  # the averages follow the map
                fitting = [name for name in node.inputs[:1] if _is_taken(graph, name, node)]
            case OnCpu(op=Unary() | Binary() | InPieces()):
                alike = (name for name in node.inputs if graph.shape(name) == graph.shape(node.name))
                fitting = [name for name in alike if _is_taken(graph, name, node)]
            case _:
                continue
        if fitting:
            takes[node.name] = fitting[0]
    return takes


def _is_taken(graph: Graph, name: str, node: Node) -> bool:
    """Whether a map lies as that of the node does, apart from its shape, and only the node reads it."""
    is_own = not is_view(graph[name]) and not isinstance(graph[name].op, Input | Concat) and graph.is_private(name)
    is_alike = is_plain(graph, name) == is_plain(graph, node.name)
    return is_own and is_alike and element_type(graph, name) is element_type(graph, node.name)


def nbytes(graph: Graph, name: str) -> int:
    """Size of the named map in memory."""
    return graph.shape(name).size * element_type(graph, name).value


def homes_of(
    graph: Graph, *, copied: Collection[str] = (), takes: Mapping[str, str] | None = None
) -> dict[str, tuple[str, int]]:
    """Node name -> the buffer of its map (named after the largest map there), and the offset in bytes.

    copied: concatenations that are copied rather than written in place. takes: as `taken_inputs` gives them.
    """
    homes: dict[str, tuple[str, int]] = {}
    for node in reversed(graph.nodes):  # backwards, since a concatenation stands after its parts
        if is_view(node):
            continue
        home, offset = homes.setdefault(node.name, (node.name, 0))
        if isinstance(node.op, Concat) and joins_in_place(graph, node) and node.name not in copied:
            for part in node.inputs:
                written = buffer_owner(graph, part).name
                assert written not in homes, f"{written} cannot lie in two places"
                homes[written] = home, offset
                offset += nbytes(graph, part)
        elif takes and node.name in takes:
            homes[takes[node.name]] = home, offset
    for node in graph.nodes:
        if is_view(node):
            home, offset = homes[node.inputs[0]]
            homes[node.name] = home, offset + _bytes_before(graph, node)
    return homes


def _bytes_before(graph: Graph, view: Node) -> int:
    """The offset of a view in the map that it shows."""
    if not isinstance(view.op, ChannelSlice):
        return 0
    height, width, _ = graph.shape(view.name)
    return height * width * view.op.first * element_type(graph, view.name).value
