"""What is read computes what Keras computes: every layer in all its settings, and every shape of network, in both formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest

from cnn_convertor.devices.words import words_of
from cnn_convertor.frontends.keras.importer import keras as layers
from cnn_convertor.frontends.keras.importer import operations
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Input
from frontends.keras import networks, whole_networks
from frontends.loading import load_keras as load
from frontends.made import MOVES, Seen
from reference import ir_reference

pytestmark = pytest.mark.slow

Keras: TypeAlias = Any


@pytest.fixture(scope="session")
def keras() -> Keras:
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # oneDNN cannot run every transposed convolution
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    return pytest.importorskip("keras")


class Computed(NamedTuple):
    """What Keras computes of random inputs."""

    inputs: list[Any]
    outputs: list[Any]

    @classmethod
    def by(cls, model: Any) -> Computed:
        random = np.random.default_rng(1)
        inputs = [random.normal(0, 1, tuple(tensor.shape[1:])).astype(np.float32) for tensor in model.inputs]
        outputs = model([x[None] for x in inputs] if len(inputs) > 1 else inputs[0][None], training=False)
        return cls(inputs, list(outputs) if isinstance(outputs, (list, tuple)) else [outputs])


def compare(computed: Computed, graph: Graph, *, tolerance: float = 2e-5) -> None:
    """Run the graph on the same inputs."""
    fed = {n.name: x.reshape(graph.shape(n.name)) for n, x in zip(graph.inputs, computed.inputs, strict=True)}
    values = ir_reference.run(graph, fed)
    assert len(computed.outputs) == len(graph.outputs)
    for name, output in zip(graph.outputs, computed.outputs, strict=True):
        expected = np.asarray(output)[0].reshape(graph.shape(name))
        np.testing.assert_allclose(
            values[name], expected, atol=tolerance * max(1, np.abs(expected).max()), err_msg=name
        )


def check(model: Any, folder: Path) -> None:
    networks.randomize(model)
    computed = Computed.by(model)
    for name in ("model.keras", "model.h5"):
        model.save(folder / name)
        compare(computed, load(folder / name, folder / name))
    model.save_weights(folder / "model.weights.h5")
    compare(computed, load(folder / "model.keras", folder / "model.weights.h5"))


def models_of_tables(keras: Keras) -> Iterator[Any]:
    """Every layer in every setting, and every join and operation. One network a shape: starting TensorFlow takes time."""
    for shape in sorted({shape for *_, shape in networks.LAYERS}):
        source = keras.Input(shape)
        rows = [(type, config) for type, config, wanted in networks.LAYERS if wanted == shape]
        yield keras.Model(source, [getattr(keras.layers, type)(**config)(source) for type, config in rows])
    for table in (networks.MERGES, networks.OPERATIONS):
        keras.backend.clear_session()
        inputs = [keras.Input(shape) for shape in networks.INPUTS]
        yield keras.Model(inputs, [make(keras, *inputs) for make in table])


# What functions of TensorFlow alone make, which test_every_operation.py compares; by the first type of the same reader.
FOR_TENSORFLOW = {("Absolute", "elu"), ("Absolute", "mish")}


@pytest.mark.rotating
@pytest.mark.usefixtures("hdf5_in_this_process")
def test_every_layer_join_and_operation(keras: Keras, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Readers make what they declare, too, and all of it."""
    seen = Seen(monkeypatch)
    for model in models_of_tables(keras):
        check(model, tmp_path)
    registries = (layers, operations)
    seen.compare(*registries)
    types = [(registry[type], type) for registry in registries for type in registry if type in seen.made]
    unused = [
        (group[0], words_of(made))
        for reader in dict.fromkeys(reader for reader, _ in types)
        if (group := [type for other, type in types if other is reader])
        for made in set(reader.makes) - set().union(*(seen.made[type] for type in group)) - MOVES
    ]
    assert [found for found in unused if found not in FOR_TENSORFLOW] == []


