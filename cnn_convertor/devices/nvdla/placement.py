"""The order of steps, and places of their maps in the I/O buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cnn_convertor.budget import Budget
from cnn_convertor.devices.nvdla.chains import ATOM, Chain, is_view, joins_in_place, owner
from cnn_convertor.devices.nvdla.network_program import ATOMS
from cnn_convertor.devices.program import PLAIN, ElementType, LayerType
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.layouts.layout import Layout
from cnn_convertor.memory import NODES, Buffer, Plan, Task, plan, schedule

_ATOM_BYTES: Final = 32
ALIGNMENT: Final = 64  # bytes, of buffers: no cache line of usual processors has parts of two


class Home(NamedTuple):
    """The buffer of a map, named after the largest map there, and the offset in bytes."""

    name: str
    offset: int


class MapPlaces(NamedTuple):
    """offsets: node name -> bytes from the start of the I/O buffer."""

    homes: dict[str, Home]
    offsets: dict[str, int]
    plan: Plan


class ChainSchedule(NamedTuple):
    """Steps in execution order, and the memory of their maps."""

    steps: tuple[Chain, ...]
    places: MapPlaces


def element_type(graph: Graph, name: str) -> ElementType:
    """FP32 where only functions of the CPU, custom layers and the application read a map that one of them writes."""
    node = owner(graph, name)
    if isinstance(node.op, ops.Custom):
        return ElementType.FLOAT
    readers = [graph[user] for user in graph.users(node.name)]
    if isinstance(node.op, ops.OnCpu) and all(isinstance(reader.op, ops.OnCpu) for reader in readers):
        return ElementType.FLOAT
    return ElementType.HALF


def layout_of_map(graph: Graph, name: str) -> Layout:
    """What the device reads or writes lies in surfaces; the rest in the order H, W, C."""
    return ATOMS if element_type(graph, name) is ElementType.HALF else PLAIN


def map_bytes(graph: Graph, name: str) -> int:
    """Bytes in memory, whole atoms included."""
    height, width, channels = graph.shape(name)
    kind = element_type(graph, name)
    if kind is ElementType.HALF:
        channels = -(-channels // ATOM) * ATOM
    return height * width * channels * kind.value


def homes_of(graph: Graph) -> dict[str, Home]:
    """Node name -> where its map lies: a part of a concatenation in place lies in that, a view in what it shows."""
    homes: dict[str, Home] = {}
    for node in reversed(graph.nodes):
        if is_view(graph, node):
            continue
        home = homes.setdefault(node.name, Home(node.name, 0))
        if isinstance(node.op, ops.Concat):
            assert joins_in_place(graph, node)
            offset = home.offset
            for part in node.inputs:
                assert part not in homes, f"{part} cannot lie in two places"
                homes[part] = Home(home.name, offset)
                offset += map_bytes(graph, part)
    for node in graph.nodes:
        if is_view(graph, node):
            home = homes[node.inputs[0]]
            homes[node.name] = Home(home.name, home.offset + _bytes_before(graph, node.name))
    return homes


def _bytes_before(graph: Graph, view: str) -> int:
    op = graph[view].op
    if not isinstance(op, ops.ChannelSlice):
        return 0
    height, width, _ = graph.shape(view)
    return height * width * op.first * ElementType.HALF.value


def schedule_chains(graph: Graph, steps: Sequence[Chain]) -> ChainSchedule:
    """The steps in the order that needs the least memory, the given order where no other needs less, and their maps' places."""
    budget = Budget.of("memory")
    homes = homes_of(graph)
    leaves = _leaves(graph)

    def of_maps(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(leaf for name in names for leaf in leaves[name]))

    sizes = {leaf: map_bytes(graph, leaf) for all_leaves in leaves.values() for leaf in all_leaves}
    tasks = []
    for step in steps:
        writes = () if step.type is LayerType.CONCAT else of_maps((step.writes,))
        tasks.append(Task(of_maps(step.reads), writes))
    inputs = of_maps(node.name for node in graph.inputs)
    kept = of_maps(graph.outputs)
    part = budget.part(2)
    order = schedule(tasks, sizes, inputs=inputs, kept=kept, budget=part).order
    budget.take_back(part)
    in_order = ChainSchedule(tuple(steps), _placed(graph, homes, leaves, steps, budget))
    ordered = tuple(steps[index] for index in order)
    if ordered == in_order.steps or in_order.places.plan.proven:
        return in_order
    better = ChainSchedule(ordered, _placed(graph, homes, leaves, ordered, budget))
    return better if better.places.plan.size < in_order.places.plan.size else in_order


def _leaves(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Map -> the maps that it consists of, none of which is a concatenation or a view."""
    leaves: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        if is_view(graph, node):
            leaves[node.name] = leaves[node.inputs[0]]
        elif isinstance(node.op, ops.Concat):
            leaves[node.name] = tuple(leaf for part in node.inputs for leaf in leaves[part])
        else:
            leaves[node.name] = (node.name,)
    return leaves


def _placed(
    graph: Graph,
    homes: Mapping[str, Home],
    leaves: Mapping[str, tuple[str, ...]],
    steps: Sequence[Chain],
    budget: Budget,
) -> MapPlaces:
    """Inputs live from the start, outputs until the end; a part of a concatenation from the step that writes it."""
    first = dict.fromkeys((node.name for node in graph.inputs), 0)
    last = dict(first)
    for index, step in enumerate(steps):
        for name in (*step.reads, step.writes):
            for leaf in leaves[name]:
                first.setdefault(leaf, index)
                last[leaf] = index
    for output in graph.outputs:
        last |= dict.fromkeys(leaves[output], len(steps))
    whole = dict.fromkeys(homes[leaf].name for leaf in first)  # what consists of parts does not live by itself
    buffers = [Buffer(name, map_bytes(graph, name), first.get(name, 0), last.get(name, -1)) for name in whole]
    for leaf, start in first.items():
        home = homes[leaf]
        if home.name != leaf:
            buffers.append(Buffer(leaf, map_bytes(graph, leaf), start, last[leaf], home.name, home.offset))
    planned = plan(buffers, alignment=_ATOM_BYTES, line=ALIGNMENT, nodes=NODES, budget=budget)
    offsets = {}
    for name, home in homes.items():
        if home.name in planned.offsets:
            offsets[name] = planned.offsets[home.name] + home.offset
    return MapPlaces(dict(homes), offsets, planned)
