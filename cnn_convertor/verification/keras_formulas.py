"""The layers of Keras 2 as plain formulas in numpy (FP64), written from Keras's definitions and apart from the frontend."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Blob: TypeAlias = NDArray[np.float64]  # the batch first, and channels last
Config: TypeAlias = Mapping[str, Any]

_IGNORED: Final = frozenset(
    {"name", "trainable", "dtype", "batch_input_shape", "input_spec", "input_dim", "sparse", "ragged", "implementation",
     "activity_regularizer", "units", "filters", "momentum", "rate", "noise_shape", "seed", "stddev"}
)  # fmt: skip  # settings without an effect on results
_IGNORED_ENDS: Final = ("_initializer", "_regularizer", "_constraint")


class Formula(NamedTuple):
    """compute: (configuration, weights, inputs) -> result. settings: those that it reads."""

    compute: Callable[..., Blob]
    settings: frozenset[str]


FORMULAS: Final[dict[str, Formula]] = {}


def apply(type: str, config: Config, weights: Sequence[Blob], inputs: Sequence[Blob]) -> Blob:
    """What a layer computes. Raises ValueError for one without a formula."""
    if type not in FORMULAS:
        raise ValueError(f"there is no formula of {type} layers")
    formula = FORMULAS[type]
    for name in config.keys() - _IGNORED - formula.settings - {"data_format"}:
        if not name.endswith(_IGNORED_ENDS):
            raise ValueError(f"the formula of {type} layers does not know the setting {name}")
    if config.get("data_format") != "channels_first":
        return formula.compute(config, weights, *inputs)
    result = formula.compute(config, weights, *(np.moveaxis(x, 1, -1) for x in inputs))
    return np.moveaxis(result, -1, 1) if result.ndim == inputs[0].ndim else result


def _computes(*types: str, settings: str = "") -> Callable[[Callable[..., Blob]], Callable[..., Blob]]:
    def register(compute: Callable[..., Blob]) -> Callable[..., Blob]:
        FORMULAS.update(dict.fromkeys(types, Formula(compute, frozenset(settings.split()))))
        return compute

    return register


# --- functions of single elements ----------------------------------------------------------------------------------------


def _sigmoid(x: Blob) -> Blob:
    return 0.5 + 0.5 * np.tanh(x / 2)  # cannot overflow


def _softplus(x: Blob) -> Blob:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _elu(x: Blob, alpha: float = 1.0) -> Blob:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _softmax(x: Blob, axis: int = -1) -> Blob:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    result: Blob = powers / powers.sum(axis=axis, keepdims=True)
    return result


ACTIVATIONS: Final[Mapping[str, Callable[[Blob], Blob]]] = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": _sigmoid,
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "tanh": np.tanh,
    "elu": _elu,
    "selu": lambda x: 1.05070098735548 * _elu(x, 1.67326324235438),
    "softmax": _softmax,
    "softplus": _softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "exponential": np.exp,
    "swish": lambda x: x * _sigmoid(x),
}


def _activated(config: Config, x: Blob) -> Blob:
    name = config.get("activation", "linear")
    if name is not None and name not in ACTIVATIONS:
        raise ValueError(f"there is no formula of the activation {name}")
    return x if name is None else ACTIVATIONS[name](x)


@_computes("Activation", settings="activation")
def _activation(config: Config, _: object, x: Blob) -> Blob:
    return _activated(config, x)


@_computes("ReLU", settings="max_value negative_slope threshold")
def _relu(config: Config, _: object, x: Blob) -> Blob:
    threshold, slope = config.get("threshold") or 0.0, config.get("negative_slope") or 0.0
    y = np.where(x >= threshold, x, slope * (x - threshold))
    return y if config.get("max_value") is None else np.minimum(y, config["max_value"])


@_computes("LeakyReLU", settings="alpha")
def _leaky(config: Config, _: object, x: Blob) -> Blob:
    return np.where(x > 0, x, config["alpha"] * x)


@_computes("ELU", settings="alpha")
def _elu_layer(config: Config, _: object, x: Blob) -> Blob:
    return _elu(x, config["alpha"])


@_computes("PReLU", settings="shared_axes")
def _prelu(_: object, weights: Sequence[Blob], x: Blob) -> Blob:
    return np.where(x > 0, x, weights[0] * x)


@_computes("Softmax", settings="axis")
def _softmax_layer(config: Config, _: object, x: Blob) -> Blob:
    return _softmax(x, config["axis"])


@_computes("Dropout", "SpatialDropout2D", "GaussianNoise", "GaussianDropout", "ActivityRegularization", "Layer")
def _identity(_: object, __: object, x: Blob) -> Blob:
    return x


# --- windows -------------------------------------------------------------------------------------------------------------


class _Windows(NamedTuple):
    """Windows of a map. size: how many, vertically and horizontally."""

    kernel: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    size: Sequence[int]

    def positions(self) -> Iterator[tuple[tuple[int, int], tuple[slice, ...]]]:
        """Each element of the kernel, and what all windows have there."""
        for i, j in np.ndindex(*self.kernel):
            spans = zip((i, j), self.dilation, self.size, self.stride, strict=True)
            rows, columns = (slice(at * d, at * d + (n - 1) * s + 1, s) for at, d, n, s in spans)
            yield (i, j), (slice(None), rows, columns)


def _windows(
    config: Config, x: Blob, kernel: Sequence[int], stride: Sequence[int], fill: float = 0
) -> tuple[Blob, _Windows]:
    """The padded map, and its windows."""
    dilation = config.get("dilation_rate", (1, 1))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes, margins = x.shape[1:3], [(0, 0), (0, 0)]
    if config["padding"] == "same":
        counts = [math.ceil(n / s) for n, s in zip(sizes, stride, strict=True)]
        needed = [max((c - 1) * s + k - n, 0) for c, s, k, n in zip(counts, stride, spans, sizes, strict=True)]
        margins = [(more // 2, more - more // 2) for more in needed]
    elif config["padding"] == "valid":
        counts = [(n - k) // s + 1 for n, k, s in zip(sizes, spans, stride, strict=True)]
    else:
        raise ValueError(f"there is no formula of the padding {config['padding']}")
    padded = np.pad(x, [(0, 0), *margins, (0, 0)], constant_values=fill)
    return padded, _Windows(kernel, stride, dilation, counts)


def _biased(config: Config, weights: Sequence[Blob], y: Blob) -> Blob:
    return _activated(config, y + weights[-1] if config.get("use_bias", True) else y)


_CONVOLUTION: Final = "kernel_size strides padding dilation_rate groups activation use_bias"


@_computes("Conv2D", "Convolution2D", settings=_CONVOLUTION)
def _convolution(config: Config, weights: Sequence[Blob], x: Blob) -> Blob:
    groups = config.get("groups", 1)
    kernels = np.split(weights[0], groups, axis=-1)
    padded, windows = _windows(config, x, config["kernel_size"], config["strides"])
    parts = [
        sum(part[inputs] @ kernel[at] for at, inputs in windows.positions())
        for part, kernel in zip(np.split(padded, groups, axis=-1), kernels, strict=True)
    ]
    return _biased(config, weights, np.concatenate(parts, axis=-1))


def _depthwise(config: Config, kernel: Blob, x: Blob) -> Blob:
    padded, windows = _windows(config, x, config["kernel_size"], config["strides"])
    y = np.asarray(sum(padded[inputs][..., np.newaxis] * kernel[at] for at, inputs in windows.positions()))
    return y.reshape(*y.shape[:3], -1)


@_computes("DepthwiseConv2D", settings=f"{_CONVOLUTION} depth_multiplier")
def _depthwise_convolution(config: Config, weights: Sequence[Blob], x: Blob) -> Blob:
    return _biased(config, weights, _depthwise(config, weights[0], x))


@_computes("SeparableConv2D", settings=f"{_CONVOLUTION} depth_multiplier")
def _separable_convolution(config: Config, weights: Sequence[Blob], x: Blob) -> Blob:
    return _biased(config, weights, _depthwise(config, weights[0], x) @ weights[1][0, 0])


@_computes("Conv2DTranspose", settings=f"{_CONVOLUTION} output_padding")
def _transposed_convolution(config: Config, weights: Sequence[Blob], x: Blob) -> Blob:
    """Every element of x adds the kernel, times its value, to a window of y; `same` cuts what is beyond n * stride."""
    if config.get("output_padding") is not None or tuple(config.get("dilation_rate", (1, 1))) != (1, 1):
        raise ValueError("there is no formula of an output padding, or a dilation, of Conv2DTranspose")
    kernel, stride, sizes = config["kernel_size"], config["strides"], x.shape[1:3]
    full = [n * s + max(k - s, 0) for n, s, k in zip(sizes, stride, kernel, strict=True)]
    y = np.zeros((len(x), *full, weights[0].shape[2]))
    for at, inputs in _Windows(kernel, stride, (1, 1), sizes).positions():
        y[inputs] += x @ weights[0][at].T
    if config["padding"] == "same":
        top, left = (max(k - s, 0) // 2 for k, s in zip(kernel, stride, strict=True))
        y = y[:, top : top + sizes[0] * stride[0], left : left + sizes[1] * stride[1]]
    return _biased(config, weights, y)


@_computes("MaxPooling2D", settings="pool_size strides padding")
def _max_pool(config: Config, _: object, x: Blob) -> Blob:
    padded, windows = _windows(config, x, config["pool_size"], config["strides"] or config["pool_size"], -math.inf)
    return reduce(np.maximum, (padded[inputs] for _, inputs in windows.positions()))


@_computes("AveragePooling2D", settings="pool_size strides padding")
def _average_pool(config: Config, _: object, x: Blob) -> Blob:
    """Padding does not count."""
    stride = config["strides"] or config["pool_size"]
    padded, windows = _windows(config, x, config["pool_size"], stride)
    inside, _ = _windows(config, np.ones_like(x[:1, ..., :1]), config["pool_size"], stride)
    sums, counts = (sum(values[inputs] for _, inputs in windows.positions()) for values in (padded, inside))
    return np.asarray(sums / counts)


@_computes("GlobalAveragePooling2D", settings="keepdims")
def _global_average(config: Config, _: object, x: Blob) -> Blob:
    return np.asarray(x.mean(axis=(1, 2), keepdims=config.get("keepdims", False)))


@_computes("GlobalMaxPooling2D", settings="keepdims")
def _global_maximum(config: Config, _: object, x: Blob) -> Blob:
    return np.asarray(x.max(axis=(1, 2), keepdims=config.get("keepdims", False)))


# --- sums over channels, and norms ---------------------------------------------------------------------------------------


@_computes("Dense", settings="activation use_bias")
def _dense(config: Config, weights: Sequence[Blob], x: Blob) -> Blob:
    return _biased(config, weights, x @ weights[0])


@_computes("BatchNormalization", settings="axis epsilon center scale")
def _norm(config: Config, weights: Sequence[Blob], x: Blob) -> Blob:
    axis = config["axis"][0] if isinstance(config["axis"], list) else config["axis"]
    *own, mean, variance = (np.expand_dims(each, tuple(range(1, x.ndim - axis % x.ndim))) for each in weights)
    y: Blob = (x - mean) / np.sqrt(variance + config["epsilon"])
    if config["scale"]:
        y = y * own[0]
    return y + own[-1] if config["center"] else y


# --- several inputs, and other shapes ------------------------------------------------------------------------------------


def _of_all(operation: Callable[[Blob, Blob], Blob]) -> Callable[..., Blob]:
    return lambda _, __, *inputs: reduce(operation, inputs)


_computes("Add")(_of_all(np.add))
_computes("Subtract")(_of_all(np.subtract))
_computes("Multiply")(_of_all(np.multiply))
_computes("Maximum")(_of_all(np.maximum))
_computes("Minimum")(_of_all(np.minimum))


@_computes("Average")
def _average(_: object, __: object, *inputs: Blob) -> Blob:
    return reduce(np.add, inputs) / len(inputs)


@_computes("Concatenate", settings="axis")
def _concatenate(config: Config, _: object, *inputs: Blob) -> Blob:
    return np.concatenate(inputs, axis=config["axis"])


@_computes("Flatten")
def _flatten(_: object, __: object, x: Blob) -> Blob:
    return x.reshape(len(x), -1)


@_computes("Reshape", settings="target_shape")
def _reshape(config: Config, _: object, x: Blob) -> Blob:
    return x.reshape(len(x), *config["target_shape"])


@_computes("Permute", settings="dims")
def _permute(config: Config, _: object, x: Blob) -> Blob:
    return x.transpose(0, *config["dims"])


@_computes("ZeroPadding2D", settings="padding")
def _zero_padding(config: Config, _: object, x: Blob) -> Blob:
    return np.pad(x, [(0, 0), *map(tuple, config["padding"]), (0, 0)])


@_computes("Cropping2D", settings="cropping")
def _cropping(config: Config, _: object, x: Blob) -> Blob:
    (top, bottom), (left, right) = config["cropping"]
    return x[:, top : x.shape[1] - bottom, left : x.shape[2] - right]


@_computes("UpSampling2D", settings="size interpolation")
def _upsampling(config: Config, _: object, x: Blob) -> Blob:
    if config.get("interpolation", "nearest") != "nearest":
        raise ValueError(f"there is no formula of the interpolation {config['interpolation']}")
    return x.repeat(config["size"][0], axis=1).repeat(config["size"][1], axis=2)
