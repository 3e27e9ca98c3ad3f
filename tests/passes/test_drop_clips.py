"""Functions that keep every value that they can get are dropped; others stay."""

from __future__ import annotations

import math

import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from cnn_convertor.passes.drop_clips import drop_clips
from passes.graphs import chain

END = ops.MaxPool2d(Window(Pair(1, 1)))  # an output keeps its node
SIGMOID = ops.Activation(ops.Sigmoid())
RELU6 = ops.Activation(ops.Relu6())


def clip(low: float, high: float) -> ops.Unary:
    return ops.Unary(ops.Clip(low, high))


def left(*made: Op) -> list[Op]:
    return [node.op for node in drop_clips(chain(*made, END)).nodes[1:-1]]


@pytest.mark.parametrize(
    "made",
    [
        [SIGMOID, clip(0.0, 1.0)],
        [SIGMOID, RELU6],
        [RELU6, clip(-1.0, 6.0)],
        [RELU6, ops.Activation(ops.Relu())],
        [RELU6, ops.Activation(ops.Relu(0.5))],
        [ops.Activation(ops.Tanh()), clip(-1.0, math.inf)],
        [ops.Unary(ops.HardSigmoid(0.2, 0.5)), ops.Upsample(Pair(2, 2)), clip(0.0, 1.0)],
        [ops.Softmax(), clip(0.0, 1.0)],
        [clip(1.0, 2.0), ops.Pad(Padding(1, 1, 1, 1)), clip(0.0, 2.0)],
        [clip(1.0, 2.0), ops.AveragePool2d(Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))), clip(0.0, 2.0)],
        [clip(-1.0, 2.0), ops.Activation(ops.Relu(0.5)), clip(-1.0, 2.0)],
        [SIGMOID, ops.Activation(ops.Relu(-0.5))],
    ],
    ids=str,
)
def test_a_function_that_changes_nothing_goes(made: list[Op]) -> None:
    assert left(*made) == made[:-1]


@pytest.mark.parametrize(
    "made",
    [
        [clip(0.0, 1.0)],
        [SIGMOID, clip(0.1, 1.0)],
        [SIGMOID, clip(0.0, 0.9)],
        [clip(1.0, 2.0), ops.Pad(Padding(1, 1, 1, 1)), clip(1.0, 2.0)],
        [ops.Activation(ops.Relu(2.0)), clip(0.0, math.inf)],
        [clip(-1.0, 2.0), ops.Activation(ops.Relu(0.5)), clip(-0.4, 2.0)],
        [RELU6, ops.AveragePool2d(Window(Pair(2, 2)), factor=1.0), clip(0.0, 6.0)],
        [ops.Unary(ops.Swish()), ops.Activation(ops.Relu())],
    ],
    ids=str,
)
def test_a_function_that_may_change_something_stays(made: list[Op]) -> None:
    assert left(*made) == made


def test_one_of_two_functions_that_do_the_same_stays() -> None:
    assert left(clip(-1.0, 3.0), ops.Activation(ops.Relu()), clip(0.0, 6.0)) == [clip(-1.0, 3.0), clip(0.0, 6.0)]


def test_what_follows_a_function_that_goes_is_judged_by_what_it_then_gets() -> None:
    assert left(SIGMOID, ops.Activation(ops.Relu(-0.5)), ops.Activation(ops.Relu()), RELU6) == [SIGMOID]


def test_a_clip_of_what_is_never_negative_begins_at_0() -> None:
    assert left(ops.Softmax(), clip(-2.0, 0.5)) == [ops.Softmax(), clip(0.0, 0.5)]


def test_a_relu_before_a_clip_from_0_goes_unless_another_node_reads_it() -> None:
    assert left(ops.Activation(ops.Relu()), clip(0.0, 2.0)) == [clip(0.0, 2.0)]
    nodes = [
        Node("x", ops.Input(Shape(4, 4, 3))),
        Node("r", ops.Activation(ops.Relu()), ("x",)),
        Node("a", clip(0.0, 2.0), ("r",)),
        Node("b", END, ("r",)),
    ]
    graph = Graph(tuple(nodes), ("a", "b"))
    assert drop_clips(graph) == graph


def test_an_output_keeps_its_node() -> None:
    graph = chain(SIGMOID, clip(0.0, 1.0))
    assert drop_clips(graph) == graph
