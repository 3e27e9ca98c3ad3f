"""The chosen palettes keep the SQNR of the outputs, nearly no other choice has fewer bytes, and the rest stays as it was."""

from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor import cli
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.emulating import install
from cnn_convertor.devices.dv700.fitting.output_budget import _accepted
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.sources.rendering import emit
from cnn_convertor.devices.dv700.variant_files import variants_of
from cnn_convertor.devices.dv700.weights.palettes import describe, without_palettes
from cnn_convertor.devices.facts import KeptPrecision, Reason
from cnn_convertor.devices.settings import Override, Quantization
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import Origin, UnsupportedError, UsageError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import quantize
from cnn_convertor.quantize.palette_layers import Effect, Layers
from cnn_convertor.samples import Preparation, random_samples, shapes_of
from verification.trials import config

pytestmark = pytest.mark.usefixtures("compiler")

Real = NDArray[np.float64]
ROOT = Path(__file__).resolve().parents[2]
SHAPE = Shape(6, 6, 32)
OUTPUTS = [48, 40, 24, 32, 20]  # channels of a, b, c, d and e


def weights(seed: int, *shape: int) -> Constant:
    """Some of them are far larger than the rest, more so in later layers: their palettes cost more."""
    random = np.random.default_rng(seed)
    values = random.normal(size=shape) * np.exp(0.4 * seed * random.normal(size=shape))
    return Constant.of(values / np.sqrt(np.square(values).sum(axis=(1, 2, 3)).mean()))


@cache
def network() -> Graph:
    nodes = [Node("x", ops.Input(SHAPE))]
    channels = [SHAPE.channels, *OUTPUTS]
    for seed, name in enumerate("abcde"):
        op = ops.Conv2d(weights(seed, channels[seed + 1], channels[seed], 1, 1), None, Window(Pair(1, 1)))
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name),)))
    return Graph(tuple(nodes), ("e",))


def chosen(sqnr: float, **fields: Any) -> Config:
    fields = {"quantization": Quantization.AUTO, "quantization_output_sqnr": sqnr, **fields}
    return config(Path("graph.keras"), **fields)


@cache
def kept(sqnr: float) -> tuple[Program, KeptPrecision]:
    made = quantize(network(), Request.of(chosen(sqnr)))
    assert made.budget is not None
    return made.program, made.budget


@cache
def inputs(*, judging: bool = True) -> dict[str, Maps]:
    """What the budget is measured with, where no samples are given: every fourth of 8. Not judging: the others, which choose."""
    whole = random_samples(shapes_of(network()), Preparation(), samples=8, seed=0).inputs
    return {name: values[3::4] if judging else np.delete(values, [3, 7], axis=0) for name, values in whole.items()}


def installed(program: Program, folder: Path) -> EmulatedNetwork:
    return install(network(), program, emit(program, RenderOptions("a graph")), folder, device=DV700)


def output(made: EmulatedNetwork, *, exact: bool = False, judging: bool = True) -> Real:
    return made.run(inputs(judging=judging), exact=exact).outputs[0].astype(np.float64)


def decibels(right: Real, found: Real) -> float:
    return float(10 * np.log10(np.square(right).sum() / np.square(found - right).sum()))


def measured(program: Program, folder: Path) -> float:
    """dB of a program against FP16 weights with maps in FP32."""
    right = output(installed(without_palettes(program), folder / "plain"), exact=True)
    return decibels(right, output(installed(program, folder / "made")))


def palettes(program: Program) -> set[str]:
    return {layer.layer for layer in describe(program) if layer.palette}


BUDGETS = [44.0, 46.0, 48.0, 52.0, 60.0]  # all palettes leave 43.1 dB, none 67.2 dB


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_outputs_keep_what_is_said(tmp_path: Path) -> None:
    for sqnr in BUDGETS:
        _, found = kept(sqnr)
        assert found.sqnr >= sqnr == found.wanted and (found.samples, found.judges) == (6, 2)
    program, found = kept(46.0)
    assert found.sqnr == pytest.approx(measured(program, tmp_path), abs=1e-6)


