"""Which nodes share a command, in words; and that no other choice costs less."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.device import Cost
from cnn_convertor.devices.dv700.fusion.combining import FusionRules
from cnn_convertor.devices.dv700.fusion.least_traffic import least_map_bytes
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.fusion.partition import Selection, partition
from cnn_convertor.devices.dv700.legalize import legalize
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.program import LayerType
from cnn_convertor.devices.dv700.rules import check
from cnn_convertor.errors import Problem, UnsupportedError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from reference import ir_reference, program_reference, random_networks

X = Shape(8, 8, 8)
SAME = Padding(1, 1, 1, 1)
MAX = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)))
MAX_SAME = ops.MaxPool2d(Window(Pair(3, 3), padding=SAME))
AVERAGE = ops.AveragePool2d(Window(Pair(2, 2), Pair(2, 2)))
RELU = ops.Relu()


def some(*shape: int) -> Constant:
    """The same numbers for the same shape, each of them different."""
    return Constant.of(np.random.default_rng(0).normal(size=shape) / np.sqrt(max(1, math.prod(shape[1:]))))


def conv(out: int = 8, channels: int = 8, kernel: int = 1, function: ops.Function | None = None, **window: Any) -> Op:
    made = Window(Pair(kernel, kernel), padding=SAME if kernel == 3 else ops.NO_PADDING)._replace(**window)
    return ops.Conv2d(some(out, channels, kernel, kernel), None, made, activation=function)


def graph(outputs: str, *rows: tuple[str, Op, str], shape: Shape = X) -> Graph:
    """x is the input; then (name, operator, what it reads)."""
    nodes = [Node(name, op, tuple(reads.split())) for name, op, reads in rows]
    return Graph((Node("x", ops.Input(shape)), *nodes), tuple(outputs.split()))


def chain(*made: Op, outputs: str = "", shape: Shape = X) -> Graph:
    names = "abcdefgh"[: len(made)]
    rows = [(name, op, before) for name, op, before in zip(names, made, "x" + names, strict=False)]
    return graph(outputs or names[-1], *rows, shape=shape)


def chosen(network: Graph, fusion: Fusion = Fusion.FULL, limits: Limits = DV700.limits) -> Selection:
    return partition(network, DV700._replace(limits=limits), transposed=True, fusion=fusion)


def words(step: Command) -> str:
    """What it reads: nodes of a run + more of them > the next run, from the unified buffer | from the command's input = what it writes"""
    text = "".join(
        "+".join(node.name for node in share.nodes) + (" | " if share.run.external else " > ")
        for share in step.assignments
    )
    if not step.assignments:
        return f"{step.type.name} {step.writes}"
    return f"{' '.join(step.reads)}: {text[:-3]}" + (f" = {step.writes}" if step.parts else "")


def commands(network: Graph, fusion: Fusion = Fusion.FULL, limits: Limits = DV700.limits) -> list[str]:
    return [words(step) for step in chosen(network, fusion, limits).steps]


RESIDUAL = graph(
    "out",
    ("a", conv(function=RELU), "x"), ("b", conv(kernel=3, function=RELU), "a"), ("c", conv(), "b"),
    ("sum", ops.Add(RELU), "c x"), ("out", conv(16), "sum"),
)  # fmt: skip
PROJECTED = graph(
    "sum",
    ("short", conv(16), "x"), ("a", conv(16), "x"), ("b", conv(16, 16), "a"), ("sum", ops.Add(), "short b"),
)  # fmt: skip
INCEPTION = graph(
    "cat",
    ("one", conv(16), "x"), ("r3", conv(), "x"), ("three", conv(16, kernel=3), "r3"),
    ("p", MAX_SAME, "x"), ("proj", conv(), "p"), ("cat", ops.Concat(), "one three proj"),
)  # fmt: skip
FIRE = graph(
    "cat",
    ("squeeze", conv(), "x"), ("e1", conv(), "squeeze"), ("e3", conv(kernel=3), "squeeze"), ("cat", ops.Concat(), "e1 e3"),
)  # fmt: skip
DENSE_BLOCK = graph(
    "out",
    ("a", conv(16), "x"), ("cat", ops.Concat(), "x a"), ("b", conv(8, 24), "cat"), ("cat2", ops.Concat(), "cat b"),
    ("out", conv(8, 32), "cat2"),
)  # fmt: skip
PARTLY = graph(
    "cat",
    ("far", conv(), "x"), ("a", conv(), "far"), ("b", conv(16), "x"), ("c", conv(kernel=3), "x"),
    ("other", conv(), "far"), ("cat", ops.Concat(), "a b c other"),
)  # fmt: skip
SLOPES = ops.PRelu(some(8))


