"""Right networks that are hard to judge pass: untrained and tiny weights, dead channels, images without any noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.config import Config
from cnn_convertor.trials.verify import verify
from frontends.onnx.networks import Network, helper

pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

SIZE = 24
IMAGES = ("random", "black", "white", "gradient", "photograph")
ACTIVATIONS = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "Gelu", "SiLU", "Elu")


def image(kind: str, random: np.random.Generator) -> NDArray[np.float32]:
    """An image of 0..1, (1, 3, H, W)."""
    ramp = np.linspace(0, 1, SIZE)
    values = {
        "random": random.random((3, SIZE, SIZE)),
        "black": np.zeros((3, SIZE, SIZE)),
        "white": np.ones((3, SIZE, SIZE)),
        "gradient": np.broadcast_to(ramp, (3, SIZE, SIZE)),
        "photograph": np.clip(random.normal(0.5, 0.2, (3, 4, 4)), 0, 1).repeat(6, 1).repeat(6, 2),
    }[kind]
    return values[np.newaxis].astype(np.float32)


class Builder:
    """A random chain of convolutions, depthwise ones among them, each with an activation."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def add(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, values: NDArray[Any]) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = values.astype(np.float32)
        return name

    def convolution(self, x: str, channels: int, outputs: int) -> str:
        random, is_depthwise = self.random, channels == outputs and self.random.random() < 0.5
        inputs = 1 if is_depthwise else channels
        width = int(random.choice([1, 3]))
        bound = 1 / np.sqrt(inputs * width * width)
        weights = random.uniform(-bound, bound, (outputs, inputs, width, width)) * random.choice([1, 1, 1, 1e-3, 30])
        bias = random.uniform(-bound, bound, outputs) * random.choice([0, 1])
        if random.random() < 0.3:
            weights[random.integers(outputs)] = 0  # a constant channel, or a dead one
        group = channels if is_depthwise else 1
        pads = [width // 2] * 4
        return self.add("Conv", [x, self.constant(weights), self.constant(bias)], group=group, pads=pads)

    def activation(self, x: str) -> str:
        kind = str(self.random.choice(ACTIVATIONS))
        return self.add("Mul", [x, self.add("Sigmoid", [x])]) if kind == "SiLU" else self.add(kind, [x])


def random_network(seed: int) -> Network:
    random = np.random.default_rng(seed)
    build, x, channels = Builder(random), "x", 3
    for _ in range(int(random.integers(2, 6))):
        outputs = channels if channels > 3 and random.random() < 0.5 else int(random.choice([4, 8, 13, 16]))
        x = build.activation(build.convolution(x, channels, outputs))
        channels = outputs
        if random.random() < 0.3:
            x = build.add(str(random.choice(["MaxPool", "AveragePool"])), [x], kernel_shape=[2, 2], strides=[2, 2])
    x = build.add("Flatten", [build.add("GlobalAveragePool", [x])])
    weights = random.normal(0, 1 / np.sqrt(channels), (10, channels))
    build.add("Gemm", [x, build.constant(weights), build.constant(random.normal(0, 0.1, 10))], transB=1)
    return Network(build.nodes, {"x": np.zeros((1, 3, SIZE, SIZE), np.float32)}, build.constants, opset=20)


@pytest.mark.rotating
@pytest.mark.parametrize("quantization", [0, 1])
@pytest.mark.parametrize("seed", range(10))
def test_no_right_network_fails(seed: int, quantization: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    model = random_network(seed).write(tmp_path / "net.onnx")
    images = np.concatenate([image(kind, random) for kind in IMAGES])
    result = verify(Config.of(model, quantization=quantization, output_folder=tmp_path), inputs=images)
    assert not (result.wrong_maps or result.different_layers or result.failed_fp16), result
    assert quantization or not result.failed, result.failed
    assert result.judged_maps