@pytest.mark.slow
def test_a_higher_budget_takes_more_bytes() -> None:
    sizes = [kept(sqnr)[0].weight_bytes for sqnr in BUDGETS]
    assert sizes == sorted(sizes) and len(set(sizes)) >= 4, "the budgets lead to different choices"
    assert palettes(kept(-10.0)[0]) == set("abcde")


@pytest.mark.slow
def test_no_choice_of_palettes_keeps_the_outputs_in_fewer_bytes(tmp_path: Path) -> None:
    everywhere = kept(-10.0)[0]
    variants = variants_of(installed(without_palettes(everywhere), tmp_path), everywhere)
    sides = (False, True)
    right = {judging: output(variants.network, exact=True, judging=judging) for judging in sides}
    saved = {layer.layer: layer.fp16_bytes - layer.bytes for layer in describe(everywhere)}
    for sqnr in BUDGETS:
        names = palettes(kept(sqnr)[0])
        for others in (set(other) for size in range(6) for other in combinations("abcde", size)):
            if sum(map(saved.__getitem__, others)) > sum(map(saved.__getitem__, names)):
                with variants.with_palettes(others) as other:
                    assert min(decibels(right[side], output(other, judging=side)) for side in sides) < sqnr


def test_the_reasons_say_what_decided() -> None:
    program, _ = kept(46.0)
    reasons = {layer.layer: (layer.palette, Reason(layer.reason)) for layer in describe(program)}
    assert set(reasons.values()) == {(True, Reason.KEPT), (False, Reason.MISSED)}


@pytest.mark.parametrize(("refused", "chosen"), [(0, {0, 1}), (1, {0}), (9, set())])
def test_a_choice_that_other_samples_refuse_is_made_with_more(refused: int, chosen: set[int]) -> None:
    """Two layers: both leave 40 dB with the samples that choose, the first one alone 45."""
    tried: list[Layers] = []

    def measure(layers: Layers) -> Effect:
        noise = {0: 0.0, 1: 10**-4.5 if 0 in layers else 0.5e-4, 2: 1e-4}[len(layers)]
        return Effect(noise, np.full((1, 1), np.sqrt(noise)))

    def kept(layers: Layers) -> float:
        tried.append(layers)
        return 38.0 if len(tried) <= refused else 40.0

    assert _accepted([10, 5], measure, kept, 40.0) == chosen


def test_what_the_ini_file_says_stays() -> None:
    says = (Override("e", palette=True, where=Origin("n")), Override("a", palette=False, where=Origin("n")))
    program = quantize(network(), Request.of(chosen(20.0, overrides=says))).program
    reasons = {layer.layer: (layer.palette, Reason(layer.reason)) for layer in describe(program)}
    assert reasons["e"] == (True, Reason.OVERRIDE) and reasons["a"] == (False, Reason.OVERRIDE)
    assert palettes(program) == set("bcde")


def test_the_same_network_gives_the_same_choice() -> None:
    made, (program, found) = quantize(network(), Request.of(chosen(46.0))), kept(46.0)
    assert made.budget == found and describe(made.program) == describe(program)


def test_an_sqnr_that_fp16_does_not_reach_is_an_error() -> None:
    with pytest.raises(UnsupportedError) as caught:
        quantize(network(), Request.of(chosen(120.0)))
    (problem,) = caught.value.problems
    assert problem.code == "DV505" and "not 120, even with FP16 weights (on 2 of the samples" in problem.message


def test_the_error_names_palettes_that_the_ini_file_asks_for() -> None:
    says = (Override("e", palette=True, where=Origin("n")),)
    with pytest.raises(UnsupportedError, match=r"FP16 weights in all layers but e, which \[QUANTIZATION\] names"):
        quantize(network(), Request.of(chosen(120.0, overrides=says)))


