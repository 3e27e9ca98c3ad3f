"""No setting of Keras's layers is left out in silence: each is taken as Keras takes it, refused, or never matters."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from cnn_convertor.frontends.keras.importer import keras as registry
from cnn_convertor.frontends.keras.importer import read
from cnn_convertor.frontends.keras.reading import HARMLESS
from frontends.keras import networks
from frontends.keras.networks import MAP, ROWS, written
from frontends.loading import load_keras as load
from reference import ir_reference

SETTINGS = {type: (*registry[type].settings, *registry[type].ignores - {"*"}) for type in registry}
# Types that Keras 3 has not: files of Keras 2 have them, or its applications define them. Tests with files written by hand
# read them (test_keras_layers.py), and tests of whole applications run them.
NOT_IN_KERAS_3 = {
    "BatchNormalizationV1", "BatchNormalizationV2", "SyncBatchNormalization", "CustomScaleLayer", "FixedDropout", "LayerScale",
    "StochasticDepth", "ThresholdedReLU", "Addons>GroupNormalization", "Addons>InstanceNormalization", "InstanceNormalization",
}  # fmt: skip
# Types whose reading looks at no setting: what they do at random they do in training alone.
RANDOM = {type for type in SETTINGS if type.startswith("Random")}
# Begin every network; calls another layer (test_keras_networks.py); and those that Keras cannot save in .h5 files: augmentations, in training alone.
IN_NO_TABLE = {
    "InputLayer", "Layer", "TimeDistributed",
    "RandomBrightness", "RandomColorDegeneration", "RandomPosterization", "RandomSaturation", "RandomSharpness", "RandomShear",
}  # fmt: skip
SINGLE = {type for type, *_ in networks.LAYERS}
# What a trained layer never looks at, by the end of the name; and what all layers have.
NEVER = ("_initializer", "_regularizer", "_constraint")
GENERAL = {
    "name",
    "trainable",
    "dtype",
    "autocast",
    "batch_input_shape",
    "batch_shape",
    "batch_size",
    "input_dtype",
    "input_shape",
}
# Settings of Keras's that no value but the default can be tried of, and why.
UNTRIED = {
    ("Dense", "quantization_config"): "is set when weights are quantized, with which dtype changes; both are refused",
    ("Resizing", "fill_mode"): "has one value",
    ("Permute", "dims"): "has no default",
    ("Reshape", "target_shape"): "has no default",
}

ACTIVATIONS = (
    "relu", "softmax", "glu", "hard_sigmoid", "threshold", "sparsemax", "log_softmax", written("ReLU", max_value=1.5, negative_slope=0.25),
    written("Softmax", axis=1), written("Softmax", axis=[1]), written("Softmax", axis=-2), written("LeakyReLU", negative_slope=0.4),
    written("ELU", alpha=0.4), written("PReLU"), written("Softmax", axis=[1, 2]), written("Activation", activation="tanh"),
    written("Activation", activation=written("Softmax", axis=1)),
)  # fmt: skip
# Each setting -> the values to try in all layers that have it; values that Keras itself refuses are skipped.
VALUES: dict[str, tuple[Any, ...]] = {
    "activation": ACTIVATIONS, "use_bias": (False,), "filters": (3,), "units": (3,), "kernel_size": (2, (3, 1), [4]), "strides": (2, (1, 2), 9),
    "dilation_rate": (2, (1, 3)), "groups": (2, 3, 6, -1), "depth_multiplier": (2,), "padding": ("same", "valid", "causal", 2, (1, 2)),
    "output_padding": (1, 0), "keepdims": (True,), "pool_size": (3, (4, 1)), "size": (3, (2, 1)),
    "interpolation": ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5", "area"),
    "axis": (1, 2, 3, -1, [1, 2], [2, 1], [3], None), "epsilon": (0.5,), "scale": (False, 2.0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), "center": (False,),
    "momentum": (0.5,), "renorm": (True,), "synchronized": (True,), "renorm_momentum": (0.5,), "renorm_clipping": ({"rmax": 1.0},),
    "output_size": ((3, 2), 4, 5, None), "rate": (0.9,), "seed": (3,), "noise_shape": ((None, 1, 1, 6),), "stddev": (0.9,), "l1": (0.9,),
    "l2": (0.9,), "height": (3,), "width": (3,), "crop_to_aspect_ratio": (True,), "pad_to_aspect_ratio": (True,), "antialias": (True,),
    "fill_value": (0.7,), "cropping": (2, ((1, 2), (0, 3)), (1, 2)), "alpha": (0.3,), "negative_slope": (0.7,), "max_value": (0.9, 0.0),
    "threshold": (0.4,), "rms_scaling": (True,), "mean": (0.3, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), "variance": (0.4,), "invert": (True,),
    "shared_axes": ([1], [2], [1, 2, 3], [1, 3]), "n": (3,), "offset": (0.4,), "data_format": (),  # the last: see below
}  # fmt: skip
# Values that are refused, in one layer type or in all; all others agree with Keras. (type or "", setting, value)
REFUSED = {
    *(("", "activation", str(value)) for value in ("threshold", "sparsemax", written("PReLU"), written("Softmax", axis=[1, 2]))),
    *(("", "interpolation", value) for value in ("bicubic", "lanczos3", "lanczos5", "area")),
    ("SeparableConv2D", "activation", "glu"), ("SeparableConv1D", "activation", "glu"),  # of five filters
    ("Softmax", "axis", "[1, 2]"), ("Softmax", "axis", "[2, 1]"), ("Softmax", "axis", "None"),
    ("RMSNormalization", "axis", "1"), ("RMSNormalization", "axis", "2"), ("RMSNormalization", "axis", "[1, 2]"),
    ("RMSNormalization", "axis", "[2, 1]"), ("GroupNormalization", "axis", "1"), ("GroupNormalization", "axis", "2"),
    ("LayerNormalization", "rms_scaling", "True"), ("BatchNormalization", "renorm", "True"),
    *(("Resizing", name, "True") for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias")),
    ("Conv2DTranspose", "dilation_rate", "2"), ("Conv2DTranspose", "dilation_rate", "(1, 3)"), ("Conv1DTranspose", "dilation_rate", "2"),
    *((f"Adaptive{kind}Pooling{of}", "output_size", size) for kind in ("Average", "Max") for of, sizes in (("1D", "4"), ("2D", "45")) for size in sizes),
}  # fmt: skip


class Case(NamedTuple):
    """A layer with one setting that is not as in the table of all layers."""

    type: str
    setting: str
    value: Any
    config: dict[str, Any]
    shape: tuple[int, ...]

    @property
    def is_refused(self) -> bool:
        return bool({(type, self.setting, str(self.value)) for type in ("", self.type)} & REFUSED)


@pytest.fixture(scope="module")
def keras() -> Any:
    made = networks.imported()
    made.backend.clear_session()
    return made


def usual(type: str) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Settings of a type that convert, and the input: a map if it takes one."""
    rows = [(config, shape) for kind, config, shape in networks.LAYERS if kind == type]
    found = next((row for row in rows if row[1] in (MAP, ROWS)), rows[0])
    more: dict[str, dict[str, Any]] = {
        "Normalization": {"mean": 0.1, "variance": 0.5},
        "ReLU": {"max_value": 1.5},
        "Conv2DTranspose": {"strides": 1},
    }
    return {**found[0], **more.get(type, {})}, found[1]


