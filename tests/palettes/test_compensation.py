"""Layers make up for what the palettes before them change, as far as it goes with what they read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.emulating import install_data
from cnn_convertor.devices.dv700.fitting import compensation
from cnn_convertor.devices.dv700.fitting.compensation import Walked
from cnn_convertor.devices.dv700.fitting.layer_compensation import InputPair, compensate
from cnn_convertor.devices.dv700.fitting.layer_fit import FittedLayer
from cnn_convertor.devices.dv700.fitting.layer_inputs import Kept
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.weights.palettes import count
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.emulation.feature_maps import Maps, as_maps
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import plan
from cnn_convertor.quantize import fit
from cnn_convertor.samples import Samples
from verification.trials import config, target_for

Real = NDArray[np.float64]
KINDS = {"ordinary": (16, 12, 3, 3), "depthwise": (40, 1, 3, 3), "dense": (10, 30, 1, 1)}
CHANNELS, SHAPE, SAMPLES = 12, Shape(8, 6, 12), 3
POINT, SMALL = Window(Pair(1, 1)), Window(Pair(3, 3), Pair(2, 2), Pair(1, 1), Padding(1, 1, 1, 1))


def rounded_to_nearest(kernels: NDArray[np.float32]) -> FittedLayer:
    """With a palette of 16 values."""
    values = np.linspace(-3, 3, 15).astype(np.float16).astype(np.float32)
    palette = fit(*count(Constant.of(np.append(values, np.float32(0)))))
    stored = values[np.abs(kernels[..., np.newaxis] - values).argmin(axis=-1)]
    entries = palette.index[stored.astype(np.float16).view(np.uint16)]
    return FittedLayer(palette, entries, np.zeros(len(kernels)), 0.0, 0.0, 0.0)


def inputs(kind: str, seed: int, mixes: bool, samples: int = 6, positions: int = 300) -> InputPair:
    """Inputs of a layer, and the same as layers before change them: mixed with each other, or by noise."""
    kernels = KINDS[kind]
    shape = (kernels[0] if kind == "depthwise" else kernels[1], kernels[2] * kernels[3])
    random, mixing = np.random.default_rng(seed), np.random.default_rng(9)
    exact = random.normal(size=(samples, positions, *shape)) + 1
    if mixes:
        change = np.einsum("npck,ckl->npcl", exact, 0.3 * mixing.normal(size=(*shape, shape[1])) / np.sqrt(shape[1]))
    else:
        change = 0.3 * random.normal(size=exact.shape)
    counts = np.ones((samples, positions, kernels[0]), np.float32)
    kept = (exact.astype(np.float16), (exact + change).astype(np.float16))
    return InputPair(*(Kept(each, each.mean(axis=1, dtype=np.float64), counts) for each in kept))


def error(kind: str, kernels: Real, stored: Real, read: InputPair) -> float:
    """The mean power of a layer's errors, without their mean."""
    is_depthwise = kind == "depthwise"
    right, wrong = (
        np.einsum("npmk,mk->npm", x, w.reshape(len(w), -1))
        if is_depthwise
        else np.einsum("npck,mck->npm", x, w.reshape(*w.shape[:2], -1))
        for x, w in zip((each.kept.astype(np.float64) for each in read), (kernels, stored), strict=True)
    )
    return float((right - wrong).var(axis=(0, 1)).sum())


def compensated(kind: str, mixes: bool, positions: int = 300) -> tuple[float, float, FittedLayer, FittedLayer]:
    """The error with other samples before and after, and the layer before and after."""
    kernels = np.random.default_rng(0).normal(size=KINDS[kind]).astype(np.float32)
    before = rounded_to_nearest(kernels)
    fitted, judged, others = (inputs(kind, seed, mixes, positions=positions) for seed in (1, 2, 3))
    after = compensate(kernels, before, kind == "depthwise", fitted, judged)
    wide = kernels.astype(np.float64)
    first, second = (error(kind, wide, layer.kernels.load().astype(np.float64), others) for layer in (before, after))
    return first, second, before, after


