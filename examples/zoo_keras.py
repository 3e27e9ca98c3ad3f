"""Fills Keras networks of the zoo with weights, and stores them."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from examples.zoo_numbers import (
    BIAS,
    DAMPING,
    LAYER_SCALE,
    NORMALIZED,
    Array,
    Moments,
    batch_norm,
    behind_batch_norm,
    kernel,
    normal,
    of_concatenation,
    of_sum,
    uniform,
)

# Layers are known by the names of their classes, since importing keras takes seconds.


FUNCTIONS: Final[Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}
POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(64)


def after(given: Moments, function: str) -> Moments:
    """Of a function of a normal distribution, summed at a few points of it.

    The result of a softmax does not matter: it ends a network.
    """
    if function in ("linear", "softmax"):
        return given
    values = FUNCTIONS[function](given.mean + math.sqrt(given.variance) * POINTS)
    mean = float(np.average(values, weights=WEIGHTS))
    return Moments(mean, max(float(np.average(values**2, weights=WEIGHTS)) - mean**2, 0.0))


def scaled(given: Moments, factor: float, shift: float = 0.0) -> Moments:
    return Moments(given.mean * factor + shift, given.variance * factor**2)


def of_product(x: Moments, y: Moments) -> Moments:
    """Of two that know nothing of each other."""
    mean = x.mean * y.mean
    return Moments(mean, x.mean_square * y.mean_square - mean**2)


def function_of(layer: Any) -> str:
    """The name of a layer's activation."""
    if type(layer).__name__ == "ReLU":
        return "relu6" if layer.max_value else "relu"
    return getattr(getattr(layer, "activation", None), "__name__", "linear")


def keras_moments(layer: Any, given: Sequence[Moments], damping: float) -> Moments:
    """The moments of a layer's output, from those of its inputs."""
    kind = type(layer).__name__
    constants = [x for node in layer._inbound_nodes for x in node.arguments.args if isinstance(x, (int, float))]  # noqa: SLF001  # Keras has it nowhere else
    match kind:
        case "Conv2D" | "DepthwiseConv2D" | "SeparableConv2D" | "Dense":
            return after(scaled(NORMALIZED, damping), function_of(layer))
        case "BatchNormalization" | "LayerNormalization":
            return behind_batch_norm(damping)
        case "Activation" | "ReLU":
            return after(given[0], function_of(layer))
        case "MaxPooling2D":
            return given[0].after_max_pool()
        case "AveragePooling2D" | "GlobalAveragePooling2D":
            return given[0].after_average_pool()
        case "Add" if constants:
            return scaled(given[0], 1.0, constants[0])
        case "Multiply" if constants:
            return scaled(given[0], constants[0])
        case "Add":
            return of_sum(given)
        case "Multiply":
            return of_product(*given)
        case "CustomScaleLayer":
            return of_sum([given[0], scaled(given[1], layer.scale)])
        case "LayerScale":
            return of_product(given[0], Moments(LAYER_SCALE, 0.0))
        case "Rescaling":
            return scaled(given[0], layer.scale, layer.offset)
        case "Normalization":
            mean, variance = (np.asarray(x, np.float64) for x in (layer.mean, layer.variance))
            return scaled(given[0], float(np.mean(variance**-0.5)), -float(np.mean(mean * variance**-0.5)))
        case "Concatenate":
            return of_concatenation(given, [x.shape[-1] for x in layer.input])
        case "ZeroPadding2D" | "Cropping2D" | "Flatten" | "Reshape" | "Dropout" | "StochasticDepth":
            return given[0]
        case other:
            raise NotImplementedError(f"no rule for the numbers behind a {other}")


def keras_values(variable: Any, kind: str, given: Moments, damping: float, seed: int) -> Array:
    """A variable's values. given: the moments of the layer's input."""
    path, shape = variable.path, tuple(variable.shape)
    match kind, variable.name:
        case _, "depthwise_kernel":
            return kernel(seed, path, shape, (0, 1), given)
        case "DepthwiseConv2D", "kernel":
            return kernel(seed, path, shape, (0, 1), given)
        case _, "kernel":
            return kernel(seed, path, shape, tuple(range(len(shape) - 1)), given) * np.float32(damping)
        case _, "pointwise_kernel":
            return kernel(seed, path, shape, (0, 1, 2), NORMALIZED)
        case _, "bias":
            return normal(seed, path, shape, BIAS)
        case "LayerScale", _:
            return uniform(seed, path, shape, (LAYER_SCALE / 2, LAYER_SCALE * 3 / 2))
        case "BatchNormalization" | "LayerNormalization", "gamma" | "beta" | "moving_mean" | "moving_variance":
            values: Array = getattr(batch_norm(seed, path.rpartition("/")[0], shape[0], given, damping), variable.name)
            return values
        case "Normalization", _:
            return np.asarray(variable)  # nothing is learned here from what the network is trained with
        case _, other:
            raise NotImplementedError(f"no rule for a variable called {other}")


@contextmanager
def nothing_drawn() -> Iterator[None]:
    """Within it, weights begin as zeros: those that Keras draws take as long as the others, which replace them."""
    from keras import initializers

    def zeros(_: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        return initializers.Zeros()(shape, dtype)

    # The classes of all random initial values that keras.applications has.
    kinds = (initializers.VarianceScaling, initializers.TruncatedNormal)
    with patch.object(kinds[0], "__call__", zeros), patch.object(kinds[1], "__call__", zeros):
        yield


def fill_keras(model: Any, seed: int, given: Moments) -> Moments:
    """Give every weight of a Keras model its random value; returns the moments of its output."""
    joins = ("Add", "CustomScaleLayer")
    calls = [x for x in getattr(model, "_functional", model).operations if type(x).__name__ != "InputLayer"]
    summed = {
        id(x) for layer in calls if type(layer).__name__ in joins and isinstance(layer.input, list) for x in layer.input
    }
    moments = {id(x): given for x in model.inputs}
    for layer in calls:
        read = layer._inbound_nodes[-1].input_tensors  # noqa: SLF001  # an inner model's first node is its own
        written = layer._inbound_nodes[-1].output_tensors[0]  # noqa: SLF001
        sources = [moments[id(x)] for x in read]
        if hasattr(layer, "layers"):
            moments[id(written)] = fill_keras(layer, seed, sources[0])
            continue
        damping = DAMPING if id(written) in summed else 1.0
        for variable in getattr(layer, "weights", ()):
            variable.assign(keras_values(variable, type(layer).__name__, sources[0], damping, seed))
        moments[id(written)] = keras_moments(layer, sources, damping)
    return moments[id(model.outputs[0])]


def save_keras(model: Any, path: Path) -> None:
    """Write a .keras file as Keras 3 does, but for the dates: the same model gives the same bytes."""
    from keras import __version__

    with tempfile.TemporaryDirectory(dir=path.parent) as folder, zipfile.ZipFile(path, "w") as archive:
        weights = Path(folder, "model.weights.h5")
        model.save_weights(weights)
        archive.writestr(zipfile.ZipInfo("metadata.json"), json.dumps({"keras_version": __version__}))
        archive.writestr(zipfile.ZipInfo("config.json"), model.to_json())
        with weights.open("rb") as source, archive.open(zipfile.ZipInfo(weights.name), "w", force_zip64=True) as member:
            shutil.copyfileobj(source, member, 1 << 20)
