"""An inspection goes on behind layers that cannot be read: by the shapes that a file tells, or by guesses."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from cnn_convertor.conversion.inspection import inspect
from cnn_convertor.frontends.keras.shape_hints import known_shapes
from cnn_convertor.report.values import Report
from conversion.test_inspection import codes


def keras_3(layers: list[dict[str, Any]], arrays: dict[str, Any], folder: Path, name: str = "Functional") -> Report:
    config: dict[str, Any] = {"name": "model", "layers": layers}
    if name == "Functional":
        config |= {"input_layers": [["x", 0, 0]], "output_layers": [[layers[-1]["name"], 0, 0]]}
    with h5py.File(folder / "inner", "w") as file:
        for path, values in arrays.items():
            file.create_dataset(path, data=values)
    with zipfile.ZipFile(folder / "net.keras", "w") as archive:
        archive.writestr("config.json", json.dumps({"class_name": name, "config": config}))
        archive.write(folder / "inner", "model.weights.h5")
    return inspect(folder / "net.keras")


def called(type: str, name: str, source: str, shape: list[int | None], **config: Any) -> dict[str, Any]:
    """A layer of a Keras 3 file, called with another layer's output."""
    tensor = {"class_name": "__keras_tensor__", "config": {"shape": shape, "keras_history": [source, 0, 0]}}
    settings = {"name": name, "trainable": True, "dtype": "float32", **config}
    return {"class_name": type, "name": name, "config": settings, "inbound_nodes": [{"args": [tensor], "kwargs": {}}]}


INPUT = {"class_name": "InputLayer", "name": "x", "config": {"name": "x", "batch_shape": [None, 16, 16, 3]}, "inbound_nodes": []}  # fmt: skip


CONVOLUTION = {"filters": 4, "kernel_size": [3, 3], "padding": "valid"}


ARRAYS = {"layers/conv2d/vars/0": np.ones((3, 3, 12, 4)), "layers/conv2d/vars/1": np.ones(4)}


@pytest.mark.parametrize("form", ["Functional", "Sequential"])
def test_a_layer_that_cannot_be_read_has_the_shape_that_the_file_tells(tmp_path: Path, form: str) -> None:
    odd = called("Foo", "odd", "x", [None, 16, 16, 3])
    conv = called("Conv2D", "conv", "odd", [None, 8, 8, 12], **CONVOLUTION)
    if form == "Sequential":
        conv["build_config"] = {"input_shape": [None, 8, 8, 12]}
        for layer in (odd, conv):
            del layer["inbound_nodes"]
    result = keras_3([INPUT, odd, conv], ARRAYS, tmp_path, form)
    assert codes(result.problems) == [("DV301", "odd")]
    assert [
        (r.name, *("x".join(map(str, shape)) for shape in r.outputs), r.guessed, r.runs, r.macs)
        for r in result.layers[1:]
    ] == [
        ("odd", "8x8x12", False, "refused", None),
        ("conv", "6x6x4", False, "device", 6 * 6 * 4 * 9 * 12),
    ]


def test_a_shape_with_an_open_size_or_that_differs_from_call_to_call_is_none() -> None:
    first = called("Relu", "a", "odd", [None, 8, 8, 12])
    assert known_shapes({"config": {"layers": [first]}}) == {"odd": (8, 8, 12)}
    assert known_shapes({"config": {"layers": [first, called("Relu", "b", "odd", [None, 8, 8, 12])]}}) != {}
    for shape in ([None, 9, 8, 12], [None, None, 8, 12], [None], None, "abc"):
        assert known_shapes({"config": {"layers": [first, called("Relu", "b", "odd", shape)]}}) == {}  # type: ignore[arg-type]  # what a damaged file may hold
    inner = {"class_name": "Functional", "name": "part", "config": {"layers": [first]}}
    assert known_shapes({"config": {"layers": [inner]}}) == {"part/odd": (8, 8, 12)}
    nonsense: list[Any] = [None, [], {}, {"config": 1}, {"config": {"layers": [1, {"config": 2}]}}]
    assert [known_shapes(data) for data in nonsense] == [{}] * 5


def test_without_a_shape_in_the_file_the_size_is_guessed(tmp_path: Path) -> None:
    odd = called("Foo", "odd", "x", [None, 16, 16, 3])
    conv = called("Conv2D", "conv", "odd", [None, None, None, 12], **CONVOLUTION)
    result = keras_3([INPUT, odd, conv], ARRAYS, tmp_path)
    assert codes(result.problems) == [("DV301", "odd")]
    assert [
        (r.name, *("x".join(map(str, shape)) for shape in r.outputs), r.guessed, r.runs) for r in result.layers[1:]
    ] == [
        ("odd", "16x16x12", True, "refused"),
        ("conv", "14x14x4", True, "device"),  # its weights give the channels
    ]


def test_a_layer_that_fits_no_guess_does_not_hide_what_is_behind_it(shared: Path, tmp_path: Path) -> None:
    """In a file of Keras 2, which contains no shapes: a stand-in for any layer has the channels that the others need."""
    path = tmp_path / "net.h5"
    path.write_bytes((shared / "models/vww_mobilenet_keras2/vww_96.h5").read_bytes())
    for number in (1, 7, 20):
        with h5py.File(path, "r+") as file:
            config = json.loads(file.attrs["model_config"])
            layers = config["config"]["layers"]
            layers[number]["class_name"], was = "Foo", layers[number]["class_name"]
            file.attrs["model_config"] = json.dumps(config)
        result = inspect(path)
        assert [problem.code for problem in result.problems] == ["DV301"]
        assert [r.runs for r in result.layers].count("unknown") <= 1, was
        with h5py.File(path, "r+") as file:
            layers[number]["class_name"] = was
            file.attrs["model_config"] = json.dumps(config)