@pytest.mark.parametrize("kind", KINDS)
def test_changes_that_go_with_the_inputs_are_made_up_for(kind: str) -> None:
    before, after, _, layer = compensated(kind, mixes=True)
    assert after < 0.6 * before
    assert np.abs(layer.shifts).max() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_changes_that_tell_nothing_of_the_inputs_cost_nothing(kind: str) -> None:
    before, after, *_ = compensated(kind, mixes=False)
    assert after < 1.02 * before


def test_few_inputs_are_not_trusted() -> None:
    _, _, before, after = compensated("ordinary", mixes=True, positions=20)  # 120 for 108 inputs of a kernel
    np.testing.assert_array_equal(after.kernels.load(), before.kernels.load())


# --- maps ----------------------------------------------------------------------------------------------------------------


def normal(seed: int, *shape: int) -> Constant:
    values = np.random.default_rng(seed).normal(size=shape) / np.sqrt(np.prod(shape[1:]))
    return Constant.of(values.astype(np.float16))


def conv(seed: int, window: Window = POINT, activation: ops.Function | None = None) -> ops.Conv2d:
    kernels, bias = normal(seed, CHANNELS, CHANNELS, *window.kernel), normal(seed, CHANNELS)
    return ops.Conv2d(kernels, bias, window, activation=activation)


# What "b" and "c" are. Both convolutions behind them read all there is.
NETWORKS: dict[str, list[tuple[str, ops.Op, tuple[str, ...]]]] = {
    "strided": [("b", conv(1, SMALL, ops.Relu6()), ("a",)), ("c", conv(2, activation=ops.Tanh()), ("b",))],
    "depthwise": [
        ("b", ops.Conv2d(normal(1, CHANNELS, 1, 3, 3), None, SMALL, CHANNELS), ("a",)),
        ("c", conv(2, activation=ops.Sigmoid()), ("b",)),
    ],
    "transposed": [
        ("b", ops.ConvTranspose2d(normal(1, 8, CHANNELS, 4, 4), None, Window(Pair(4, 4), Pair(2, 2))), ("a",)),
        ("c", ops.Upsample(Pair(2, 2)), ("b",)),
    ],
    "pooled": [
        ("b", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), ("a",)),
        ("c", ops.AveragePool2d(Window(Pair(2, 3), Pair(2, 3)), activation=ops.Elu()), ("b",)),
    ],
    "sum": [("b", conv(1), ("a",)), ("c", ops.Add(activation=ops.Relu(0.25)), ("a", "b"))],
    "joined": [("b", conv(1), ("a",)), ("c", ops.Concat(), ("a", "b"))],
    "on the CPU": [("b", ops.Unary(ops.Exponential()), ("a",)), ("c", conv(1), ("b",))],
}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", NETWORKS)
def test_maps_are_those_of_the_device(
    kind: str, transposed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compensation, "_AT_A_TIME", 1200)  # one or two samples
    nodes = [Node("x", ops.Input(SHAPE)), Node("a", conv(0), ("x",)), *(Node(*each) for each in NETWORKS[kind])]
    size = Graph(tuple(nodes), ("c",)).shape("c")
    last = ops.Dense(normal(9, 3, size.channels, size.height, size.width), None)
    graph = Graph((*nodes, Node("z", last, ("c",))), ("z",))
    options = target_for(config(Path("graph.keras"), transpose_weight=transposed))._replace(fusion=Fusion.NONE)
    network = install_data(graph, plan(graph, "net", options), tmp_path / "network", device=DV700)
    images: Maps = np.random.default_rng(5).normal(size=(SAMPLES, *SHAPE)).astype(np.float16).astype(np.float32)
    program, expected = network.program, network.run({"x": images}, layers=True).layers
    walk = Walked(network, Samples({"x": images}, "", {}), {}, tmp_path / "walk")
    computed = 0
    for number, layer in enumerate(program.layers):
        if layer.cpu is None and layer.softmax is None:
            walk.write(number, layer)
            computed += 1
        written = np.fromfile(tmp_path / "walk" / f"{number}.fp16", np.float16).reshape(SAMPLES, -1).astype(np.float32)
        got, wanted = (as_maps(each, layer, layer.output.shape) for each in (written, expected[number]))
        np.testing.assert_allclose(got, wanted, rtol=0.01, atol=0.002 * np.abs(wanted).max())
    assert computed >= 3
    walk.remove(0)
    assert not (tmp_path / "walk" / "0.fp16").exists()
