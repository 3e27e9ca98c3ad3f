"""Whatever is changed in the generated sources or weights, verify finds it: the proof is worth something."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import ir_reference
import numpy as np
import pytest
from verify.trials import config, converts, samples

from cnn_convertor.config import Config
from cnn_convertor.dv700.program import Program
from cnn_convertor.errors import ConvertorError, Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Order, Padding, Pair, Shape, Window
from cnn_convertor.verify import verify

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]


class Maker:
    """A chain of layers in the making."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[Node] = []

    def weights(self, *shape: int) -> Constant:
        fan_in = np.prod(shape[1:]) if len(shape) > 1 else 4
        return Constant.of(self.random.normal(size=shape) / np.sqrt(fan_in))

    def add(self, name: str, op: ops.Op, *inputs: str) -> str:
        reads = inputs or ((self.nodes[-1].name,) if self.nodes else ())
        self.nodes.append(Node(name, op, reads, (Origin("net", name, type(op).__name__),)))
        return name


def graph() -> Graph:
    """One of everything that registers tell apart."""
    make = Maker()
    odd = Window(Pair(3, 2), padding=Padding(2, 0, 0, 1))
    same = Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))
    make.add("image", ops.Input(Shape(11, 10, 3)))
    make.add("conv", ops.Conv2d(make.weights(16, 3, 3, 2), make.weights(16), odd, activation=ops.Relu(0.25)))
    make.add("depthwise", ops.Conv2d(make.weights(16, 1, 3, 3), make.weights(16), same, groups=16, activation=ops.Tanh()))
    slopes = ops.PRelu(Constant.of(make.random.uniform(0.1, 0.9, 20)))
    make.add("prelu", ops.Conv2d(make.weights(20, 16, 1, 1), make.weights(20), Window(Pair(1, 1)), activation=slopes))
    make.add("pool", ops.MaxPool2d(Window(Pair(2, 3), Pair(2, 1), padding=Padding(0, 0, 1, 1))))
    dilated = Window(Pair(3, 3), dilation=Pair(2, 2), padding=Padding(2, 2, 2, 2))
    make.add("dilated", ops.Conv2d(make.weights(20, 20, 3, 3), make.weights(20), dilated))
    make.add("sum", ops.Add(activation=ops.Relu6()), "pool", "dilated")
    strided = Window(Pair(5, 5), Pair(2, 1), padding=Padding(2, 2, 2, 2))
    make.add("left", ops.Conv2d(make.weights(8, 20, 5, 5), make.weights(8), strided, activation=ops.Elu()), "sum")
    deconv = Window(Pair(4, 3), Pair(2, 1), padding=Padding(1, 1, 1, 1))
    up = make.add("up", ops.ConvTranspose2d(make.weights(12, 8, 4, 3), make.weights(12), deconv), "left")
    average = make.add("average", ops.AveragePool2d(Window(Pair(2, 1), Pair(2, 1)), activation=ops.Sigmoid()), up)
    make.add("join", ops.Concat(), "left", average)
    make.add("twice", ops.Upsample(Pair(2, 2)))
    large = Window(Pair(7, 7), Pair(3, 3), padding=Padding(2, 2, 0, 0))
    make.add("narrow", ops.Conv2d(make.weights(7, 20, 7, 7), make.weights(7), large))
    height, width, channels = Graph(tuple(make.nodes), ("narrow",)).shape("narrow")
    make.add("flat", ops.Reshape(Shape(1, 1, height * width * channels), Order.HWC))
    make.add("dense", ops.Dense(make.weights(9, height * width * channels, 1, 1), make.weights(9)))
    return Graph(tuple(make.nodes), ("dense", "up"))


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs, with the results that the unchanged network has."""
    network, random = graph(), np.random.default_rng(1)
    inputs = samples(*({"image": random.normal(size=network.shape("image"))} for _ in range(2)))
    results = [ir_reference.run(network, {"image": image}) for image in inputs["image"]]
    expected = {f"expected_{name}": np.stack([r[name] for r in results]) for name in network.outputs}
    path = tmp_path_factory.mktemp("mutations") / "given.npz"
    np.savez(path, **inputs, **expected)  # type: ignore[arg-type]  # names are no keywords of numpy's
    return path


def is_found(given: Path, change: Callable[[Path], None], *, palette: bool = False) -> bool:
    """Whether verify fails when the converted network's files are changed."""
    convert = converts(graph())

    def convert_and_change(config: Config, folder: Path) -> tuple[Graph, Program]:
        made = convert(config, folder)
        change(folder)
        return made

    chosen = config(Path("graph.keras"), quantization=palette)
    try:
        return not verify(chosen, convert_and_change, inputs=given, min_sqnr=40 if not palette else None).passed
    except ConvertorError:
        return True


@pytest.mark.parametrize("palette", [False, True], ids=["fp16", "palette"])
def test_the_unchanged_network_passes(palette: bool, given: Path) -> None:
    assert not is_found(given, lambda _: None, palette=palette)
