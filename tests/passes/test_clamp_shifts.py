"""Shifts beyond FP16 come into its range where the functions behind them saturate alike, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Shape
from cnn_convertor.passes.clamp_shifts import clamp_shifts
from passes.graphs import SIGMOID, chain
from reference import ir_reference

X = Shape(2, 2, 4)
SHIFTS = np.array([1e9, -3e38, 2.0, 60001.0])
ADDED = ops.Scale(Constant.of(np.ones(4)), Constant.of(SHIFTS))
ABOVE, BELOW = 60000.0, -60000.0
BOTH = [ABOVE, BELOW, 2.0, 60001.0]
ONLY_BELOW = [1e9, BELOW, 2.0, 60001.0]
FLAT = ops.Reshape(Shape(1, 1, X.size), Order.CHW)


def shifts(graph: Graph) -> list[float]:
    (op,) = (node.op for node in graph.nodes if isinstance(node.op, ops.Scale))
    assert op.shift is not None
    return [float(number) for number in op.shift.load()]


SATURATING: dict[str, tuple[tuple[Op, ...], list[float]]] = {
    "sigmoid": ((SIGMOID,), BOTH),
    "sigmoid on the CPU": ((ops.Unary(ops.Sigmoid()),), BOTH),
    "tanh": ((ops.Activation(ops.Tanh()),), BOTH),
    "relu6": ((ops.Activation(ops.Relu6()),), BOTH),
    "relu": ((ops.Activation(ops.Relu()),), ONLY_BELOW),
    "elu": ((ops.Activation(ops.Elu()),), ONLY_BELOW),
    "hard swish": ((ops.Unary(ops.HardSwish()),), ONLY_BELOW),
    "hard sigmoid": ((ops.Unary(ops.HardSigmoid(1 / 6, 0.5)),), BOTH),
    "clip": ((ops.Unary(ops.Clip(-1.0, 1.0)),), BOTH),
    "clip of one side": ((ops.Unary(ops.Clip(-1.0, np.inf)),), ONLY_BELOW),
    "behind moves": ((FLAT, ops.Crop(Shape(0, 0, 2), Shape(1, 1, X.size)), SIGMOID), BOTH),
}


@pytest.mark.parametrize("name", SATURATING)
def test_shifts_that_saturate_a_function_are_clamped_and_change_no_result(name: str) -> None:
    operators, wanted = SATURATING[name]
    before = chain(ADDED, *operators, shape=X)
    after = clamp_shifts(before)
    assert shifts(after) == pytest.approx(wanted)
    numbers = np.random.default_rng(0).uniform(-59_000, 59_000, tuple(X))
    (output,) = before.outputs
    with np.errstate(over="ignore"):
        expected, actual = (ir_reference.run(graph, {"x": numbers})[output] for graph in (before, after))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


OTHERS: dict[str, tuple[Op, ...]] = {
    "an output": (),
    "a leaky relu": (ops.Activation(ops.Relu(0.1)),),
    "a flat hard sigmoid": (ops.Unary(ops.HardSigmoid(0.001, 0.5)),),
    "a wide clip": (ops.Unary(ops.Clip(-100.0, 100.0)),),
    "a factor between": (ops.Scale(Constant.of(np.full(4, 1e-9))), SIGMOID),
}


@pytest.mark.parametrize("name", OTHERS)
def test_shifts_whose_size_matters_stay(name: str) -> None:
    before = chain(ADDED, *OTHERS[name], shape=X)
    assert clamp_shifts(before) is before


def test_every_reader_must_saturate() -> None:
    nodes = (
        Node("x", ops.Input(X)),
        Node("a", ADDED, ("x",)),
        Node("s", SIGMOID, ("a",)),
        Node("r", ops.Activation(ops.Relu()), ("a",)),
    )
    assert shifts(clamp_shifts(Graph(nodes, ("s", "r")))) == pytest.approx(ONLY_BELOW)
    assert shifts(clamp_shifts(Graph(nodes, ("s", "a")))) == pytest.approx(SHIFTS)
