"""The biases of a network's last convolutions take up the mean error that its palettes leave together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.emulating import install_data
from cnn_convertor.devices.dv700.fitting import last_biases, layer_inputs
from cnn_convertor.devices.dv700.fitting.last_biases import mean_errors
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ONE, Padding, Pair, Shape, Window
from cnn_convertor.pipeline import build
from cnn_convertor.samples import Samples
from cnn_convertor.workers.processes import HERE, Processes, Workers
from verification.trials import config

pytestmark = pytest.mark.usefixtures("compiler")

Real = NDArray[np.float64]
CHANNELS = 8
ERRORS = np.linspace(-0.5, 0.5, CHANNELS)


def conv(factor: float, bias: Real | None = None, activation: ops.Function | None = None) -> ops.Conv2d:
    """Multiplies its input, and adds a bias."""
    kernels = factor * np.eye(CHANNELS, dtype=np.float32)[:, :, np.newaxis, np.newaxis]
    window = Window(ONE, ONE, ONE, Padding(0, 0, 0, 0))
    return ops.Conv2d(Constant.of(kernels), None if bias is None else Constant.of(bias), window, activation=activation)


def two_ends(bias: Real, activation: ops.Function | None) -> Graph:
    """Both ends read the first convolution, whose bias is the error of both."""
    largest = ops.MaxPool2d(Window(Pair(2, 1), Pair(2, 1)))
    first, ends = conv(1, bias), {"a": conv(1, activation=activation), "b": conv(2)}
    nodes = [Node("x", ops.Input(Shape(6, 5, CHANNELS))), Node("first", first, ("x",))]
    nodes += [Node(name, op, ("first",)) for name, op in ends.items()]
    return Graph((*nodes, Node("largest", largest, ("b",))), ("a", "largest"))


def shifts(inputs: Real, folder: Path, activation: ops.Function | None = None, on: Workers = HERE) -> dict[int, Real]:
    chosen = config(Path("graph.keras"), fusion="none")
    pair = [
        install_data(graph, build(graph, chosen), folder / str(i), device=DV700)
        for i, graph in enumerate((two_ends(np.zeros(CHANNELS), activation), two_ends(ERRORS, activation)))
    ]
    return mean_errors((pair[0], pair[1]), Samples({"x": inputs.astype(np.float32)}, "", {}), on=on)


def images(samples: int) -> Real:
    """Values around 0, of about 1."""
    return np.random.default_rng(0).normal(size=(samples, 6, 5, CHANNELS)).astype(np.float16).astype(np.float64)


def test_each_end_makes_up_for_the_error_before_it(tmp_path: Path) -> None:
    """The first convolution, behind which there are others, does not."""
    measured = shifts(images(5), tmp_path)
    assert sorted(measured) == [1, 2]
    for index, factor in ((1, 1), (2, 2)):
        np.testing.assert_allclose(measured[index], factor * ERRORS, atol=4e-3)


def test_errors_count_as_far_as_the_activation_lets_them(tmp_path: Path) -> None:
    """Where a ReLU gives 0, a bias changes nothing: the mean of the others is what it corrects."""
    inputs = images(40)
    errors = np.maximum(inputs + ERRORS, 0) - np.maximum(inputs, 0)
    wanted = np.stack([errors[..., c][inputs[..., c] > 0].mean() for c in range(CHANNELS)])
    measured = shifts(inputs, tmp_path, ops.Relu())
    np.testing.assert_allclose(measured[1], wanted, atol=0.02)


def test_processes_change_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_inputs, "_AT_A_TIME", 1)  # each sample is a batch
    found = [shifts(images(5), tmp_path / str(jobs), ops.Relu(), Processes(jobs)) for jobs in (1, 2)]
    assert [each.keys() for each in found] == [{1, 2}, {1, 2}]
    for index in (1, 2):
        np.testing.assert_array_equal(found[0][index], found[1][index])


def test_one_sample_tells_no_mean(tmp_path: Path) -> None:
    assert shifts(images(1), tmp_path) == {}


@pytest.mark.parametrize(("mean", "low", "high"), [(3.0, 2.9, 3.1), (0.0, 0.0, 0.1)])
def test_a_mean_that_varies_is_taken_for_a_smaller_one(mean: float, low: float, high: float) -> None:
    """Of 16 samples: one that is far from 0 stays, one that chance explains (0.25 here) does not."""
    errors = mean + np.random.default_rng(1).normal(size=(16, 200))
    shift = last_biases._shift(errors, np.ones_like(errors))  # noqa: SLF001
    assert shift is not None
    assert low <= np.sqrt(np.square(shift).mean()) < high
