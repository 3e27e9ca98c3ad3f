"""Outputs behind a jump, such as Floor: values that rounding moves across it do not fail, other errors do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Order, Pair, Shape, Window
from verification.test_bounds import verified
from verification.test_mutations import Maker

pytestmark = pytest.mark.usefixtures("compiler")

KINDS: dict[str, tuple[ops.ElementFunction, ops.ElementFunction]] = {
    "floor": (ops.Floor(), ops.Round()),
    "round": (ops.Round(), ops.Floor()),
    "threshold": (ops.Threshold(1.0), ops.Threshold(1.02)),
    "bounded": (ops.BoundedRelu(0.0, 2.0, 9.0), ops.BoundedRelu(0.0, 2.02, 9.0)),
}


def made(function: ops.ElementFunction, scale: float = 1.0) -> Graph:
    """A convolution, the function, the product of both for a threshold, and the elements in another order."""
    make = Maker()
    make.add("image", ops.Input(Shape(60, 50, 8)))
    weights = make.random.normal(size=(16, 8, 1, 1)) * 0.35 * scale
    make.add("conv", ops.Conv2d(Constant.of(weights), None, Window(Pair(1, 1))))
    make.add("steps", ops.Unary(function))
    if isinstance(function, ops.Threshold):
        make.add("product", ops.Binary(ops.BinaryOp.MULTIPLY), "conv", "steps")
    make.add("turned", ops.TransposeReshape((60, 50, 16), (1, 0, 2), Shape(50, 60, 16), Order.HWC))
    return Graph(tuple(make.nodes), ("turned",))


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(("function", "other"), KINDS.values(), ids=KINDS)
def test_only_values_at_the_jump_count_as_right(
    function: ops.ElementFunction, other: ops.ElementFunction, tmp_path: Path
) -> None:
    right = made(function)
    result = verified(right, right, tmp_path)
    assert result.passed and result.outputs[0].sqnr > 60, result.outputs
    assert not verified(made(other), right, tmp_path).passed
    assert not verified(made(function, 1.02), right, tmp_path).passed


def test_palettes_move_values_across_a_jump_as_well(tmp_path: Path) -> None:
    right = made(ops.Threshold(1.0))
    result = verified(right, right, tmp_path, palette=True)
    assert result.passed and result.outputs[0].sqnr > 20, result.outputs
    assert not verified(made(ops.Threshold(1.0), 1.02), right, tmp_path, palette=True).passed
