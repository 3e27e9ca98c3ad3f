"""Layers of Keras in all their settings, functions between layers, and whole networks, on the emulated device."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from cnn_convertor.frontends.keras.model_files import open_model
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.keras_models import import_keras, load_model
from frontends.keras import networks, whole_networks
from frontends.loading import load_keras as load
from reference import ir_reference
from verification.trials import config

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

# Which test_single_layers.py runs, in more settings than here.
RUN_ELSEWHERE = ("Conv2D", "DepthwiseConv2D", "Conv2DTranspose", "MaxPooling2D", "AveragePooling2D")


@pytest.fixture(scope="module")
def keras() -> Any:
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    return import_keras()  # first of all: it sets what TensorFlow reads when it is imported


def check(model: Any, folder: Path) -> None:
    """Every output of the model is the framework's."""
    networks.randomize(model)
    model.save(folder / "m.keras")
    result = verify(config(folder / "m.keras"), samples=2)
    assert len(result.outputs) >= len(model.outputs)  # what goes into a softmax at the end is compared, too
    assert not [(output.name, output.sqnr) for output in result.outputs if output.sqnr < result.min_sqnr]


def _is_run_here(type: str, settings: dict[str, Any]) -> bool:
    """A variance of 0 needs factors that FP16 has not."""
    variance = settings.get("variance", 1.0)
    return type not in RUN_ELSEWHERE and 0.0 not in (variance if isinstance(variance, list) else [variance])


