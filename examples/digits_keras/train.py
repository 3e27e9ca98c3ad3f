"""Trains a small Keras network on handwritten digits and writes it the way Keras 3 does and the way Keras 2 did.

`python -m examples.digits_keras.train` writes digits.keras, digits_keras2.h5 and accuracy.json beside this file.
The seeds are fixed; another machine or another version of tensorflow may still round differently and end elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import h5py
import keras
import numpy as np
from keras import layers

from examples.digits import Digits, accuracy, load_test, load_train, shifted
from examples.zoo_keras import save_keras

HERE: Final = Path(__file__).parent
SEED: Final = 1
EPOCHS: Final = 40
BATCH: Final = 128


def network() -> keras.Model:
    """8x8x1 to ten probabilities. Between them, most of what convertors meet: see the comments."""
    x = image = keras.Input((8, 8, 1), name="image")

    # A convolution without bias: the batch normalization after it becomes its weights and bias.
    x = layers.Conv2D(16, 3, padding="same", use_bias=False, name="stem")(x)
    x = layers.BatchNormalization(name="stem_norm")(x)
    x = stem = layers.ReLU(name="stem_relu")(x)

    # A depthwise separable block with a shortcut around it.
    x = layers.DepthwiseConv2D(3, padding="same", use_bias=False, name="depthwise")(x)
    x = layers.BatchNormalization(name="depthwise_norm")(x)
    x = layers.LeakyReLU(negative_slope=0.125, name="depthwise_leaky")(x)
    x = layers.Conv2D(16, 1, use_bias=False, name="pointwise")(x)
    x = layers.BatchNormalization(name="pointwise_norm")(x)
    x = layers.Add(name="shortcut")([stem, x])
    x = layers.Activation("relu", name="shortcut_relu")(x)
    x = layers.MaxPooling2D(2, name="halve")(x)

    # Two branches, joined on multiples of 8 channels: on the device they are written side by side.
    narrow = layers.Conv2D(8, 1, activation="relu", name="narrow")(x)
    wide = layers.Conv2D(16, 3, padding="same", name="wide")(x)
    wide = layers.PReLU(shared_axes=[1, 2], name="wide_prelu")(wide)
    x = layers.Concatenate(name="branches")([narrow, wide])

    # A strided convolution with "same" padding on an even size: more padding at the bottom and on the right.
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu", name="tail")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dropout(0.25, name="dropout")(x)
    x = layers.Dense(10, activation="softmax", name="digit")(x)
    return keras.Model(image, x, name="digits")


def trained(digits: Digits) -> keras.Model:
    """A network that has seen the digits, without the optimizer's state."""
    keras.utils.set_random_seed(SEED)
    model = network()
    images = digits.inputs()[..., np.newaxis]
    rate = keras.optimizers.schedules.CosineDecay(4e-3, EPOCHS * math.ceil(len(images) / BATCH))
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
    model.fit(images, digits.labels, BATCH, EPOCHS, verbose=2)
    bare = network()
    bare.set_weights(model.get_weights())
    return bare


# --- the form of Keras 2 ----------------------------------------------------------------------------------------------

KERAS_2_NAMES: Final = {
    "InputLayer.batch_shape": "batch_input_shape",
    "LeakyReLU.negative_slope": "alpha",
    "DepthwiseConv2D.kernel": "depthwise_kernel",
}
NOT_IN_KERAS_2: Final = {
    "optional",  # InputLayer
    "quantization_config",  # Dense
    "input_axes",  # initializers
    "output_axes",
    "renorm",  # BatchNormalization
    "renorm_clipping",
    "renorm_momentum",
    "synchronized",
}


def keras_2_config(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A layer's settings in the words of Keras 2.4."""

    def plain(value: Any) -> Any:
        """Objects lose the module and the registered name that Keras 3 adds; tuples become lists."""
        match value:
            case {"class_name": "DTypePolicy", "config": {"name": name}}:
                return name
            case {"class_name": name, "config": config}:
                settings = {key: setting for key, setting in config.items() if key not in NOT_IN_KERAS_2}
                return {"class_name": name, "config": settings}
            case tuple():
                return list(value)
            case _:
                return value

    settings = {
        KERAS_2_NAMES.get(f"{kind}.{name}", name): plain(value)
        for name, value in config.items()
        if name not in NOT_IN_KERAS_2
    }
    return settings | ({"axis": [3]} if kind == "BatchNormalization" else {})  # of batch, height, width, channels


def keras_2_inputs(value: Any) -> list[list[Any]]:
    """The tensors in the arguments of a layer's call, as [layer, call, output, settings]."""
    match value:
        case {"keras_history": [layer, call, output]}:
            return [[layer, call, output, {}]]
        case dict():
            return keras_2_inputs(list(value.values()))
        case list() | tuple():
            return [tensor for part in value for tensor in keras_2_inputs(part)]
        case _:
            return []


def keras_2_layer(layer: Mapping[str, Any]) -> dict[str, Any]:
    """A layer's entry in the model's config, in Keras 2's form."""
    kind = layer["class_name"]
    return {
        "class_name": kind,
        "config": keras_2_config(layer["config"], kind),
        "name": layer["name"],
        "inbound_nodes": [keras_2_inputs(call["args"]) for call in layer["inbound_nodes"]],
    }


def keras_2_weight_name(layer: keras.Layer, name: str) -> str:
    """A variable's name, as a path below its layer's group."""
    return f"{layer.name}/{KERAS_2_NAMES.get(f'{type(layer).__name__}.{name}', name)}:0"


def save_keras_2(model: keras.Model, path: Path) -> None:
    """Write a functional model, one input and one output, as Keras 2.4 wrote whole models."""
    given = model.get_config()
    config = {
        "name": given["name"],
        "layers": [keras_2_layer(layer) for layer in given["layers"]],
        "input_layers": [given["input_layers"]],
        "output_layers": [given["output_layers"]],
    }
    version = {"backend": "tensorflow", "keras_version": "2.4.0"}
    with h5py.File(path, "w") as file:
        file.attrs.update(version | {"model_config": json.dumps({"class_name": "Functional", "config": config})})
        weights = file.create_group("model_weights")
        weights.attrs.update(version | {"layer_names": np.array([layer.name for layer in model.layers], "S")})
        for layer in model.layers:
            group = weights.create_group(layer.name)
            names = [keras_2_weight_name(layer, variable.name) for variable in layer.weights]
            group.attrs["weight_names"] = np.array(names, "S") if names else []  # Keras 2 wrote an empty list as floats
            for name, values in zip(names, layer.get_weights(), strict=True):
                group[name] = values


def main() -> None:
    model, test = trained(shifted(load_train())), load_test()
    save_keras(model, HERE / "digits.keras")
    save_keras_2(model, HERE / "digits_keras2.h5")

    inputs = test.inputs()[..., np.newaxis]
    files = (HERE / "digits.keras", HERE / "digits_keras2.h5")
    scores, again = (keras.models.load_model(file, compile=False).predict(inputs, verbose=0) for file in files)
    assert np.array_equal(scores, again), "the two files are not the same network"
    figures = accuracy(scores, test)
    (HERE / "accuracy.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(figures)


if __name__ == "__main__":
    main()
