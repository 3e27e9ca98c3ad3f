"""Commands of several runs, and of sums, give on the emulated device what the graph means, in both memory orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.emulating import install_data
from cnn_convertor.devices.dv700.fusion.forms import forms_of_layer
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.runs import Program, operand_of
from cnn_convertor.devices.dv700.weights.palettes import with_weights_of
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.settings import Quantization
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from cnn_convertor.passes import PASSES
from cnn_convertor.pipeline import plan
from cnn_convertor.verification.compare import sqnr
from reference import ir_reference
from verification.attentions import attention, slow_products
from verification.trials import NAME, config, network, samples, target_for

pytestmark = pytest.mark.usefixtures("compiler")

RANDOM = np.random.default_rng(0)
RELU, LEAKY = ops.Relu(), ops.Relu(0.125)
MAX = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)))
MAX_SAME = ops.MaxPool2d(Window(Pair(3, 3), padding=Padding(1, 1, 1, 1)))
AVERAGE_SAME = ops.AveragePool2d(Window(Pair(3, 3), padding=Padding(1, 1, 1, 1)))
ONE_TO_ONE = Window(Pair(1, 1))


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape) / np.sqrt(max(1, int(np.prod(shape[1:])))))


def conv(channels: int, out: int, kernel: int = 1, activation: ops.Function | None = None, stride: int = 1) -> Op:
    pad = Padding(*[kernel // 2] * 4)
    return ops.Conv2d(
        some(out, channels, kernel, kernel),
        some(out),
        Window(Pair(kernel, kernel), Pair(stride, stride), padding=pad),
        activation=activation,
    )


def depthwise(channels: int, activation: ops.Function | None = None, stride: int = 1) -> Op:
    window = Window(Pair(3, 3), Pair(stride, stride), padding=Padding(1, 1, 1, 1))
    return ops.Conv2d(some(channels, 1, 3, 3), some(channels), window, channels, activation)


def slopes(channels: int) -> ops.PRelu:
    return ops.PRelu(Constant.of(RANDOM.normal(size=channels)))


def graph(shape: Shape, outputs: str, *rows: tuple[str, Op, str]) -> Graph:
    nodes = [Node(name, op, tuple(reads.split()), (Origin("net", name),)) for name, op, reads in rows]
    return Graph((Node("x", ops.Input(shape)), *nodes), tuple(outputs.split()))


SUMS = graph(
    Shape(6, 10, 12), "pooled slope late bare",
    ("a", conv(12, 20, 3, RELU), "x"), ("b", conv(20, 12), "a"), ("sum", ops.Add(RELU), "x b"),
    ("c", conv(12, 12, 3), "sum"), ("add2", ops.Add(LEAKY), "c sum"), ("pooled", MAX, "add2"),
    ("d", depthwise(12), "sum"), ("slope", ops.Add(slopes(12)), "sum d"),
    ("e", AVERAGE_SAME, "x"), ("late", ops.Add(ops.Tanh()), "e sum"),
    ("f", conv(12, 12, 1, RELU), "x"), ("bare", ops.Add(ops.Sigmoid()), "f late"),
)  # fmt: skip
CHAINS = graph(
    Shape(9, 7, 5), "end up vector",
    ("a", conv(5, 24, 3, RELU, stride=2), "x"), ("b", depthwise(24, ops.Relu6()), "a"), ("c", conv(24, 9, 1, slopes(9)), "b"),
    ("p", MAX_SAME, "c"), ("q", AVERAGE_SAME, "p"), ("end", conv(9, 16, 3), "q"),
    ("r", conv(5, 8, 1, LEAKY), "x"), ("s", ops.ConvTranspose2d(some(8, 8, 4, 4), some(8), Window(Pair(4, 4), Pair(2, 2))), "r"),
    ("up", ops.Upsample(Pair(2, 2)), "s"),
    ("t", conv(5, 17, 3, RELU), "x"), ("gap", ops.AveragePool2d(Window(Pair(4, 4), Pair(4, 4))), "t"),
    ("fc", ops.Dense(some(30, 17, 2, 1), some(30), RELU), "gap"), ("vector", ops.Dense(some(7, 30, 1, 1), None), "fc"),
)  # fmt: skip
BRANCHES = graph(
    Shape(8, 6, 16), "out extra",
    ("one", conv(16, 8, 1, RELU), "x"), ("r3", conv(16, 12, 1, RELU), "x"), ("three", conv(12, 16, 3, LEAKY), "r3"),
    ("r5", conv(16, 5), "x"), ("m5", conv(5, 8, 3), "r5"), ("five", conv(8, 24, 5, RELU), "m5"),
    ("p", MAX_SAME, "x"), ("proj", conv(16, 8), "p"), ("cat", ops.Concat(), "one three five proj"),
    ("extra", conv(16, 8, 3), "three"),
    ("far", conv(56, 16, 1, RELU), "cat"), ("u", conv(56, 8), "cat"), ("v", conv(16, 8), "far"), ("w", conv(16, 11, 3), "far"),
    ("cat2", ops.Concat(), "u v w"), ("pool", MAX, "cat2"), ("out", conv(27, 4), "pool"),
)  # fmt: skip
MAX_SLOPES = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)), slopes(40))
SLICES = graph(
    Shape(15, 16, 8), "end r v",
    ("a", conv(8, 61, 1, slopes(61)), "x"), ("b", depthwise(61, slopes(61), stride=2), "a"), ("end", conv(61, 9), "b"),
    ("q", conv(8, 40, 1, ops.Relu6()), "x"), ("r", AVERAGE_SAME, "q"),
    ("s", conv(8, 40, 3, ops.Tanh()), "x"), ("t", depthwise(40), "s"), ("p", MAX_SLOPES, "t"), ("u", MAX, "x"),
    ("cat", ops.Concat(), "p u"), ("v", conv(48, 8), "cat"),
)  # fmt: skip

NO_SLOPES = graph(
    Shape(15, 16, 8), "end r",
    ("a", conv(8, 61, 1, RELU), "x"), ("b", depthwise(61, LEAKY, stride=2), "a"), ("end", conv(61, 9), "b"),
    ("q", conv(8, 40, 1, ops.Relu6()), "x"), ("r", AVERAGE_SAME, "q"),
)  # fmt: skip

FLAT = graph(
    Shape(6, 5, 16), "out c",
    ("a", conv(16, 8, 3), "x"), ("two", ops.Concat(), "x a"), ("n", ops.Scale(some(24), some(24)), "two"), ("r", ops.Activation(RELU), "n"),
    ("b", conv(24, 8, 3), "r"), ("three", ops.Concat(), "x a b"), ("m", ops.Scale(some(32), some(32)), "three"),
    ("s", ops.Activation(RELU), "m"), ("c", conv(32, 8, 3), "s"), ("four", ops.Concat(), "x a b c"),
    ("l", ops.Scale(some(40), some(40)), "four"), ("t", ops.Activation(RELU), "l"), ("out", conv(40, 12), "t"),
)  # fmt: skip
GROUPS = graph(
    Shape(9, 7, 32), "out",
    ("a", conv(32, 64, 1, RELU), "x"),
    ("b", ops.Conv2d(some(64, 8, 3, 3), some(64), Window(Pair(3, 3), Pair(2, 2), padding=Padding(1, 1, 1, 1)), 8, RELU), "a"),
    ("out", conv(64, 16), "b"),
)  # fmt: skip
DECONVOLUTION = graph(
    Shape(9, 7, 16), "out",
    ("a", conv(16, 16, 1, RELU), "x"),
    ("b", ops.ConvTranspose2d(some(24, 16, 3, 2), some(24), Window(Pair(3, 2), padding=Padding(1, 1, 1, 0)), activation=slopes(24)), "x"),
    ("c", conv(16, 8, 3), "x"), ("out", ops.Concat(), "a b c"),
)  # fmt: skip

# What a small buffer, a late user driver and every level of evidence allow.
TILES = graph(
    Shape(24, 40, 16), "pooled sum out",
    ("a", conv(16, 16, 3, RELU), "x"), ("pooled", MAX, "a"),
    ("b", conv(16, 16, 3), "x"), ("sum", ops.Add(LEAKY), "x b"),
    ("c", ops.Conv2d(some(16, 1, 3, 3), None, Window(Pair(3, 3), dilation=Pair(2, 2), padding=Padding(2, 2, 2, 2)), 16), "x"),
    ("d", ops.ConvTranspose2d(some(16, 16, 2, 2), some(16), Window(Pair(2, 2), Pair(2, 2))), "pooled"), ("out", ops.Add(), "c d"),
)  # fmt: skip
DEFAULT = read_profile("dv700", Path())
SMALL = DEFAULT.overridden(ub_size=16384)
TILING = replace(SMALL, passed=frozenset(Form))

# The network, the level of fusion, the runs of each command, how many commands carry an addition in a run of their own.
NETWORKS = {
    "sums": (SUMS, "full", [2, 1, 1, 1, 1, 1, 1], 3),
    "chains": (CHAINS, "full", [6, 2, 2, 1, 1, 1], 0),
    "branches": (BRANCHES, "full", [8, 2, 1, 1, 1, 1], 0),
    "sums, documented": (SUMS, "documented", [1] * 7, 4),
    "chains, documented": (CHAINS, "documented", [1] * 13, 0),
    "branches, documented": (BRANCHES, "documented", [2] + [1] * 12, 0),
}


def shape_of(program: Program) -> tuple[list[int], int]:
    """Runs of each command; how many commands carry a sum."""
    commands = [layer for layer in program.layers if layer.type is LayerType.CONV]
    sums = [layer.runs[0] for layer in commands if len(layer.inputs) == 2]
    bare = [run for run in sums if run.convolution is None and run.pooling is not None and run.pooling.kernel == (1, 1)]
    return sorted((len(layer.runs) for layer in commands), reverse=True), len(sums) - len(bare)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("transposed", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["transposed", "plain"])
def test_fused_commands_give_what_the_graph_means(name: str, transposed: bool, tmp_path: Path) -> None:
    before, fusion, runs, sums = NETWORKS[name]
    trial = network(before, tmp_path, transpose_weight=transposed, fusion=fusion)
    assert shape_of(trial.program) == (sorted(runs, reverse=True), sums)
    assert not audit(tmp_path / f"{NAME}_gen.cpp", tmp_path / f"{NAME}_weights.bin").findings
    inputs = samples({"x": RANDOM.normal(size=before.shape("x"))})
    expected = ir_reference.run(before, {"x": inputs["x"][0]})
    for output, values in zip(before.outputs, trial.run(inputs).outputs, strict=True):
        assert sqnr(values[0], expected[output]) > 55, output


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_sums_and_pools_in_tiles_give_what_the_graph_means(transposed: bool, tmp_path: Path) -> None:
    trial = network(TILES, tmp_path, device=TILING, transpose_weight=transposed, fusion="full")
    assert shape_of(trial.program) == ([1] * 4, 2)
    inputs = samples({"x": RANDOM.normal(size=TILES.shape("x"))})
    expected = ir_reference.run(TILES, {"x": inputs["x"][0]})
    for output, values in zip(TILES.outputs, trial.run(inputs).outputs, strict=True):
        assert sqnr(values[0], expected[output]) > 55, output


def test_every_form_is_in_a_network() -> None:
    graphs = [
        (SUMS, DEFAULT),
        (CHAINS, DEFAULT),
        (BRANCHES, DEFAULT),
        (scales(8), DEFAULT),
        (SLICES, SMALL),
        (TILES, TILING),
        (attention(13, 1, 24), slow_products()),
    ]
    found = set[Form]()
    for before, profile in graphs:
        target = target_for(config(Path("graph.keras"), device=profile, fusion="full", transpose_weight=True))
        for layer in plan(before, NAME, target).layers:
            found |= forms_of_layer(layer, profile.limits) if layer.runs else set()
    assert set(Form) - found == set(), "add the form to a network of this file, whose results are compared"


PRODUCT = ops.Binary(ops.BinaryOp.MULTIPLY)


def scales(channels: int) -> Graph:
    """Maps times a factor for each channel, which is an input; behind an input and a command, before a command and within one.

    The command doubles its input, so that large numbers become infinite.
    """
    twice = Constant.of(2 * np.eye(channels).reshape(channels, channels, 1, 1))
    nodes = (
        Node("x", ops.Input(Shape(40, 56, channels))),
        Node("s", ops.Input(Shape(1, 1, channels))),
        Node("a", PRODUCT, ("x", "s")),
        Node("max", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), ("a",)),
        Node("b", ops.Conv2d(twice, None, Window(Pair(1, 1))), ("x",)),
        Node("c", PRODUCT, ("s", "b")),
        Node("end", conv(channels, 9), ("c",)),
    )
    return Graph(nodes, ("max", "end"))


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("channels", [7, 8, 9, 17, 24])
@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_factors_that_the_cpu_packs_give_the_bits_of_products(transposed: bool, channels: int, tmp_path: Path) -> None:
    """-0, subnormal numbers and the largest are among the inputs of the second sample: there are infinity and NaN, too."""
    before = scales(channels)
    inputs = samples(*[{name: RANDOM.normal(size=before.shape(name)) for name in "xs"} for _ in range(2)])
    special = inputs["x"][1].flat[:: channels + 1]
    inputs["x"][1].flat[:: channels + 1] = np.resize([-0.0, 6e-8, -3e-5, 65504.0, -65504.0], special.shape)
    inputs["s"][1].flat = np.resize([65504.0, -0.0, 6e-8, 2.0, 0.0, -1.0, 1e-3], channels)
    results = {}
    for fusion in ("none", "full"):
        trial = network(before, tmp_path / fusion, transpose_weight=transposed, fusion=fusion)
        results[fusion] = trial.run(inputs).outputs
    assert not audit(tmp_path / "full" / f"{NAME}_gen.cpp", tmp_path / "full" / f"{NAME}_weights.bin").findings
    assert [run.factors is not None for layer in trial.program.layers for run in layer.runs].count(True) == 2
    values = np.concatenate([maps.ravel() for maps in results["none"]])
    assert np.isnan(values).any() and np.isinf(values).any() and (np.signbit(values) & (values == 0)).any()
    for one, other in zip(results["none"], results["full"], strict=True):
        assert np.array_equal(one, other, equal_nan=True)
        assert np.array_equal(np.signbit(one) & (one == 0), np.signbit(other) & (other == 0))


@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_an_addition_joins_packed_factors(transposed: bool, tmp_path: Path) -> None:
    """The product is not rounded before the addition."""
    graph = Graph(
        (
            Node("x", ops.Input(Shape(40, 56, 12))),
            Node("s", ops.Input(Shape(1, 1, 12))),
            Node("a", conv(12, 12), ("x",)),
            Node("b", PRODUCT, ("a", "s")),
            Node("sum", ops.Add(RELU), ("x", "b")),
            Node("end", conv(12, 9, 3), ("sum",)),
        ),
        ("end",),
    )
    trial = network(graph, tmp_path, transpose_weight=transposed, fusion="full")
    (joined,) = (layer for layer in trial.program.layers if operand_of(layer) is not None)
    assert joined.runs[0].factors is not None and len(joined.inputs) == 3
    assert not audit(tmp_path / f"{NAME}_gen.cpp", tmp_path / f"{NAME}_weights.bin").findings
    inputs = samples({name: RANDOM.normal(size=graph.shape(name)) for name in "xs"})
    expected = ir_reference.run(graph, {name: values[0] for name, values in inputs.items()})
    assert sqnr(trial.run(inputs).outputs[0][0], expected["end"]) > 55


@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_slices_of_channels_compute_the_same_bits(transposed: bool, tmp_path: Path) -> None:
    inputs = samples({"x": RANDOM.normal(size=SLICES.shape("x"))})
    results = {}
    for fusion in ("none", "full"):
        trial = network(SLICES, tmp_path / fusion, device=SMALL, transpose_weight=transposed, fusion=fusion)
        results[fusion] = trial.run(inputs).outputs
    split = [
        layer
        for layer in trial.program.layers
        if layer.runs and Form.CHANNEL_SPLIT in forms_of_layer(layer, SMALL.limits)
    ]
    assert [len(layer.runs) for layer in split] == [8, 6, 6]
    for one, other in zip(results["none"], results["full"], strict=True):
        assert np.array_equal(one, other)


def without(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    kept = tuple(each for each in PASSES if each.name != name)
    assert len(kept) < len(PASSES), name
    return lambda patch: patch.setattr("cnn_convertor.pipeline.PASSES", kept)


def with_a_command_for_each_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("cnn_convertor.devices.dv700.legalize.decompose_conv._fastest", lambda *_: 1)


REWRITES = {
    "flat concatenations": (FLAT, without("nest-concats")),
    "groups as one block-diagonal kernel": (GROUPS, with_a_command_for_each_group),
    "a deconvolution with stride 1 as a convolution": (DECONVOLUTION, without("deconvolutions-to-convolutions")),
}


@pytest.mark.parametrize("name", REWRITES)
@pytest.mark.parametrize("transposed", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["transposed", "plain"])
def test_a_rewrite_that_saves_commands_computes_the_same_bits(
    name: str, transposed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, switch_off = REWRITES[name]
    inputs = samples({"x": RANDOM.normal(size=before.shape("x"))})
    counts, results = list[int](), list[tuple[Any, ...]]()
    for fusion, rewrites in (("full", True), ("none", True), ("full", False)):
        if not rewrites:
            switch_off(monkeypatch)
        trial = network(before, tmp_path / str(len(counts)), transpose_weight=transposed, fusion=fusion)
        counts.append(sum(bool(layer.runs) for layer in trial.program.layers))
        results.append(trial.run(inputs).outputs)
    assert counts[0] <= counts[1] and counts[0] < counts[2]
    for result in results[1:]:
        assert all(np.array_equal(one, other) for one, other in zip(results[0], result, strict=True))


@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_a_command_for_each_layer_has_the_palettes_of_its_slices(transposed: bool, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"device": SMALL, "transpose_weight": transposed, "quantization": Quantization.PALETTE}
    split = network(NO_SLOPES, tmp_path / "full", fusion="full", **settings)
    assert len({weights.whole for weights in split.program.weights}) == 3, "61, 40, and not split"
    options = target_for(config(Path("graph.keras"), fusion="none", **settings))
    program = with_weights_of(plan(NO_SLOPES, NAME, options), split.program)
    apart = install_data(NO_SLOPES, program, tmp_path / "none", device=options.device)
    inputs = samples({"x": RANDOM.normal(size=NO_SLOPES.shape("x"))})
    for one, other in zip(apart.run(inputs).outputs, split.run(inputs).outputs, strict=True):
        assert np.array_equal(one, other)
