"""Tables of functions are chosen for what they read on samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config.request import Request
from cnn_convertor.devices.nvdla.accelerator import NvdlaAccelerator
from cnn_convertor.devices.nvdla.sampled_ranges import SampledRange
from cnn_convertor.errors import ConvertorWarning
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import quantize
from cnn_convertor.samples import Samples
from cnn_convertor.verification.compare import sqnr
from reference import ir_reference
from verification.trials import config, network

pytestmark = pytest.mark.usefixtures("compiler")


def doubled(function: ops.Function | None) -> ops.Conv2d:
    """A convolution that doubles each channel, and a function of what it gives."""
    weight = Constant.of(2 * np.eye(32, dtype=np.float32).reshape(32, 32, 1, 1))
    return ops.Conv2d(weight, None, Window(Pair(1, 1)), activation=function)


GRAPH = Graph(
    (
        Node("x", ops.Input(Shape(2, 3, 32))),
        Node("sigmoid", doubled(ops.Sigmoid()), ("x",)),
        Node("doubled", doubled(None), ("x",)),
        Node("swish", ops.Unary(ops.Swish()), ("doubled",)),
        Node("response", ops.LocalResponseNorm(5, 0.001, 0.75, 1.0), ("x",)),
        Node("tanh", ops.Activation(ops.Tanh()), ("x",)),
    ),
    ("sigmoid", "swish", "response", "tanh"),
)


def between(low: float, high: float) -> Samples:
    values = np.linspace(low, high, 2 * 3 * 32, dtype=np.float32).reshape(1, 2, 3, 32)
    return Samples({"x": values}, "a ramp", {})


@pytest.mark.slow
def test_ranges_are_those_on_samples_with_a_margin(tmp_path: Path) -> None:
    """Also of a function that a convolution has on the fly. Results are nearer to the exact ones, and each layer names its range."""
    request = Request.of(config(Path("graph.keras"), device="nvdla-full"))
    samples = between(-0.25, 0.5)
    made = quantize(GRAPH, request, calibrating=samples)
    assert isinstance(made.target, NvdlaAccelerator)
    assert made.target.ranges == (
        SampledRange("sigmoid", -0.75, 1.5),
        SampledRange("swish", -0.75, 1.5),
        SampledRange("response", 0.0, 1.5),  # five squares of almost 0.5
        SampledRange("tanh", -0.375, 0.75),
    )
    words = [run.does for layer in made.program.layers for run in layer.runs]
    assert any("swish for -0.75 to 1.5" in each for each in words)
    files = made.target.emit(made.program, request.rendering)
    better = made.target.install(GRAPH, made.program, files, tmp_path / "better")
    usual = network(GRAPH, tmp_path / "usual", compiled=True, device="nvdla-full")
    expected = ir_reference.run(GRAPH, {"x": samples.inputs["x"][0].astype(np.float64)})
    for number, name in enumerate(("sigmoid", "swish", "response", "tanh")):
        with_samples, without = (each.run(samples.inputs).outputs[number][0] for each in (better, usual))
        assert sqnr(with_samples, expected[name]) >= max(60.0, sqnr(without, expected[name])), name


def test_a_network_without_tables_has_nothing_to_calibrate() -> None:
    graph = Graph((GRAPH["x"], GRAPH["doubled"]), ("doubled",))
    request = Request.of(config(Path("graph.keras"), device="nvdla-full"))
    with pytest.warns(ConvertorWarning, match="DV716: there is nothing to calibrate: no function of the network"):
        made = quantize(graph, request, calibrating=between(0, 1))
    assert made.target == request.target
