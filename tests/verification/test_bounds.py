"""A map that loses more than rounding to FP16 takes is found, at any SQNR; a right one never is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.unrounded import unrounded
from cnn_convertor.devices.program import ElementType, StoredArray
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Shape
from cnn_convertor.pipeline import quantize
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import bounds, keras_models
from cnn_convertor.verification.results import Verification
from frontends.loading import load_keras as load
from frontends.onnx.networks import Network, helper
from reference import ir_reference
from verification.test_mutations import Maker
from verification.trials import change_files, config

needs_compiler = pytest.mark.usefixtures("compiler")


def test_residuals_are_what_rounding_takes_from_every_fp16_number_and_from_no_other() -> None:
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    values[:4] = [0.0, 65504.0, 1e-6, 3e-8]
    kinds = (ElementType.HALF, ElementType.FLOAT)
    arrays = tuple(StoredArray(0, kind, Constant.of(values), None) for kind in kinds)
    program = quantize(graph(), Request.of(config(Path("graph.keras")))).program
    layer = replace(program.layers[-1], constants=arrays)
    loaded = list[Program]()

    def load(program: Program, residuals: Program | None = None) -> Any:
        assert residuals is not None
        loaded.append(residuals)

    unrounded(load, replace(program, layers=(layer,)))
    half, plain = (array.values.load() for array in loaded[0].layers[0].constants)
    restored = values.astype(np.float16).astype(np.float64) + half.astype(np.float16).astype(np.float64) / 2**12
    assert np.array_equal(plain, values)
    assert np.abs(restored - values).max(initial=0) < 2.0**-22 * np.abs(values).max()
    assert restored[3] == pytest.approx(3e-8, rel=1e-3), "smaller than FP16's smallest step"


def graph(scale: float = 1.0, *, quiet: float = 1.0) -> Graph:
    """Three layers. scale: what is wrong with one filter of the first. quiet: makes one of its channels small."""
    make = Maker()
    make.add("image", ops.Input(Shape(12, 10, 8)))
    weights = np.random.default_rng(3).normal(size=(16, 8, 3, 3)).astype(np.float32)
    weights[5] *= quiet
    weights[5] *= scale
    window = ops.Window(ops.Pair(3, 3), padding=ops.Padding(1, 1, 1, 1))
    make.add("conv", ops.Conv2d(Constant.of(weights), None, window, activation=ops.Relu()))
    make.add("pool", ops.AveragePool2d(ops.Window(ops.Pair(2, 2), ops.Pair(2, 2))))
    make.add("last", ops.Conv2d(make.weights(24, 16, 1, 1), make.weights(24), ops.Window(ops.Pair(1, 1))))
    return Graph(tuple(make.nodes), ("last",))


def verified(made: Graph, right: Graph, folder: Path, *, palette: bool = False) -> Verification:
    """Compare a network with the results of the right one, of all its layers."""
    inputs = {"image": np.random.default_rng(1).normal(size=(3, *right.shape("image"))).astype(np.float32)}
    results = [ir_reference.run(right, {"image": image.astype(np.float64)}) for image in inputs["image"]]
    names = [node.name for node in right.nodes if not isinstance(node.op, ops.Input)]
    expected = {f"expected_{name}": np.stack([each[name] for each in results]).astype(np.float32) for name in names}
    np.savez(folder / "given.npz", **inputs, **expected)  # type: ignore[arg-type]  # names are no keywords of numpy's
    chosen = config(Path("graph.keras"), quantization=palette, output_folder=folder)
    return verify(chosen, graph=made, inputs=folder / "given.npz")


@needs_compiler
@pytest.mark.parametrize("palette", [False, True])
def test_a_right_network_is_as_exact_as_fp16_allows(palette: bool, tmp_path: Path) -> None:
    result = verified(graph(), graph(), tmp_path, palette=palette)
    assert result.passed and result.judged_maps >= 2


@needs_compiler
@pytest.mark.parametrize("palette", [False, True])
@pytest.mark.parametrize(("scale", "quiet"), [(0.0, 0.04), (0.95, 0.3), (1.001, 1.0)])
def test_a_wrong_filter_is_found_though_the_outputs_have_enough(
    scale: float, quiet: float, palette: bool, tmp_path: Path
) -> None:
    result = verified(graph(scale, quiet=quiet), graph(quiet=quiet), tmp_path, palette=palette)
    assert not result.failed and not result.failed_fp16, "the threshold of the outputs does not find it"
    assert not result.passed and {each.layer for each in result.wrong_maps} <= {"conv", "pool"}
    assert result.wrong_maps[0].sqnr < result.wrong_maps[0].allowed


@needs_compiler
def test_exchanged_filters_are_found_in_their_own_map_at_once(tmp_path: Path) -> None:
    """The map has the values of the right one at other places, which may be so around products of maps alone."""
    right = graph()
    conv = right["conv"]
    assert isinstance(conv.op, ops.Conv2d)
    exchanged = replace(conv, op=replace(conv.op, weight=Constant.of(conv.op.weight.load()[::-1])))
    wrong = Graph(tuple(exchanged if node.name == "conv" else node for node in right.nodes), right.outputs)
    result = verified(wrong, right, tmp_path)
    assert {each.layer for each in result.wrong_maps} & {"conv", "pool"}


@needs_compiler
def test_a_palette_of_other_values_than_its_bytes_is_found(tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        path = folder / "net_weights.bin"
        data = bytearray(path.read_bytes())
        data[600] ^= 1  # an index of the first layer
        path.write_bytes(data)

    with pytest.MonkeyPatch.context() as patch:
        change_files(patch, change)
        result = verified(graph(), graph(), tmp_path, palette=True)
    assert not result.passed and result.different_layers and not result.failed


@needs_compiler
def test_an_output_that_rounding_spoils_passes_with_the_reason(tmp_path: Path) -> None:
    """Numbers around 100 that cancel: what is left has few digits in FP16."""
    random = np.random.default_rng(0)
    make = Maker()
    make.add("image", ops.Input(Shape(1, 1, 8)))
    make.add("large", ops.Dense(Constant.of(random.normal(size=(6, 8, 1, 1))), Constant.of(np.full(6, 100.0))))
    make.add("small", ops.Dense(Constant.of(np.eye(6).reshape(6, 6, 1, 1)), Constant.of(np.full(6, -100.0))))
    made = Graph(tuple(make.nodes), ("small",))
    result = verified(made, made, tmp_path)
    (output,) = result.outputs
    assert output.sqnr < 40 and output.allowed is not None and result.passed
    assert not replace(result, min_sqnr=40.0, outputs=(replace(output, allowed=None),)).passed


@needs_compiler
def test_maps_whose_values_say_where_the_channels_are_are_compared(tmp_path: Path) -> None:
    """A layer normalization has them last here, in a cube, whose sizes do not say so."""
    pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 3, 1]),
        helper.make_node("LayerNormalization", ["b", "scale"], ["c"], axis=-1),
        helper.make_node("Transpose", ["c"], ["d"], perm=[0, 3, 1, 2]), helper.make_node("Conv", ["d", "w"], ["y"]),
    ]  # fmt: skip
    values = np.random.default_rng(0).normal(0, 0.4, (16, 16, 1, 1)).astype(np.float32)
    x = np.zeros((1, 16, 16, 16), np.float32)
    network = Network(nodes, {"x": x}, {"w": values, "scale": np.ones(16, np.float32)})
    result = verify(Config.of(network.write(tmp_path / "net.onnx")), samples=1, layers=True)
    assert result.passed and not result.wrong_maps
    assert min(layer.alone or 0 for layer in result.layers if layer.comparison.name in {"a", "c"}) > 60


@needs_compiler
def test_parts_of_equal_sizes_are_not_taken_for_the_first(tmp_path: Path) -> None:
    """A Split has one origin for all its outputs."""
    pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("Pad", ["b", "pads"], ["c"]), helper.make_node("Sin", ["c"], ["y"]),
    ]  # fmt: skip
    x = np.zeros((1, 8, 12, 10), np.float32)
    path = Network(nodes, {"x": x}, {"pads": np.array([0, 0, 1, 0, 0, 0, 0, 0])}).write(
        tmp_path / "net.onnx", ["a", "y"]
    )
    result = verify(Config.of(path), samples=1, layers=True)
    assert result.passed, result.wrong_maps
    compared = {layer.comparison.name: layer.comparison.sqnr for layer in result.layers}
    assert "a" not in compared and min(compared.values()) > 60


@needs_compiler
def test_a_vector_of_a_maps_elements_is_compared_in_their_order(tmp_path: Path) -> None:
    """A sum whose rows broadcast counts the elements channel by channel, as a reshape of the framework does."""
    pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
    random = np.random.default_rng(0)
    nodes = [helper.make_node("Add", ["x", "c"], ["a"]), helper.make_node("Tile", ["a", "times"], ["y"])]
    constants = {
        "c": random.normal(size=(12, 1, 9)).astype(np.float16).astype(np.float32),
        "times": np.array([1, 2, 1, 2]),
    }
    path = Network(nodes, {"x": np.zeros((1, 12, 11, 9), np.float32)}, constants).write(tmp_path / "net.onnx")
    result = verify(Config.of(path), samples=1, layers=True)
    assert result.passed and result.judged_maps == 2, result.wrong_maps


def judged(error: float | NDArray[np.float64], **sides: Any) -> bounds.JudgedMap:
    """A map with an error before rounding, and its rounding to FP16."""
    reference = np.random.default_rng(0).uniform(1, 2, (4, 16, 16, 32)).astype(np.float32)
    exact = (reference + error).astype(np.float32)
    maps = {"reference": reference, "unrounded": exact, "rounded": exact.astype(np.float16).astype(np.float32)}
    return bounds.JudgedMap("map", **maps | sides)


def test_an_error_below_the_rounding_of_values_is_found_in_a_map_and_in_a_channel() -> None:
    step = 2.0**-11
    channel = np.eye(32)[7]
    assert bounds.excess_of(judged(0.0)) is None
    assert bounds.excess_of(judged(0.01 * step)) is None, "the order of sums in FP32 changes a map"
    for error, part in ((0.5 * step, ""), (channel * step, "channel 7")):
        excess = bounds.excess_of(judged(error))
        assert excess is not None and excess.part == part and 60 < excess.sqnr < excess.allowed
    assert bounds.excess_of(judged(0.5 * step), explained=step) is None, "the framework rounds to integers"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_found(value: float) -> None:
    right = judged(0.0)
    rounded = right.rounded.copy()
    rounded[0, 1, 2, 0] = value
    excess = bounds.excess_of(judged(0.0, rounded=rounded))
    assert excess is not None and (excess.layer, excess.part, excess.sqnr) == ("map", "", -np.inf)
    large = right.reference * 40_000
    assert bounds.excess_of(judged(0.0, reference=large, unrounded=large, rounded=rounded)) is None, "overflow"


@needs_compiler
def test_a_map_that_one_weight_decides_may_lose_more(tmp_path: Path) -> None:
    """x - 0.97 x: the rounding of one number decides all values."""
    make = Maker()
    make.add("image", ops.Input(Shape(8, 8, 1)))
    weight = Constant.of(np.full((1, 1, 1, 1), -0.9701))
    make.add("conv", ops.Conv2d(weight, None, ops.Window(ops.Pair(1, 1))))
    make.add("sum", ops.Add(), "image", "conv")
    made = Graph(tuple(make.nodes), ("sum",))
    result = verified(made, made, tmp_path)
    assert result.passed and not result.wrong_maps


@needs_compiler
def test_a_factor_in_a_register_may_decide_what_is_left_of_a_difference(tmp_path: Path) -> None:
    """1.0709 x - 1.07 x: the rounding of the factor is in all values, and no weight is."""
    make = Maker()
    make.add("image", ops.Input(Shape(8, 8, 4)))
    one = ops.Window(ops.Pair(1, 1))
    make.add("first", ops.AveragePool2d(one, factor=1.0709), "image")
    make.add("second", ops.AveragePool2d(one, factor=-1.07), "image")
    make.add("sum", ops.Add(), "first", "second")
    made = Graph(tuple(make.nodes), ("sum",))
    result = verified(made, made, tmp_path)
    assert not result.wrong_maps


@needs_compiler
@pytest.mark.slow
def test_logits_are_judged_where_a_layer_of_keras_ends_in_a_softmax(tmp_path: Path) -> None:
    """The framework has only the probabilities."""
    keras = keras_models.import_keras()
    x = keras.Input((6, 5, 4), name="x")
    y = keras.layers.Flatten()(keras.layers.Conv2D(8, 3, name="c")(x))
    model = keras.Model(x, keras.layers.Dense(10, activation="softmax", name="d")(y))
    random = np.random.default_rng(0)
    model.set_weights([random.normal(0, 0.5, each.shape) for each in model.get_weights()])
    model.save(tmp_path / "m.keras")
    chosen = config(tmp_path / "m.keras", output_folder=tmp_path)
    graph = load(tmp_path / "m.keras", tmp_path / "m.keras")
    (dense,) = (node for node in graph.nodes if isinstance(node.op, ops.Dense))
    assert isinstance(dense.op, ops.Dense) and dense.op.bias is not None
    bias = dense.op.bias.load() + random.normal(0, 0.05, 10)
    changed = replace(dense, op=replace(dense.op, bias=Constant.of(bias)))
    wrong = Graph(tuple(changed if node is dense else node for node in graph.nodes), graph.outputs)
    assert verify(chosen).passed
    result = verify(chosen, graph=wrong)
    assert not result.failed and [each.layer for each in result.wrong_maps] == ["d", "d before softmax"]
