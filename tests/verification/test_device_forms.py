"""What the device does in place of functions of the CPU gives the same values, or rounds as its form says."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.devices.dv700.legalize.choose_executors import choose_executors
from cnn_convertor.devices.dv700.legalize.device_forms import FUNCTIONS
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.program import LayerType
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Op, Order, Padding, Pair, Shape
from reference import ir_reference
from verification.trials import NAME, network, samples

pytestmark = pytest.mark.usefixtures("compiler")

SHAPE = Shape(23, 37, 20)  # odd, and not whole chunks of channels
ROUNDS = 2.0**-11  # of a value that is rounded to FP16


class Form(NamedTuple):
    """rounding: the largest error, times the largest input or output; 0: the same values. shape: of each input."""

    op: Op
    words: str
    shape: Shape = SHAPE
    inputs: int = 1
    rounding: float = 0.0


def shuffle(groups: int, x: Shape) -> ops.TransposeReshape:
    return ops.TransposeReshape((groups, x.channels // groups, x.height, x.width), (1, 0, 2, 3), x, Order.CHW)


ONES = "of zeros and ones"
FORMS = {
    "a channel shuffle": Form(shuffle(4, SHAPE), f"a 1x1 convolution {ONES}"),
    "a crop of channels": Form(ops.Crop(Shape(0, 0, 3), Shape(23, 37, 14)), f"a 1x1 convolution {ONES}"),
    "every other channel": Form(ops.Crop(Shape(0, 0, 1), SHAPE, Shape(1, 1, 2)), f"a 1x1 convolution {ONES}"),
    "channels more than once": Form(ops.Gather(channels=(7, 7, 0, 19, 3)), f"a 1x1 convolution {ONES}"),
    "maps beside each other": Form(ops.Concat(), "parts of whole chunks", inputs=3),
    "maps above each other": Form(ops.Concat(Axis.HEIGHT), "a sum of padded maps", inputs=3),
    "columns of maps": Form(ops.Concat(Axis.WIDTH), "a sum of padded maps", inputs=2),
    "a border": Form(ops.Crop(Shape(1, 2, 0), Shape(22, 33, 20)), f"a 3x7 depthwise convolution {ONES}"),
    "every third row": Form(ops.Crop(Shape(2, 0, 0), SHAPE, Shape(3, 1, 1)), f"a 3x1 depthwise convolution {ONES}"),
    "a border of one channel": Form(
        ops.Crop(Shape(3, 1, 0), Shape(45, 60, 1), Shape(2, 2, 1)), f"a 4x2 depthwise convolution {ONES}", Shape(45, 61, 1)
    ),
    "blocks to channels": Form(
        ops.SpaceToDepth(Pair(2, 3)), f"a 2x3 convolution {ONES} with stride 2x3", Shape(22, 39, 5)
    ),
    "padded blocks to channels": Form(
        ops.SpaceToDepth(Pair(2, 2), Padding(1, 0, 0, 1)), f"a 2x2 convolution {ONES} with stride 2x2", SHAPE
    ),
    "transposed blocks to channels": Form(
        ops.TransposeReshape((5, 11, 2, 13, 3), (4, 2, 0, 1, 3), Shape(11, 13, 30), Order.CHW),
        f"a 2x3 convolution {ONES} with stride 2x3", Shape(22, 39, 5),
    ),
    "a pixel shuffle": Form(
        ops.TransposeReshape((5, 2, 2, 23, 37), (0, 3, 1, 4, 2), Shape(46, 74, 5), Order.CHW),
        f"a 2x2 deconvolution {ONES} with stride 2x2",
    ),
    "a depth to space": Form(
        ops.TransposeReshape((23, 37, 4, 1, 5), (0, 2, 1, 3, 4), Shape(92, 37, 5), Order.HWC),
        f"a 4x1 deconvolution {ONES} with stride 4x1",
    ),
    "absolute values": Form(ops.Unary(ops.Absolute()), "leaky ReLU with a slope of -1"),
    "a clip by a power of two": Form(ops.Unary(ops.Clip(0.0, 1.5)), "ReLU6 between two scales"),
    "a clip": Form(ops.Unary(ops.Clip(0.0, 1.0)), "ReLU6 between two scales", rounding=2.5 * ROUNDS),
    "a clip above": Form(ops.Unary(ops.Clip(-math.inf, 0.0)), "ReLU between two changes of sign"),
    "a hard sigmoid": Form(ops.Unary(ops.HardSigmoid(0.2, 0.5)), "ReLU6 between two scales", rounding=2.5 * ROUNDS),
    "a maximum": Form(ops.Binary(ops.BinaryOp.MAXIMUM), "b + ReLU(a - b)", inputs=2, rounding=2 * ROUNDS),
    "a minimum": Form(ops.Binary(ops.BinaryOp.MINIMUM), "a - ReLU(a - b)", inputs=2, rounding=2 * ROUNDS),
    "a mean of channels": Form(
        ops.Reduce(ops.Reduction.MEAN, (Axis.CHANNELS,)), "a 1x1 convolution with equal weights", rounding=2 * ROUNDS
    ),
    "a sum of channels": Form(
        ops.Reduce(ops.Reduction.SUM, (Axis.CHANNELS,)), "a 1x1 convolution with equal weights", rounding=ROUNDS
    ),
}  # fmt: skip


BATCHES = [list(FORMS)[start : start + 9] for start in range(0, len(FORMS), 9)]


def test_functions_with_forms_are_named() -> None:
    """The page of layers says that others run on the CPU."""
    assert {type(form.op.function) for form in FORMS.values() if isinstance(form.op, ops.Unary)} == {*FUNCTIONS}


def network_of(names: Sequence[str]) -> Graph:
    """Each form as an output, with inputs that all of the same shape read."""
    inputs: dict[str, Node] = {}
    nodes = []
    for name in names:
        form = FORMS[name]
        read = [f"{form.shape} {number}" for number in range(form.inputs)]
        inputs |= {each: Node(each, ops.Input(form.shape)) for each in read}
        nodes.append(Node(name, form.op, tuple(read)))
    return Graph((*inputs.values(), *nodes), tuple(names))


@pytest.mark.rotating
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("names", BATCHES, ids=lambda names: f"from {names[0]}")
def test_the_device_gives_the_same_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: Sequence[str], transposed: bool
) -> None:
    monkeypatch.setattr(sys.modules[choose_executors.__module__], "usec_on_cpu", lambda *_: Interval.of(1e6))
    graph = network_of(names)
    trial = network(graph, tmp_path, transpose_weight=transposed)
    work = [layer for layer in trial.program.layers if layer.type not in (LayerType.INPUT, LayerType.FLATTEN)]
    assert {layer.type for layer in work} <= {LayerType.CONV, LayerType.CONCAT}
    reasons = "; ".join(layer.reason for layer in work)
    assert [name for name in names if FORMS[name].words not in reasons] == []
    assert not audit(tmp_path / f"{NAME}_gen.cpp", tmp_path / f"{NAME}_weights.bin").findings
    random = np.random.default_rng(0)
    inputs = samples({node.name: random.normal(size=graph.shape(node.name), scale=3) for node in graph.inputs})
    expected = ir_reference.run(graph, {name: values[0] for name, values in inputs.items()})
    most = max(np.abs(values).max() for values in inputs.values())
    for name, result in zip(names, trial.run(inputs).outputs, strict=True):
        error = np.abs(result[0] - expected[name]).max()
        allowed = FORMS[name].rounding * max(most, np.abs(expected[name]).max())
        assert error <= allowed and (error > 0) is (allowed > 0), f"{name}: {error}"
