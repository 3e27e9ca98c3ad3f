"""Random small Keras networks: deterministic per seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

Keras: TypeAlias = Any
Tensor: TypeAlias = Any
Layer: TypeAlias = Any
Dims: TypeAlias = tuple[int, ...]
LARGEST = 3000  # elements of a tensor
INPUTS: list[Dims] = [(7, 6, 3), (5, 8, 4), (6, 6, 8), (9, 5, 1), (1, 7, 6), (10, 6), (7, 3), (12,)]
ACTIVATIONS = (
    None, None, None, "relu", "relu6", "leaky_relu", "elu", "selu", "tanh", "sigmoid", "swish", "gelu", "mish", "softplus",
    "softsign", "hard_sigmoid", "hard_silu", "softmax", "log_softmax", "exponential", "celu", "log_sigmoid",
)  # fmt: skip


class Choices:
    """Random settings of layers on a tensor of the given dims, without the batch."""

    def __init__(self, r: random.Random, dims: Dims) -> None:
        self.r, self.dims = r, dims
        self.dimensions = len(dims) - 1  # of a window

    def one(self, *values: Any) -> Any:
        return self.r.choice(values)

    def sides(self, *values: int) -> int | tuple[int, ...]:
        """One number for all sides of a window, or one for each."""
        if self.r.random() < 0.7:
            return self.r.choice(values)
        return tuple(self.r.choice(values) for _ in range(self.dimensions))

    @property
    def axis(self) -> int:
        """Any but the batch."""
        return self.r.choice((-1, 1, len(self.dims)))

    def window(self) -> dict[str, Any]:
        """Kernel and padding, with strides or a dilation."""
        rate = {"dilation_rate": self.sides(1, 2)} if self.r.random() < 0.2 else {"strides": self.one(1, 1, 2, 3)}
        return {"kernel_size": self.sides(1, 2, 3, 3, 4), "padding": self.one("same", "valid"), **rate}

    @property
    def ends(self) -> dict[str, Any]:
        return {"use_bias": self.one(True, True, False), "activation": self.one(*ACTIVATIONS)}


Make: TypeAlias = Callable[[Any, Choices], Layer]  # keras.layers, settings -> layer


def _reshape(layers: Any, c: Choices) -> Layer:
    size = math.prod(c.dims)
    parts = [n for n in range(1, size + 1) if size % n == 0]
    first = c.one(*parts)
    second = c.one(*[n for n in parts if size // first % n == 0])
    return layers.Reshape(c.one((-1,), (first, -1), (first, second, -1), (first, -1, second)))


def _permute(layers: Any, c: Choices) -> Layer:
    order = list(range(1, len(c.dims) + 1))
    c.r.shuffle(order)
    return layers.Permute(order)


def _conv(layers: Any, c: Choices) -> Layer:
    groups = c.one(1, 1, *(n for n in (2, 3) if c.dims[-1] % n == 0))
    return layers.Conv2D(groups * c.one(1, 2, 4), groups=groups, **c.window(), **c.ends)


# Layers of any tensor.
ANY: tuple[Make, ...] = (
    lambda k, c: k.Dense(c.one(1, 5, 8), **c.ends),
    lambda k, c: k.Dense(c.one(3, 16), **c.ends),
    lambda k, c: k.BatchNormalization(epsilon=0.01, scale=c.one(True, False), center=c.one(True, False)),
    lambda k, c: k.BatchNormalization(axis=c.axis),
    lambda k, c: k.LayerNormalization(axis=c.axis, epsilon=0.1),
    lambda k, c: k.UnitNormalization(axis=c.axis),
    lambda k, c: k.Rescaling(c.one(0.5, 2.0), c.one(0.0, -1.0)),
    lambda k, c: k.ReLU(max_value=c.one(None, 1.5, 6.0), negative_slope=c.one(0.0, 0.3), threshold=c.one(0.0, 0.7)),
    lambda k, c: k.LeakyReLU(),
    lambda k, c: k.PReLU(shared_axes=c.one(None, *([[1], [1, 2]] if len(c.dims) == 3 else []))),
    lambda k, c: k.ELU(alpha=c.one(1.0, 0.4)),
    lambda k, c: k.Activation(c.one(*ACTIVATIONS[3:])),
    lambda k, c: k.Activation(c.one(*ACTIVATIONS[3:])),
    lambda k, c: k.Softmax(axis=c.axis),
    lambda k, c: k.Dropout(0.5),
    lambda k, c: k.GaussianNoise(1.0),
    lambda k, c: k.Flatten(),
    _reshape,
    _permute,
)
MAPS: tuple[Make, ...] = (
    *[_conv] * 4,
    *[lambda k, c: k.DepthwiseConv2D(depth_multiplier=c.one(1, 1, 2), **c.window(), **c.ends)] * 2,
    lambda k, c: k.SeparableConv2D(c.one(4, 5), depth_multiplier=c.one(1, 2), **c.window(), **c.ends),
    *[lambda k, c: k.Conv2DTranspose(c.one(3, 8), c.sides(1, 2, 3, 4), strides=c.sides(1, 2, 3), padding=c.one("same", "valid"), **c.ends)] * 2,
    *[lambda k, c: k.MaxPooling2D(c.sides(1, 2, 3), strides=c.one(None, 1, 2), padding=c.one("same", "valid"))] * 2,
    *[lambda k, c: k.AveragePooling2D(c.sides(1, 2, 3), strides=c.one(None, 1, 2), padding=c.one("same", "valid"))] * 2,
    lambda k, c: c.one(k.GlobalMaxPooling2D, k.GlobalAveragePooling2D)(keepdims=c.one(True, False)),
    lambda k, c: c.one(k.AdaptiveMaxPooling2D, k.AdaptiveAveragePooling2D)([c.one(*(n for n in (1, 2, 3) if side % n == 0)) for side in c.dims[:2]]),
    lambda k, c: k.UpSampling2D(c.sides(1, 2, 3), interpolation=c.one("nearest", "bilinear")),
    lambda k, c: k.Resizing(c.one(3, 8), c.one(5, 12), interpolation=c.one("nearest", "bilinear")),
    lambda k, c: k.GroupNormalization(c.one(1, -1, 2), epsilon=0.1),
    lambda k, c: k.ZeroPadding2D(((c.one(0, 1), c.one(0, 2)), (c.one(0, 1), c.one(0, 3)))),
    lambda k, c: k.Cropping2D(((c.one(0, 1), c.one(0, 1)), (c.one(0, 1), c.one(0, 2)))),
    lambda k, c: k.SpatialDropout2D(0.5),
)  # fmt: skip
ROWS: tuple[Make, ...] = (
    *[lambda k, c: k.Conv1D(c.one(1, 2, 8), **c.window(), **c.ends)] * 3,
    lambda k, c: k.DepthwiseConv1D(depth_multiplier=c.one(1, 2), **c.window(), **c.ends),
    lambda k, c: k.SeparableConv1D(c.one(4, 5), **c.window(), **c.ends),
    lambda k, c: k.Conv1DTranspose(c.one(3, 8), c.one(1, 2, 3), strides=c.one(1, 2, 3), padding=c.one("same", "valid"), **c.ends),
    lambda k, c: c.one(k.MaxPooling1D, k.AveragePooling1D)(c.one(1, 2, 3), strides=c.one(None, 1, 2), padding=c.one("same", "valid")),
    lambda k, c: c.one(k.GlobalMaxPooling1D, k.GlobalAveragePooling1D)(keepdims=c.one(True, False)),
    lambda k, c: k.UpSampling1D(c.one(1, 2)),
    lambda k, c: k.ZeroPadding1D((c.one(0, 1), c.one(0, 2))),
    lambda k, c: k.Cropping1D((c.one(0, 1), c.one(0, 1))),
)  # fmt: skip
VECTORS: tuple[Make, ...] = (lambda k, c: k.Dense(c.one(4, 9), **c.ends), lambda k, c: k.RepeatVector(c.one(2, 3)))
BY_RANK = {3: (*ANY, *MAPS, *MAPS), 2: (*ANY, *ROWS, *ROWS), 1: (*ANY, *VECTORS)}
MERGES = ("Add", "Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Concatenate")


class Made(NamedTuple):
    """A model, and the types of its layers."""

    model: Any
    types: tuple[str, ...]


def network(keras: Keras, seed: int, *, steps: int = 7) -> Made:
    """Up to `steps` layers, each on the last tensor or on an earlier one. What Keras refuses is left out."""
    r = random.Random(seed)
    sources = [keras.Input(r.choice(INPUTS), name="data")]
    if r.random() < 0.1:
        sources.append(keras.Input(r.choice(INPUTS), name="more"))
    tensors, read, types = [*sources], set[int](), list[str]()
    calls: list[tuple[Layer, Dims]] = []
    for _ in range(steps):
        source = tensors[-1] if r.random() < 0.7 else r.choice(tensors)
        dims = tuple(source.shape[1:])
        try:
            layer, inputs = _step(keras, r, tensors, source, dims, calls)
            made = layer(inputs[0] if len(inputs) == 1 else inputs)
        except (ValueError, ZeroDivisionError, KeyError):  # the layer does not fit
            continue
        if len(made.shape) > 4 or len(made.shape) < 2 or not 0 < math.prod(made.shape[1:]) <= LARGEST:
            continue
        types.append(type(layer).__name__)
        read |= {id(tensor) for tensor in inputs}
        calls += [(layer, dims)] * (len(inputs) == 1)
        tensors.append(made)
    ends = [tensor for tensor in tensors[len(sources) :] if id(tensor) not in read]
    return Made(keras.Model(sources, ends or tensors[-1:]), tuple(types))


def _step(
    keras: Keras, r: random.Random, tensors: list[Tensor], source: Tensor, dims: Dims, calls: list[tuple[Layer, Dims]]
) -> tuple[Layer, list[Tensor]]:
    """A layer and its inputs: a merge, a layer that was called before, a model of two layers, or a new layer.

    calls: layers of one input, and the dims of the tensor that they were called on.
    """
    kind = r.random()
    if kind < 0.15:
        same = [tensor for tensor in tensors if tuple(tensor.shape[1:]) == dims]
        name, others = r.choice(MERGES), [r.choice(same) for _ in range(r.choice([1, 1, 2]))]
        settings = {"axis": r.choice([-1, *range(1, len(dims) + 1)])} if name == "Concatenate" else {}
        return getattr(keras.layers, name)(**settings), [source, *others[: 1 if name == "Subtract" else None]]
    known = [layer for layer, of in calls if of == dims]
    if kind < 0.2 and known:
        return r.choice(known), [source]
    layer = r.choice(BY_RANK[len(dims)])(keras.layers, Choices(r, dims))
    if kind < 0.25:
        inner = keras.Input(dims)
        x = layer(inner)
        after = r.choice(BY_RANK[len(x.shape) - 1])(keras.layers, Choices(r, tuple(x.shape[1:])))
        layer = keras.Model(inner, after(x))
    return layer, [source]
