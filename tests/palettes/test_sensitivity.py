"""What an error of a channel counts is the power that it has at the network's outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.config.request import DeviceOptions
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.palettes.sensitivity import sensitivities
from cnn_convertor.pipeline import plan
from verification.trials import config

Real = NDArray[np.float64]
Described = tuple[str, ops.Op, tuple[str, ...]]  # of a node: its name, and what it reads
CHANNELS = 8
POINT = Window(Pair(1, 1), Pair(1, 1), Pair(1, 1), Padding(0, 0, 0, 0))


def normal(seed: int, *shape: int) -> Constant:
    """Channels of very different size."""
    random = np.random.default_rng(seed)
    return Constant.of((random.normal(size=shape) * np.exp(random.normal(size=(1, shape[1], 1, 1)))).astype(np.float32))


def conv(seed: int, outputs: int = CHANNELS) -> ops.Conv2d:
    return ops.Conv2d(normal(seed, outputs, CHANNELS, 1, 1), None, POINT)


def depthwise(seed: int) -> ops.Conv2d:
    window = Window(Pair(3, 3), Pair(2, 2), Pair(1, 1), Padding(1, 1, 1, 1))
    weights = np.random.default_rng(seed).normal(size=(CHANNELS, 1, 3, 3)).astype(np.float32)
    return ops.Conv2d(Constant.of(weights), None, window, CHANNELS)


def counts(*nodes: Described, **active: Real) -> dict[str, Real]:
    """Of each layer with weights. The last node is the output. active: by the name of a layer."""
    named = [Node(name, op, reads, (Origin("net", name),)) for name, op, reads in nodes]
    graph = Graph((Node("x", ops.Input(Shape(8, 8, CHANNELS))), *named), (nodes[-1][0],))
    program = plan(graph, "net", DeviceOptions.of(config(Path("graph.keras")))._replace(fusion=Fusion.NONE))
    layers = [weights.layer for weights in program.weights]
    found = sensitivities(program, {layers.index(name): share for name, share in active.items()})
    return {name: found[i] for i, name in enumerate(layers)}


def power(op: ops.Conv2d) -> Real:
    """Of the errors that a convolution passes on, from those of its output channels to those of its inputs."""
    squares: Real = np.square(op.weight.load().astype(np.float64)).sum(axis=(2, 3))
    return squares


def relative(values: Real) -> Real:
    result: Real = values / values.mean()
    return result


def test_an_error_counts_what_the_layers_behind_make_of_it() -> None:
    last, between = conv(1), depthwise(2)
    found = counts(("a", conv(0), ("x",)), ("b", between, ("a",)), ("c", last, ("b",)))
    at_b = power(last).sum(axis=0)
    np.testing.assert_array_equal(found["c"], 1.0)
    np.testing.assert_allclose(found["b"], relative(at_b), rtol=1e-6)
    np.testing.assert_allclose(found["a"], relative(at_b * power(between)[:, 0]), rtol=1e-6)


def test_errors_that_an_activation_hides_count_less() -> None:
    share = np.linspace(0, 1, CHANNELS)
    last, middle = conv(1), conv(2)
    found = counts(("a", conv(0), ("x",)), ("b", middle, ("a",)), ("c", last, ("b",)), b=share)
    at_b = share * power(last).sum(axis=0)
    np.testing.assert_allclose(found["b"][1:], relative(at_b)[1:], rtol=1e-6)
    assert found["b"][0] == pytest.approx(1e-4)
    np.testing.assert_allclose(found["a"], relative(at_b @ power(middle)), rtol=1e-6)


def test_both_ways_from_a_layer_count() -> None:
    branch, last = conv(1), conv(2)
    nodes: list[Described] = [
        ("a", conv(0), ("x",)),
        ("b", branch, ("a",)),
        ("sum", ops.Add(), ("a", "b")),
        ("c", last, ("sum",)),
    ]
    found = counts(*nodes)
    at_sum = power(last).sum(axis=0)
    np.testing.assert_allclose(found["a"], relative(at_sum + at_sum @ power(branch)), rtol=1e-6)


def test_a_concatenation_is_taken_apart() -> None:
    last = ops.Conv2d(normal(2, 4, 2 * CHANNELS, 1, 1), None, POINT)
    found = counts(
        ("a", conv(0), ("x",)), ("b", conv(1), ("x",)), ("ab", ops.Concat(), ("a", "b")), ("c", last, ("ab",))
    )
    at_both = power(last).sum(axis=0)
    np.testing.assert_allclose(found["a"], relative(at_both[:CHANNELS]), rtol=1e-6)
    np.testing.assert_allclose(found["b"], relative(at_both[CHANNELS:]), rtol=1e-6)


def test_channels_count_the_same_before_other_layers_and_where_all_are_hidden() -> None:
    nodes: list[Described] = [
        ("a", conv(0), ("x",)),
        ("exp", ops.Unary(ops.Exponential()), ("a",)),
        ("b", conv(1), ("exp",)),
        ("c", conv(2), ("b",)),
    ]
    found = counts(*nodes, b=np.zeros(CHANNELS))
    np.testing.assert_array_equal(found["a"], 1.0)
    np.testing.assert_array_equal(found["b"], 1.0)
