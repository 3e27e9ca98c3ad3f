"""Every layer's output of a Keras model is found, in models of every structure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ModelError, UsageError
from cnn_convertor.frontends.keras.model_files import open_model
from cnn_convertor.ir.ops import Order
from cnn_convertor.samples import Preparation, random_samples, shapes_of
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import framework_maps, frameworks, keras_models
from frontends.loading import load_keras as load
from verification.trials import config

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]


@pytest.fixture(scope="module")
def keras() -> Any:
    pytest.importorskip("tensorflow")
    module = keras_models.import_keras()
    module.utils.set_random_seed(0)
    return module


def reference(path: Path, **fields: Any) -> framework_maps.Reference:
    chosen = config(path, **fields)
    graph = load(path, path, size=chosen.model.options.size)
    return frameworks.run(
        chosen.model, graph, random_samples(shapes_of(graph), Preparation(), samples=10, seed=0).inputs
    )


def test_a_keras_model_that_takes_integers_reads_whole_numbers_alone(keras: Any, tmp_path: Path) -> None:
    image = keras.Input((6, 5, 3), dtype="uint8", name="image")  # its reference takes numbers from -1 to 1
    keras.Model(image, keras.layers.Rescaling(0.5)(image)).save(path := tmp_path / "m.keras")
    with pytest.raises(UsageError, match=r'DV707.*integers from 0 to 255 for the input "image"'):
        reference(path)
    values = np.arange(90, dtype=np.float32).reshape(1, 6, 5, 3)
    found = frameworks.run(config(path).model, load(path, path), {"image": values})
    assert np.array_equal(found.outputs[0], values / 2)
    with pytest.raises(UsageError, match="DV707"):
        frameworks.run(config(path).model, load(path, path), {"image": values + 200})


def check(path: Path, **fields: Any) -> list[str]:
    """Verify in both memory orders; the layers that were compared."""
    compared = []
    for transposed in (True, False):
        result = verify(config(path, transpose_weight=transposed, **fields), layers=True)
        assert result.passed and result.first_jump is None
        assert all(layer.comparison.sqnr > 50 for layer in result.layers), result.layers
        compared = [layer.comparison.name for layer in result.layers]
    return compared


def test_models_inside_models(keras: Any, tmp_path: Path) -> None:
    inner = keras.Sequential([keras.layers.Conv2D(8, 3, name="a"), keras.layers.ReLU(name="b")], name="inner")
    x = keras.Input((8, 8, 3))
    middle = keras.Model(x, keras.layers.MaxPooling2D(2, name="pool")(inner(x)), name="middle")
    y = keras.Input((8, 8, 3), name="image")
    model = keras.Model(y, keras.layers.Conv2D(5, 1, name="last")(middle(y)))
    model.save(tmp_path / "m.keras")
    layers = reference(tmp_path / "m.keras").layers
    assert {"middle", "middle/inner", "middle/inner/a", "middle/inner/b", "middle/pool", "last"} <= set(layers)
    assert layers["middle/inner/a"].shape == (framework_maps.KEPT, 6, 6, 8)
    assert check(tmp_path / "m.keras", fusion="proven") == ["middle/pool", "last"]


def test_layers_that_are_called_twice_are_left_out(keras: Any, tmp_path: Path) -> None:
    x = keras.Input((6, 6, 8))
    shared = keras.layers.Conv2D(8, 3, padding="same", name="shared")
    keras.Model(x, keras.layers.Conv2D(4, 1, name="last")(shared(shared(x)))).save(tmp_path / "m.keras")
    assert set(reference(tmp_path / "m.keras").layers) & {"shared", "last"} == {"last"}
    assert check(tmp_path / "m.keras") == ["last"]


def test_several_inputs_and_outputs(keras: Any, tmp_path: Path) -> None:
    a, b = keras.Input((6, 5, 3), name="a"), keras.Input((4,), name="b")
    flat = keras.layers.Flatten()(keras.layers.Conv2D(9, 3, name="conv")(a))
    joined = keras.layers.Concatenate()([keras.layers.Dense(8, name="left")(flat), b])
    outputs = [keras.layers.Dense(3, name="first")(joined), keras.layers.Conv2D(10, 1, name="second")(a)]
    keras.Model([a, b], outputs).save(tmp_path / "m.keras")
    assert [values.shape for values in reference(tmp_path / "m.keras").outputs.values()] == [
        (10, 1, 1, 3),
        (10, 6, 5, 10),
    ]
    assert {"first", "second"} <= set(check(tmp_path / "m.keras"))


def test_outputs_that_the_ini_file_names(keras: Any, tmp_path: Path) -> None:
    """In its order; an input that nothing needs any more is gone."""
    a, b = keras.Input((6, 5, 3), name="a"), keras.Input((4,), name="b")
    middle = keras.layers.Conv2D(9, 3, name="middle")(a)
    flat = keras.layers.Flatten(name="flat")(middle)
    keras.Model([a, b], keras.layers.Concatenate(name="joined")([flat, b])).save(tmp_path / "m.keras")
    for names in (("flat", "middle"), ("middle", "flat")):
        chosen = config(tmp_path / "m.keras", outputs=names)
        result = verify(chosen)
        assert result.passed and tuple(output.name for output in result.outputs) == names


def test_an_output_inside_a_model_of_its_own_is_left_to_given_results(keras: Any, tmp_path: Path) -> None:
    inner = keras.Sequential(
        [keras.Input((4, 4, 3)), keras.layers.ReLU(name="a"), keras.layers.ReLU(name="b")], name="inner"
    )
    x = keras.Input((4, 4, 3))
    keras.Model(x, keras.layers.ReLU()(inner(x))).save(tmp_path / "m.keras")
    with pytest.raises(UsageError, match="DV713"):
        verify(config(tmp_path / "m.keras", outputs=("inner/a",)))


def test_a_sequential_model_and_weights_of_their_own(keras: Any, tmp_path: Path) -> None:
    def model() -> Any:
        layers = [keras.layers.Conv2D(4, 3, name="c"), keras.layers.Flatten(), keras.layers.Dense(5, name="d")]
        return keras.Sequential([keras.Input((5, 5, 2)), *layers])

    model().save(tmp_path / "definition.keras")
    model().save(tmp_path / "data.keras")
    ours = config(tmp_path / "definition.keras", tmp_path / "data.keras")
    result = verify(ours)
    assert result.passed
    other = load(ours.definition, ours.definition)
    assert not verify(ours, graph=other).passed, "other weights are other results"


def test_a_model_of_another_input_size(keras: Any, tmp_path: Path) -> None:
    x = keras.Input((8, 8, 3))
    keras.Model(x, keras.layers.Conv2D(5, 3, name="c")(x)).save(tmp_path / "m.keras")
    size = {"height_override": 6, "width_override": 9}
    assert reference(tmp_path / "m.keras", **size).outputs[0].shape == (10, 4, 7, 5)
    check(tmp_path / "m.keras", **size)


def channels_first(keras: Any, order: str) -> Any:
    L, axis = keras.layers, 1 if order == "channels_first" else -1  # noqa: N806
    x = keras.Input((3, 16, 14) if axis == 1 else (16, 14, 3))
    y = L.Conv2D(8, 3, padding="same", strides=2, data_format=order, name="c")(x)
    y = L.DepthwiseConv2D(3, data_format=order)(L.ReLU(name="r")(L.BatchNormalization(axis=axis)(y)))
    y = L.Conv2DTranspose(5, 2, 2, data_format=order)(L.AveragePooling2D(2, data_format=order)(y))
    flat = L.Flatten(data_format=order)(L.SeparableConv2D(4, 2, data_format=order)(y))
    return keras.Model(x, L.Dense(4, name="d")(L.Concatenate()([flat, L.GlobalMaxPooling2D(data_format=order)(y)])))


@pytest.mark.rotating(turns=4)
def test_channels_first_is_compared_through_copies_with_channels_last(keras: Any, tmp_path: Path) -> None:
    """TensorFlow on a CPU cannot run channels_first."""
    first, last = (channels_first(keras, order) for order in ("channels_first", "channels_last"))
    last.set_weights(first.get_weights())
    first.save(tmp_path / "m.keras")
    found = reference(tmp_path / "m.keras")
    assert found.order is Order.CHW and found.layers["r"].shape == (framework_maps.KEPT, 8, 7, 8)
    graph = load(tmp_path / "m.keras", tmp_path / "m.keras")
    inputs = random_samples(shapes_of(graph), Preparation(), samples=10, seed=0).inputs
    (images,) = inputs.values()
    np.testing.assert_allclose(found.outputs[0].reshape(10, 4), np.asarray(last(images)), atol=1e-5)
    check(tmp_path / "m.keras")


def test_given_results_have_the_axes_of_keras(keras: Any, tmp_path: Path) -> None:
    """Also where the channels come first."""
    x = keras.Input((3, 6, 5), name="x")
    keras.Model(x, keras.layers.ZeroPadding2D(1, data_format="channels_first", name="y")(x)).save(tmp_path / "m.keras")
    values = np.random.default_rng(0).normal(size=(2, 3, 6, 5)).astype(np.float16).astype(np.float32)
    expected = np.pad(values, [(0, 0), (0, 0), (1, 1), (1, 1)])
    np.savez(tmp_path / "given.npz", x=values, expected_y=expected)
    assert verify(config(tmp_path / "m.keras"), inputs=tmp_path / "given.npz").outputs[0].sqnr == np.inf
    np.savez(tmp_path / "given.npz", x=values, expected_y=expected.transpose(0, 2, 3, 1))
    with pytest.raises(UsageError, match=r"has the shape N x 8x7x3, but the framework's order of axes is N x 3x8x7"):
        verify(config(tmp_path / "m.keras"), inputs=tmp_path / "given.npz")


def test_an_error_of_keras_is_a_refusal(keras: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = keras.Input((3, 6, 5))
    model = keras.Model(x, keras.layers.Conv2D(2, 3, data_format="channels_first", name="c")(x))
    model.save(tmp_path / "m.keras")
    monkeypatch.setattr(keras_models, "_with_channels_last", lambda _: None)
    with pytest.raises(ModelError, match=r"DV712: Keras cannot run the model: .*NHWC tensor format on the CPU"):
        reference(tmp_path / "m.keras")


def test_a_damaged_model_is_an_error_that_says_so(keras: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.h5").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"DV201: the file is called \.h5, but its content is not a Keras model"):
        keras_models.load_model(open_model(tmp_path / "bad.h5"), tmp_path / "bad.h5", None)