def test_a_silent_output_is_kept_beside_others() -> None:
    """It has a size of its own, too."""
    zeros = ops.Conv2d(Constant.of(np.zeros((8, OUTPUTS[0], 1, 1))), None, Window(Pair(1, 1)))
    graph = Graph((*network().nodes, Node("z", zeros, ("a",), (Origin("net", "z"),))), ("e", "z"))
    budget = quantize(graph, Request.of(chosen(46.0))).budget
    assert budget is not None and 46.0 <= budget.sqnr < 100.0


def test_other_quantizations_do_not_measure() -> None:
    for quantization in (Quantization.FP16, Quantization.PALETTE):
        assert quantize(network(), Request.of(chosen(120.0, quantization=quantization))).budget is None


def test_custom_layers_are_refused() -> None:
    custom = Node("z", ops.Custom("Twice", (), Shape(6, 6, 20)), ("e",), (Origin("net", "z"),))
    graph = Graph((*network().nodes, custom), ("z",))
    with pytest.raises(UsageError, match="DV715"):
        quantize(graph, Request.of(chosen(40.0)))


@pytest.mark.slow
def test_calibrated_palettes_are_chosen_with_their_biases(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    sizes, means = np.exp(random.normal(size=SHAPE.channels)), random.normal(size=SHAPE.channels)
    np.save(tmp_path / "samples.npy", (sizes * (random.normal(size=(8, *SHAPE)) + means)).astype(np.float32))
    plain, made = (
        quantize(network(), Request.of(replace(chosen(sqnr), calibrate=tmp_path / "samples.npy")))
        for sqnr in (-10.0, 67.0)
    )
    assert plain.calibration is not None and plain.budget is not None and made.budget is not None
    assert plain.budget.sqnr == plain.budget.with_all == made.budget.with_all < 67.0 <= made.budget.sqnr
    own = {w.layer for w in made.program.weights if w.choice is not None and w.choice.bias is not None}
    assert own == palettes(made.program) != palettes(plain.program) == set("abcde")


def test_the_command_line_says_what_the_outputs_keep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, ini = ROOT / "examples" / "digits_caffe", tmp_path / "net.ini"
    ini.write_text(
        f"[INPUT]\nname = d\ndefinition = {folder / 'digits.prototxt'}\ndata = {folder / 'digits.caffemodel'}\n"
        "scale = 1/240\n[OUTPUT]\noutput_folder = out\nquantization = auto\nquantization_output_sqnr = 45\n"
    )
    assert cli.main(["-v", str(ini)]) == 0
    out, err = capsys.readouterr()
    (said,) = [line.split() for line in out.splitlines() if line.startswith("  outputs ")]
    assert float(said[1]) >= 45 and said[2:5] == ["dB", "(45", "wanted,"]
    assert "d: measure outputs took " in err


def with_prelu(scale: float) -> Graph:
    """Two layers with PReLU. scale: of the spread of the second one's weights, whose palette costs more the larger it is."""
    slopes = ops.PRelu(Constant.of(np.full(64, 0.25)))
    nodes = [Node("x", ops.Input(Shape(6, 6, 64)))]
    for name, seed in (("a", 1.0), ("b", scale)):
        random = np.random.default_rng(5)
        values = random.normal(size=(64, 64, 3, 3)) * np.exp(seed * random.normal(size=(64, 64, 3, 3)))
        op = ops.Conv2d(Constant.of(values / np.abs(values).sum() * 64), None, Window(Pair(3, 3)), activation=slopes)
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name),)))
    return Graph(tuple(nodes), ("b",))


def test_a_prelu_goes_back_into_a_layer_that_gives_up_its_palette() -> None:
    made, everywhere = (quantize(with_prelu(2.0), Request.of(chosen(sqnr))) for sqnr in (43.0, -10.0))
    program = made.program
    assert made.budget is not None and everywhere.budget is not None
    assert made.budget.with_all == everywhere.budget.sqnr < 43.0 <= made.budget.sqnr
    kinds = {(weights.layer, weights.packed.palette, weights.packed.prelu) for weights in program.weights}
    assert kinds == {("a", False, True), ("b", True, False), ("b", False, True)}
