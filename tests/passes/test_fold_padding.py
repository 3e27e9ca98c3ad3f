"""Padding folds into the operators behind it where that changes nothing; which maps are never negative."""

from __future__ import annotations

import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Padding, Pair, Shape, Window
from cnn_convertor.passes.fold_padding import fold_padding
from passes.graphs import ALL_SIDES, CONV, PAD, RELU, SIGMOID, chain, conv, same, scale, some, text


def max_pool(padding: Padding = ops.NO_PADDING) -> Op:
    return ops.MaxPool2d(Window(Pair(3, 3), padding=padding))


FOLDED_PADDING = {
    "1: pad -> convolution": (
        chain(PAD, conv(padding=Padding(0, 1, 0, 1))),
        [f"b = {CONV} window=kernel=3x3 padding=1x2x1x2](x) -> 5x7x3"],
    ),
    "2: pad -> average pool": (
        chain(PAD, ops.AveragePool2d(Window(Pair(3, 3)))),
        ["b = AveragePool2d[window=kernel=3x3 padding=1x1x1x1](x) -> 4x6x3"],
    ),
    "3: pad -> max pool of what is never negative": (
        chain(SIGMOID, PAD, max_pool()),
        [
            "a = Activation[function=Sigmoid](x) -> 4x6x3",
            "c = MaxPool2d[window=kernel=3x3 padding=1x1x1x1](a) -> 4x6x3",
        ],
    ),
    "4: pad -> pad": (chain(PAD, PAD), ["b = Pad[padding=2x2x2x2](x) -> 8x10x3"]),
    "one after the other": (chain(PAD, PAD, conv()), [f"c = {CONV} window=kernel=3x3 padding=2x2x2x2](x) -> 6x8x3"]),
}


@pytest.mark.parametrize("case", FOLDED_PADDING)
def test_padding_folds(case: str) -> None:
    graph, expected = FOLDED_PADDING[case]
    folded = fold_padding(graph)
    assert text(folded)[:-1] == expected
    same(graph, folded)


KEPT_PADDING = {
    "a max pool of possibly negative values": chain(PAD, max_pool()),
    "a leaky max pool": chain(ops.Activation(ops.Relu(0.1)), PAD, max_pool()),
    "a max pool that would have a window of padding alone": chain(SIGMOID, ops.Pad(Padding(3, 0, 0, 0)), max_pool()),
    "... together with its own padding": chain(SIGMOID, ops.Pad(Padding(2, 0, 0, 0)), max_pool(Padding(1, 0, 0, 0))),
    "an average pool that does not count all padding": chain(
        PAD, ops.AveragePool2d(Window(Pair(3, 3)), uncounted=ALL_SIDES)
    ),
    "a scale": chain(PAD, scale()),
    "an activation": chain(PAD, SIGMOID),
    "a deconvolution": chain(PAD, ops.ConvTranspose2d(some(2, 3, 3, 3), None, Window(Pair(3, 3)))),
}


@pytest.mark.parametrize("case", KEPT_PADDING)
def test_padding_that_stays(case: str) -> None:
    assert fold_padding(KEPT_PADDING[case]) == KEPT_PADDING[case]


def test_padding_with_several_users_goes_to_each_that_can_take_it() -> None:
    nodes = (
        Node("x", ops.Input(Shape(4, 6, 3))), Node("p", PAD, ("x",)), Node("a", conv(), ("p",)),
        Node("b", ops.AveragePool2d(Window(Pair(3, 3))), ("p",)), Node("c", SIGMOID, ("p",)),
    )  # fmt: skip
    graph = Graph(nodes, ("a", "b", "c"))
    folded = fold_padding(graph)
    assert text(folded)[:-1] == [
        "p = Pad[padding=1x1x1x1](x) -> 6x8x3",
        f"a = {CONV} window=kernel=3x3 padding=1x1x1x1](x) -> 4x6x3",
        "b = AveragePool2d[window=kernel=3x3 padding=1x1x1x1](x) -> 4x6x3",
        "c = Activation[function=Sigmoid](p) -> 6x8x3",
    ]
    same(graph, folded)


KNOWN_SIGNS: list[tuple[list[Op], bool]] = [
    ([], False),
    ([RELU], True),
    ([ops.Activation(ops.Relu6())], True),
    ([ops.Activation(ops.Tanh())], False),
    ([ops.Activation(ops.Elu())], False),
    ([conv(activation=ops.Relu())], True),
    ([conv()], False),
    ([RELU, ops.Upsample(Pair(2, 2))], True),
    ([RELU, max_pool()], True),
    ([RELU, ops.AveragePool2d(Window(Pair(2, 2)))], True),
    ([RELU, ops.AveragePool2d(Window(Pair(2, 2)), factor=-1.0)], False),
    ([RELU, ops.AveragePool2d(Window(Pair(2, 2)), activation=ops.Tanh())], False),
    ([RELU, scale()], False),
    ([RELU, ops.Identity(), ops.Reshape(Shape(6, 4, 3), Order.CHW)], True),
    ([ops.Softmax()], True),
]


@pytest.mark.parametrize(("before", "known"), KNOWN_SIGNS)
def test_known_signs(before: list[Op], known: bool) -> None:
    graph = chain(*before, PAD, max_pool())
    folded = fold_padding(graph)
    assert any(isinstance(node.op, ops.Pad) for node in folded.nodes) is not known
    same(graph, folded)


def test_signs_through_sums_and_concatenations() -> None:
    def joined(op: Op, first: Op) -> Graph:
        nodes = (
            Node("x", ops.Input(Shape(4, 6, 3))),
            Node("a", first, ("x",)),
            Node("b", RELU, ("x",)),
            Node("c", op, ("a", "b")),
        )
        return Graph((*nodes, Node("p", PAD, ("c",)), Node("m", max_pool(), ("p",))), ("m",))

    for op in (ops.Add(), ops.Concat()):
        assert "Pad[" not in str(fold_padding(joined(op, SIGMOID)))
        assert "Pad[" in str(fold_padding(joined(op, ops.Activation(ops.Tanh()))))


def test_sign_analysis_is_fast_in_deep_networks() -> None:
    """A thousand sums deep, with exponentially many paths."""
    nodes = [Node("x", ops.Input(Shape(4, 6, 3))), Node("s0", RELU, ("x",))]
    nodes += [Node(f"s{index}", ops.Add(), (f"s{index - 1}",) * 2) for index in range(1, 1000)]
    nodes += [Node("pad", PAD, ("s999",)), Node("p", ops.MaxPool2d(Window(Pair(3, 3))), ("pad",))]
    assert "Pad[" not in str(fold_padding(Graph(tuple(nodes), ("p",))))
