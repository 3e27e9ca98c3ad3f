"""Each pass, before and after as text; random networks compute the same after all passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Pair, Shape, Window
from cnn_convertor.passes import optimize
from cnn_convertor.passes.canonicalize import (
    as_scale,
    batch_norms_to_scales,
    differences_to_sums,
    remove_identities,
    sink_reshapes,
)
from cnn_convertor.passes.fold_activations import fold_activations
from cnn_convertor.passes.fold_reshapes import fold_reshapes
from cnn_convertor.passes.fold_scales import fold_scales
from passes.graphs import ALL_SIDES, CONV, PAD, RANDOM, RELU, SIGMOID, chain, conv, same, scale, some, text
from reference import ir_reference, random_networks

# --- canonicalize -----------------------------------------------------------------------------------------------------------


def test_identities_and_reshapes_to_the_same_shape_vanish() -> None:
    g = chain(ops.Identity(), RELU, ops.Reshape(Shape(4, 6, 3), Order.CHW), ops.Identity(), outputs="d b")
    assert text(remove_identities(g)) == ["b = Activation[function=Relu](x) -> 4x6x3", "outputs: b, b"]


def test_reshapes_that_undo_each_other_vanish() -> None:
    g = chain(ops.Reshape(Shape(6, 4, 3), Order.CHW), ops.Identity(), ops.Reshape(Shape(4, 6, 3), Order.CHW), RELU)
    assert text(remove_identities(g)) == ["d = Activation[function=Relu](x) -> 4x6x3", "outputs: d"]


def test_reshapes_in_different_orders_stay() -> None:
    g = chain(ops.Reshape(Shape(6, 4, 3), Order.CHW), ops.Reshape(Shape(4, 6, 3), Order.HWC))
    assert remove_identities(g) == g


def test_a_reshape_to_another_shape_stays() -> None:
    g = chain(ops.Reshape(Shape(6, 4, 3), Order.HWC))
    assert remove_identities(g) == g


@pytest.mark.parametrize("gamma", [False, True])
@pytest.mark.parametrize("beta", [False, True])
def test_batch_norms_become_scales(gamma: bool, beta: bool) -> None:
    variance = Constant.of(RANDOM.uniform(0.1, 2, 3))
    norm = ops.BatchNorm(some(3), variance, some(3) if gamma else None, some(3) if beta else None, 1e-3)
    g = chain(norm)
    assert text(batch_norms_to_scales(g))[0] == "a = Scale[factor=Constant(3) shift=Constant(3)](x) -> 4x6x3"
    same(g, batch_norms_to_scales(g))


def test_batch_norm_is_computed_in_fp64() -> None:
    norm = ops.BatchNorm(Constant.of([0.0]), Constant.of([0.0]), None, None, 1e-5)
    (factor,) = as_scale(norm).factor.load_wide()
    assert factor == 1 / np.sqrt(1e-5)


def test_folded_weights_are_the_nearest_fp16_numbers() -> None:
    """A batch norm behind the weights and a scale before them; FP32 between the steps would move some values."""
    out, channels = 400, 300
    weight, factor = some(out, channels, 1, 1), some(channels)
    norm = ops.BatchNorm(some(out), Constant.of(RANDOM.uniform(0.1, 2, out)), some(out), some(out), 1e-3)
    g = chain(ops.Scale(factor, None), ops.Conv2d(weight, None, Window(Pair(1, 1))), norm, shape=Shape(1, 1, channels))
    (op,) = (node.op for node in fold_scales(batch_norms_to_scales(g)).nodes if isinstance(node.op, ops.Conv2d))
    assert norm.gamma is not None
    after = norm.gamma.load_wide() / np.sqrt(norm.variance.load_wide() + 1e-3)
    exact = weight.load_wide() * factor.load_wide()[:, None, None] * after[:, None, None, None]
    np.testing.assert_array_equal(op.weight.load().astype(np.float16), exact.astype(np.float16))


DIFFERENCE = ops.Binary(ops.BinaryOp.SUBTRACT)


def test_differences_become_sums_and_weights_take_the_sign() -> None:
    nodes = (Node("a", conv(), ("x",)), Node("b", conv(), ("x",)), Node("d", DIFFERENCE, ("a", "b")))
    g = Graph((Node("x", ops.Input(Shape(4, 6, 3))), *nodes), ("d",))
    assert [line.split(" = ")[1].split("[")[0] for line in text(differences_to_sums(g))[2:4]] == [
        "Scale",
        "Add(a, d/negative) -> 2x4x3",
    ]
    assert [type(node.op).__name__ for node in optimize(g).nodes] == ["Input", "Conv2d", "Conv2d", "Add"]
    same(g, optimize(g))


def test_a_difference_of_maps_of_other_sizes_stays() -> None:
    nodes = (
        Node("x", ops.Input(Shape(4, 6, 3))),
        Node("y", ops.Input(Shape(1, 1, 3))),
        Node("d", DIFFERENCE, ("x", "y")),
    )
    assert differences_to_sums(Graph(nodes, ("d",))) == Graph(nodes, ("d",))


def test_activations_move_before_reshapes() -> None:
    flatten = ops.Reshape(Shape(1, 1, 72), Order.HWC)
    assert text(sink_reshapes(chain(flatten, RELU, SIGMOID))) == [
        "a = Activation[function=Relu](x) -> 4x6x3",
        "b = Activation[function=Sigmoid](a) -> 4x6x3",
        "c = Reshape[shape=1x1x72 order=Order.HWC](b) -> 1x1x72",
        "outputs: c",
    ]


@pytest.mark.parametrize(
    "graph",
    [
        chain(ops.Reshape(Shape(1, 1, 72), Order.HWC), ops.Activation(ops.PRelu(some(72)))),  # slopes are of channels
        chain(ops.Reshape(Shape(1, 1, 72), Order.HWC), RELU, outputs="b a"),  # an output in the middle
    ],
)
def test_activations_that_stay_after_a_reshape(graph: Graph) -> None:
    assert sink_reshapes(graph) == graph


# --- scales --------------------------------------------------------------------------------------------------------------

FOLDED_SCALES = {
    "1: convolution -> scale": (
        chain(conv(), scale()),
        [f"b = {CONV} bias=Constant(3) window=kernel=3x3](x) -> 2x4x3"],
    ),
    "1: with a bias already": (
        chain(conv(bias=True), scale()),
        [f"b = {CONV} bias=Constant(3) window=kernel=3x3](x) -> 2x4x3"],
    ),
    "1: padding is on the other side": (
        chain(conv(padding=ALL_SIDES), scale()),
        [f"b = {CONV} bias=Constant(3) window=kernel=3x3 padding=1x1x1x1](x) -> 4x6x3"],
    ),
    "1: dense -> scale": (
        chain(ops.Dense(some(5, 3, 4, 6), some(5)), scale(channels=5)),
        ["b = Dense[weight=Constant(5x3x4x6) bias=Constant(5)](x) -> 1x1x5"],
    ),
    "1: deconvolution -> scale": (
        chain(ops.ConvTranspose2d(some(2, 3, 3, 3), None, Window(Pair(3, 3))), scale(channels=2)),
        ["b = ConvTranspose2d[weight=Constant(2x3x3x3) bias=Constant(2) window=kernel=3x3](x) -> 6x8x2"],
    ),
    "2: scale -> scale": (chain(scale(), scale()), ["b = Scale[factor=Constant(3) shift=Constant(3)](x) -> 4x6x3"]),
    "3: scale -> convolution": (
        chain(scale(), conv()),
        [f"b = {CONV} bias=Constant(3) window=kernel=3x3](x) -> 2x4x3"],
    ),
    "3: a bare factor commutes with padding": (
        chain(scale(shift=False), conv(padding=ALL_SIDES)),
        [f"b = {CONV} window=kernel=3x3 padding=1x1x1x1](x) -> 4x6x3"],
    ),
    "3: scale -> groups": (
        chain(
            scale(channels=4), ops.Conv2d(some(6, 2, 3, 3), None, Window(Pair(3, 3)), groups=2), shape=Shape(4, 6, 4)
        ),
        ["b = Conv2d[weight=Constant(6x2x3x3) bias=Constant(6) window=kernel=3x3 groups=2](x) -> 2x4x6"],
    ),
    "3: scale -> dense": (
        chain(scale(), ops.Dense(some(5, 3, 4, 6), None)),
        ["b = Dense[weight=Constant(5x3x4x6) bias=Constant(5)](x) -> 1x1x5"],
    ),
    "all of them": (
        chain(scale(), scale(), conv(), scale(), scale(shift=False)),
        [f"e = {CONV} bias=Constant(3) window=kernel=3x3](x) -> 2x4x3"],
    ),
}


@pytest.mark.parametrize("case", FOLDED_SCALES)
def test_scales_fold(case: str) -> None:
    graph, expected = FOLDED_SCALES[case]
    folded = fold_scales(graph)
    assert text(folded)[:-1] == expected
    same(graph, folded)


KEPT_SCALES = {
    "a shift before a padded convolution": chain(scale(), conv(padding=ALL_SIDES)),
    "an activation between": chain(conv(activation=ops.Relu()), scale()),
    "an activation between scale and convolution": chain(scale(), RELU, conv()),
    "an output in the middle": chain(conv(), scale(), outputs="a b"),
    "several users": Graph(
        (
            Node("x", ops.Input(Shape(4, 6, 3))),
            Node("a", conv(), ("x",)),
            Node("b", scale(), ("a",)),
            Node("c", ops.Add(), ("a", "b")),
        ),
        ("c",),
    ),
    "a scale before a deconvolution": chain(scale(), ops.ConvTranspose2d(some(2, 3, 3, 3), None, Window(Pair(3, 3)))),
}


@pytest.mark.parametrize("case", KEPT_SCALES)
def test_scales_that_stay(case: str) -> None:
    assert fold_scales(KEPT_SCALES[case]) == KEPT_SCALES[case]


def test_folding_a_scale_reads_large_weights_a_range_at_a_time() -> None:
    rows: list[int] = []

    def read(wanted: slice) -> ir_reference.Array:
        rows.append(wanted.stop - wanted.start)
        return np.ones((wanted.stop - wanted.start, 3, 1, 1), np.float32)

    weight = Constant((1000, 3, 1, 1), read)
    folded = fold_scales(chain(scale(), ops.Conv2d(weight, None, Window(ops.ONE)), scale(channels=1000)))
    assert max(rows) <= 256
    assert folded.shape("c") == Shape(4, 6, 1000)


# --- activations ---------------------------------------------------------------------------------------------------------

CARRIERS: list[Op] = [
    conv(),
    ops.ConvTranspose2d(some(2, 3, 3, 3), None, Window(Pair(3, 3))),
    ops.Dense(some(5, 3, 4, 6), None),
    ops.MaxPool2d(Window(Pair(2, 2))),
    ops.AveragePool2d(Window(Pair(2, 2))),
    scale(),
]


@pytest.mark.parametrize("op", CARRIERS, ids=lambda op: type(op).__name__)
def test_activations_fold(op: Op) -> None:
    graph = chain(op, ops.Activation(ops.Relu(0.1)))
    folded = fold_activations(graph)
    assert [n.name for n in folded.nodes] == ["x", "b"]
    assert "activation=Relu[slope=0.1]" in str(folded)
    same(graph, folded)


def test_an_activation_after_a_sum_folds() -> None:
    nodes = (Node("x", ops.Input(Shape(2, 2, 2))), Node("a", ops.Add(), ("x", "x")), Node("b", RELU, ("a",)))
    assert text(fold_activations(Graph(nodes, ("b",)))) == ["b = Add[activation=Relu](x, x) -> 2x2x2", "outputs: b"]


def test_a_second_activation_stays() -> None:
    assert text(fold_activations(chain(scale(), RELU, SIGMOID))) == [
        "b = Scale[factor=Constant(3) shift=Constant(3) activation=Relu](x) -> 4x6x3",
        "c = Activation[function=Sigmoid](b) -> 4x6x3",
        "outputs: c",
    ]


@pytest.mark.parametrize(
    "graph", [chain(RELU), chain(PAD, RELU), chain(ops.Softmax(), RELU), chain(conv(), RELU, outputs="b a")]
)
def test_activations_that_stay(graph: Graph) -> None:
    assert fold_activations(graph) == graph


# --- reshapes ------------------------------------------------------------------------------------------------------------


def flatten(order: Order, size: int = 72) -> Op:
    return ops.Reshape(Shape(1, 1, size), order)


@pytest.mark.parametrize("order", [Order.HWC, Order.CHW])
def test_flatten_folds_into_dense(order: Order) -> None:
    graph = chain(flatten(order), ops.Dense(some(5, 72, 1, 1), None))
    folded = fold_reshapes(graph)
    assert text(folded)[0] == "b = Dense[weight=Constant(5x3x4x6)](x) -> 1x1x5"
    same(graph, folded)


@pytest.mark.parametrize(
    ("first", "second", "order"),
    [
        (ops.Reshape(Shape(6, 4, 3), Order.HWC), ops.Reshape(Shape(8, 3, 3), Order.HWC), "HWC"),
        (ops.Reshape(Shape(6, 4, 3), Order.CHW), flatten(Order.CHW), "CHW"),
        (flatten(Order.HWC), ops.Reshape(Shape(6, 4, 3), Order.HWC), "HWC"),
        (flatten(Order.CHW), flatten(Order.HWC), "CHW"),  # vectors are the same in every order
    ],
)
def test_reshapes_fold(first: Op, second: Op, order: str) -> None:
    graph = chain(first, second)
    folded = fold_reshapes(graph)
    assert [n.name for n in folded.nodes] == ["x", "b"]
    assert f"order=Order.{order}" in str(folded)
    same(graph, folded)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ops.Reshape(Shape(6, 4, 3), Order.HWC), flatten(Order.CHW)),
        (
            flatten(Order.HWC),
            ops.Reshape(Shape(6, 4, 3), Order.CHW),
        ),  # a permutation: Keras' channels_last, then channels_first
        (ops.Reshape(Shape(6, 4, 3), Order.HWC), ops.Dense(some(5, 3, 6, 4), None)),
    ],
)
def test_reshapes_that_stay(first: Op, second: Op) -> None:
    graph = chain(first, second)
    assert fold_reshapes(graph) == graph


# --- all of them ---------------------------------------------------------------------------------------------------------


def test_a_residual_network_becomes_four_operators() -> None:
    nodes = (
        Node("x", ops.Input(Shape(8, 8, 3))),
        Node("pad", PAD, ("x",)),
        Node("conv1", conv(), ("pad",)),
        Node("bn1", ops.BatchNorm(some(3), Constant.of(np.ones(3)), some(3), None, 1e-3), ("conv1",)),
        Node("relu1", RELU, ("bn1",)),
        Node("drop", ops.Identity(), ("relu1",)),
        Node("conv2", conv(padding=ALL_SIDES), ("drop",)),
        Node("bn2", ops.BatchNorm(some(3), Constant.of(np.ones(3)), None, some(3), 1e-3), ("conv2",)),
        Node("add", ops.Add(), ("bn2", "drop")),
        Node("relu2", RELU, ("add",)),
        Node("flatten", flatten(Order.HWC, 192), ("relu2",)),
        Node("fc", ops.Dense(some(10, 192, 1, 1), some(10)), ("flatten",)),
        Node("unused", RELU, ("fc",)),
    )
    graph = Graph(nodes, ("fc",))
    optimized = optimize(graph)
    window = "window=kernel=3x3 padding=1x1x1x1"
    assert text(optimized) == [
        f"relu1 = {CONV} bias=Constant(3) {window} activation=Relu](x) -> 8x8x3",
        f"bn2 = {CONV} bias=Constant(3) {window}](relu1) -> 8x8x3",
        "relu2 = Add[activation=Relu](bn2, relu1) -> 8x8x3",
        "fc = Dense[weight=Constant(10x3x8x8) bias=Constant(10)](relu2) -> 1x1x10",
        "outputs: fc",
    ]
    same(graph, optimized)


@settings(max_examples=120)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 12))
def test_optimized_networks_compute_the_same(seed: int, steps: int) -> None:
    graph = random_networks.network(seed, steps)
    same(graph, optimize(graph))
