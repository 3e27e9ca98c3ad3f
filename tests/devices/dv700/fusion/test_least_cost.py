"""No choice of commands costs less than the one that is made, and what shares commands computes the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cnn_convertor.devices.dv700.device import Cost
from cnn_convertor.devices.dv700.fusion.combining import FusionRules
from cnn_convertor.devices.dv700.fusion.partition import FusionPlanner, Partition, partition
from cnn_convertor.devices.dv700.legalize import legalization
from cnn_convertor.devices.dv700.legalize.split_slopes import NO_PALETTES
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import check
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Problem, UnsupportedError
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Pair, Shape, Window
from cnn_convertor.passes import optimize
from cnn_convertor.passes.contract import run_passes
from devices.dv700.fusion.test_partition import MAX_SAME, RELU, SAME, chosen, conv, depthwise, graph, some
from devices.dv700.legal import legalize
from reference import ir_reference, program_reference, random_networks


class Blocks:
    """Random networks of what may share commands: chains, sums, branches, concatenations."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = np.random.default_rng(seed)
        self.rows: list[tuple[str, Op, str]] = []
        self.shapes = {"x": Shape(8, 8, 8)}
        for _ in range(steps):
            [self.one, self.one, self.sum, self.join][int(self.random.integers(4))]()
        read = {name for _, _, reads in self.rows for name in reads.split()}
        ends = [name for name, _, _ in self.rows if name not in read]
        self.graph = graph(" ".join(ends), *self.rows)

    def pick(self) -> str:
        names = list(self.shapes)
        return names[-1] if self.random.random() < 0.6 else names[int(self.random.integers(len(names)))]

    def add(self, op: Op, *reads: str) -> str:
        name = f"n{len(self.rows)}"
        self.shapes[name] = op.output_shape(*(self.shapes[r] for r in reads))
        self.rows.append((name, op, " ".join(reads)))
        return name

    def some(self, channels: int) -> Op:
        function = RELU if self.random.random() < 0.3 else None
        choices: list[Op] = [
            conv(int(self.random.choice([8, 16, 32])), channels, int(self.random.choice([1, 3])), function),
            conv(channels, channels, 3, function),
            MAX_SAME,
            ops.AveragePool2d(Window(Pair(3, 3), padding=SAME), activation=function),
            ops.Conv2d(some(channels, 1, 3, 3), None, Window(Pair(3, 3), padding=SAME), channels),
        ]
        return choices[int(self.random.integers(len(choices)))]

    def one(self) -> None:
        read = self.pick()
        self.add(self.some(self.shapes[read].channels), read)

    def sum(self) -> None:
        first = self.pick()
        second = self.add(conv(self.shapes[first].channels, self.shapes[last := self.pick()].channels), last)
        self.add(
            ops.Add(RELU if self.random.random() < 0.5 else None),
            *((first, second) if first < second else (second, first)),
        )

    def join(self) -> None:
        read, parts = self.pick(), []
        for _ in range(int(self.random.integers(2, 4))):
            part = self.add(self.some(self.shapes[read].channels), read)
            if self.random.random() < 0.4:
                part = self.add(self.some(self.shapes[part].channels), part)
            parts.append(part)
        self.add(ops.Concat(), *parts)


class Expansions(Blocks):
    """Networks with expansions to many channels, and then layers that treat each channel by itself."""

    def one(self) -> None:
        read, channels = self.pick(), int(self.random.choice([16, 24, 32, 40, 48, 64]))
        function = RELU if self.random.random() < 0.3 else None
        name = self.add(conv(channels, self.shapes[read].channels, int(self.random.choice([1, 1, 3])), function), read)
        for _ in range(int(self.random.integers(1, 3))):
            name = self.add(self.apart(channels), name)

    def apart(self, channels: int) -> Op:
        average = ops.AveragePool2d(Window(Pair(3, 3), padding=SAME))
        choices: list[Op] = [depthwise(channels), depthwise(channels), MAX_SAME, average]
        return choices[int(self.random.integers(len(choices)))]


