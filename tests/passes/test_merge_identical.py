"""Equal layers on the same input are merged."""

from __future__ import annotations

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Op, Pair, Window
from cnn_convertor.passes import optimize
from cnn_convertor.passes.hoist_activations import hoist_activations
from cnn_convertor.passes.merge_identical import merge_activations, merge_identical
from passes.test_hoisting import AVERAGE, MAX, RANDOM, RELU, X, conv, graph, same, short


def test_identical_layers_on_one_input_are_merged() -> None:
    weights = RANDOM.normal(size=(70, 3, 1, 1))

    def twin(change: float = 0.0) -> Op:
        values = weights.copy()
        values[69, 2] += change  # the last number
        return ops.Conv2d(Constant.of(values), None, Window(Pair(1, 1)), activation=ops.PRelu(Constant.of(np.ones(70))))

    before = graph(
        "out", ("a", twin(), "x"), ("b", twin(), "x"), ("c", twin(1.0), "x"), ("pa", MAX, "a"), ("pb", MAX, "b"), ("pc", MAX, "c"),
        ("ab", ops.Add(), "pa pb"), ("out", ops.Add(), "ab pc"),
    )  # fmt: skip
    after = merge_identical(before)
    assert short(after) == [
        "a = Conv2d PRelu(x)", "c = Conv2d PRelu(x)", "pa = MaxPool2d(a)", "pc = MaxPool2d(c)", "ab = Add(pa, pa)", "out = Add(ab, pc)",
    ]  # fmt: skip
    same(before, after)


def test_zeros_of_both_signs_are_identical() -> None:
    def zeros(value: float) -> Op:
        return ops.Conv2d(Constant.of(np.full((1, 3, 1, 1), value)), None, Window(Pair(1, 1)))

    before = graph("out", ("a", zeros(0.0), "x"), ("b", zeros(-0.0), "x"), ("out", ops.Concat(), "a b"))
    assert short(merge_identical(before)) == ["a = Conv2d(x)", "out = Concat(a, a)"]


def test_many_layers_on_one_input_read_few_weights_of_each_other() -> None:
    read = 0

    def counted(values: np.ndarray) -> Constant:
        def rows_of(rows: slice) -> np.ndarray:
            nonlocal read
            read += rows.stop - rows.start
            return values[rows]

        return Constant(values.shape, rows_of)

    many = 100
    values = RANDOM.normal(size=(many, 70, 3, 1, 1)).astype(np.float32)
    layers = [(f"c{i}", ops.Conv2d(counted(own), None, Window(Pair(1, 1))), "x") for i, own in enumerate(values)]
    before = graph("out", *layers, ("out", ops.Concat(), " ".join(name for name, *_ in layers)))
    assert merge_identical(before) is before
    assert read == many  # a row of each; all pairs took 4,950 times 128 rows


def test_layers_with_missing_weights_are_not_identical() -> None:
    def unknown() -> Op:
        return ops.Conv2d(Constant.absent((8, 3, 1, 1)), Constant.absent((8,)), Window(Pair(1, 1)))

    before = graph("out", ("a", unknown(), "x"), ("b", unknown(), "x"), ("out", ops.Concat(), "a b"))
    assert merge_identical(before) is before
    shared = unknown()
    twice = graph("out", ("a", shared, "x"), ("b", shared, "x"), ("out", ops.Concat(), "a b"))
    assert short(merge_identical(twice)) == ["a = Conv2d+(x)", "out = Concat(a, a)"]


def test_outputs_and_custom_layers_are_not_merged() -> None:
    mine = ops.Custom("Mine", (), X)
    before = graph("b m n", ("a", RELU, "x"), ("b", RELU, "x"), ("s", MAX, "a"), ("m", mine, "x"), ("n", mine, "x"))
    assert [node.name for node in merge_identical(before).nodes] == ["x", "a", "b", "s", "m", "n"]


def test_identical_activations_merge_and_move() -> None:
    before = graph(
        "p q", ("a", conv(8), "x"), ("b", conv(8), "x"), ("cat", ops.Concat(), "a b"), ("r", RELU, "cat"), ("t", RELU, "cat"),
        ("p", MAX, "r"), ("q", AVERAGE, "t"),
    )  # fmt: skip
    assert short(hoist_activations(merge_activations(before))) == [
        "a = Conv2d Relu(x)", "b = Conv2d Relu(x)", "r = Concat(a, b)", "p = MaxPool2d(r)", "q = AveragePool2d(r)",
    ]  # fmt: skip
    same(before, optimize(before))
