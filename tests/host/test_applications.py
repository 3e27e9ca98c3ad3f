"""Applications in the style of the SDK's demos build and run without an edit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from host.device import SANITIZERS, build
from host.reference import Weights, Window, convolve, pack

if TYPE_CHECKING:
    from host.reference import Map

HERE = Path(__file__).resolve().parent / "applications"
DEMO_STYLE = ["-Wno-sign-conversion", "-Wno-conversion"]  # the demos convert between types as they like
NAMES = ["pipelined", "layers", "camera"]


def integers(seed: int, *shape: int) -> Map:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


WEIGHTS = Weights(integers(1, 9, 3, 1, 1) / 4, integers(2, 9) / 4)


@pytest.fixture(scope="session")
def programs(library: Path) -> Path:
    """The folder of the built applications."""
    folder = library.parent
    for name in NAMES:
        sources = [str(HERE / f"{name}.cpp"), str(HERE / "Small_gen.cpp"), str(library)]
        build(folder / name, *SANITIZERS, *DEMO_STYLE, f"-I{HERE}", *sources, with_device=False)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Small_weights.bin").write_bytes(pack(WEIGHTS, transposed=True))
    return tmp_path


def run(program: Path, folder: Path) -> list[list[str]]:
    """The words of each line that the program prints."""
    environment = {**os.environ, "DMP_DV_CHECK_UNINITIALIZED": "1"}
    result = subprocess.run([program], cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


def numbers(words: list[str]) -> Map:
    return np.array(words, dtype=np.float64)


def image(scale: float) -> Map:
    return np.asarray((np.arange(72) % 16 - 8) * scale, np.float64).reshape(4, 6, 3)


def features(values: Map) -> Map:
    return np.asarray(convolve(values, WEIGHTS, Window((1, 1))).astype(np.float16), np.float64)


def probabilities(values: Map) -> Map:
    powers = np.exp(values - values.max(axis=2, keepdims=True))
    return np.asarray(powers / powers.sum(axis=2, keepdims=True))


@pytest.mark.slow
def test_two_networks_run_at_once(programs: Path, folder: Path) -> None:
    lines = run(programs / "pipelined", folder)
    for scale, (softmax, gain) in zip((0.25, 0.5), (lines[:2], lines[2:]), strict=True):
        expected = features(image(scale))
        np.testing.assert_allclose(numbers(softmax), probabilities(expected).ravel(), atol=2e-3)
        np.testing.assert_array_equal(numbers(gain), -2 * expected.ravel())


def test_every_layers_output_is_copied(programs: Path, folder: Path) -> None:
    lines = [line for line in run(programs / "layers", folder) if line[0] in {"layer", "output"}]
    expected = features(image(0.25))
    chunks = np.concatenate([expected[..., :8].ravel(), expected[..., 8:].ravel()])
    names = [line[1] for line in lines if line[0] == "layer"]
    values = {line[1]: numbers(line[3:]) for line in lines if line[0] == "layer"}
    assert names == ["conv", "flatten", "prob", "gain"]
    np.testing.assert_allclose(values["conv"], chunks, rtol=1e-5)
    np.testing.assert_allclose(values["flatten"], expected.ravel(), rtol=1e-5)
    np.testing.assert_allclose(values["prob"], probabilities(expected).ravel(), atol=2e-3)
    np.testing.assert_allclose(values["gain"], -2 * expected.ravel(), rtol=1e-5)
    assert [line[1:] for line in lines if line[0] == "output"] == [["prob", "216"], ["gain", "216"]]


def test_8_bit_input_is_converted_by_policy(programs: Path, folder: Path) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (4, 6, 3)).astype(np.uint8)
    (folder / "image.bgr").write_bytes(pixels.tobytes())
    (line,) = run(programs / "camera", folder)
    expected = features(((pixels - 127.5) / 128)[..., ::-1])
    np.testing.assert_allclose(numbers(line), expected.ravel(), rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_applications_need_nothing_but_the_sdk(name: str) -> None:
    text = (HERE / f"{name}.cpp").read_text()
    assert "_host" not in text