def total(divided: Partition) -> Cost:
    """What the steps cost, counted from what they read and write."""
    network, steps = divided
    bytes_of = {node.name: 2 * network.shape(node.name).size for node in network.nodes}
    runs = [step for step in steps if step.type is LayerType.CONV]
    starts = [sum(run.external for run in step.runs) for step in runs]
    reads = sum(
        n * bytes_of[step.reads[0]] + sum(bytes_of[r] for r in step.reads[1:])
        for n, step in zip(starts, runs, strict=True)
    )
    return Cost(reads + sum(bytes_of[step.writes] for step in runs), len(runs), sum(len(step.runs) for step in runs))


def partitions(count: int) -> Iterator[list[range]]:
    """Every way to cut a row of things into pieces."""
    for cuts in range(1 << (count - 1)):
        ends = [i + 1 for i in range(count - 1) if cuts >> i & 1] + [count]
        yield [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def by_brute_force(network: Graph, fusion: Fusion, limits: Limits) -> Cost:
    """The least cost of all ways to let boundaries vanish and to group parts of concatenations."""
    possible_in = FusionRules(
        network, fusion, DV700._replace(limits=limits)
    )  # only to be asked what one command can do
    not_on_device = ops.Input | ops.Concat | ops.Reshape | ops.ChannelSlice
    device = [node for node in network.nodes if not isinstance(node.op, not_on_device)]
    edges = [(network[name], node) for node in device for name in node.inputs if possible_in.joins(network[name], node)]
    concats = [node for node in network.nodes if isinstance(node.op, ops.Concat)]
    slices: dict[tuple[tuple[str, ...], ...], int] = {}

    def slices_of(branches: Sequence[tuple[Node, ...]]) -> int:
        """In how many slices of the channels a command does the work; 0 if in none."""
        key = tuple(tuple(node.name for node in path) for path in branches)
        if key not in slices:
            counts = (count for count in range(2, 17) if in_slices(network, branches, count, fusion, limits))
            slices[key] = 1 if possible_in.allow(branches) else next(counts, 0)
        return slices[key]

    best: Cost | None = None
    for count in range(len(edges) + 1):
        for gone in combinations(edges, count):
            before = {after.name: first for first, after in gone}
            if len(before) < len(gone):
                continue  # an addition that two convolutions carry
            ends = [node for node in device if node.name not in {first.name for first, _ in gone}]
            paths: dict[str, tuple[Node, ...]] = {}
            for end in ends:
                path: tuple[Node, ...] = (end,)
                while path[0].name in before:
                    path = (before[path[0].name], *path)
                paths[end.name] = path
            for pieces in product(*(partitions(len(concat.inputs)) for concat in concats)):
                found = cost_of(network, concats, pieces, paths, slices_of)
                if found is not None and (best is None or found < best):
                    best = found
    assert best is not None
    return best


def in_slices(network: Graph, branches: Sequence[tuple[Node, ...]], count: int, fusion: Fusion, limits: Limits) -> bool:
    """Whether a command does the work of a path with a branch for each of so many slices of the channels, of any whole chunks."""
    path = branches[0]
    mixes = [isinstance(node.op, ops.Conv2d) and node.op.groups == 1 for node in path]
    pools = (ops.MaxPool2d, ops.AveragePool2d, ops.Conv2d)
    channels = network.shape(path[-1].name).channels
    if len(branches) > 1 or mixes != [True] + [False] * (len(path) - 1):
        return False
    if not all(isinstance(node.op, pools) for node in path) or runs_of(path) < 2 or channels % 8:
        return False
    return any(takes_slices(network, path, sizes, fusion, limits) for sizes in sums(channels // 8, count))


def sums(whole: int, count: int, most: int = 1 << 30) -> Iterator[list[int]]:
    """The sums of so many positive numbers, the largest first."""
    if count == 0 and whole == 0:
        yield []
    if count > 0:
        for number in range(min(whole, most), 0, -1):
            yield from ([number, *rest] for rest in sums(whole - number, count - 1, number))


def takes_slices(network: Graph, path: tuple[Node, ...], chunks: list[int], fusion: Fusion, limits: Limits) -> bool:
    """Whether a command has a branch for each slice, as a network of their own. chunks: of 8 channels, in each."""
    rows, ends = list[tuple[str, Op, str]](), list[tuple[str, ...]]()
    for index, size in enumerate(8 * number for number in chunks):
        names = ["x", *(f"{node.name}-{index}" for node in path)]
        for name, before, node in zip(names[1:], names, path, strict=False):
            op = node.op
            if isinstance(op, ops.Conv2d):
                weight = some(size, *op.weight.shape[1:])
                op = ops.Conv2d(weight, None, op.window, size if node is not path[0] else 1, op.activation)
            rows.append((name, op, before))
        ends.append(tuple(names[1:]))
    made = graph(" ".join(names[-1] for names in ends), *rows, shape=network.shape(path[0].inputs[0]))
    rules = FusionRules(made, fusion, DV700._replace(limits=limits))
    return rules.allow([tuple(made[name] for name in names) for names in ends])


def cost_of(
    network: Graph, concats: list[Node], pieces: Any, paths: dict[str, tuple[Node, ...]], slices_of: Any
) -> Cost | None:
    """What it costs when these paths, and these groups of them, have a command each; None when one of them is impossible."""
    bytes_of = {node.name: 2 * network.shape(node.name).size for node in network.nodes}
    groups = [
        [concat.inputs[i] for i in piece]
        for concat, cut in zip(concats, pieces, strict=True)
        for piece in cut
        if len(piece) > 1
    ]
    grouped = [name for group in groups for name in group]
    if not set(grouped) <= set(paths) or set(grouped) & set(network.outputs):
        return None
    branches = [[paths[name] for name in group] for group in groups]
    branches += [[path] for name, path in paths.items() if name not in grouped]
    traffic = runs = 0
    for group in branches:
        if len({path[0].inputs[0] for path in group}) > 1 or not (count := slices_of(group)):
            return None
        for path in group:
            runs += count * runs_of(path)
            inside = {node.name for node in path}
            traffic += count * sum(bytes_of[name] for node in path for name in node.inputs if name not in inside)
            traffic += bytes_of[path[-1].name]
    return Cost(traffic, len(branches), runs)


def runs_of(path: Sequence[Node]) -> int:
    """A sum joins the run of what carries it; a max pool that of the convolution before it (these have no activation then)."""
    joined = 0
    for before, node in pairwise(path):
        can_pool = isinstance(node.op, ops.MaxPool2d) and isinstance(before.op, ops.Conv2d)
        joined += (
            isinstance(node.op, ops.Add)
            or can_pool
            or (isinstance(node.op, ops.MaxPool2d) and isinstance(before.op, ops.Add))
        )
    return len(path) - joined


def agrees(blocks: Blocks, fusion: Fusion, limits: Limits) -> Partition | None:
    """What is chosen for a network, which no other choice beats and no bound exceeds; None for a network with too many choices."""
    device = DV700._replace(limits=limits)
    network = legalize(optimize(blocks.graph), device, transposed=True, fusion=fusion)
    if len(network.nodes) > 14:
        return None
    divided, best = chosen(network, fusion, limits), by_brute_force(network, fusion, limits)
    assert total(divided) == best
    least = FusionPlanner(network, fusion, device).least_map_bytes()
    joins = any(isinstance(node.op, ops.Concat) for node in network.nodes)
    assert least <= best.map_bytes if joins else least == best.map_bytes
    return divided


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.integers(1, 4),
    ub_size=st.sampled_from([3072, 4608, 6144, 10240, 655_360]),
    fusion=st.sampled_from([Fusion.FULL, Fusion.DOCUMENTED]),
)
def test_no_other_choice_costs_less(seed: int, steps: int, ub_size: int, fusion: Fusion) -> None:
    assume(agrees(Blocks(seed, steps), fusion, Limits(ub_size=ub_size)) is not None)


def test_no_other_choice_costs_less_than_slices_of_channels() -> None:
    sliced = 0
    for seed in range(120):
        ub_size = (3072, 4608, 6144, 8192, 10240, 16384)[seed % 6]
        divided = agrees(Expansions(seed, 1 + seed % 2), Fusion.FULL, Limits(ub_size=ub_size))
        sliced += divided is not None and any(step.slices > 1 for step in divided.steps)
    assert sliced >= 20, "slices must pay in many of the networks"


@pytest.mark.slow
@settings(max_examples=200)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 14), ub_size=st.sampled_from([4096, 16384, 655_360]))
@example(seed=1185, steps=3, ub_size=4096)  # a max pool behind deconvolutions of slices
@example(seed=14, steps=9, ub_size=4096)  # a concatenation of rows that the device copies, but not without fusion
@example(seed=7432, steps=8, ub_size=4096)  # a dilated depthwise convolution that has no room in another form
@example(seed=10162, steps=13, ub_size=4096)  # a layer between CPU layers, of which the second joins the CPU last
def test_more_fusion_never_costs_more_and_breaks_no_rule(seed: int, steps: int, ub_size: int) -> None:
    network, limits = random_networks.network(seed, steps), Limits(ub_size=ub_size)
    costs, problems = [], []
    for fusion in (Fusion.FULL, Fusion.DOCUMENTED, Fusion.NONE):
        divided = chosen(with_executors_of_no_fusion(network, fusion, limits), fusion, limits)
        costs.append(total(divided))
        problems.append(broken(divided, limits))
    assert problems[0] <= problems[1] == problems[2]  # `full` has forms that take less room
    for more, less in pairwise(costs):
        assert more.map_bytes <= less.map_bytes and more.commands <= less.commands


