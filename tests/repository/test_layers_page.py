"""The page of supported layers: what readers declare, compared with what they do when they run."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.devices.words import words_of
from cnn_convertor.frontends.caffe import importer
from cnn_convertor.frontends.caffe.layers import caffe
from cnn_convertor.frontends.keras import importer as keras_importer
from cnn_convertor.frontends.keras.importer import keras, operations
from cnn_convertor.frontends.readers import Registry, Settings
from development.pages.layers import FRAMEWORKS, manual
from frontends.caffe.test_every_setting import CASES
from frontends.made import MOVES, Seen
from frontends.reasons import PACKAGE


def test_every_type_is_on_the_page() -> None:
    page = manual()
    for framework in FRAMEWORKS:
        assert len(list(framework.registry)) > 20
        assert [type for type in framework.registry if f"`{type}`" not in page] == []


@pytest.mark.parametrize(
    ("type", "places"), [("AbsVal", "CPU/device"), ("BNLL", "CPU"), ("Swish", "CPU"), ("ReLU", "within")]
)
def test_a_function_is_on_the_sides_that_have_it(type: str, places: str) -> None:
    rows = [line.split(" | ") for line in manual().splitlines() if line.startswith(f"| `{type}` |")]
    assert rows[0][2] == places


def test_every_type_makes_something_somewhere() -> None:
    for framework in FRAMEWORKS:
        for type in framework.registry:
            assert framework.registry[type].makes, type


def test_a_setting_that_is_not_declared_cannot_be_taken() -> None:
    settings = Settings({"a": 1, "b": 2}, {"a"})
    assert settings.take("a") == 1
    with pytest.raises(AssertionError, match="does not declare the setting b"):
        settings.take("b")
    assert settings.left() == {"b": 2}


@pytest.mark.parametrize(
    ("folder", "registries"), [("caffe/layers", (caffe,)), ("keras", (keras, operations))], ids=["Caffe", "Keras"]
)
def test_settings_that_sources_name_are_declared(folder: str, registries: tuple[Registry[Any], ...]) -> None:
    declared = {name for registry in registries for type in registry for name in registry[type].settings}
    asks = {"take", "take_each", "flag", "integer", "number", "pair"}
    for path in (PACKAGE / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in asks:
                names = node.args if node.func.attr == "take_each" else node.args[:1]
                named = {name.value for name in names if isinstance(name, ast.Constant) and isinstance(name.value, str)}
                assert named <= declared | {"dtype"}, f"{path.name}:{node.lineno}"


# --- against what happens; test_agrees_with_keras.py does this for Keras's layers ------------------------------------------


def test_what_caffe_readers_make_is_declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = Seen(monkeypatch)
    for case in CASES:
        (tmp_path / "net.prototxt").write_text(case.definition)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importer.read(tmp_path / "net.prototxt", None)
    assert seen.compare(caffe) == len([*caffe])
    unused = {type: {*caffe[type].makes} - seen.made[type] - MOVES for type in caffe}
    assert {type: words_of(made) for type, left in unused.items() for made in left} == {}


def test_what_readers_make_of_trained_networks_is_declared(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    for file in shared.glob("models/*keras*/*.[hk]*5*"):
        keras_importer.read(file, file)
    assert seen.compare(keras, operations) > 10