@pytest.mark.rotating
@pytest.mark.parametrize("build", whole_networks.NETWORKS, ids=lambda f: f.__name__)
def test_networks(keras: Keras, build: Callable[[Keras], Any], tmp_path: Path) -> None:
    keras.backend.clear_session()
    check(build(keras), tmp_path)


def test_arrays_are_shared_out_by_order_where_names_are_ambiguous(keras: Keras, tmp_path: Path) -> None:
    model = whole_networks.frozen_names(keras)
    networks.randomize(model)
    model.save(tmp_path / "model.keras")
    compare(Computed.by(model), load(tmp_path / "model.keras", tmp_path / "model.keras"))


def first_convolutions(keras: Keras, first: bool) -> Any:
    L = keras.layers  # noqa: N806
    source = keras.Input((3, 9, 8) if first else (9, 8, 3))
    x = L.ZeroPadding2D(((0, 1), (2, 0)))(source)
    x = L.Conv2D(4, (3, 2), strides=2, padding="same")(x)
    x = L.BatchNormalization(axis=1 if first else -1)(x)
    x = L.PReLU(shared_axes=[2, 3] if first else [1, 2])(x)
    x = L.Concatenate(axis=1 if first else -1)([x, L.Softmax(axis=1 if first else -1)(x)])
    x = L.AveragePooling2D(2, padding="same")(x)
    flat = L.Flatten()(x)
    y = L.Reshape((8, 1, 1) if first else (1, 1, 8))(L.GlobalAveragePooling2D()(x))
    y = L.Conv2DTranspose(4, 3, strides=2)(y)
    return keras.Model(source, [L.Dense(5)(flat), L.GlobalMaxPooling2D()(y), x])


def first_normalizations(keras: Keras, first: bool) -> Any:
    L, axis = keras.layers, 1 if first else -1  # noqa: N806
    source = keras.Input((4, 9, 8) if first else (9, 8, 4))
    x = L.Cropping2D(((1, 0), (0, 2)))(L.Conv2D(4, 1, activation="swish")(source))
    x = L.GroupNormalization(2, axis=axis)(
        L.LayerNormalization(axis=axis)(L.UpSampling2D(2, interpolation="bilinear")(x))
    )
    gate = L.Reshape((4, 1, 1) if first else (1, 1, 4))(L.Dense(4, activation="sigmoid")(L.GlobalMaxPooling2D()(x)))
    x = L.Multiply()([L.UnitNormalization(axis=axis)(x), gate])
    x = L.Concatenate(axis=2 if first else 1)([x, L.Rescaling(0.5, 1.0)(x)])
    turned = L.Permute((2, 3, 1))(x) if first else x  # from here on the channels are last
    flat = L.Flatten(data_format="channels_last")(turned)
    return keras.Model(source, [L.Dense(3)(flat), L.Dense(5)(turned)])


def first_rows(keras: Keras, first: bool) -> Any:
    L, axis = keras.layers, 1 if first else -1  # noqa: N806
    source = keras.Input((3, 12) if first else (12, 3))
    x = L.Conv1D(4, 3, padding="same", activation="relu")(source)
    x = L.BatchNormalization(axis=axis)(L.MaxPooling1D(2)(x))
    x = L.PReLU(shared_axes=[2] if first else [1])(x)
    return keras.Model(source, [L.GlobalAveragePooling1D()(x), L.Dense(2)(L.Flatten()(x))])


@pytest.mark.parametrize("format", ["keras", "h5"])
@pytest.mark.parametrize("build", [first_convolutions, first_normalizations, first_rows], ids=lambda f: f.__name__)
def test_channels_first_is_channels_last_with_other_axes(
    keras: Keras, tmp_path: Path, format: str, build: Callable[[Keras, bool], Any]
) -> None:
    """TensorFlow on a CPU cannot run channels_first: the same weights in both."""
    try:
        last = build(keras, False)
        keras.backend.set_image_data_format("channels_first")
        first = build(keras, True)
    finally:
        keras.backend.set_image_data_format("channels_last")
    networks.randomize(last)
    for to, of in zip(first.weights, last.weights, strict=True):
        to.assign(np.asarray(of).reshape(to.shape))
    path = tmp_path / f"first.{format}"
    first.save(path)
    compare(Computed.by(last), load(path, path))