@pytest.mark.slow
@settings(max_examples=100)
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.integers(2, 9),
    ub_size=st.sampled_from([4096, 8192, 655_360]),
    transposed=st.booleans(),
    fusion=st.sampled_from([Fusion.FULL, Fusion.DOCUMENTED]),
)
def test_what_shares_commands_computes_the_same(
    seed: int, steps: int, ub_size: int, transposed: bool, fusion: Fusion
) -> None:
    network, limits = Blocks(seed, steps).graph, Limits(ub_size=ub_size)
    device = DV700._replace(limits=limits)
    legal = legalize(optimize(network), device, transposed=transposed, fusion=fusion)
    divided = partition(legal, device, transposed=transposed, fusion=fusion)
    program = lower(*divided, name="net", transposed=transposed)
    x = random_networks.inputs_for(network)
    values, results = ir_reference.run(network, x), program_reference.run(program, x)
    for name, result in zip(network.outputs, results, strict=True):
        expected = program_reference.as_output(values[name], network[name].op, transposed=transposed)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max(), err_msg=name)


def with_executors_of_no_fusion(network: Graph, fusion: Fusion, limits: Limits) -> Graph:
    """The graph for a level of fusion, in which each side computes what it computes without fusion.

    Each level chooses the executors that take the least time with its commands, so that the device may compute more with more fusion.
    """
    device = DV700._replace(limits=limits)
    passes = legalization(device, Fusion.NONE, True, False, NO_PALETTES)
    last = [each.name for each in passes].index("choose-executors")
    passes_of_level = legalization(device, fusion, True, False, NO_PALETTES)
    return run_passes((*passes[: last + 1], *passes_of_level[last + 1 :]), optimize(network))


def broken(divided: Partition, limits: Limits) -> set[Problem]:
    try:
        check(*divided, DV700._replace(limits=limits), legal=divided.graph)
    except UnsupportedError as error:
        return set(error.problems)
    return set()