def plain_types() -> list[str]:
    """Of layers with one input and settings."""
    return sorted(SINGLE - RANDOM)


def cases(keras: Any) -> Iterator[Case]:
    for type in plain_types():
        config, shape = usual(type)
        for setting in getattr(keras.layers, type)(**config).get_config():
            for value in VALUES.get(setting, ()):
                yield Case(type, setting, value, {**config, setting: value}, shape)


def test_every_type_is_compared_with_keras() -> None:
    """test_agrees_with_keras.py runs these tables."""
    tabled = SINGLE | networks.merged_types()
    assert set(SETTINGS) - tabled == NOT_IN_KERAS_3 | IN_NO_TABLE, "LAYERS or MERGES in networks.py needs a row"


@pytest.mark.slow
def test_every_setting_that_keras_has_is_known(keras: Any) -> None:
    """Either values of it are tried here, or it never matters, or it is listed why none are tried."""
    for type in plain_types():
        given = getattr(keras.layers, type)(**usual(type)[0]).get_config()
        for setting in given:
            never = setting in GENERAL or setting.endswith(NEVER)
            assert never == (setting in HARMLESS), f"{type}: {setting}"
            assert never or setting in VALUES or (type, setting) in UNTRIED, f"{type}: {setting}"
            assert never or setting in SETTINGS[type] or (type, setting) in UNTRIED, f"{type}: {setting} is on no page"
    assert {name for name in HARMLESS if name not in GENERAL and not name.endswith(NEVER)} == set()


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_what_is_not_refused_agrees_with_keras(keras: Any, tmp_path: Path) -> None:
    by_shape: dict[tuple[int, ...], list[Case]] = defaultdict(list)
    for case in cases(keras):
        by_shape[case.shape].append(case)
    tried: set[tuple[str, str]] = set()
    for shape, every in by_shape.items():
        tried |= _compare(keras, shape, every, tmp_path / "model.keras")
    wanted = {(case.type, case.setting) for every in by_shape.values() for case in every}
    # TensorFlow runs none of them; test_limits.py has them.
    dilated = {(f"{type}Transpose", "dilation_rate") for type in ("Conv1D", "Conv2D")}
    assert wanted - dilated == tried - dilated, "Keras itself takes none of the values"