def test_an_input_of_integers_is_known(keras: Keras, tmp_path: Path) -> None:
    ranges = {"uint8": (0, 255), "int32": (-(2**31), 2**31 - 1), "float16": None, "float32": None}
    for dtype, integers in ranges.items():
        image = keras.Input((6, 6, 4), dtype=dtype)
        model = keras.Model(image, keras.layers.Rescaling(1 / 255)(image))
        for name in ("model.keras", "model.h5"):
            model.save(tmp_path / name)
            (node,) = load(tmp_path / name, tmp_path / name).inputs
            assert isinstance(node.op, Input) and node.op.integers == integers


def test_half_precision_variables(keras: Keras, tmp_path: Path) -> None:
    for dtype in ("float16", "bfloat16", "mixed_float16", "float64"):
        model = keras.Sequential(
            [keras.Input((6, 6, 4)), keras.layers.Conv2D(3, 3, dtype=dtype), keras.layers.Dense(2)]
        )
        networks.randomize(model)
        computed = Computed.by(model)
        for name in ("model.keras", "model.h5"):
            model.save(tmp_path / name)
            compare(computed, load(tmp_path / name, tmp_path / name), tolerance=0.02)


@pytest.mark.rotating
# Whole networks whose layers are of many kinds; development/benchmarks/zoo.py runs the others.
@pytest.mark.parametrize("name", ["MobileNetV2", "MobileNetV3Small", "EfficientNetB0", "ConvNeXtTiny"])
def test_applications(keras: Keras, name: str, tmp_path: Path) -> None:
    keras.backend.clear_session()
    model = getattr(keras.applications, name)(weights=None, input_shape=(32, 32, 3), classes=20)
    random = np.random.default_rng(0)
    for weight in model.weights:
        if any(role in weight.path for role in ("variance", "gamma", "layer_scale")):
            weight.assign(random.uniform(0.5, 1.5, weight.shape))
    networks.finish(model)
    x = random.uniform(0, 255, (1, 32, 32, 3)).astype(np.float32)
    known = [layer for layer in model.layers if not hasattr(layer, "layers")]
    *expected, last = keras.Model(model.inputs, [*(layer.output for layer in known), model.output])(x, training=False)
    for file in (tmp_path / "model.keras", tmp_path / "model.h5"):
        model.save(file)
        graph = load(file, file)
        values = ir_reference.run(graph, {graph.inputs[0].name: x[0]}, dtype=np.float32)
        np.testing.assert_allclose(values[graph.outputs[0]].ravel(), np.asarray(last).ravel(), rtol=1e-3)
        for layer, result in zip(known, expected, strict=True):
            wanted = np.asarray(result).ravel()
            limit = 1e-4 * max(1, np.abs(wanted).max())
            np.testing.assert_allclose(values[layer.name].ravel(), wanted, atol=limit, err_msg=layer.name)


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(
    "name",
    [
        "mini_xception_keras2/fer2013_mini_XCEPTION.102-0.66.hdf5",
        "mini_xception_keras2/gender_mini_XCEPTION.21-0.95.hdf5",
        "vww_mobilenet_keras2/vww_96.h5",
        "fashion_mnist_keras3/fashion_mnist_cnn.keras",
    ],
)
def test_trained_networks(keras: Keras, shared: Path, name: str) -> None:
    path = shared / "models" / name
    graph = load(path, path)

    class OldDepthwise(keras.layers.DepthwiseConv2D):  # type: ignore[misc]  # Keras is Any
        """Keras 2 wrote a setting that Keras 3 does not know."""

        def __init__(self, *, groups: int = 1, **settings: Any) -> None:
            assert groups == 1
            super().__init__(**settings)

    model = keras.models.load_model(path, compile=False, custom_objects={"DepthwiseConv2D": OldDepthwise})
    compare(Computed.by(model), graph, tolerance=1e-4)
