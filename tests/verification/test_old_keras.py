"""Files of Keras 2 are run by tf_keras where Keras 3 refuses them, and a refusal gives Keras's own reason."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from cnn_convertor.errors import ModelError, UsageError
from cnn_convertor.frontends.keras.model_files import open_model
from cnn_convertor.samples import Preparation, random_samples, shapes_of
from cnn_convertor.verification import frameworks, keras_models
from frontends.loading import load_keras as load
from reference import ir_reference
from verification.trials import config

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("\n\nNo such file\nelse"), "No such file"),
        (TypeError("<class A> could not be deserialized.\n\nconfig={}.\n\nException encountered: Unknown layer: B\n"), "Unknown layer: B"),
        (KeyError(), "KeyError"),
    ],
)  # fmt: skip
def test_the_reason_is_what_keras_encountered(error: Exception, reason: str) -> None:
    assert keras_models.reason_of(error) == reason


def separable(keras: Any) -> Any:
    return keras.Sequential([keras.Input((6, 5, 3)), keras.layers.SeparableConv2D(4, 3, name="s")])


def dropout(keras: Any) -> Any:
    return keras.Sequential([keras.Input((6, 5, 3)), keras.layers.SpatialDropout2D(0.5), keras.layers.ReLU(name="r")])


def nested(keras: Any) -> Any:
    inner = keras.Sequential([keras.layers.Conv2D(4, 3, name="c"), keras.layers.ReLU(name="r")], name="inner")
    x = keras.Input((6, 5, 3))
    return keras.Model(x, keras.layers.Conv2D(2, 1, name="last")(inner(x)))


def slashed(keras: Any) -> Any:
    x = keras.Input((6, 5, 3))
    return keras.Model(x, keras.layers.Conv2D(4, 3, activation="hard_sigmoid", name="block/conv")(x))


def plain_list(keras: Any) -> Any:
    return keras.Sequential([keras.Input((6, 5, 3)), keras.layers.Conv2D(4, 3, name="c")])


def base_class(keras: Any) -> Any:
    """Published networks begin with a layer of the base class, which is an identity."""
    return keras.Sequential(
        [keras.layers.Layer(batch_input_shape=(None, 6, 5, 3)), keras.layers.Conv2D(4, 3, name="c")]
    )


def first(keras: Any) -> Any:
    """Channels first, where tf_keras computes copies with channels last."""
    L, order = keras.layers, "channels_first"  # noqa: N806
    source = keras.Input((3, 8, 7), name="source")
    x = L.BatchNormalization(axis=1)(L.Conv2D(4, 3, padding="same", data_format=order, name="a/b")(source))
    x = L.MaxPooling2D(2, data_format=order)(L.DepthwiseConv2D(3, data_format=order)(x))
    flat = L.Flatten(data_format=order)(L.Conv2DTranspose(5, 2, data_format=order)(x))
    return keras.Model(source, L.Dense(6)(L.Concatenate()([flat, L.GlobalMaxPooling2D(data_format=order)(x)])))


def as_a_list(path: Path) -> None:
    """The config of a Sequential as Keras 2.2.3 and older wrote it: the layers alone."""
    with h5py.File(path, "a") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"] = config["config"]["layers"]
        file.attrs["model_config"] = json.dumps(config)


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("make", [separable, dropout, nested, slashed, plain_list, base_class, first])
def test_a_file_of_keras_2_is_verified(make: Callable[[Any], Any], tmp_path: Path) -> None:
    keras_models.import_keras()  # first of all: it sets what TensorFlow reads when it is imported
    tf_keras = pytest.importorskip("tf_keras")
    tf_keras.utils.set_random_seed(0)
    path = tmp_path / "m.h5"
    make(tf_keras).save(path)
    if make is plain_list:
        as_a_list(path)
    graph = load(path, path)
    inputs = random_samples(shapes_of(graph), Preparation(), samples=3, seed=2).inputs
    found = frameworks.run(config(path).model, graph, inputs)
    for sample in range(3):
        values = ir_reference.run(graph, {name: maps[sample] for name, maps in inputs.items()})
        np.testing.assert_allclose(found.outputs[0][sample], values[graph.outputs[0]], rtol=1e-4, atol=1e-5)
    assert found.layers


def test_weights_with_the_names_of_keras_2_13_are_verified(tmp_path: Path) -> None:
    keras_models.import_keras()
    tf_keras = pytest.importorskip("tf_keras")
    tf_keras.utils.set_random_seed(0)
    inner = tf_keras.Sequential([tf_keras.Input((6, 5, 3)), tf_keras.layers.Conv2D(4, 3), tf_keras.layers.Conv2D(4, 1)])
    layers = [tf_keras.Input((6, 5, 3)), inner, tf_keras.layers.ReLU(), tf_keras.layers.Conv2D(4, 1)]
    model = tf_keras.Sequential(layers)
    old, path = "_layer_checkpoint_dependencies", tmp_path / "m.keras"
    names = {f"sequential/{old}/conv2d": inner.layers[0], f"sequential/{old}/conv2d_2": inner.layers[1]}
    with h5py.File(tmp_path / "m.weights.h5", "w") as file:
        for name, layer in (names | {"conv2d": model.layers[2]}).items():
            layer.save_own_variables(file.create_group(f"{old}/{name}/vars"))
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("config.json")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", text)
        archive.writestr("metadata.json", '{"keras_version": "2.13.1"}')
        archive.write(tmp_path / "m.weights.h5", "model.weights.h5")
    (tmp_path / "m.json").write_text(model.to_json(), encoding="utf-8")
    graph = load(path, path)
    inputs = random_samples(shapes_of(graph), Preparation(), samples=2, seed=2).inputs
    expected = model(inputs[graph.inputs[0].name], training=False)
    for definition, data in ((path, path), (tmp_path / "m.json", tmp_path / "m.weights.h5")):
        reference = frameworks.run(config(definition, data).model, load(definition, data), inputs)
        np.testing.assert_allclose(reference.outputs[0], expected, atol=1e-6)
        for sample in range(2):
            values = ir_reference.run(graph, {name: maps[sample] for name, maps in inputs.items()})
            np.testing.assert_allclose(reference.outputs[0][sample], values[graph.outputs[0]], rtol=1e-4, atol=1e-5)


def test_without_tf_keras_the_refusal_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keras_models.import_keras()
    tf_keras = pytest.importorskip("tf_keras")
    slashed(tf_keras).save(tmp_path / "m.h5")
    monkeypatch.setattr(keras_models, "_tf_keras", lambda: None)
    with pytest.raises(ModelError, match=r"DV712: keras \S+ refuses the model: [\s\S]*install tf_keras") as caught:
        keras_models.load_model(open_model(tmp_path / "m.h5"), tmp_path / "m.h5", None)
    assert "/" in caught.value.problems[0].message


def test_without_tensorflow_the_message_says_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(UsageError, match="DV711: TensorFlow computes the outputs that `verify` expects") as caught:
        keras_models.import_keras()
    assert "install the extra `verify`" in str(caught.value) and "or give the expected outputs" in str(caught.value)
