"""The page of supported layers: what readers declare, compared with what they do when they run."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.devices.dv700.operators import words_of
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.frontends.caffe import importer
from cnn_convertor.frontends.caffe.layers import caffe
from cnn_convertor.frontends.keras import importer as keras_importer
from cnn_convertor.frontends.keras.reading import keras, operations
from cnn_convertor.frontends.readers import Registry, Settings
from cnn_convertor.ir import ops
from development.pages.layers import FRAMEWORKS, manual
from frontends.caffe.test_every_setting import CASES
from frontends.keras import networks, test_agrees_with_keras
from frontends.reasons import PACKAGE


def test_every_type_is_on_the_page() -> None:
    page = manual()
    for framework in FRAMEWORKS:
        assert len(list(framework.registry)) > 20
        assert [type for type in framework.registry if f"`{type}`" not in page] == []


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


# --- against what happens ------------------------------------------------------------------------------------------------

MOVES = {ops.Identity, ops.Reshape, ops.TransposeReshape}  # bring inputs and results into a layout


# What functions of TensorFlow alone make, which test_every_operation.py compares; by the first type of the same reader.
FOR_TENSORFLOW = {("Absolute", "elu"), ("Absolute", "mish")}


class Seen:
    """What readers make while networks are read, by layer type. Settings check themselves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: dict[str, set[type]] = defaultdict(set)
        self._type = ""
        add, read = Builder.add, Builder.read

        def note_type(builder: Any, inputs: Any, reading: Any, placeholder: Any, *more: Any) -> Any:
            self._type = placeholder[1].type
            return read(builder, inputs, reading, placeholder, *more)

        def note_added(builder: Any, name: str, op: Any, inputs: Any, origin: Any) -> str:
            function = op.function if isinstance(op, ops.Activation | ops.Unary) else getattr(op, "activation", None)
            kept = () if isinstance(op, ops.Activation | ops.Unary) else (type(op),)
            self.made[self._type].update((*kept, *([] if function is None else [type(function)])))
            return add(builder, name, op, inputs, origin)

        monkeypatch.setattr(Builder, "read", note_type)
        monkeypatch.setattr(Builder, "add", note_added)

    def compare(self, *registries: Registry[Any]) -> int:
        """All that was seen must be declared; gives the number of types that were seen."""
        count = 0
        for type, made in self.made.items():
            readers = [reader for registry in registries if (reader := registry.get(type)) is not None]
            count += bool(readers)
            declared = {made for reader in readers for made in reader.makes}
            if any("activation" in reader.settings for reader in readers):
                declared.update(registries[0]["Activation"].makes)
            assert not readers or made <= declared | MOVES, type
        return count


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


@pytest.mark.slow
def test_what_keras_readers_make_is_declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    seen = Seen(monkeypatch)
    test_agrees_with_keras.test_every_layer_in_every_setting(networks.imported(), tmp_path)
    for table in (networks.MERGES, networks.OPERATIONS):
        test_agrees_with_keras.test_every_join_and_operation(networks.imported(), table, tmp_path)
    seen.compare(keras, operations)
    types = [(registry[type], type) for registry in (keras, operations) for type in registry if type in seen.made]
    unused = [
        (group[0], words_of(made))
        for reader in dict.fromkeys(reader for reader, _ in types)
        if (group := [type for other, type in types if other is reader])
        for made in set(reader.makes) - set().union(*(seen.made[type] for type in group)) - MOVES
    ]
    assert [found for found in unused if found not in FOR_TENSORFLOW] == []


def test_what_readers_make_of_trained_networks_is_declared(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    for file in shared.glob("models/*keras*/*.[hk]*5*"):
        keras_importer.read(file, file)
    assert seen.compare(keras, operations) > 10
