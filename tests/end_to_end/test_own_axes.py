"""An array that the framework takes gives the framework's results, also where its axes could be read in another order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from cnn_convertor.config import Config
from cnn_convertor.trials.run import run
from frontends.onnx.networks import Network

pytestmark = pytest.mark.usefixtures("compiler")
RNG = np.random.default_rng(5)


def ran(model: Path, array: Any, folder: Path, **fields: Any) -> Any:
    """The only output for an array that is given as it is: (N, H, W, C)."""
    np.save(folder / "x.npy", array)
    config = Config(definition=model, data=model, quantization=False, output_folder=folder, **fields)
    (result,) = run(config, folder / "x.npy").values()
    return result


@pytest.mark.parametrize(
    ("size", "kernel", "begins"),
    [((4, 4), (3, 3), ()), ((9,), (3,), ()), ((4, 4), (3, 3), ("inner",))],
)
def test_arrays_of_onnx(
    size: tuple[int, ...], kernel: tuple[int, ...], begins: tuple[str, ...], tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    array = RNG.normal(size=(1, 4, *size)).astype(np.float32)
    weights = RNG.normal(0, 0.3, (5, 4, *kernel)).astype(np.float32)
    nodes = [helper.make_node("Relu", ["x"], ["inner"]), helper.make_node("Conv", ["inner", "w"], ["y"])]
    model = Network(nodes, {"x": array}, {"w": weights}, opset=15).write(tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (expected,) = session.run(["y"], {"x": np.maximum(array, 0) if begins else array})
    for given in (array, array[0]):
        result = ran(model, np.maximum(given, 0) if begins else given, tmp_path, inputs=begins)
        np.testing.assert_allclose(result.transpose(0, 3, 1, 2).reshape(expected.shape), expected, atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_arrays_of_keras(data_format: str, tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    layers = [keras.Input((4, 4, 4)), keras.layers.ZeroPadding2D(((1, 0), (0, 0)), data_format=data_format)]
    keras.Sequential(layers).save(tmp_path / "net.keras")
    array = RNG.normal(size=(1, 4, 4, 4)).astype(np.float16).astype(np.float32)
    axis = 1 if data_format == "channels_last" else 2
    expected = np.pad(array, [(int(at == axis), 0) for at in range(4)])
    result = ran(tmp_path / "net.keras", array, tmp_path)
    if data_format == "channels_first":
        result = result.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(result, expected)
