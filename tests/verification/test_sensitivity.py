"""Sensitivity names the layers whose palettes cost the outputs most, independent of the layers around them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.cli import main
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.config import Config
from cnn_convertor.config.request import preparation_of
from cnn_convertor.devices.dv700.emulating import install
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.sources.rendering import emit
from cnn_convertor.devices.dv700.variant_files import variants_of
from cnn_convertor.devices.dv700.weights.palettes import without_palettes
from cnn_convertor.devices.settings import Override, Quantization
from cnn_convertor.errors import ConvertorWarning, Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import build, load
from cnn_convertor.samples import random_samples, shapes_of
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.compare import compare
from cnn_convertor.verification.outputs import sensitivities
from cnn_convertor.verification.results import Cause, IfCalibrated
from verification.trials import config

pytestmark = pytest.mark.usefixtures("compiler")

CAFFE_INI = Path(__file__).resolve().parents[2] / "examples" / "digits_caffe" / "net.ini"


@pytest.fixture
def digits() -> Config:
    return replace(Config.read(CAFFE_INI), quantization=True)


def network(bad: str) -> Graph:
    """Six layers, of which one has more different weights than the others."""
    random = np.random.default_rng(0)
    nodes = [Node("x", ops.Input(Shape(6, 6, 32)))]
    for name in "abcdef":
        values = random.normal(size=(32, 32, 1, 1)) / np.sqrt(32)
        weight = Constant.of(values if name == bad else np.round(values * 256) / 256)
        op = ops.Conv2d(weight, None, Window(Pair(1, 1)))
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name),)))
    return Graph(tuple(nodes), ("f",))


@pytest.mark.parametrize("bad", ["b", "e"])
def test_the_worst_palette_is_found_wherever_it_is(bad: str, tmp_path: Path) -> None:
    graph, chosen = network(bad), config(Path("graph.keras"), quantization=Quantization.PALETTE)
    program = build(graph, chosen)
    plain = without_palettes(program)
    files = emit(plain, RenderOptions("a graph"))
    variants = variants_of(install(graph, plain, files, tmp_path, device=DV700), program)
    inputs = {"x": np.random.default_rng(1).normal(size=(2, 6, 6, 32)).astype(np.float16).astype(np.float32)}
    (right,) = variants.network.run(inputs, exact=True).outputs
    found = sensitivities(variants, lambda made: [compare("f", made.run(inputs).outputs[0], right)])
    assert found[0].layer == bad and found[0].sqnr > found[1].sqnr + 3


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_each_layer_shows_the_outputs_that_fp16_for_it_gives(digits: Config) -> None:
    result = verify(digits, sensitivity=True)
    found = {each.layer: each for each in result.sensitivity}
    best = result.sensitivity[0]
    (before,) = (output.sqnr for output in result.outputs if output.name == "prob before softmax")
    noises = [10 ** (-each.outputs["prob before softmax"] / 10) for each in result.sensitivity]
    less = [10 ** (-before / 10) - noise for noise in noises]
    bought = [gain / each.more_bytes for gain, each in zip(less, result.sensitivity, strict=True)]
    assert len(found) > 1 and bought == sorted(bought, reverse=True)
    assert best.sqnr > result.least_sqnr and best.more_bytes > 0
    override = Override(best.layer, palette=False, where=Origin("net.ini"))
    changed = verify(replace(digits, overrides=(override,)))
    assert changed.least_sqnr == best.sqnr
    assert best.outputs == {output.name: output.sqnr for output in changed.outputs}
    assert json.loads(result.to_json())["sensitivity"][0]["layer"] == best.layer


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_what_calibration_brings_is_what_the_same_images_bring(digits: Config, tmp_path: Path) -> None:
    result = verify(digits, sensitivity=True)
    images = random_samples(shapes_of(load(digits)), preparation_of(digits), samples=8, seed=1)
    np.savez(tmp_path / "images.npz", **images.inputs)  # type: ignore[arg-type]
    calibrated = verify(replace(digits, calibrate=tmp_path / "images.npz"), sensitivity=True)
    assert result.if_calibrated == IfCalibrated(8, {each.name: each.sqnr for each in calibrated.outputs})
    assert calibrated.least_sqnr > result.least_sqnr + 3
    assert calibrated.if_calibrated is None
    assert verify(digits, inputs=np.ones((1, 8, 8, 1)), sensitivity=True).if_calibrated is None
    assert result.to_json() == verify(digits, sensitivity=True).to_json()


def test_without_palettes_there_is_a_warning(digits: Config) -> None:
    with pytest.warns(ConvertorWarning, match="DV721: there are no palettes"):
        result = verify(replace(digits, quantization=False), sensitivity=True, samples=1)
    assert result.sensitivity == () and result.if_calibrated is None


def test_the_causes_show_the_outputs_without_each_palette(digits: Config) -> None:
    result = verify(digits, attribute=True, samples=2)
    causes = {row.comparison.name: {c.cause: c.sqnr for c in row.causes} for row in result.layers}
    found = {each.layer: each.sqnr for each in result.sensitivity}
    assert causes["relu1"][Cause.PALETTE] == found["conv1"] and causes["ip6"][Cause.PALETTE] == found["ip6"]
    assert Cause.PALETTE not in causes["pool2"]


def test_the_command_line_shows_the_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, ini = CAFFE_INI.parent, tmp_path / "net.ini"
    text = CAFFE_INI.read_text().replace("quantization = 0", "quantization = 1")
    ini.write_text(text.replace("digits.", f"{folder}/digits."))
    assert main(["verify", str(ini), "--samples", "1", "--sensitivity", "--attribute"]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    start = rows.index(["FP16", "in", "more", "bytes", "prob", "dB", "prob", "before", "softmax", "dB"])
    shown = [row[0] for row in rows[start + 1 : rows.index([], start)]]
    assert shown[:2] == ["none", "none,"] and shown[-1] == "all" and "conv1" in shown
    assert (
        f'FP16 weights in "{rows[start + 3][0]}" alone help most for their bytes: {rows[start + 3][3]} dB at the worst output'
        in out
    )
    assert rows[start + 2][:3] == ["none,", "calibrated", "0"] and float(rows[start + 2][4]) > float(rows[start + 1][3])
    assert (
        "calibrated: with 8 other random images; with your own (--calibrate SAMPLES), outputs may keep more or less"
        in out
    )
