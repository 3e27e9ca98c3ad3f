"""What errors count at the outputs: gradients are what differences on the emulated device say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.emulating import install_data
from cnn_convertor.devices.dv700.fitting import gradients
from cnn_convertor.devices.dv700.fitting.layer_inputs import read_maps
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import plan
from verification.trials import config, target_for

pytestmark = pytest.mark.usefixtures("compiler")

Real = NDArray[np.float64]
Described = tuple[str, ops.Op, tuple[str, ...]]  # of a node: its name, and what it reads
SHAPE, CHANNELS = Shape(8, 8, 6), 16
POINT = Window(Pair(1, 1))
SMALL = Window(Pair(3, 3), Pair(2, 2), Pair(1, 1), Padding(1, 1, 1, 1))
SAMPLES = 3
STEP = 2**-10  # of a bias, which FP16 holds


def normal(seed: int, *shape: int) -> Constant:
    values = np.random.default_rng(seed).normal(size=shape) / np.sqrt(np.prod(shape[1:]))
    return Constant.of(values.astype(np.float16))


def conv(
    seed: int, outputs: int = CHANNELS, window: Window = POINT, activation: ops.Function | None = None
) -> ops.Conv2d:
    return ops.Conv2d(
        normal(seed, outputs, CHANNELS, *window.kernel), normal(seed, outputs), window, activation=activation
    )


# What is between a convolution "a" and the outputs. Each names what it gives "b".
BETWEEN: dict[str, list[Described]] = {
    "strided": [("b", conv(1, window=SMALL), ("a",))],
    "dilated": [("b", conv(1, window=Window(Pair(3, 3), Pair(1, 1), Pair(2, 2))), ("a",))],
    "depthwise": [("b", ops.Conv2d(normal(1, CHANNELS, 1, 3, 3), None, SMALL, CHANNELS), ("a",))],
    "transposed": [
        ("b", ops.ConvTranspose2d(normal(1, 8, CHANNELS, 4, 4), None, Window(Pair(4, 4), Pair(2, 2))), ("a",))
    ],
    "largest": [("b", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), ("a",))],
    "mean": [("b", ops.AveragePool2d(Window(Pair(2, 2), Pair(2, 2)), activation=ops.Relu()), ("a",))],
    "upsampling": [("b", ops.Upsample(Pair(2, 2)), ("a",))],
    "sum": [("c", conv(1), ("a",)), ("b", ops.Add(), ("a", "c"))],
    "rectified sum": [("c", conv(1), ("a",)), ("b", ops.Add(activation=ops.Relu()), ("c", "a"))],
    "part": [("b", ops.Crop(Shape(1, 0, 0), Shape(7, 8, CHANNELS), Shape(2, 1, 1)), ("a",))],
    "joined": [("c", conv(1), ("a",)), ("b", ops.Concat(), ("a", "c"))],
    "leaky": [("b", conv(1, activation=ops.Relu(0.25)), ("a",))],
    "clipped": [("b", conv(1, activation=ops.Relu6()), ("a",))],
    "sigmoid": [("b", conv(1, activation=ops.Sigmoid()), ("a",))],
    "tanh": [("b", conv(1, activation=ops.Tanh()), ("a",))],
    "elu": [("b", conv(1, activation=ops.Elu()), ("a",))],
    "slopes": [("b", conv(1, activation=ops.PRelu(Constant.of(np.linspace(0.1, 0.9, CHANNELS)))), ("a",))],
}


def network(between: list[Described], bias: Constant, folder: Path) -> EmulatedNetwork:
    """A convolution "a" with this bias, what is between, and three outputs."""
    nodes = [
        Node("x", ops.Input(SHAPE)),
        Node("a", ops.Conv2d(normal(0, CHANNELS, SHAPE.channels, 1, 1), bias, POINT), ("x",), (Origin("net", "a"),)),
        *(Node(name, op, reads, (Origin("net", name),)) for name, op, reads in between),
    ]
    size = Graph(tuple(nodes), (nodes[-1].name,)).shape("b")
    last = ops.Dense(normal(9, 3, size.channels, size.height, size.width), None)
    graph = Graph((*nodes, Node("z", last, ("b",), (Origin("net", "z"),))), ("z",))
    options = target_for(config(Path("graph.keras")))._replace(fusion=Fusion.NONE)
    return install_data(graph, plan(graph, "net", options), folder, device=options.device)


def images() -> Maps:
    return np.random.default_rng(5).normal(size=(SAMPLES, *SHAPE)).astype(np.float16).astype(np.float32)


def named(network: EmulatedNetwork, work: Callable[..., Iterator[tuple[int, Any]]]) -> dict[str, Real]:
    """What a function of gradients.py gives, by the names of layers."""
    program, inputs = network.program, {"x": images()}
    layers = network.run(inputs, layers=True).layers

    def read(number: int) -> tuple[Maps, ...]:
        return read_maps(program, program.layers[number], layers.__getitem__, inputs)

    names = [weights.layer for weights in program.weights]
    return {names[i]: each for i, each in work(program, layers, read)}


def gradients_of(network: EmulatedNetwork) -> dict[str, Real]:
    """Of each sum of the outputs: (sums, N, H, W, M)."""
    found = named(network, gradients._gradients)  # noqa: SLF001
    return {name: each.reshape(-1, SAMPLES, *each.shape[1:]) for name, each in found.items()}


@pytest.mark.parametrize("kind", BETWEEN)
def test_gradients_are_those_of_differences(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    bias, direction = random.integers(-500, 500, CHANNELS) * STEP, random.choice([-1.0, 1.0], CHANNELS)
    found = gradients_of(network(BETWEEN[kind], Constant.of(bias), tmp_path / "0"))
    runs = [
        network(BETWEEN[kind], Constant.of(bias + sign * STEP * direction), tmp_path / f"{sign}").run(
            {"x": images()}, exact=True
        )
        for sign in (-1, 1)
    ]
    before, after = (run.outputs[0].reshape(SAMPLES, 3).astype(np.float64) for run in runs)
    expected = ((after - before) / (2 * STEP) * found["z"].reshape(-1, SAMPLES, 3)).sum(axis=2)
    got = (found["a"] @ direction).sum(axis=(2, 3))
    np.testing.assert_allclose(got, expected, rtol=0.03, atol=0.03 * np.abs(expected).max())


def test_the_sums_of_few_outputs_are_exact(tmp_path: Path) -> None:
    """Squares of the gradients of single outputs add up to what errors count."""
    made = network(BETWEEN["strided"], normal(3, CHANNELS), tmp_path)
    at_b = named(made, gradients.error_powers)["b"].reshape(SAMPLES, -1)
    last = made.program.weights[-1].kernels.load_wide().reshape(3, -1)
    order = np.sort(np.square(last).sum(axis=0))
    for each in at_b:
        np.testing.assert_allclose(np.sort(each) / each.sum(), order / order.sum(), rtol=1e-6)


def test_layers_of_the_cpu_pass_on_random_gradients(tmp_path: Path) -> None:
    between: list[Described] = [("c", ops.Unary(ops.Exponential()), ("a",)), ("b", conv(1), ("c",))]
    made = network(between, normal(3, CHANNELS), tmp_path)
    at_a = gradients_of(made)["a"]
    assert np.ptp(np.abs(at_a)) == 0 and at_a.min() < 0 < at_a.max()
    assert len(np.unique(at_a.reshape(len(at_a), -1), axis=0)) == len(at_a), "each sum has its own"
