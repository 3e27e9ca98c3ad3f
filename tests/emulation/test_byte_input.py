"""With input = u8 the application writes bytes, and the device makes the same FP16 of them as the application would."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.config.request import Request, preparation_of
from cnn_convertor.devices.dv700.byte_input import POLICIES, with_swapped_bytes
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.sources import selftest
from cnn_convertor.devices.dv700.sources.rendering import render_selftest
from cnn_convertor.devices.dv700.weights.palettes import with_choices
from cnn_convertor.emulation.build import INCLUDE, device_library
from cnn_convertor.emulation.feature_maps import input_bytes
from cnn_convertor.errors import UnsupportedError, UsageError
from cnn_convertor.files.replacing import replace_all
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import build, render
from cnn_convertor.samples import random_samples, shapes_of
from cnn_convertor.workers.compiler import find_compiler
from verification.trials import config, network

needs_compiler = pytest.mark.usefixtures("compiler")
PATH = Path("graph.keras")


def random(*shape: int, seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(size=shape) / 8


def camera(channels: int = 3, *, first: ops.Op | None = None) -> Graph:
    """An image, and a convolution that reads it unless another operator does."""
    conv = ops.Conv2d(
        Constant.of(random(5, channels, 3, 3)), None, Window(Pair(3, 3), Pair(2, 1), padding=Padding(1, 1, 1, 1))
    )
    return Graph((Node("image", ops.Input(Shape(6, 9, channels))), Node("out", first or conv, ("image",))), ("out",))


PREPARATIONS: dict[str, dict[str, Any]] = {
    "CP_DIV_255": {"scale": 1 / 255},
    "CP_MINUS_128": {"mean": (128.0,)},
    "CP_MINUS_128_DIV_128": {"mean": (128.0,), "scale": 1 / 128},
    "CP_MINUS_127_5_DIV_128": {"mean": (127.5,), "scale": 1 / 128},
    "CP_DIRECT_CVT": {},
    "CP_USER_SPECIFY": {"mean": (103.939, 116.779, 123.68), "scale": 0.017},
    "a deviation for each channel": {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)},
}


@pytest.mark.parametrize("policy", PREPARATIONS)
def test_the_policy_is_the_runtimes_where_it_has_one(policy: str) -> None:
    program = build(camera(), config(PATH, input="u8", **PREPARATIONS[policy]))
    assert program.byte_input is not None
    assert program.byte_input.policy == (policy if policy in POLICIES else "CP_USER_SPECIFY")
    assert set(POLICIES) | {"CP_USER_SPECIFY"} <= set(PREPARATIONS)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@needs_compiler
@pytest.mark.parametrize("policy", PREPARATIONS)
@pytest.mark.parametrize("transposed", [True, False], ids=["HWC", "WHC"])
def test_bytes_give_the_results_of_fp16(policy: str, transposed: bool, tmp_path: Path) -> None:
    graph, fields = camera(), {"transpose_weight": transposed, **PREPARATIONS[policy]}
    with_bytes = config(PATH, input="u8", **fields)
    given = random_samples(shapes_of(graph), preparation_of(with_bytes), samples=2, seed=1).inputs
    made = network(graph, tmp_path / "u8", input="u8", **fields)
    results = made.run(given, layers=True)
    plain = network(graph, tmp_path / "fp16", **fields).run(given, layers=True)
    np.testing.assert_array_equal(results.outputs[0], plain.outputs[0])
    assert [results.traffic[0].input, plain.traffic[0].input] == [6 * 9 * 3, 6 * 9 * 3 * 2]
    assert len(input_bytes(made.program, given)) == 2 * 6 * 9 * 3
    assert audit(tmp_path / "u8" / "net_gen.cpp", tmp_path / "u8" / "net_weights.bin").findings == ()


@pytest.mark.parametrize(
    ("graph", "fields", "reason"),
    [
        (camera(1), {}, 'the table of bytes has 3 channels, the input "image" has 1'),
        (camera(first=ops.Unary(ops.Absolute())), {}, 'the first layer, "out", is not a command that reads only them'),
        (camera(), {"scale": 1000.0}, "mean and scale give values beyond FP16"),
        (
            Graph(
                (*camera().nodes, Node("more", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), ("image",))),
                ("out", "more"),
            ),
            {},
            '"more" reads the input, too',
        ),
    ],
    ids=["channels", "a CPU layer", "FP16", "two readers"],
)
def test_inputs_that_cannot_be_bytes(graph: Graph, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedError, match="DV431") as refused:
        build(graph, config(PATH, input="u8", fusion="none", **fields))
    assert reason in str(refused.value)


def test_values_that_no_byte_becomes_are_refused() -> None:
    program = build(camera(), config(PATH, input="u8", scale=1 / 255))
    with pytest.raises(UsageError, match="DV725"):
        input_bytes(program, {"image": np.full((1, 6, 9, 3), 0.3, np.float32)})


@needs_compiler
@pytest.mark.parametrize("policy", ["CP_MINUS_128", "CP_USER_SPECIFY"])
@pytest.mark.parametrize("quantization", [False, True], ids=["FP16", "palettes"])
def test_bytes_in_the_opposite_order_of_channels_give_the_same(policy: str, quantization: bool, tmp_path: Path) -> None:
    graph, fields = camera(), {"quantization": quantization, **PREPARATIONS[policy]}
    given = random_samples(
        shapes_of(graph), preparation_of(config(PATH, input="u8", **fields)), samples=2, seed=1
    ).inputs
    plain, swapped = (network(graph, tmp_path / kind, input=kind, **fields) for kind in ("u8", "u8_bgr"))
    pixels = [np.frombuffer(input_bytes(n.program, given), np.uint8).reshape(-1, 3) for n in (plain, swapped)]
    np.testing.assert_array_equal(pixels[0], pixels[1][:, ::-1])
    np.testing.assert_array_equal(swapped.run(given).outputs[0], plain.run(given).outputs[0])
    assert audit(tmp_path / "u8_bgr" / "net_gen.cpp", tmp_path / "u8_bgr" / "net_weights.bin").findings == ()


def test_calibrated_kernels_are_swapped_with_their_layer() -> None:
    program = build(camera(), config(PATH, input="u8", quantization=True))
    (weights,) = program.weights
    assert weights.choice is not None
    rounded = Constant.of(np.round(weights.kernels.load()))
    swapped = with_swapped_bytes(with_choices(program, [weights.choice._replace(kernels=rounded)]))
    np.testing.assert_array_equal(swapped.weights[0].stored_kernels.load(), rounded.load()[:, ::-1])
    np.testing.assert_array_equal(swapped.weights[0].kernels.load(), weights.kernels.load()[:, ::-1])


def test_the_order_that_the_network_has_anyway_changes_nothing() -> None:
    made = [build(camera(), config(PATH, input=kind)) for kind in ("u8", "u8_rgb")]
    assert [program.byte_input for program in made] == [made[0].byte_input] * 2
    plain, same = (program.weights[0].kernels.load() for program in made)
    np.testing.assert_array_equal(plain, same)


@pytest.mark.parametrize(
    "op",
    [
        ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))),
        ops.Conv2d(Constant.of(random(3, 1, 3, 3)), None, Window(Pair(3, 3), Pair(1, 1)), groups=3),
    ],
    ids=["pool", "depthwise"],
)
def test_only_kernels_can_swap_channels(op: ops.Op) -> None:
    with pytest.raises(UnsupportedError, match="has no kernels whose channels can be swapped"):
        build(camera(first=op), config(PATH, input="u8_bgr"))


@pytest.mark.slow
@needs_compiler
def test_a_selftest_fills_in_bytes(tmp_path: Path) -> None:
    configuration = config(PATH, input="u8", **PREPARATIONS["CP_USER_SPECIFY"])
    program = build(camera(), configuration)
    test = selftest.record(camera(), program, low=-1, high=1, device=DV700)
    texts = render_selftest(program, model="m", levels=test.levels, outputs=test.outputs)
    replace_all(tmp_path, {**render(camera(), program, Request.of(configuration)), **texts})
    compiler = find_compiler()
    sources = ["net_selftest.cpp", "net_gen.cpp", str(device_library(compiler))]
    command = [*compiler.command, "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{INCLUDE}", *sources]
    subprocess.run([*command, "-o", "selftest"], cwd=tmp_path, check=True)
    result = subprocess.run(["./selftest"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines() == ["output 0: pass", "pass"]


def test_the_header_has_what_an_application_needs_to_fill_the_input() -> None:
    fields: dict[str, Any] = {"mean": (1.5, 2.0, 3.0), "scale": 0.5, "channel_order": "BGR"}
    made = {}
    for kind in ("fp16", "u8"):
        configuration = config(PATH, input=kind, **fields)
        made[kind] = str(render(camera(), build(camera(), configuration), Request.of(configuration))["net_gen.h"])
    assert '{"image", 0, 324, 6, 9, 3, 2, "hwc8"},' in made["fp16"]
    assert '{"image", 0, 162, 6, 9, 3, 1, "hwc8"},' in made["u8"]
    configuration = config(PATH, input="u8_rgb", **fields)
    other = str(render(camera(), build(camera(), configuration), Request.of(configuration))["net_gen.h"])
    assert "constexpr float kMean[] = {3.0f, 2.0f, 1.5f};" in other
    assert 'constexpr char kChannelOrder[] = "RGB";' in other
    configuration = config(PATH, input="u8_rgb", channel_order="BGR", scale=(0.5, 2.0, 4.0))
    other = str(render(camera(), build(camera(), configuration), Request.of(configuration))["net_gen.h"])
    assert "constexpr float kScale[] = {4.0f, 2.0f, 0.5f};" in other
    for text in made.values():
        assert "constexpr float kMean[] = {1.5f, 2.0f, 3.0f};\nconstexpr float kScale = 0.5f;" in text
        assert 'constexpr char kChannelOrder[] = "BGR";' in text