@pytest.mark.rotating
@pytest.mark.parametrize("shape", [networks.MAP, networks.ROWS, (7,)], ids=str)
def test_every_layer_in_every_setting(keras: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    keras.backend.clear_session()
    rows = [(kind, settings) for kind, settings, of in networks.LAYERS if of == shape and _is_run_here(kind, settings)]
    source = keras.Input(shape)
    check(keras.Model(source, [getattr(keras.layers, kind)(**s)(source) for kind, s in rows]), tmp_path)


@pytest.mark.rotating
def test_every_join_and_operation(keras: Any, tmp_path: Path) -> None:
    keras.backend.clear_session()
    table = [*networks.MERGES, *networks.OPERATIONS]
    inputs = [keras.Input(shape) for shape in networks.INPUTS]
    check(keras.Model(inputs, [make(keras, *inputs) for make in table]), tmp_path)


BUILT: tuple[Callable[[Any], Any], ...] = (
    whole_networks.branches,
    whole_networks.shared_layers,
    whole_networks.channel_shuffle,
    whole_networks.pixel_shuffle,
    whole_networks.squeeze_and_excite,
    whole_networks.audio,
    whole_networks.called_twice,
    whole_networks.softmax_in_the_middle,
    whole_networks.batch_norms_everywhere,
)


@pytest.mark.rotating
def test_networks_of_every_shape(keras: Any, tmp_path: Path) -> None:
    """Side by side in one model: compiling is what takes time."""
    keras.backend.clear_session()
    models = [build(keras) for build in BUILT]
    inputs, outputs = ([x for model in models for x in getattr(model, side)] for side in ("inputs", "outputs"))
    check(keras.Model(inputs, outputs), tmp_path)


def test_a_file_of_keras_2_keeps_its_hard_sigmoid(keras: Any, tmp_path: Path) -> None:
    """Keras 3 has another one of that name."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Activation("hard_sigmoid")])
    path = tmp_path / "m.h5"
    model.save(path)
    x = np.array([[-1.0, 0.5, 2.0]], np.float32)
    for version, slope in (("3.5.0", 1 / 6), ("2.4.0", 0.2)):
        with h5py.File(path, "a") as file:
            file.attrs["keras_version"] = version
        opened = open_model(path)
        assert (opened.version, opened.writer) == (int(version[0]), version)
        np.testing.assert_allclose(np.asarray(load_model(opened, path, None).model(x)), x * slope + 0.5, rtol=1e-5)
        assert verify(config(path), samples=2).passed


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(
    ("version", "halved"), [("2.2.4", False), ("2.3.1", False), ("2.3.0-tf", True), ("2.4.0", True), ("3.5.0", True)]
)
def test_a_file_of_an_old_keras_keeps_its_bilinear_upsampling(
    keras: Any, tmp_path: Path, version: str, halved: bool
) -> None:
    """TensorFlow 1 took pixel i of the output from i * ratio, later ones from (i + 0.5) * ratio - 0.5."""
    model = keras.Sequential([keras.Input((1, 3, 1)), keras.layers.UpSampling2D((1, 2), interpolation="bilinear")])
    path = tmp_path / "m.h5"
    model.save(path)
    with h5py.File(path, "a") as file:
        file.attrs["keras_version"] = version
    row = np.array([0.0, 4.0, 8.0], np.float32).reshape(1, 1, 3, 1)
    expected = [0, 1, 3, 5, 7, 8] if halved else [0, 2, 4, 6, 8, 8]
    np.testing.assert_allclose(np.asarray(load_model(open_model(path), path, None).model(row)).ravel(), expected)
    graph = load(path, path)
    np.testing.assert_allclose(
        ir_reference.run(graph, {graph.inputs[0].name: row[0]})[graph.outputs[0]].ravel(), expected
    )
    assert verify(config(path), samples=2).passed


def test_channels_that_an_axis_alone_tells_to_come_first(keras: Any, tmp_path: Path) -> None:
    source = keras.Input((9, 8, 6))
    keras.Model(source, keras.layers.BatchNormalization(axis=1)(source)).save(tmp_path / "m.keras")
    assert verify(config(tmp_path / "m.keras"), samples=2).passed


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(("batch", "sizes"), [(1, (4, 3, 2)), (3, (4, 3, 2)), (3, (4, 3)), (3, (4,))])
def test_models_that_take_one_size_of_batch(keras: Any, tmp_path: Path, batch: int, sizes: tuple[int, ...]) -> None:
    source = keras.Input(batch_shape=(batch, *sizes))
    flat = keras.ops.reshape(source, (1, -1)) if batch == 1 else keras.layers.Flatten()(source)
    keras.Model(source, keras.layers.Dense(5)(flat)).save(tmp_path / "m.keras")
    result = verify(config(tmp_path / "m.keras"), samples=10, layers=True)
    assert result.passed and result.layers


def test_layers_that_applications_define_are_found_in_h5(keras: Any, tmp_path: Path) -> None:
    from keras.src.applications.convnext import LayerScale

    source = keras.Input((4, 4, 8))
    model = keras.Model(source, LayerScale(1.0, 8)(keras.layers.Conv2D(8, 1)(source)))
    model.save(tmp_path / "m.h5")
    assert verify(config(tmp_path / "m.h5"), samples=2).passed


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("suffix", ["h5", "keras"])
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_layers_on_each_step_compute_what_keras_does(package: str, suffix: str, tmp_path: Path) -> None:
    package_of_keras: Any = pytest.importorskip(package)
    package_of_keras.utils.set_random_seed(1)
    layers = package_of_keras.layers
    x = source = package_of_keras.Input((6, 5, 4))
    for layer in (
        layers.Dense(6, activation="relu"),
        layers.BatchNormalization(scale=False),
        layers.LayerNormalization(),
        layers.Dropout(0.5),
        layers.Dense(3, use_bias=False),
        layers.Softmax(axis=1),
        layers.Dense(3, activation=layers.Softmax(axis=1)),
    ):
        x = layers.TimeDistributed(layer)(x)
    model = package_of_keras.Model(source, x)
    random = np.random.default_rng(2)
    model.set_weights([random.uniform(0.5, 1.5, values.shape) for values in model.get_weights()])
    model.save(tmp_path / f"m.{suffix}")
    result = verify(config(tmp_path / f"m.{suffix}"), samples=2, layers=True)
    assert result.passed and len(result.layers) >= 4


@pytest.mark.rotating(turns=4)
@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("name", ["Addons>GroupNormalization", "Addons>InstanceNormalization", "InstanceNormalization"])
def test_normalizations_of_other_packages_are_verified(keras: Any, name: str, tmp_path: Path) -> None:
    """Files as those packages write them: Keras's own GroupNormalization, under their names."""
    kind = "GroupNormalization" if name.endswith("GroupNormalization") else "InstanceNormalization"
    groups = {"groups": 2} if kind == "GroupNormalization" else {}
    source = keras.Input((6, 5, 4))
    model = keras.Model(source, keras.layers.GroupNormalization(2, name="x")(keras.layers.Conv2D(4, 1)(source)))
    random = np.random.default_rng(2)
    model.set_weights([random.uniform(0.5, 1.5, values.shape) for values in model.get_weights()])
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "a") as file:
        text = json.loads(file.attrs["model_config"])
        layer = text["config"]["layers"][-1]
        registered = {"registered_name": name} if ">" in name else {}
        text["config"]["layers"][-1] = {
            "class_name": name,
            "name": "x",
            "inbound_nodes": layer["inbound_nodes"],
            "config": {
                "name": "x",
                "trainable": True,
                "axis": -1,
                "epsilon": 0.01,
                "scale": True,
                "center": True,
                **groups,
            },
            **registered,
        }
        file.attrs["model_config"] = json.dumps(text)
    assert verify(config(tmp_path / "m.h5"), samples=2).passed


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_a_network_as_json_is_verified_with_each_form_of_weights(package: str, tmp_path: Path) -> None:
    package_of_keras: Any = pytest.importorskip(package)
    package_of_keras.utils.set_random_seed(1)
    layers = package_of_keras.layers
    x = package_of_keras.Input((8, 8, 3))
    y = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    inner = package_of_keras.Sequential([package_of_keras.Input((8, 8, 4)), layers.Conv2D(6, 3), layers.ReLU()])
    model = package_of_keras.Model(x, layers.Dense(5)(layers.Flatten()(inner(y))))
    (tmp_path / "net.json").write_text(model.to_json())
    names = ["net.weights.h5", "whole.h5", *(["net.h5"] if package == "tf_keras" else ["whole.keras"])]
    for name in names:
        model.save(tmp_path / name) if name.startswith("whole") else model.save_weights(tmp_path / name)
        result = verify(config(tmp_path / "net.json", tmp_path / name), samples=2)
        assert result.passed and result.framework.startswith("Keras"), name
        expected = np.asarray(model(np.full((1, 8, 8, 3), 0.5, np.float32)))
        loaded = load_model(open_model(tmp_path / "net.json"), tmp_path / name, None).model
        np.testing.assert_array_equal(np.asarray(loaded(np.full((1, 8, 8, 3), 0.5, np.float32))), expected)
