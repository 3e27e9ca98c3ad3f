"""A network as JSON with a file of weights is the network of the whole model's file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from cnn_convertor.config import Config, is_model
from cnn_convertor.conversion.first_ini import first_ini
from cnn_convertor.conversion.inspection import find
from cnn_convertor.errors import ModelError
from cnn_convertor.frontends import recognize
from cnn_convertor.frontends.keras import KERAS
from cnn_convertor.frontends.keras.importer import read
from cnn_convertor.frontends.unsupported_formats import explain
from frontends.loading import load_keras as load
from reference import ir_reference

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits_keras"
KERAS_3, KERAS_2 = EXAMPLE / "digits.keras", EXAMPLE / "digits_keras2.h5"


def of_keras_3(folder: Path) -> tuple[Path, Path]:
    """What to_json and save_weights of Keras 3 write."""
    with zipfile.ZipFile(KERAS_3) as archive:
        (folder / "net.json").write_bytes(archive.read("config.json"))
        (folder / "net.weights.h5").write_bytes(archive.read("model.weights.h5"))
    return folder / "net.json", folder / "net.weights.h5"


def of_keras_2(folder: Path) -> tuple[Path, Path]:
    """What to_json and save_weights of Keras 2 write."""
    with h5py.File(KERAS_2) as whole, h5py.File(folder / "net.h5", "w") as file:
        config = json.loads(whole.attrs["model_config"])
        for name, value in whole["model_weights"].attrs.items():
            file.attrs[name] = value
        for name in whole["model_weights"]:
            whole["model_weights"].copy(name, file)
        about = {"keras_version": str(whole.attrs["keras_version"]), "backend": "tensorflow"}
    (folder / "net.json").write_text(json.dumps({**config, **about}, indent=2))
    return folder / "net.json", folder / "net.h5"


@pytest.mark.parametrize(("split", "whole"), [(of_keras_3, KERAS_3), (of_keras_2, KERAS_2)])
def test_both_files_make_the_network_of_the_whole_model(
    split: Callable[[Path], tuple[Path, Path]], whole: Path, tmp_path: Path
) -> None:
    definition, data = split(tmp_path)
    expected = load(whole, whole)
    image = np.random.default_rng(0).normal(size=(8, 8, 1))
    (wanted,) = expected.outputs
    values = ir_reference.run(expected, {"image": image})[wanted]
    for weights in (data, whole):
        graph = load(definition, weights)
        assert graph.outputs == expected.outputs
        np.testing.assert_array_equal(ir_reference.run(graph, {"image": image})[wanted], values)


@pytest.mark.parametrize("split", [of_keras_3, of_keras_2])
def test_it_is_inspected_without_weights(split: Callable[[Path], tuple[Path, Path]], tmp_path: Path) -> None:
    definition, data = split(tmp_path)
    report = find(definition).report
    assert not report.has_weights and not report.problems
    assert report.parameters == find(KERAS_3).report.parameters
    assert read(definition, data).graph.output_names == read(definition, None).graph.output_names


def test_without_its_weights_it_is_refused_with_a_way_out(tmp_path: Path) -> None:
    definition, _ = of_keras_3(tmp_path)
    with pytest.raises(ModelError, match="DV204: the file holds the network, not its weights") as caught:
        load(definition, definition)
    assert caught.value.problems[0].hint == "name the file of the weights: data = FILE.h5"


def test_a_first_ini_file_names_the_weights_beside_it(tmp_path: Path) -> None:
    definition, data = of_keras_3(tmp_path)
    ini = tmp_path / "net.ini"
    ini.write_text(first_ini(definition, ini))
    config = Config.read(ini)
    assert (config.definition, config.data, config.origin) == (definition, data, KERAS)


def test_it_is_known_by_its_content(tmp_path: Path) -> None:
    definition, data = of_keras_3(tmp_path)
    other = tmp_path / "architecture.txt"
    for text in (
        definition.read_text(),
        json.dumps(json.loads(definition.read_text()), indent=4, sort_keys=True),
        "\ufeff" + definition.read_text(),
    ):
        other.write_text(text, encoding="utf-8")
        assert recognize(other) is KERAS and is_model(other)
        assert load(other, data).output_names == ("digit",)
    definition.write_text(json.dumps({"boards": {}}))
    problem = explain(definition)
    assert problem is not None and "a JSON file without a Keras model" in problem.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"format": "layers-model", "modelTopology": {"class_name": "Functional"}}, "the JSON is not a Keras model"),
        ({"class_name": "Functional"}, "is invalid"),
        ({"class_name": "Mine", "config": {}, "module": "mine", "registered_name": "x"}, "class of your own"),
    ],
)
def test_other_json_is_refused(content: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=said):
        load(path, KERAS_3)


def test_json_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    definition, data = of_keras_3(tmp_path)
    definition.write_text(definition.read_text()[:3000])
    with pytest.raises(ModelError, match="its configuration is not JSON"):
        load(definition, data)
