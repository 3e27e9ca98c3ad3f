"""Moving scales and activations, and merging nodes: before and after as text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from cnn_convertor.passes.hoist_activations import hoist_activations
from cnn_convertor.passes.hoist_scales import hoist_scales
from cnn_convertor.passes.sink_scales import sink_scales
from cnn_convertor.passes.swap_pool_conv import swap_pool_conv
from reference import ir_reference, random_networks

RANDOM = np.random.default_rng(0)
X = Shape(4, 6, 3)


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


def graph(outputs: str, *rows: tuple[str, Op, str], shape: Shape = X) -> Graph:
    """x is the input; then (name, operator, what it reads)."""
    nodes = [Node(name, op, tuple(reads.split()), (Origin("net", name),)) for name, op, reads in rows]
    return Graph((Node("x", ops.Input(shape)), *nodes), tuple(outputs.split()))


def test_maps_between_name_what_has_moved_past_them() -> None:
    """They are no longer those of their own layers alone, so that nothing compares them as such."""
    rows = [("a", conv(), "x"), ("up", ops.Upsample(Pair(2, 2)), "a"), ("b", conv(), "x")]
    rows += [("up2", ops.Upsample(Pair(2, 2)), "b"), ("s", ops.Add(), "up up2"), ("y", scale(), "s")]
    hoisted = hoist_scales(graph("y", *rows))
    assert {node.name: [origin.layer for origin in node.origins] for node in hoisted.nodes[1:]} == {
        "a": ["a", "y"], "up": ["up", "y"], "b": ["b", "y"], "up2": ["up2", "y"], "y": ["s", "y"],
    }  # fmt: skip
    concat = [("a", conv(), "x"), ("b", conv(), "x"), ("c", ops.Concat(ops.Axis.CHANNELS), "a b")]
    concat += [("up", ops.Upsample(Pair(2, 2)), "c"), ("y", ops.Activation(ops.Relu()), "up")]
    hoisted = hoist_activations(graph("y", *concat))
    assert {node.name: [origin.layer for origin in node.origins] for node in hoisted.nodes[1:]} == {
        "a": ["a", "y"], "b": ["b", "y"], "c": ["c", "y"], "y": ["up", "y"],
    }  # fmt: skip


def conv(out: int = 3, channels: int = 3, activation: ops.Function | None = None, padding: int = 0) -> Op:
    window = Window(Pair(1, 1), padding=Padding(*[padding] * 4))
    return ops.Conv2d(some(out, channels, 1, 1), None, window, activation=activation)


def scale(channels: int = 3, *, shift: bool = True, positive: bool = False) -> Op:
    factor = np.abs(RANDOM.normal(size=channels)) if positive else RANDOM.normal(size=channels)
    return ops.Scale(Constant.of(factor), some(channels) if shift else None)


def same(before: Graph, after: Graph) -> None:
    """Both compute the same outputs."""
    x = random_networks.inputs_for(before)
    expected, found = ir_reference.run(before, x), ir_reference.run(after, x)
    assert before.outputs == after.outputs
    for name in before.outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-4 * np.abs(expected[name]).max())


def short(graph: Graph) -> list[str]:
    """One line per node except the input: name, operator, function and inputs. + marks a bias."""
    lines = []
    for node in graph.nodes[1:]:
        op = node.op
        name = type(op).__name__ + (
            "+" if getattr(op, "bias", None) is not None or getattr(op, "shift", None) is not None else ""
        )
        function = op.function if isinstance(op, ops.Activation) else getattr(op, "activation", None)
        lines.append(
            f"{node.name} = {name}{f' {type(function).__name__}' if function else ''}({', '.join(node.inputs)})"
        )
    return lines


MAX = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)))
AVERAGE = ops.AveragePool2d(Window(Pair(2, 2), Pair(2, 2)))
ZEROS_COUNT = ops.AveragePool2d(Window(Pair(2, 2), Pair(2, 2), padding=Padding(1, 1, 1, 1)))
UP = ops.Upsample(Pair(2, 2))
PAD = ops.Pad(Padding(1, 1, 1, 1))
RELU, SIGMOID = ops.Activation(ops.Relu()), ops.Activation(ops.Sigmoid())
UNIT = ops.MaxPool2d(Window(Pair(1, 1)))
UNIFORM = ops.Scale(Constant.of([0.5, 0.5, 0.5]))

SUM = graph("s", ("a", conv(), "x"), ("b", conv(), "x"), ("sum", ops.Add(), "a b"), ("s", scale(), "sum"))
JOINED = graph("s", ("a", conv(8), "x"), ("b", conv(5), "x"), ("cat", ops.Concat(), "a b"), ("s", scale(13), "cat"))
DEEP = graph(
    "s",
    ("a", conv(8), "x"), ("b", conv(8), "x"), ("sum", ops.Add(), "a b"), ("c", conv(8), "x"), ("p", AVERAGE, "sum"),
    ("q", AVERAGE, "c"), ("cat", ops.Concat(), "p q"), ("up", UP, "cat"), ("s", scale(16), "up"),
)  # fmt: skip

RAISED_SCALES: dict[str, tuple[Graph, list[str]]] = {
    "1: a sum": (SUM, ["a = Conv2d+(x)", "b = Conv2d+(x)", "s = Add(a, b)"]),
    "2: a concatenation": (JOINED, ["a = Conv2d+(x)", "b = Conv2d+(x)", "s = Concat(a, b)"]),
    "2: one part without weights": (
        graph("s", ("a", conv(8), "x"), ("cat", ops.Concat(), "a x"), ("s", scale(11), "cat")),
        ["a = Conv2d+(x)", "s/1 = Scale+(x)", "s = Concat(a, s/1)"],
    ),
    "3: a max pool, by factors above zero": (
        graph("s", ("a", conv(), "x"), ("p", MAX, "a"), ("s", scale(positive=True), "p")), ["a = Conv2d+(x)", "s = MaxPool2d(a)"],
    ),
    "4: an average pool": (
        graph("s", ("a", conv(), "x"), ("p", AVERAGE, "a"), ("s", scale(), "p")), ["a = Conv2d+(x)", "s = AveragePool2d(a)"],
    ),
    "4: zeros that count, without a shift": (
        graph("s", ("a", conv(), "x"), ("p", ZEROS_COUNT, "a"), ("s", scale(shift=False), "p")),
        ["a = Conv2d+(x)", "s = AveragePool2d(a)"],
    ),
    "4: a single factor, with anything above the pool": (
        graph("s", ("p", AVERAGE, "x"), ("s", UNIFORM, "p")), ["s = AveragePool2d(x)"],
    ),
    "5: an upsampling": (graph("s", ("a", conv(), "x"), ("u", UP, "a"), ("s", scale(), "u")), ["a = Conv2d+(x)", "s = Upsample(a)"]),
    "6: padding, without a shift": (
        graph("s", ("a", conv(), "x"), ("u", PAD, "a"), ("s", scale(shift=False), "u")), ["a = Conv2d+(x)", "s = Pad(a)"],
    ),
    "all of them": (
        DEEP,
        ["a = Conv2d+(x)", "b = Conv2d+(x)", "sum = Add(a, b)", "c = Conv2d+(x)", "p = AveragePool2d(sum)", "q = AveragePool2d(c)",
         "cat = Concat(p, q)", "s = Upsample(cat)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("factor", [0.0, 1e-46], ids=["zero", "zero in FP32"])
def test_no_pool_gets_a_factor_that_executors_take_for_none(factor: float) -> None:
    before = graph("s", ("p", AVERAGE, "x"), ("s", ops.Scale(Constant.wide(np.full(3, factor))), "p"))
    assert short(hoist_scales(before)) == short(before)


@pytest.mark.parametrize(("before", "lines"), RAISED_SCALES.values(), ids=RAISED_SCALES)
def test_scales_move_into_the_weights_above(before: Graph, lines: list[str]) -> None:
    after = hoist_scales(before)
    assert short(after) == lines
    same(before, after)


SCALES_THAT_STAY: dict[str, Graph] = {
    "a sum with the input": graph("s", ("a", conv(), "x"), ("sum", ops.Add(), "a x"), ("s", scale(), "sum")),
    "a map that others read": graph("s a", ("a", conv(), "x"), ("p", AVERAGE, "a"), ("s", scale(), "p")),
    "a pool that others read": graph("s p", ("a", conv(), "x"), ("p", AVERAGE, "a"), ("s", scale(), "p")),
    "an activation between": graph("s", ("a", conv(activation=ops.Relu()), "x"), ("p", AVERAGE, "a"), ("s", scale(), "p")),
    "a max pool, by any factors": graph(
        "s", ("a", conv(), "x"), ("p", MAX, "a"), ("s", ops.Scale(Constant.of([1, 1, -1])), "p")
    ),
    "a shift, and zeros that count": graph("s", ("a", conv(), "x"), ("p", ZEROS_COUNT, "a"), ("s", scale(), "p")),
    "a shift of padding": graph("s", ("a", conv(), "x"), ("p", PAD, "a"), ("s", scale(), "p")),
    "two parts without weights": graph("s", ("p", AVERAGE, "x"), ("q", MAX, "x"), ("cat", ops.Concat(), "p q"), ("s", scale(6), "cat")),
    "a map added to itself": graph("s", ("a", conv(), "x"), ("sum", ops.Add(), "a a"), ("s", scale(), "sum")),
}  # fmt: skip


@pytest.mark.parametrize("before", SCALES_THAT_STAY.values(), ids=SCALES_THAT_STAY)
def test_scales_that_cannot_move_up(before: Graph) -> None:
    assert hoist_scales(before) is before


def test_nodes_that_absorb_a_layer_get_its_origin() -> None:
    """Alone, it computes no map of the framework."""
    after = hoist_scales(SUM)
    origins = {node.name: [origin.layer for origin in node.origins] for node in after.nodes[1:]}
    assert origins == {"a": ["a", "s"], "b": ["b", "s"], "s": ["sum", "s"]}
    assert all(node.where == Origin("net", name) for node, name in zip(after.nodes[1:], ["a", "b", "sum"], strict=True))


SUNK_SCALES: dict[str, tuple[Graph, list[str]]] = {
    "1: an average pool": (
        graph("p", ("a", conv(activation=ops.Relu()), "x"), ("s", scale(), "a"), ("p", AVERAGE, "s")),
        ["a = Conv2d Relu(x)", "s = AveragePool2d(a)", "p = Scale+(s)"],
    ),
    "1: two of them": (
        graph("q", ("s", scale(), "x"), ("p", AVERAGE, "s"), ("q", AVERAGE, "p")),
        ["s = AveragePool2d(x)", "p = AveragePool2d(s)", "q = Scale+(p)"],
    ),
    "2: a max pool after a convolution": (
        graph("p", ("a", conv(activation=ops.Relu()), "x"), ("s", scale(positive=True), "a"), ("p", MAX, "s")),
        ["a = Conv2d Relu(x)", "s = MaxPool2d(a)", "p = Scale+(s)"],
    ),
    "2: a max pool before a convolution": (
        graph("b", ("s", scale(positive=True), "x"), ("p", MAX, "s"), ("b", conv(), "p")),
        ["s = MaxPool2d(x)", "p = Scale+(s)", "b = Conv2d(p)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "lines"), SUNK_SCALES.values(), ids=SUNK_SCALES)
def test_scales_move_below_pools(before: Graph, lines: list[str]) -> None:
    after = sink_scales(before)
    assert short(after) == lines
    same(before, after)


@pytest.mark.parametrize(
    "before",
    [
        graph("p", ("s", scale(), "x"), ("p", ZEROS_COUNT, "s")),
        graph("p s", ("s", scale(), "x"), ("p", AVERAGE, "s")),
        graph("p", ("s", scale(positive=True), "x"), ("p", MAX, "s")),  # nothing would be gained
        graph("b", ("s", scale(positive=True), "x"), ("p", MAX, "s"), ("b", conv(padding=1), "p")),
        graph("b", ("s", ops.Scale(Constant.of([1, 1, -1])), "x"), ("p", MAX, "s"), ("b", conv(), "p")),
        graph(
            "p", ("s", scale(), "x"), ("p", ops.AveragePool2d(Window(Pair(2, 2)), Padding(1, 1, 1, 1)), "s")
        ),  # grows
    ],
)
def test_scales_that_stay_above_pools(before: Graph) -> None:
    assert sink_scales(before) is before


RAISED_ACTIVATIONS: dict[str, tuple[Graph, list[str]]] = {
    "1: a concatenation": (
        graph("r", ("a", conv(8), "x"), ("b", MAX, "x"), ("u", UP, "b"), ("cat", ops.Concat(), "a u"), ("r", SIGMOID, "cat")),
        ["a = Conv2d Sigmoid(x)", "b = MaxPool2d Sigmoid(x)", "u = Upsample(b)", "r = Concat(a, u)"],
    ),
    "1: one part that cannot": (
        graph("r", ("a", conv(8), "x"), ("cat", ops.Concat(), "a x"), ("r", RELU, "cat")),
        ["a = Conv2d Relu(x)", "r/1 = Activation Relu(x)", "r = Concat(a, r/1)"],
    ),
    "1: slopes": (
        graph("r", ("a", conv(8), "x"), ("b", conv(5), "x"), ("cat", ops.Concat(), "a b"), ("r", ops.Activation(ops.PRelu(some(13))), "cat")),
        ["a = Conv2d PRelu(x)", "b = Conv2d PRelu(x)", "r = Concat(a, b)"],
    ),
    "1: a part that is never negative already": (
        graph(
            "r a", ("a", conv(8, activation=ops.Relu()), "x"), ("b", conv(), "x"), ("cat", ops.Concat(), "a b"), ("r", RELU, "cat"),
        ),
        ["a = Conv2d Relu(x)", "b = Conv2d Relu(x)", "r = Concat(a, b)"],
    ),
    "2: an upsampling": (graph("r", ("a", conv(), "x"), ("u", UP, "a"), ("r", SIGMOID, "u")), ["a = Conv2d Sigmoid(x)", "r = Upsample(a)"]),
    "3: padding": (graph("r", ("a", conv(), "x"), ("u", PAD, "a"), ("r", RELU, "u")), ["a = Conv2d Relu(x)", "r = Pad(a)"]),
    "4: a ReLU of what is never negative": (
        graph("r p", ("a", conv(activation=ops.Sigmoid()), "x"), ("p", MAX, "a"), ("q", AVERAGE, "p"), ("r", RELU, "q")),
        ["a = Conv2d Sigmoid(x)", "p = MaxPool2d(a)", "r = AveragePool2d(p)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "lines"), RAISED_ACTIVATIONS.values(), ids=RAISED_ACTIVATIONS)
def test_activations_move_into_the_operators_above(before: Graph, lines: list[str]) -> None:
    after = hoist_activations(before)
    assert short(after) == lines
    same(before, after)


@pytest.mark.parametrize(
    "before",
    [
        graph("r", ("a", conv(), "x"), ("p", PAD, "a"), ("r", SIGMOID, "p")),  # the padding is 0.5 after it
        graph("r cat", ("a", conv(8), "x"), ("b", conv(8), "x"), ("cat", ops.Concat(), "a b"), ("r", RELU, "cat")),
        graph("r", ("b", conv(activation=ops.Tanh()), "x"), ("cat", ops.Concat(), "x b"), ("r", RELU, "cat")),
        graph("r", ("a", conv(activation=ops.Tanh()), "x"), ("r", RELU, "a")),
    ],
)
def test_activations_that_stay(before: Graph) -> None:
    assert hoist_activations(before) is before


def test_a_redundant_relu_is_removed_even_from_shared_maps() -> None:
    before = graph("r a", ("a", conv(activation=ops.Relu()), "x"), ("r", RELU, "a"))
    after = hoist_activations(before)
    assert (short(after), after.outputs) == (["a = Conv2d Relu(x)"], ("a", "a"))


# --- pools and convolutions ----------------------------------------------------------------------------------------------


def biased(activation: ops.Function | None = None) -> Op:
    return ops.Conv2d(some(5, 3, 1, 1), some(5), Window(Pair(1, 1)), activation=activation)


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        (graph("p", ("a", biased(), "x"), ("p", AVERAGE, "a")), ["a = AveragePool2d(x)", "p = Conv2d+(a)"]),
        (
            graph("p", ("a", biased(), "x"), ("p", ops.AveragePool2d(AVERAGE.window, activation=ops.Relu()), "a")),
            ["a = AveragePool2d(x)", "p = Conv2d+ Relu(a)"],
        ),
        (graph("p", ("a", conv(), "x"), ("p", ZEROS_COUNT, "a")), ["a = AveragePool2d(x)", "p = Conv2d(a)"]),
    ],
)
def test_average_pools_go_before_small_convolutions(before: Graph, lines: list[str]) -> None:
    after = swap_pool_conv(before)
    assert short(after) == lines
    assert [[origin.layer for origin in node.origins] for node in after.nodes[1:]] == [["p"], ["a", "p"]]
    same(before, after)


@pytest.mark.parametrize(
    "before",
    [
        graph("p", ("a", biased(), "x"), ("p", ZEROS_COUNT, "a")),  # padding zeros do not include the bias
        graph("p", ("a", biased(), "x"), ("p", ops.AveragePool2d(AVERAGE.window, factor=1.0), "a")),
        graph("p", ("a", biased(ops.Relu()), "x"), ("p", AVERAGE, "a")),
        graph("p a", ("a", biased(), "x"), ("p", AVERAGE, "a")),
        graph("p", ("a", conv(padding=1), "x"), ("p", AVERAGE, "a")),
        graph("p", ("a", conv(1), "x"), ("p", ops.AveragePool2d(Window(Pair(2, 2))), "a")),  # from 24 numbers to 45
        graph("p", ("a", biased(), "x"), ("p", MAX, "a")),
    ],
)
def test_average_pools_that_stay_behind(before: Graph) -> None:
    assert swap_pool_conv(before) is before


# --- all of them ---------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(2, 12))
def test_networks_full_of_scales_compute_the_same(seed: int, steps: int) -> None:
    """Chains, sums and concatenations, with a scale or an activation after nearly every node."""
    random = np.random.default_rng(seed)
    rows: list[tuple[str, Op, str]] = []
    shapes = {"x": Shape(4, 4, 3)}

    def add(op: Op, *reads: str) -> None:
        name = f"n{len(rows)}"
        try:
            shapes[name] = op.output_shape(*(shapes[r] for r in reads))
        except ops.ShapeError:
            return
        rows.append((name, op, " ".join(reads)))

    for _ in range(steps):
        names = list(shapes)
        first, second = names[-1], names[int(random.integers(len(names)))]
        channels = shapes[first].channels
        positive = bool(random.random() < 0.6)
        choices: list[tuple[Op, tuple[str, ...]]] = [
            (conv(4, channels), (first,)), (ops.Add(), (first, second)), (ops.Concat(), (first, second)), (MAX, (first,)),
            (AVERAGE, (first,)), (ZEROS_COUNT, (first,)), (UP, (first,)), (PAD, (first,)), (conv(4, channels, padding=1), (first,)),
        ]  # fmt: skip
        op, reads = choices[int(random.integers(len(choices)))]
        add(op, *reads)
        made = list(shapes)[-1]
        if random.random() < 0.6:
            add(scale(shapes[made].channels, shift=bool(random.random() < 0.6), positive=positive), made)
        if random.random() < 0.3:
            add(SIGMOID if random.random() < 0.3 else RELU, list(shapes)[-1])
    if rows:
        before = graph(rows[-1][0], *rows, shape=shapes["x"])
        same(before, optimize(before))


LONG = 1500  # layers: more than Python's limit of nested calls


def below_pads(last: Op) -> Graph:
    pads = [(f"pad{i}", ops.Pad(Padding(0, 0, 0, 1)), f"pad{i - 1}" if i else "conv") for i in range(LONG)]
    return graph("last", ("conv", conv(), "x"), *pads, ("last", last, f"pad{LONG - 1}"))


def test_an_activation_moves_up_through_any_number_of_layers() -> None:
    moved = hoist_activations(below_pads(RELU))
    assert len(moved.nodes) == LONG + 2
    assert moved["conv"].op.activation == ops.Relu()  # type: ignore[union-attr]  # it is a convolution


def test_a_scale_moves_up_through_any_number_of_layers() -> None:
    assert len(hoist_scales(below_pads(scale(shift=False))).nodes) == LONG + 2


def chain(count: int, *between: Op) -> Graph:
    """A convolution, and these operators below it, again and again."""
    rows = [(f"n{i}", between[i % len(between)], f"n{i - 1}" if i else "conv") for i in range(count)]
    return graph(f"n{count - 1}", ("conv", conv(), "x"), *rows)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(
    ("rewrite", "before", "left"),
    [(hoist_activations, chain(LONG, RELU), 2), (hoist_scales, chain(LONG, scale(positive=True), UNIT), LONG // 2 + 2)],
    ids=["activations", "scales"],
)
def test_removing_many_nodes_builds_one_graph(
    rewrite: Callable[[Graph], Graph], before: Graph, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Graph] = []
    check = Graph.__post_init__

    def counted(graph: Graph) -> None:
        built.append(graph)
        check(graph)

    monkeypatch.setattr(Graph, "__post_init__", counted)
    assert (len(rewrite(before).nodes), len(built)) == (left, 1)


def test_weights_with_any_number_of_scales_are_read() -> None:
    before = chain(LONG, ops.Scale(Constant.of([1.0, -1.0, 0.5]), None))
    weights = optimize(before)[before.outputs[0]].op.weight.load()  # type: ignore[union-attr]  # it is a convolution
    own = before["conv"].op.weight.load()  # type: ignore[union-attr]  # it is, too
    np.testing.assert_array_equal(weights[:2], own[:2])
    assert not weights[2].any()


def nested(join: Op, last: Op, start: str) -> Graph:
    """A join of a join of ..., each with a convolution, and the operator below them."""
    rows: list[tuple[str, Op, str]] = []
    for i in range(LONG):
        rows += [(f"c{i}", conv(), "x"), (f"j{i}", join, f"{f'j{i - 1}' if i else start} c{i}")]
    return graph("last", ("conv", conv(), "x"), *rows, ("last", last, f"j{LONG - 1}"))


@pytest.mark.parametrize("start", ["conv", "x"])
def test_scales_move_into_sums_of_any_depth(start: str) -> None:
    """From the input, which cannot be scaled, each sum would try both of its inputs again."""
    before = nested(ops.Add(), scale(), start)
    assert len(hoist_scales(before).nodes) == len(before.nodes) - (start == "conv")


def test_activations_move_into_concatenations_of_any_depth() -> None:
    before = nested(ops.Concat(), RELU, "conv")
    after = hoist_activations(before)
    assert len(after.nodes) == len(before.nodes) - 1
    assert after["c0"].op.activation == ops.Relu()  # type: ignore[union-attr]  # it is a convolution
