"""Which nodes share a command, in words; and that no other choice costs less."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.fusion.combining import FusionRules
from cnn_convertor.devices.dv700.fusion.partition import Partition, partition
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize

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


def chosen(network: Graph, fusion: Fusion = Fusion.FULL, limits: Limits = DV700.limits) -> Partition:
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