def depthwise(channels: int, function: ops.Function | None = None) -> Op:
    return ops.Conv2d(some(channels, 1, 3, 3), some(channels), Window(Pair(3, 3), padding=SAME), channels, function)


EXPANDED = chain(conv(40, function=RELU), depthwise(40, RELU), conv(8, 40), shape=Shape(100, 100, 8))

CASES: dict[str, tuple[Graph, Fusion, list[str]]] = {
    "a chain of convolutions and pools": (
        chain(conv(), MAX, conv(kernel=3), AVERAGE, ops.Upsample(Pair(2, 2))), Fusion.FULL,
        ["x: a+b > c > d > e"],
    ),
    "the same, proven": (
        chain(conv(), MAX, conv(kernel=3), AVERAGE, ops.Upsample(Pair(2, 2))), Fusion.DOCUMENTED,
        ["x: a+b", "b: c", "c: d", "d: e"],
    ),
    "an output between": (chain(conv(), conv(), conv(), outputs="b c"), Fusion.FULL, ["x: a > b", "b: c"]),
    "a dilated convolution": (
        chain(conv(), conv(kernel=3, dilation=Pair(2, 2), padding=Padding(2, 2, 2, 2)), conv(), conv()), Fusion.FULL,
        ["x: a", "a: b", "b: c > d"],
    ),
    "a layer of the CPU": (
        chain(conv(), ops.Reshape(Shape(1, 1, 512), ops.Order.HWC), conv(8, 512)), Fusion.FULL,
        ["x: a", "FLATTEN b", "b: c"],
    ),
    "a fully connected layer of a map, which lies otherwise in the unified buffer": (
        chain(conv(), ops.Dense(some(8, 8, 8, 8), None), ops.Dense(some(3, 8, 1, 1), None)), Fusion.FULL,
        ["x: a", "a: b > c"],
    ),
    "an addition and its convolution; a chain to it": (
        RESIDUAL, Fusion.FULL, ["x: a > b", "b x: c+sum", "sum: out"],
    ),
    "the same, proven: no chain": (
        RESIDUAL, Fusion.DOCUMENTED, ["x: a", "a: b", "b x: c+sum", "sum: out"],
    ),
    "the branch without a chain carries the addition": (
        PROJECTED, Fusion.FULL, ["x: a > b", "x b: short+sum"],
    ),
    "an average pool carries an addition": (
        graph("sum", ("a", AVERAGE, "x"), ("b", MAX, "x"), ("sum", ops.Add(RELU), "b a")), Fusion.FULL,
        ["x: b", "x b: a+sum"],
    ),
    "an activation before the addition": (
        graph("sum", ("a", conv(function=RELU), "x"), ("sum", ops.Add(), "a x")), Fusion.FULL,
        ["x: a", "a x: sum"],
    ),
    "a map added to itself": (
        graph("sum", ("a", conv(), "x"), ("sum", ops.Add(), "a a")), Fusion.FULL, ["x: a", "a a: sum"],
    ),
    "a max pool after the addition": (
        graph("p", ("a", conv(), "x"), ("sum", ops.Add(RELU), "a x"), ("p", MAX, "sum")), Fusion.FULL,
        ["x x: a+sum+p"],
    ),
    "a max pool after an addition that no convolution carries": (
        graph("p", ("sum", ops.Add(RELU), "x x"), ("p", MAX, "sum"), ), Fusion.FULL, ["x x: sum", "sum: p"],
    ),
    "an average pool after the addition": (
        graph("p", ("a", conv(), "x"), ("sum", ops.Add(), "a x"), ("p", AVERAGE, "sum")), Fusion.FULL,
        ["x x: a+sum", "sum: p"],
    ),
    "slopes of an addition travel with the kernels that carry it": (
        graph("sum", ("a", conv(), "x"), ("sum", ops.Add(SLOPES), "a x")), Fusion.FULL, ["x x: a+sum"],
    ),
    "branches of any depth": (
        INCEPTION, Fusion.FULL, ["x: one | r3 > three | p > proj = cat"],
    ),
    "branches of published sources, proven": (
        INCEPTION, Fusion.DOCUMENTED, ["x: one | r3 > three | p > proj = cat"],
    ),
    "a deeper branch, proven": (
        graph(
            "cat", ("a", conv(), "x"), ("b", conv(), "x"), ("c", conv(), "x"), ("d", conv(kernel=3), "c"),
            ("e", conv(kernel=3), "d"), ("cat", ops.Concat(), "a b e"),
        ),
        Fusion.DOCUMENTED, ["x: a | b = cat/a", "x: c", "c: d", "d: e", "CONCAT cat"],
    ),
    "an addition in several tiles, full": (
        graph("sum", ("a", conv(64, 64), "x"), ("sum", ops.Add(), "a x"), shape=Shape(40, 300, 64)), Fusion.FULL,
        ["x x: a+sum"],
    ),
    "an addition in several tiles, proven": (
        graph("sum", ("a", conv(64, 64), "x"), ("sum", ops.Add(), "a x"), shape=Shape(40, 300, 64)), Fusion.DOCUMENTED,
        ["x: a", "a x: sum"],
    ),
    "a deconvolution is alone": (
        chain(conv(), ops.ConvTranspose2d(some(8, 8, 2, 2), None, Window(Pair(2, 2), Pair(2, 2))), conv(), conv()), Fusion.FULL,
        ["x: a", "a: b", "b: c > d"],
    ),
    "a deconvolution with stride 1 beside others is a convolution": (
        optimize(
            graph(
                "cat", ("a", conv(), "x"), ("b", ops.ConvTranspose2d(some(8, 8, 3, 3), None, Window(Pair(3, 3), padding=SAME)), "x"),
                ("c", conv(kernel=3), "x"), ("cat", ops.Concat(), "a b c"),
            )
        ),
        Fusion.DOCUMENTED, ["x: a | b | c = cat"],
    ),
    "branches of one run, proven": (
        FIRE, Fusion.DOCUMENTED, ["x: squeeze", "squeeze: e1 | e3 = cat"],
    ),
    "without fusion, every convolution has a command": (
        FIRE, Fusion.NONE, ["x: squeeze", "squeeze: e1", "squeeze: e3", "CONCAT cat"],
    ),
    "a concatenation that others read, too": (
        DENSE_BLOCK, Fusion.FULL, ["INPUT x", "x: a", "CONCAT cat", "cat: b", "CONCAT cat2", "cat2: out"],
    ),
    "some parts of a concatenation": (
        PARTLY, Fusion.FULL, ["x: far", "far: a", "x: b | c = cat/b", "far: other", "CONCAT cat"],
    ),
    "a convolution in several tiles takes nothing, not even a max pool": (
        chain(conv(64, 64, kernel=3), MAX, conv(64, 64), conv(8, 64), shape=Shape(40, 300, 64)), Fusion.FULL,
        ["x: a", "a: b", "b: c", "c: d"],
    ),
    "a part that is an output": (
        graph("cat a", ("a", conv(), "x"), ("b", conv(), "x"), ("cat", ops.Concat(), "a b")), Fusion.FULL,
        ["x: a", "x: b", "CONCAT cat"],
    ),
    "a part that has other readers": (
        graph("cat c", ("a", conv(), "x"), ("b", conv(), "x"), ("c", conv(), "a"), ("cat", ops.Concat(), "a b")),
        Fusion.FULL, ["x: a | b = cat", "a: c"],
    ),
    "a chain that fits in slices of channels": (
        EXPANDED, Fusion.FULL,
        ["x: a/channels0 > b/channels0 | a/channels16 > b/channels16 | a/channels32 > b/channels32 = b", "b: c"],
    ),
    "the same, documented": (EXPANDED, Fusion.DOCUMENTED, ["x: a", "a: b", "b: c"]),
    "parts inside a chunk of 8 channels": (
        graph("cat", ("a", conv(4), "x"), ("b", conv(), "x"), ("cat", ops.Concat(), "a b"), shape=Shape(1, 1, 8)),
        Fusion.FULL, ["x: a", "x: b", "COPY_CONCAT cat"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("network", "fusion", "expected"), CASES.values(), ids=CASES)
def test_what_shares_a_command(network: Graph, fusion: Fusion, expected: list[str]) -> None:
    assert commands(network, fusion) == expected


def test_a_command_has_at_most_32_runs() -> None:
    rows = [(f"n{i}", conv(), f"n{i - 1}" if i else "x") for i in range(40)]
    assert [len(step.runs) for step in chosen(graph("n39", *rows)).steps] == [32, 8]
    few = chosen(graph("n39", *rows), limits=Limits(max_runs=30))
    assert [len(step.runs) for step in few.steps] == [30, 10]
    branches = [(f"n{i}", conv(), "x") for i in range(40)]
    wide = graph("cat", *branches, ("cat", ops.Concat(), " ".join(name for name, _, _ in branches)))
    assert [len(step.runs) for step in chosen(wide).steps] == [32, 8, 0]
    assert [len(step.runs) for step in chosen(wide, limits=Limits(max_runs=30)).steps] == [30, 10, 0]


def test_a_network_may_have_thousands_of_layers() -> None:
    """The trees of boundaries are as deep as networks are."""
    rows = [(f"n{i}", conv(), f"n{i - 1}" if i else "x") for i in range(1500)]
    assert len(chosen(graph("n1499", *rows), Fusion.NONE).steps) == 1500


@pytest.mark.parametrize(
    ("ub_size", "expected"),
    [
        (10240, ["x: a > b > c > d > e"]),
        (8192, ["x: a > b", "b: c", "c: d > e"]),
        (5120, ["x: a > b", "b: c", "c: d", "d: e"]),
    ],
)
def test_a_chain_is_cut_where_the_unified_buffer_ends(ub_size: int, expected: list[str]) -> None:
    network = chain(conv(8, 8), conv(64, 8), conv(8, 64), conv(32, 8), conv(8, 32))
    assert commands(network, limits=Limits(ub_size=ub_size)) == expected


# --- no other choice costs less --------------------------------------------------------------------------------------------


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


def total(selection: Selection) -> Cost:
    """What the steps cost, counted from what they read and write."""
    network, steps = selection
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
    device = [node for node in network.nodes if not isinstance(node.op, ops.Input | ops.Concat | ops.Reshape)]
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
    """Whether a command does the work of a path with a branch for each slice of the channels, as a network of their own."""
    first, *rest = branches[0]
    mixes = [isinstance(node.op, ops.Conv2d) and node.op.groups == 1 for node in branches[0]]
    pools = (ops.MaxPool2d, ops.AveragePool2d, ops.Conv2d)
    channels = network.shape(branches[0][-1].name).channels
    if len(branches) > 1 or mixes != [True] + [False] * len(rest) or not all(isinstance(n.op, pools) for n in rest):
        return False
    if runs_of(branches[0]) < 2 or channels % (8 * count):
        return False
    size, rows, ends = channels // count, list[tuple[str, Op, str]](), list[tuple[str, ...]]()
    for index in range(count):
        names = ["x", *(f"{node.name}-{index}" for node in branches[0])]
        for name, before, node in zip(names[1:], names, branches[0], strict=False):
            op = node.op
            if isinstance(op, ops.Conv2d):
                weight = some(size, *op.weight.shape[1:])
                op = ops.Conv2d(weight, None, op.window, size if node is not first else 1, op.activation)
            rows.append((name, op, before))
        ends.append(tuple(names[1:]))
    made = graph(" ".join(names[-1] for names in ends), *rows, shape=network.shape(first.inputs[0]))
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


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.integers(1, 4),
    ub_size=st.sampled_from([3072, 4608, 6144, 10240, 655_360]),
    fusion=st.sampled_from([Fusion.FULL, Fusion.DOCUMENTED]),
)
def test_no_other_choice_costs_less(seed: int, steps: int, ub_size: int, fusion: Fusion) -> None:
    limits = Limits(ub_size=ub_size)
    network = legalize(
        optimize(Blocks(seed, steps).graph), DV700._replace(limits=limits), transposed=True, fusion=fusion
    )
    assume(len(network.nodes) <= 14)
    best = by_brute_force(network, fusion, limits)
    assert total(chosen(network, fusion, limits)) == best
    assert least_map_bytes(network, fusion, DV700._replace(limits=limits)) <= best.map_bytes


@pytest.mark.slow
@settings(max_examples=200)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 14), ub_size=st.sampled_from([4096, 16384, 655_360]))
@example(seed=1185, steps=3, ub_size=4096)  # a max pool behind deconvolutions of slices
def test_more_fusion_never_costs_more_and_breaks_no_rule(seed: int, steps: int, ub_size: int) -> None:
    network, limits = random_networks.network(seed, steps), Limits(ub_size=ub_size)
    costs, problems = [], []
    for fusion in (Fusion.FULL, Fusion.DOCUMENTED, Fusion.NONE):
        selection = chosen(
            legalize(optimize(network), DV700._replace(limits=limits), transposed=True, fusion=fusion), fusion, limits
        )
        costs.append(total(selection))
        problems.append(broken(selection, limits))
    assert problems[0] == problems[1] == problems[2]
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
    selection = partition(legal, device, transposed=transposed, fusion=fusion)
    program = lower(*selection, name="net", transposed=transposed)
    x = random_networks.inputs_for(network)
    values, results = ir_reference.run(network, x), program_reference.run(program, x)
    for name, result in zip(network.outputs, results, strict=True):
        expected = program_reference.as_output(values[name], network[name].op, transposed=transposed)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max(), err_msg=name)


def broken(selection: Selection, limits: Limits) -> set[Problem]:
    try:
        check(*selection, DV700._replace(limits=limits), legal=selection.graph)
    except UnsupportedError as error:
        return set(error.problems)
    return set()


def test_a_long_chain_of_pools_needs_few_paths_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that does not fit may still join the run before it, but no path has more runs than a command."""
    names = ["x", *(f"p{index}" for index in range(120))]
    rows = [(name, MAX_SAME, before) for before, name in pairwise(names)]
    asked: list[int] = []
    why_not = FusionRules.why_not

    def counted(self: FusionRules, branches: Sequence[tuple[Node, ...]]) -> str | None:
        asked.append(len(branches[0]))
        return why_not(self, branches)

    monkeypatch.setattr(FusionRules, "why_not", counted)
    chosen(graph(names[-1], *rows))
    assert max(asked) < 40 and len(asked) < 40 * len(rows)