def _compare(keras: Any, shape: tuple[int, ...], every: list[Case], path: Path) -> set[tuple[str, str]]:
    """Which settings were compared or refused, of all cases with one input."""
    source = keras.Input(shape)
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    made = {}
    for number, case in enumerate(every):
        with suppress(Exception), warnings.catch_warnings():  # Keras says in many ways what it does not take
            warnings.simplefilter("ignore")
            layer = getattr(keras.layers, case.type)(**case.config, name=f"case{number}")
            layer(x[None], training=False)
            made[layer.name] = (case, layer(source))
    networks.randomize(keras.Model(source, [tensor for _, tensor in made.values()]))
    keras.Model(source, [tensor for _, tensor in made.values()]).save(path)
    told = {problem.where.layer: problem for problem in read(path, path).problems if problem.where is not None}
    refused = {(case.type, case.setting, str(case.value)) for name, (case, _) in made.items() if name in told}
    expected = {(case.type, case.setting, str(case.value)) for case, _ in made.values() if case.is_refused}
    assert (refused - expected, expected - refused) == (set(), set())
    assert {problem.code for problem in told.values()} <= {"DV302"}
    kept = {name: both for name, both in made.items() if name not in told}
    model = keras.Model(source, [tensor for _, tensor in kept.values()])
    model.save(path)
    graph = load(path, path)
    values = ir_reference.run(graph, {graph.inputs[0].name: x.reshape(graph.shape(graph.inputs[0].name))})
    results = keras.tree.flatten(model(x[None], training=False))
    for (case, _), name, result in zip(kept.values(), graph.outputs, results, strict=True):
        right = np.asarray(result)[0]
        limit = 2e-5 * max(1, np.abs(right).max())
        np.testing.assert_allclose(values[name].ravel(), right.ravel(), atol=limit, err_msg=str(case))
    return {(case.type, case.setting) for case, _ in made.values()}


@pytest.mark.slow
def test_every_data_format(keras: Any, tmp_path: Path) -> None:
    """TensorFlow on a CPU cannot run channels_first: it is channels_last, which is compared above, with the axes in another order."""
    for shape in (MAP, ROWS):
        types = [type for type in plain_types() if "data_format" in SETTINGS[type] and usual(type)[1] == shape]
        types = [t for t in types if "data_format" in getattr(keras.layers, t)(**usual(t)[0]).get_config()]
        assert len(types) > 5
        last = _side_by_side(keras, types, shape, "channels_last")
        first = _side_by_side(keras, types, (shape[-1], *shape[:-1]), "channels_first")
        networks.randomize(last)
        for to, of in zip(first.weights, last.weights, strict=True):
            to.assign(np.asarray(of))
        results = []
        for model in (first, last):
            model.save(tmp_path / "model.keras")
            graph = load(tmp_path / "model.keras", tmp_path / "model.keras")
            x = np.random.default_rng(2).normal(size=graph.shape(graph.inputs[0].name))
            assert x.size == np.prod(shape) and x.shape[-1] == shape[-1], "it is known where the channels are"
            values = ir_reference.run(graph, {graph.inputs[0].name: x})
            results.append([values[name] for name in graph.outputs])
        for type, one, other in zip(types, *results, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6, err_msg=type)


def _side_by_side(keras: Any, types: list[str], shape: tuple[int, ...], data_format: str) -> Any:
    source = keras.Input(shape)
    layers = [getattr(keras.layers, type)(**{**usual(type)[0], "data_format": data_format}) for type in types]
    return keras.Model(source, [layer(source) for layer in layers])
