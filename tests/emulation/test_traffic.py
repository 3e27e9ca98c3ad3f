"""The bytes that the cost model gives for each command are those that the emulated device counts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.estimate import estimates
from cnn_convertor.devices.figures import Figure
from cnn_convertor.emulation.feature_maps import Traffic
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from reference import random_networks
from verification.trials import network, samples

pytestmark = pytest.mark.usefixtures("compiler")


def check(graph: Graph, folder: Path, *, ub_size: int = 655_360, **options: Any) -> int:
    """Compare the model with the counters, command by command; gives the number of commands."""
    profile = read_profile("dv700", Path()).with_figures({"ub_size": Figure(ub_size, "test")})
    trial = network(graph, folder, device=profile, **options)
    random = np.random.default_rng(0)
    largest = 1.0 if options.get("input") != "u8" else 255.0
    inputs = samples({node.name: np.round(largest * random.random(graph.shape(node.name))) for node in graph.inputs})
    counted = trial.run(inputs, layers=True).traffic
    made = [row for layer, row in zip(trial.program.layers, counted, strict=True) if layer.runs]
    costs = estimates(trial.program, profile)
    expected = [Traffic(1, c.input_bytes, c.operand_bytes, c.output_bytes, c.weights_bytes) for c in costs]
    assert made == expected
    return len(made)


@pytest.mark.parametrize(("fusion", "palette"), [("none", True), ("full", False)])
@pytest.mark.parametrize("seed", range(2))
def test_random_networks_move_what_the_model_says(seed: int, fusion: str, palette: bool, tmp_path: Path) -> None:
    graph = random_networks.network(seed, 14)
    assert check(graph, tmp_path, fusion=fusion, quantization=palette, transpose_weight=seed % 2 == 0) > 1


def tiled() -> Graph:
    """Convolutions that need several tiles of a small buffer, each with an addition."""
    nodes = [Node("x", ops.Input(Shape(12, 40, 16)))]
    for kernel, stride, dilation in ((1, 1, 1), (3, 1, 1), (3, 2, 1), (7, 1, 1), (3, 1, 2), (2, 2, 1)):
        window = Window(Pair(kernel, kernel), Pair(stride, stride), Pair(dilation, dilation))
        window = window._replace(padding=Padding(*[dilation * (kernel // 2)] * 4))
        weight = Constant.of(np.random.default_rng(1).normal(size=(16, 16, kernel, kernel)))
        name = f"conv{len(nodes)}"
        nodes += [Node(name, ops.Conv2d(weight, None, window), ("x",)), Node(f"{name}/sum", ops.Add(), (name, name))]
    return Graph(tuple(nodes), tuple(node.name for node in nodes if isinstance(node.op, ops.Add)))


@pytest.mark.parametrize("ub_size", [8192, 16384])
def test_tiles_read_their_overlap_again(ub_size: int, tmp_path: Path) -> None:
    check(tiled(), tmp_path, ub_size=ub_size)


def test_an_input_of_bytes_is_half_as_large(tmp_path: Path) -> None:
    weight = Constant.of(np.random.default_rng(1).normal(size=(16, 3, 3, 3)))
    nodes = [Node("x", ops.Input(Shape(12, 40, 3))), Node("conv", ops.Conv2d(weight, None, Window(Pair(3, 3))), ("x",))]
    check(Graph(tuple(nodes), ("conv",)), tmp_path, ub_size=8192, input="u8")
