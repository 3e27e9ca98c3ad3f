"""Legal graphs hold what the device has, and compute what the graph computed before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn_convertor.devices.dv700.legalize import legalization
from cnn_convertor.devices.dv700.legalize.decompose_conv import wide_padding
from cnn_convertor.devices.dv700.legalize.split_slopes import NO_PALETTES
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.profiles import DV700, device_of
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.settings import Fusion, Runtime
from cnn_convertor.errors import ModelError
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from cnn_convertor.passes.contract import run_passes
from devices.dv700.legal import legalize
from devices.dv700.legalize.rewrites import PRELU, REWRITES, chain, conv, some
from reference import ir_reference, program_reference, random_networks

LIMITS = Limits()


def text(graph: Graph) -> list[str]:
    return str(graph).splitlines()[1:-1]


def legal(graph: Graph, *, transposed: bool = True, fusion: Fusion = Fusion.FULL) -> Graph:
    """The legal graph, which computes the same."""
    result = legalize(graph, DV700, transposed=transposed, fusion=fusion)
    x = random_networks.inputs_for(graph)
    before, after = ir_reference.run(graph, x), program_reference.run_legal(result, x, transposed=transposed)
    for old, new in zip(graph.outputs, result.outputs, strict=True):
        expected = before[old]
        np.testing.assert_allclose(
            after[new].reshape(-1),
            expected.reshape(-1),
            rtol=1e-4,
            atol=1e-4 * max(1e-3, np.abs(expected).max()),
            err_msg=old,
        )
    return result


@pytest.mark.parametrize("case", REWRITES)
def test_rewrites(case: str) -> None:
    graph, expected = REWRITES[case]
    assert text(legal(graph)) == expected
    legal(graph, transposed=False)


def test_each_condition_of_a_pass_for_the_device_can_be_broken() -> None:
    """By a network of REWRITES or of this file, before the pass that ensures it."""
    passes = legalization(DV700, Fusion.FULL, True, False, NO_PALETTES)
    broken = set()
    far = chain(ops.AveragePool2d(Window(Pair(6, 6), Pair(300, 300))))
    for graph in (*(graph for graph, _ in REWRITES.values()), far):
        for each in passes:
            broken |= {condition.words for condition in each.ensures if list(condition.broken(graph))}
            graph = each.rewrite(graph)
    elsewhere = {
        "pool-parts",
        "split-slopes",
        "classes-in-bytes",
        *("drop-taps", "gather-taps", "tile-maps", "split-channels", "split-channels-of-slopes"),
        *("refold-pixels", "refold-copies"),
    }  # test_split_concat_pool.py, _slopes.py; a device of its own; test_sizes.py
    assert [
        condition.words
        for each in passes
        if each.name not in elsewhere
        for condition in each.ensures
        if condition.words not in broken
    ] == []


@pytest.mark.parametrize(
    ("make", "seed", "steps"),
    [
        (random_networks.network, 10162, 13),
        (random_networks.network, 110, 14),
        (random_networks.network, 771, 14),
        (random_networks.network_of_blocks, 13, 14),
        (random_networks.network_of_blocks, 309, 14),
        (random_networks.network_of_blocks, 1351, 14),
    ],
)
def test_executors_that_are_chosen_again_stay(make: Callable[[int, int], Graph], seed: int, steps: int) -> None:
    """Networks in which a function goes to the CPU beside a layer that only then saves a change there."""
    for fusion in (Fusion.NONE, Fusion.FULL):
        passes = legalization(DV700, fusion, True, False, NO_PALETTES)
        place = [each.name for each in passes].index("choose-executors")
        chosen = run_passes(passes[: place + 1], optimize(make(seed, steps)))
        assert passes[place].rewrite(chosen) == chosen


def between_functions(op: Op, shape: Shape) -> Graph:
    """What the device can do, between two functions of the CPU."""
    return chain(ops.Unary(ops.Gelu()), op, ops.Unary(ops.Gelu()), shape=shape)


def test_a_change_of_side_has_the_price_of_the_runtime() -> None:
    """The whole I/O buffer, or the map alone, where the driver can do that."""
    graph = between_functions(ops.Activation(ops.Relu()), Shape(56, 56, 64))
    without_lines = DV700.profile.with_figures({"cache_line": Figure(0, "test")})
    stays = []
    for profile, runtime in (
        (DV700.profile, Runtime.SDK),
        (DV700.profile, Runtime.GENERATED),
        (without_lines, Runtime.GENERATED),
    ):
        legal = legalize(graph, device_of(profile, runtime), transposed=True)
        stays.append(any(isinstance(node.op, ops.AveragePool2d) for node in legal.nodes))
    assert stays == [False, True, False]


def test_a_scale_alone_reads_weights_on_the_device() -> None:
    """Many more bytes than its factors: it stays on the CPU, though that takes longer than two changes and the maps."""
    device = device_of(DV700.profile, Runtime.GENERATED)
    vector = between_functions(ops.Scale(some(1 << 16), None), Shape(1, 1, 1 << 16))
    assert all(isinstance(node.op, ops.Input | ops.OnCpu) for node in legalize(vector, device, transposed=True).nodes)


@pytest.mark.parametrize(
    ("channels", "window", "runs"),
    [
        (20, {"dilation": Pair(2, 2), "padding": Padding(2, 2, 2, 2)}, ["5x5, 20 groups"]),
        (20, {"dilation": Pair(2, 3), "stride": Pair(2, 2)}, ["5x7, 20 groups"]),
        (20, {"dilation": Pair(4, 4), "padding": Padding(4, 4, 4, 4)}, ["3x3 of 4x4"]),
        (20, {"dilation": Pair(4, 4)}, ["3x3 of 4x4"]),
        (64, {"dilation": Pair(4, 4), "padding": Padding(4, 4, 4, 4)}, ["3x3 of 4x4"]),
        (130, {"dilation": Pair(4, 4), "padding": Padding(4, 4, 4, 4)}, ["3x3 of 4x4"] * 3),
    ],
)
def test_dilated_depthwise_convolutions_have_another_form_where_nothing_shows_that_boards_run_them(
    channels: int, window: dict[str, Any], runs: list[str]
) -> None:
    graph = chain(conv(channels, 1, groups=channels, function=ops.Relu(), **window), shape=Shape(12, 14, channels))
    for fusion in Fusion:
        convolutions = [n.op for n in legal(graph, fusion=fusion).nodes if isinstance(n.op, ops.Conv2d)]
        words = [
            f"{op.window.kernel}"
            + (f" of {op.window.dilation}" if op.window.dilation != Pair(1, 1) else "")
            + (f", {op.groups} groups" if op.groups > 1 else "")
            for op in convolutions
        ]
        is_dilated_depthwise = any(op.is_depthwise and op.window.dilation != Pair(1, 1) for op in convolutions)
        assert is_dilated_depthwise is (fusion is Fusion.FULL and "stride" not in window)
        assert fusion is Fusion.FULL or words == runs


def test_padding_that_no_map_can_have_is_refused_and_not_split() -> None:
    graph = chain(ops.Pad(Padding(0, 0, 10**6, 0)))
    assert wide_padding(graph, graph["a"], Limits()) is None
    with pytest.raises(ModelError, match="DV202"):
        legalize(graph, DV700, transposed=True)


def test_max_kernel_size_bounds_what_dilations_and_upsamplings_become() -> None:
    small = Limits(max_kernel_size=3)
    dilated, upsampled = chain(conv(4, 4, dilation=Pair(2, 2))), chain(ops.Upsample(Pair(5, 5)))
    assert "dilation=2x2" in str(legalize(dilated, DV700._replace(limits=small), transposed=True))
    assert "Resize[size=30x30" in str(legalize(upsampled, DV700._replace(limits=small), transposed=True))
    assert "dilation" not in str(legalize(dilated, DV700, transposed=True))
    assert "ConvTranspose2d" in str(legalize(upsampled, DV700, transposed=True))


# --- shared parts --------------------------------------------------------------------------------------------------------


def joined(*concats: Sequence[str]) -> Graph:
    """Concatenations c0, c1, ... of x, of y, of a view of y, and of each other."""
    nodes = [
        Node("x", ops.Input(Shape(2, 4, 8))),
        Node("y", conv(8, 8, 1), ("x",)),
        Node("view", ops.Reshape(Shape(4, 2, 8), Order.HWC), ("y",)),
    ]
    nodes += [Node(f"c{i}", ops.Concat(), tuple(parts)) for i, parts in enumerate(concats)]
    return Graph(tuple(nodes), tuple(f"c{i}" for i in range(len(concats))))


def copied(graph: Graph) -> list[str]:
    return [
        line.split(" = ")[0] + "(" + line.split("(")[1].split(")")[0] + ")"
        for line in text(legal(graph))
        if "/copy" in line.split(" = ")[0]
    ]


@pytest.mark.parametrize(
    ("concats", "copies"),
    [
        ([["x", "y"]], []),
        ([["y", "y"]], ["c0/copy1(y)"]),
        ([["x", "x", "x"]], ["c0/copy1(x)", "c0/copy2(x)"]),
        ([["x", "y"], ["y", "x"]], ["c1/copy0(y)", "c1/copy1(x)"]),
        ([["x", "y"], ["c0", "y"]], ["c1/copy1(y)"]),
        ([["y"], ["view"]], ["c1/copy0(view)"]),  # the same memory in another shape
        ([["x"], ["c0"], ["c0"]], ["c2/copy0(c0)"]),
    ],
)
def test_a_map_lies_in_one_concatenation_and_once(concats: list[list[str]], copies: list[str]) -> None:
    assert copied(joined(*concats)) == copies


# --- names ---------------------------------------------------------------------------------------------------------------

PREFIXED: list[tuple[Op, str]] = [
    (ops.Add(PRELU), "a/linear"),
    (ops.MaxPool2d(Window(Pair(5, 5))), "a/1"),
    (ops.Upsample(Pair(4, 4)), "a/1"),
    (ops.Reshape(Shape(4, 6, 8), Order.HWC), "a/flat"),
    (conv(9, 16), "a/flatten"),
    (ops.Concat(), "a/copy1"),
]


@pytest.mark.parametrize(
    ("op", "name"), PREFIXED, ids=lambda value: value if isinstance(value, str) else type(value).__name__
)
@pytest.mark.parametrize("before", [False, True])
def test_layers_of_the_user_may_have_the_names_that_we_would_choose(op: Op, name: str, before: bool) -> None:
    shape = Shape(6, 2, 16) if isinstance(op, ops.Reshape) else Shape(6, 6, 16)
    if isinstance(op, ops.Add):
        op = ops.Add(ops.PRelu(some(16)))
    taken = Node(name, conv(4, 16, 1), ("x",))
    inputs = ("x", "x") if isinstance(op, ops.Add | ops.Concat) else ("x",)
    nodes = [Node("a", op, inputs), Node("z", ops.Activation(ops.Relu()), ("a",))]
    graph = Graph((Node("x", ops.Input(shape)), *([taken, *nodes] if before else [*nodes, taken])), ("a", "z", name))
    made = legal(graph)
    assert "/" in name and name + "'" in {node.name for node in made.nodes}


# --- any network ---------------------------------------------------------------------------------------------------------


@settings(max_examples=120)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 12), transposed=st.booleans())
def test_legal_networks_compute_the_same(seed: int, steps: int, transposed: bool) -> None:
    legal(optimize(random_networks.network(seed, steps)), transposed=transposed)
