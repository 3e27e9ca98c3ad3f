"""Palettes in some layers of a compiled network give the maps of a network with those palettes, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.dv700.emulating import install
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.sources.rendering import emit
from cnn_convertor.devices.dv700.variant_files import variants_of
from cnn_convertor.devices.dv700.weights.palettes import without_palettes
from cnn_convertor.devices.settings import Override, Quantization
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.emulation.variants import judged_layers
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import build
from verification.trials import config

pytestmark = pytest.mark.usefixtures("compiler")

SHAPE = Shape(9, 7, 11)
INPUTS: dict[str, Maps] = {"x": np.random.default_rng(2).normal(size=(3, *SHAPE)).astype(np.float16).astype(np.float32)}


def normal(*shape: int) -> Constant:
    return Constant.of(np.random.default_rng(0).normal(size=shape) / np.sqrt(np.prod(shape[1:])))


def layers(*made: tuple[str, ops.Op]) -> Graph:
    nodes = [Node("x", ops.Input(SHAPE))]
    for name, op in made:
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name),)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def window(kernel: int, dilation: int = 1) -> Window:
    pad = kernel // 2 * dilation
    return Window(Pair(kernel, kernel), dilation=Pair(dilation, dilation), padding=Padding(pad, pad, pad, pad))


def network() -> Graph:
    """Convolutions of several kinds, one of which needs several commands."""
    return layers(
        ("plain", ops.Conv2d(normal(24, 11, 3, 3), normal(24), window(3))),
        ("dilated", ops.Conv2d(normal(24, 24, 3, 3), normal(24), window(3, 2))),
        ("depthwise", ops.Conv2d(normal(24, 1, 5, 5), normal(24), window(5), 24, ops.Relu())),
        ("large", ops.Conv2d(normal(16, 24, 9, 9), None, window(9))),
        ("dense", ops.Dense(normal(10, 16, 9, 7), normal(10))),
        ("prob", ops.Softmax()),
    )


def installed(graph: Graph, program: Program, folder: Path) -> EmulatedNetwork:
    files = emit(program, RenderOptions("a graph"))
    return install(graph, program, files, folder, device=DV700)


def palettes_in(graph: Graph, *names: str, transposed: bool) -> Program:
    overrides = tuple(Override(name, palette=True, where=Origin("net.ini")) for name in names)
    return build(graph, config(Path("graph.keras"), overrides=overrides, transpose_weight=transposed))


def bits(maps: Maps) -> NDArray[np.uint32]:
    return maps.view(np.uint32)


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True])
def test_palettes_in_any_layers_give_the_maps_of_those_palettes(tmp_path: Path, transposed: bool) -> None:
    graph = network()
    chosen = config(Path("graph.keras"), quantization=Quantization.PALETTE, transpose_weight=transposed)
    program = build(graph, chosen)
    variants = variants_of(installed(graph, without_palettes(program), tmp_path / "plain"), program)
    assert list(variants.layers) == ["plain", "dilated", "depthwise", "large", "dense"]
    assert len(variants.layers["large"]) > 1, "its kernels lie in several places"
    names = ("plain", "depthwise", "large") if transposed else tuple(variants.layers)
    expected = installed(graph, palettes_in(graph, *names, transposed=transposed), tmp_path / "expected")
    with variants.with_palettes(names) as found:
        pairs = zip(found.run(INPUTS, layers=True).layers, expected.run(INPUTS, layers=True).layers, strict=True)
        assert all(np.array_equal(bits(mine), bits(theirs)) for mine, theirs in pairs)


def test_a_softmax_is_judged_by_what_it_reads() -> None:
    graph = network()
    program = build(graph, config(Path("graph.keras")))
    (judged,) = judged_layers(program)
    assert program.layers[judged].origins[-1].layer == "dense"
    alone = build(layers(("alone", network().nodes[1].op)), config(Path("graph.keras")))
    assert judged_layers(alone) == alone.outputs
