"""A PReLU leaves a layer with a palette where the weights then take fewer bytes, and the maps stay."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.weights.palettes import describe
from cnn_convertor.devices.settings import Override, Quantization
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Pair, Shape, Window
from cnn_convertor.pipeline import build
from reference import ir_reference, program_reference
from verification.trials import config

RANDOM = np.random.default_rng(0)
PRELU = ops.PRelu(Constant.of(np.linspace(-0.5, 0.5, 24)))
SHAPE = Shape(6, 5, 40)


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


KINDS: dict[str, Op] = {
    "convolution": ops.Conv2d(some(24, 40, 3, 3), some(24), Window(Pair(3, 3)), activation=PRELU),
    "transposed": ops.ConvTranspose2d(some(24, 40, 2, 2), some(24), Window(Pair(2, 2), Pair(2, 2)), activation=PRELU),
    "dense": ops.Dense(some(24, 40, 6, 5), some(24), activation=PRELU),
    "few inputs": ops.Conv2d(some(24, 8, 3, 3), some(24), Window(Pair(3, 3)), activation=PRELU),
}


def network(op: Op, *, own_layer: bool = False) -> Graph:
    """A layer with PReLU. own_layer: the framework has a layer for it."""
    shape = SHAPE._replace(channels=8) if isinstance(op, ops.Conv2d) and op.weight.shape[1] == 8 else SHAPE
    bare, function = op, None
    if own_layer:
        assert isinstance(op, ops.Conv2d)
        bare, function = replace(op, activation=None), ops.Activation(PRELU)
    nodes = [Node("x", ops.Input(shape)), Node("y", bare, ("x",), (Origin("net", "y"),))]
    if function is not None:
        nodes.append(Node("slopes", function, ("y",), (Origin("net", "slopes"),)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def made(graph: Graph, quantization: Quantization = Quantization.PALETTE, **said: bool) -> Program:
    overrides = tuple(Override(layer, palette, Origin("net.ini")) for layer, palette in said.items())
    chosen: Config = config(Path("graph.keras"), quantization=quantization, overrides=overrides)
    return build(graph, chosen)


def stored(program: Program) -> list[tuple[str, bool]]:
    return [(layer.layer, layer.palette) for layer in describe(program)]


@pytest.mark.parametrize("kind", ["convolution", "transposed", "dense"])
def test_a_split_layer_is_smaller_and_computes_the_same(kind: str) -> None:
    graph = network(KINDS[kind])
    program, plain = made(graph), made(graph, Quantization.FP16)
    assert stored(program) == [("y", True), ("y", False)] and stored(plain) == [("y", False)]
    assert program.weight_bytes < plain.weight_bytes
    inputs = {"x": RANDOM.normal(size=SHAPE)}
    (mine,), (theirs,) = (program_reference.run(each, inputs) for each in (program, plain))
    np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
    expected = ir_reference.run(graph, inputs)["y"]
    assert mine.size == expected.size


def test_a_layer_that_would_not_get_smaller_stays_whole() -> None:
    assert stored(made(network(KINDS["few inputs"]))) == [("y", False)]


def test_without_a_wish_nothing_is_split() -> None:
    assert stored(made(network(KINDS["convolution"]), Quantization.FP16)) == [("y", False)]


@pytest.mark.parametrize(("threshold", "split"), [(20.0, True), (80.0, False)])
@pytest.mark.parametrize("own_layer", [True, False])
def test_auto_splits_where_the_palette_stays(threshold: float, split: bool, own_layer: bool) -> None:
    """A PReLU that is split in vain would cost a command and bytes."""
    graph = network(KINDS["convolution"], own_layer=own_layer)
    chosen = config(Path("graph.keras"), quantization=Quantization.AUTO, quantization_threshold=threshold)
    program, plain = build(graph, chosen), made(graph, Quantization.FP16)
    assert [palette for _, palette in stored(program)] == ([True, False] if split else [False])
    assert program.weight_bytes < plain.weight_bytes if split else program.weight_bytes == plain.weight_bytes
    assert stored(made(graph, Quantization.AUTO, y=False)) == [("y", False)]


def test_the_ini_file_decides_for_a_layer() -> None:
    graph = network(KINDS["convolution"])
    assert stored(made(graph, y=False)) == [("y", False)]
    assert stored(made(graph, Quantization.FP16, y=True)) == [("y", True), ("y", False)]


def test_a_prelu_that_is_a_layer_keeps_its_name() -> None:
    graph = network(KINDS["convolution"], own_layer=True)
    assert stored(made(graph)) == [("y", True), ("slopes", False)]
    assert stored(made(graph, y=False)) == [("y", False)]
