"""Programs of every kind of layer, and their sources compiled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from cnn_convertor import codegen
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import check
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.weights.palettes import choose
from cnn_convertor.devices.settings import Quantization, QuantizationOptions
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from devices.dv700.legal import legalize

INCLUDE = Path(codegen.__file__).parents[1] / "host" / "include"


FLAGS = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-I", str(INCLUDE)]


EVERYWHERE = QuantizationOptions(Quantization.PALETTE, threshold=0.0)


def build(graph: Graph, *, name: str = "net", palette: bool = False, transposed: bool = True) -> Program:
    legal = legalize(optimize(graph), DV700, transposed=transposed)
    partitioned, steps = partition(legal, DV700, transposed=transposed)
    check(partitioned, steps, DV700, legal=legal)
    program = lower(partitioned, steps, name=name, transposed=transposed, original=graph)
    return choose(program, EVERYWHERE) if palette else program


def ones(*shape: int) -> Constant:
    return Constant.of(np.ones(shape))


TYPES = {"Conv2d": "Conv2D", "MaxPool2d": "MaxPooling2D", "BatchNorm": "BatchNormalization", "Relu": "ReLU"}


class Network:
    """A graph whose layers can be given other names."""

    def __init__(self, names: dict[str, str] | None = None) -> None:
        self.names = names or {}
        self.nodes: list[Node] = []

    def name(self, name: str) -> str:
        return self.names.get(name, name)

    def add(self, name: str, op: Op, *inputs: str) -> None:
        origin = Origin("net.h5", self.name(name), TYPES.get(type(op).__name__, type(op).__name__))
        self.nodes.append(Node(self.name(name), op, tuple(map(self.name, inputs)), (origin,)))

    def graph(self, *outputs: str) -> Graph:
        return Graph(tuple(self.nodes), tuple(map(self.name, outputs)))


SAME = Padding(1, 1, 1, 1)


def every_kind_of_layer(names: dict[str, str] | None = None, custom: str = "Mine") -> Graph:
    """Two inputs, a residual block, in-place and copied concatenations, flatten, softmax, a custom layer."""
    net = Network(names)
    net.add("image", ops.Input(Shape(8, 8, 3)))
    net.add("mask", ops.Input(Shape(8, 8, 8)))
    net.add("conv1", ops.Conv2d(ones(8, 3, 3, 3), ones(8), Window(Pair(3, 3), padding=SAME)), "image")
    net.add("relu1", ops.Activation(ops.Relu(0.25)), "conv1")
    net.add(
        "conv2",
        ops.Conv2d(ones(8, 8, 3, 5), None, Window(Pair(3, 5), dilation=Pair(2, 1), padding=Padding(2, 2, 2, 2))),
        "relu1",
    )
    net.add("add", ops.Add(ops.Relu6()), "conv2", "relu1")
    net.add("join", ops.Concat(), "add", "mask")
    net.add(
        "up", ops.ConvTranspose2d(ones(12, 16, 4, 4), ones(12), Window(Pair(4, 4), Pair(2, 2), padding=SAME)), "join"
    )
    net.add("prelu", ops.Activation(ops.PRelu(ones(12))), "up")
    net.add("pool", ops.MaxPool2d(Window(Pair(2, 3), Pair(2, 3), padding=Padding(0, 0, 0, 2))), "prelu")
    net.add("gap", ops.AveragePool2d(Window(Pair(8, 6))), "pool")
    net.add("fc", ops.Dense(ones(5, 12, 1, 1), ones(5)), "gap")
    net.add("both", ops.Concat(), "fc", "gap")
    net.add("prob", ops.Softmax(), "both")
    net.add("flat", ops.Reshape(Shape(1, 1, 12 * 48), Order.HWC), "pool")
    net.add(
        "mine", ops.Custom(custom, (("axis", 1), ("scale", 0.5), ("on", True), ("sizes", (1, 2))), Shape(1, 1, 2)), "fc"
    )
    return net.graph("prob", "flat", "mine", "pool")


def small() -> Graph:
    net = Network()
    net.add("input", ops.Input(Shape(8, 8, 1)))
    net.add("conv2d", ops.Conv2d(ones(16, 1, 3, 3), ones(16), Window(Pair(3, 3), padding=SAME)), "input")
    net.add("batch_normalization", ops.BatchNorm(ones(16), ones(16), None, ones(16), 0.001), "conv2d")
    net.add("re_lu", ops.Activation(ops.Relu()), "batch_normalization")
    net.add("max_pooling2d", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), "re_lu")
    net.add("flatten", ops.Reshape(Shape(1, 1, 256), Order.HWC), "max_pooling2d")
    net.add("dense", ops.Dense(ones(10, 256, 1, 1), ones(10)), "flatten")
    net.add("softmax", ops.Softmax(), "dense")
    return net.graph("softmax")


def write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def compile_(folder: Path, file: str, *flags: str) -> str:
    """What the compiler prints to stdout; it must not complain."""
    result = subprocess.run(["g++", *FLAGS, *flags, file], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout
