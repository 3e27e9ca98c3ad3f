"""Loads Keras models: with the installed Keras, or with tf_keras for older files that it refuses."""

from __future__ import annotations

import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.frontends.keras.model_files import WEIGHTS, OpenedModel, open_model
from cnn_convertor.frontends.keras.parameters import COUNTED_TWICE, to_snake_case
from cnn_convertor.frontends.keras.versions import bilinear_sampling
from cnn_convertor.frontends.keras.whole_model import with_module, write_whole_model
from cnn_convertor.ir.ops import Sampling, Shape
from cnn_convertor.verification.framework_maps import missing

Tensor: TypeAlias = Any  # of tensorflow, which is untyped
ENCOUNTERED = "Exception encountered:"
_NOISE = re.compile(
    r"\x1b\[\d+m|\{\{.*?\}\} ?|Exception encountered when calling .*\n| Full object config: .*"
)  # of TensorFlow


def import_keras() -> ModuleType:
    """Keras, running on tensorflow. Raises UsageError when it is not installed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same accumulation order on every machine
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")  # with any number of processors, too
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    try:
        import keras
        import tensorflow as tf  # noqa: F401  # keras imports without it and fails later
    except ImportError as error:
        raise missing("TensorFlow") from error
    return keras  # type: ignore[no-any-return]  # keras has no types


def _tf_keras() -> ModuleType | None:
    """Keras 2, which reads old files that Keras 3 refuses; None when it is not installed."""
    try:
        return import_module("tf_keras")
    except ImportError:
        return None


def _how_to_install() -> str:
    """tf_keras works with the TensorFlow of its own version, whose package may be tensorflow-cpu."""
    import tensorflow as tf

    version = ".".join(tf.__version__.split(".")[:2])
    return f'install tf_keras, which reads files of Keras 2 (pip install --no-deps "tf_keras=={version}.*")'


class LoadedModel(NamedTuple):
    """A model with its weights, and the package that has read it. title: what users call that package."""

    title: str
    keras: ModuleType
    model: Tensor


def load_model(
    opened: OpenedModel, data: Path, size: tuple[int, int] | None, custom: Sequence[CustomLayer] = ()
) -> LoadedModel:
    """The model, read by Keras, or by tf_keras where Keras refuses a file of Keras 2.

    size: (height, width) of the input, when that is not the model's own. custom: layers whose code Keras does not have.
    Raises UsageError when TensorFlow is not installed, ModelError when the model cannot be loaded.
    """
    keras = import_keras()
    try:
        return LoadedModel("Keras", keras, _load(keras, opened, data, size, custom))
    except ModelError as error:
        if opened.version >= 3:
            raise
        old, problems = _tf_keras(), error.problems
    if old is None:
        raise ModelError([replace(problem, hint=f"{_how_to_install()}; or {problem.hint}") for problem in problems])
    try:
        return LoadedModel("Keras 2 (tf_keras)", old, _load(old, opened, data, size, custom))
    except ModelError as error:
        raise ModelError([*problems, *error.problems]) from error


def reason_of(error: Exception) -> str:
    """The first line of the reason, which Keras writes after the whole configuration or the name of a function."""
    said = _NOISE.sub("", str(error)).rpartition(ENCOUNTERED)[2].strip()
    return said.splitlines()[0] if said else type(error).__name__


def _load(
    keras: ModuleType, opened: OpenedModel, data: Path, size: tuple[int, int] | None, custom: Sequence[CustomLayer]
) -> Tensor:
    """The model as one package reads it."""
    known = _known_layers(keras) | _placeholders(keras, custom)
    try:
        with temporary_folder() as folder:
            if COUNTED_TWICE in open_model(data).contents.groups:
                model = _of_keras_2_13(keras, opened, data, known)
            else:
                skipped = {layer.name for layer in custom if layer.shape is None}
                is_written = opened.is_json or bool(skipped)
                whole = write_whole_model(_without_code(opened, skipped), data, folder) if is_written else opened.path
                model = keras.models.load_model(whole, custom_objects=known, compile=False)
                if data != opened.path and not is_written:
                    model.load_weights(data)
        if size is not None:
            model = _resized(keras, model, size)
        if opened.version < 3:
            _as_keras_2(keras, model, opened.writer)
        _with_channels_last(model)
    except Exception as error:  # Keras raises exceptions of any type
        problem = f"{keras.__name__} {keras.__version__} refuses the model: {reason_of(error)}"
        hint = "save it again with the version of Keras that made it, or give the expected outputs with the inputs"
        raise ModelError(Problem("DV712", problem, Origin(str(opened.path)), hint)) from error
    return model


def _of_keras_2_13(keras: ModuleType, opened: OpenedModel, data: Path, known: Mapping[str, Tensor]) -> Tensor:
    """A model whose weights lie where Keras 2.12 and 2.13 look for them. Later versions no longer do so."""
    if keras.__name__ != "tf_keras":
        raise ValueError("its weights have the names of Keras 2.12 and 2.13")
    model = import_module("tf_keras.src.saving.serialization_lib").deserialize_keras_object(with_module(opened), known)
    store = import_module("tf_keras.src.saving.saving_lib")
    with zipfile.ZipFile(data) if zipfile.is_zipfile(data) else nullcontext() as archive:
        weights = store.H5IOStore(data if archive is None else WEIGHTS, archive=archive, mode="r")
        _load_twice_counted(store, model, weights, COUNTED_TWICE)
        weights.close()
    return model


def _load_twice_counted(store: ModuleType, model: Tensor, weights: Tensor, path: str) -> None:
    """The dictionary of a model's layers has those with weights under two names, and each entry counts."""
    entries = Counter[str]()
    loaded = set[int]()
    for layer in model._layer_checkpoint_dependencies.values():  # noqa: SLF001  # of tf_keras, which has it for checkpoints
        type = to_snake_case(layer.__class__.__name__)
        place = f"{path}/{type}_{entries[type]}" if entries[type] else f"{path}/{type}"
        entries[type] += 1
        if id(layer) in loaded:
            continue
        loaded.add(id(layer))
        if hasattr(layer, "layers"):
            _load_twice_counted(store, layer, weights, f"{place}/{COUNTED_TWICE}")
        else:
            store._load_state(layer, weights, None, place)  # noqa: SLF001  # with the layers inside it


def _as_keras_2(keras: ModuleType, model: Tensor, writer: str) -> None:
    """Give the layers of a Keras 2 file the functions that have changed since. writer: its version."""

    import tensorflow as tf

    def hard_sigmoid(x: Tensor) -> Tensor:
        return tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)

    old = bilinear_sampling(writer) is Sampling.ASYMMETRIC
    for layer in all_layers(model):
        if getattr(layer, "activation", None) is keras.activations.hard_sigmoid:
            layer.activation = hard_sigmoid
        if old and isinstance(layer, keras.layers.UpSampling2D) and layer.interpolation == "bilinear":
            layer.call = _enlarging(layer.size)


def _enlarging(factor: tuple[int, int]) -> Callable[[Tensor], Tensor]:
    """TensorFlow 1's bilinear resize, of maps whose channels are last."""
    import tensorflow as tf

    def call(maps: Tensor) -> Tensor:
        height, width = (size * by for size, by in zip(maps.shape[1:3], factor, strict=True))
        return tf.compat.v1.image.resize_bilinear(maps, (height, width))

    return call


def _with_channels_last(model: Tensor) -> None:
    """Let copies with channels last compute layers whose channels come first, which TensorFlow's CPU build refuses."""
    for layer in all_layers(model):
        config = layer.get_config() if is_channels_first(layer) or hasattr(layer, "axis") else {}
        if config.get("data_format") == "channels_first":
            layer.call = _turning(layer, {**config, "data_format": "channels_last"})
        elif type(layer).__name__ == "BatchNormalization" and config["axis"] in (1, [1]):
            layer.call = _turning(layer, {**config, "axis": -1})


def _turning(layer: Tensor, config: Mapping[str, Any]) -> Callable[..., Tensor]:
    """What a layer computes, by a copy with another configuration that reads and writes maps with channels last."""
    import tensorflow as tf

    copy = type(layer).from_config(config)

    def call(maps: Tensor, **options: Tensor) -> Tensor:
        rank = len(maps.shape)
        maps = tf.transpose(maps, (0, *range(2, rank), 1))
        if not copy.built:
            copy.build(maps.shape)
            copy.set_weights(layer.get_weights())
        result = copy(maps, **options)
        return tf.transpose(result, (0, rank - 1, *range(1, rank - 1))) if len(result.shape) == rank else result

    return call


def _resized(keras: ModuleType, model: Tensor, size: tuple[int, int]) -> Tensor:
    """The same model for inputs of another height and width, as far as they are maps."""
    import tensorflow as tf

    first = any(is_channels_first(layer) for layer in all_layers(model))

    def resized(tensor: Tensor) -> Tensor:
        _, *dims = tensor.shape
        if len(dims) == 3:
            dims = [dims[0], *size] if first else [*size, dims[2]]
        return keras.Input(dims)

    other = keras.models.clone_model(model, input_tensors=tf.nest.map_structure(resized, model.input))
    other.set_weights(model.get_weights())
    return other


def _known_layers(keras: ModuleType) -> dict[str, Tensor]:
    """Layers beyond those that a file names: of applications; and such as take settings of Keras 2 that Keras 3 has dropped."""

    def tolerant(layer: Tensor) -> Tensor:
        def from_config(config: dict[str, Any]) -> Tensor:
            return layer.from_config({name: value for name, value in config.items() if name != "groups"})

        return type(layer.__name__, (layer,), {"from_config": staticmethod(from_config)})

    known = {layer.__name__: tolerant(layer) for layer in (keras.layers.DepthwiseConv2D, keras.layers.Conv2DTranspose)}
    return known | _layers_of_applications(keras) | _layers_of_packages(keras)


def _layers_of_applications(keras: ModuleType) -> dict[str, Tensor]:
    """Layers that keras.applications defines, whose module a .h5 file does not name."""
    layers = {}
    for module, layer in (
        ("convnext", "LayerScale"),
        ("convnext", "StochasticDepth"),
        ("inception_resnet_v2", "CustomScaleLayer"),
    ):
        with suppress(ImportError, AttributeError):
            layers[layer] = getattr(import_module(f"{keras.__name__}.src.applications.{module}"), layer)
    return layers


def _layers_of_packages(keras: ModuleType) -> dict[str, Tensor]:
    """Layers of TensorFlow Addons, which compute what Keras's own do, and of keras_contrib: registered name -> class."""
    import tensorflow as tf

    group: Any = keras.layers.GroupNormalization
    base: Any = keras.layers.Layer

    class EachChannel(group):  # type: ignore[misc]  # Keras has no types
        def __init__(self, **config: Any) -> None:
            super().__init__(**{**config, "groups": -1})

    class InstanceNormalization(base):  # type: ignore[misc]  # Keras has no types
        """Of keras_contrib: (x - mean) / (deviation + epsilon), of each channel, or of each sample for axis None."""

        def __init__(self, **config: Any) -> None:
            super().__init__(name=config["name"])
            self.config = config

        def build(self, shape: Any) -> None:
            size = 1 if self.config["axis"] is None else shape[self.config["axis"]]
            names = {"gamma": "scale", "beta": "center"}
            self.arrays = {
                name: self.add_weight(shape=(size,), name=name) for name in names if self.config[names[name]]
            }

        def call(self, x: Tensor) -> Tensor:
            axis, rank = self.config["axis"], len(x.shape)
            kept = None if axis is None else axis % rank
            mean, variance = tf.nn.moments(x, [n for n in range(1, rank) if n != kept], keepdims=True)
            y = (x - mean) / (tf.sqrt(variance) + self.config["epsilon"])
            wide = [-1 if n == (rank - 1 if kept is None else kept) else 1 for n in range(rank)]
            y = y * tf.reshape(self.arrays["gamma"], wide) if "gamma" in self.arrays else y
            return y + tf.reshape(self.arrays["beta"], wide) if "beta" in self.arrays else y

    instance = {"InstanceNormalization": InstanceNormalization}
    return {"Addons>GroupNormalization": group, "Addons>InstanceNormalization": EachChannel, **instance}


