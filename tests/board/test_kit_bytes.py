"""A kit of a network that reads bytes and gives classes as bytes is compared like any other, and exactly."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from board.building import build
from cnn_convertor.board.board_comparison import verify_board
from cnn_convertor.board.kit import Inputs, write_kit
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.device_file import read_profile
from examples import caffemodel
from verification.trials import NAME, config

pytestmark = pytest.mark.usefixtures("compiler")

PIXELS = 9 * 7  # an odd number of bytes
DEFINITION = """
input: "image"
input_shape { dim: 1 dim: 3 dim: 9 dim: 7 }
layer { name: "scores" type: "Convolution" bottom: "image" top: "scores"
        convolution_param { num_output: 5 kernel_size: 3 pad: 1 bias_term: false } }
layer { name: "classes" type: "ArgMax" bottom: "scores" top: "classes" argmax_param { axis: 1 } }
"""


@pytest.fixture(scope="module")
def camera(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A network from pixels to classes, for a device with a maximizer."""
    folder = tmp_path_factory.mktemp("camera")
    (folder / "net.prototxt").write_text(DEFINITION)
    weights = np.random.default_rng(0).normal(size=(5, 3, 3, 3))
    caffemodel.write(folder / "net.caffemodel", [("scores", "Convolution", [weights])])
    fields: dict[str, Any] = {
        "device": read_profile("zia-c3", Path()),
        "input": "u8",
        "mean": (128.0,),
        "scale": 1 / 128,
    }
    return config(folder / "net.prototxt", folder / "net.caffemodel", **fields)


@pytest.fixture(scope="module")
def results(camera: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kit")
    write_kit(camera, folder, Inputs(samples=2, seed=3))
    build(folder, "runner", [folder / "runner.cpp", folder / f"{NAME}_gen.cpp"], standard="c++11", with_runtime=True)
    subprocess.run(["./runner", "results"], cwd=folder, check=True, capture_output=True)
    return folder / "results"


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_emulated_device_is_a_board_that_passes(camera: Config, results: Path) -> None:
    assert (results.parent / "inputs.bin").stat().st_size == 2 * 3 * PIXELS
    found = verify_board(camera, results)
    assert found.passed and found.outputs == found.emulated
    assert [(layer.name, layer.emulation.max_error) for layer in found.layers] == [("scores", 0), ("classes", 0)]


def test_one_wrong_class_leaves_the_emulation(camera: Config, results: Path) -> None:
    path = results / "layers.bin"
    memory = path.read_bytes()
    assert len(memory) == 2 * (2 * 5 * PIXELS + PIXELS)
    wrong = bytearray(memory)
    wrong[-1] ^= 1
    path.write_bytes(wrong)
    try:
        assert verify_board(camera, results).first_leaving == "classes"
    finally:
        path.write_bytes(memory)