# --- custom layers -------------------------------------------------------------------------------------------------------


class CustomLayer(NamedTuple):
    """A layer whose code Keras does not have. name, type: as in the model file.

    shape: of what the firmware's code gives; None for a layer behind the end of the part that is compared.
    """

    name: str
    type: str
    shape: Shape | None


def behind_the_end(opened: OpenedModel, kept: Collection[str]) -> list[CustomLayer]:
    """The layers of a model whose code Keras does not load, but for those that are kept."""
    keras = import_keras()
    layers = opened.config["config"]["layers"] if isinstance(opened.config, dict) else []
    own = ((layer["config"].get("name", ""), layer["class_name"]) for layer in layers)
    return [
        CustomLayer(name, kind, None)
        for name, kind in own
        if name not in kept and (kind == "Lambda" or not hasattr(keras.layers, kind))
    ]


def _without_code(opened: OpenedModel, skipped: Collection[str]) -> OpenedModel:
    """The model with some of its layers as layers of the user's, so that Keras takes their placeholders."""
    if not skipped:
        return opened
    layers = []
    for layer in opened.config["config"]["layers"]:
        name, kind = layer["config"].get("name"), layer["class_name"]
        if name in skipped:
            layer = {**layer, "module": None, "registered_name": f"Custom>{kind}", "config": {"name": name}}
        layers.append(layer)
    config = {**opened.config, "config": {**opened.config["config"], "layers": layers}}
    return replace(opened, config=config)


def _placeholders(keras: ModuleType, custom: Sequence[CustomLayer]) -> dict[str, Tensor]:
    """Layers that give zeros of the right shape in place of custom layers: registered name -> class.

    Without a shape, they give what they read.
    """
    import tensorflow as tf

    shapes = {layer.name: layer.shape for layer in custom}

    base: Any = keras.layers.Layer

    class Placeholder(base):  # type: ignore[misc]  # Keras has no types
        is_placeholder = True

        @classmethod
        def from_config(cls, config: dict[str, Any]) -> Placeholder:
            return cls(name=config["name"])

        def call(self, inputs: Tensor, *_: Tensor, **__: Tensor) -> Tensor:
            first = tf.nest.flatten(inputs)[0]
            shape = shapes[self.name]
            if shape is None:
                return tf.identity(first)
            is_vector = shape.is_vector and len(first.shape) == 2
            return tf.zeros([tf.shape(first)[0], *(shape[2:] if is_vector else shape)])

    return {
        name: type(layer.type, (Placeholder,), {}) for layer in custom for name in (layer.type, f"Custom>{layer.type}")
    }


def is_placeholder(layer: Tensor) -> bool:
    """Whether a layer stands for a custom layer."""
    return hasattr(layer, "is_placeholder")


# --- layers of a model ---------------------------------------------------------------------------------------------------


def all_layers(model: Tensor) -> Iterator[Tensor]:
    for layer in model.layers:
        yield layer
        if hasattr(layer, "layers"):
            yield from all_layers(layer)


def is_channels_first(layer: Tensor) -> bool:
    return getattr(layer, "data_format", None) == "channels_first"
