"""Keras's layers in their settings, and functions between them: what tests read, and run on the emulated device."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeAlias
from unittest.mock import MagicMock

import numpy as np
import pytest

from cnn_convertor.verification.keras_models import import_keras

Keras: TypeAlias = Any
Make: TypeAlias = Callable[[Any, Any, Any, Any, Any], Any]  # keras, x, y, r, v -> tensor


def imported() -> Any:
    """Keras, on TensorFlow; skips the test without it. First of all import_keras: it sets what TensorFlow reads when it is imported."""
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    return import_keras()


def randomize(model: Any, seed: int = 0) -> None:
    """Weights of about one; variances above zero."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        values = np.asarray(weight)
        if "count" in weight.path:
            continue
        if "variance" in weight.path:
            weight.assign(random.uniform(0.5, 2, values.shape))
        elif "kernel" in weight.path:
            weight.assign(random.normal(0, max(math.prod(values.shape[:-1]), 1) ** -0.5, values.shape))
        else:
            weight.assign(random.normal(0, 0.5, values.shape))
    finish(model)


def finish(model: Any) -> None:
    """After weights are assigned: Normalization keeps a copy of its statistics."""
    for layer in model.layers:
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()


MAP = (9, 8, 6)
ROWS = (10, 6)
ACTIVATIONS = (
    "relu6", "selu", "celu", "swish", "silu", "gelu", "mish", "softplus", "softsign", "exponential", "hard_sigmoid", "hard_silu",
    "hard_swish", "hard_tanh", "log_sigmoid", "log_softmax", "tanh_shrink", "soft_shrink", "hard_shrink", "squareplus", "sparse_plus",
    "sparse_sigmoid", "glu",
)  # fmt: skip
# Layers as an activation, with settings of their own.
WRITTEN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ReLU", {"max_value": 1.5, "negative_slope": 0.25, "threshold": 0.5}),
    ("LeakyReLU", {"negative_slope": 0.45}),
    ("ELU", {"alpha": 0.4}),
    *(("Softmax", {"axis": axis}) for axis in (1, 2, 3, -2)),
)
# What changes images in training alone; those that Keras can save in both formats.
AUGMENTATIONS: dict[str, dict[str, Any]] = {
    "RandomColorJitter": {}, "RandomContrast": {"factor": 0.2}, "RandomElasticTransform": {}, "RandomErasing": {}, "RandomFlip": {},
    "RandomGaussianBlur": {}, "RandomGrayscale": {}, "RandomHue": {"factor": 0.2}, "RandomInvert": {}, "RandomPerspective": {},
    "RandomRotation": {"factor": 0.2}, "RandomTranslation": {"height_factor": 0.2, "width_factor": 0.2}, "RandomZoom": {"height_factor": 0.2},
}  # fmt: skip


def written(type: str, **settings: Any) -> dict[str, Any]:
    """A layer in written form, as an `activation` may be."""
    return {"module": "keras.layers", "class_name": type, "config": settings, "registered_name": None}


LAYERS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    *[
        ("Conv2D", {"filters": 4, "kernel_size": k, "strides": s, "padding": p}, shape)
        for k in (1, 2, 3, (3, 2), (1, 5))
        for s in (1, 2, 3, (2, 1))
        for p in ("same", "valid")
        for shape in (MAP, (8, 11, 3))
    ],
    *[("Conv2D", {"filters": 4, "kernel_size": 3, "dilation_rate": d, "padding": p}, MAP) for d in (2, (1, 3)) for p in ("same", "valid")],
    ("Conv2D", {"filters": 6, "kernel_size": 3, "groups": 3, "use_bias": False}, MAP),
    *[
        ("Conv2D", {"filters": 4, "kernel_size": 1, "activation": a}, MAP)
        for a in ("linear", "relu", "relu6", "leaky_relu", "tanh", "sigmoid", "elu", "softmax")
    ],
    *[
        ("DepthwiseConv2D", {"kernel_size": k, "strides": s, "padding": p, "depth_multiplier": m}, shape)
        for k in (2, 3, (1, 3))
        for s in (1, 2)
        for p in ("same", "valid")
        for m in (1, 2)
        for shape in (MAP, (8, 11, 3))
    ],
    ("DepthwiseConv2D", {"kernel_size": 3, "dilation_rate": 2, "padding": "same", "activation": "relu"}, MAP),
    *[
        ("SeparableConv2D", {"filters": 5, "kernel_size": 3, "strides": s, "depth_multiplier": m, "activation": a, "padding": "same"}, MAP)
        for s in (1, 2)
        for m in (1, 3)
        for a in (None, "relu", "softmax")
    ],
    ("SeparableConv2D", {"filters": 5, "kernel_size": 3, "dilation_rate": 2, "use_bias": False}, MAP),
    *[
        ("Conv2DTranspose", {"filters": 4, "kernel_size": k, "strides": s, "padding": p}, (5, 4, 3))
        for k in (1, 2, 3, 4, 5, (3, 2))
        for s in (1, 2, 3, (2, 3))
        for p in ("same", "valid")
    ],
    *[
        ("Conv2DTranspose", {"filters": 4, "kernel_size": k, "strides": s, "padding": p, "output_padding": o}, (5, 4, 3))
        for k, s, o in ((3, 2, 1), (3, 2, 0), (4, 3, 1), (5, 3, 2), (2, 2, 1), (3, 3, (0, 2)), (1, 3, 2), (2, 3, 1), (5, 4, 3))
        for p in ("same", "valid")
    ],
    ("Conv2DTranspose", {"filters": 4, "kernel_size": 3, "strides": 2, "activation": "relu", "use_bias": False}, MAP),
    *[("Dense", {"units": 5, "activation": a}, shape) for a in (None, "relu", "softmax") for shape in ((7,), (4, 3, 7))],
    ("Dense", {"units": 5, "use_bias": False}, (1, 1, 7)),
    *[
        (f"{kind}Pooling2D", {"pool_size": k, "strides": s, "padding": p}, shape)
        for kind in ("Max", "Average")
        for k in (2, 3, (3, 2))
        for s in (None, 1, 2, (1, 3))
        for p in ("same", "valid")
        for shape in (MAP, (8, 11, 3))
    ],
    *[(f"Global{kind}Pooling2D", {"keepdims": keep}, MAP) for kind in ("Max", "Average") for keep in (False, True)],
    *[("UpSampling2D", {"size": size}, MAP) for size in (2, 3, (1, 4))],
    *[("BatchNormalization", {"scale": s, "center": c, "epsilon": 0.01}, MAP) for s in (True, False) for c in (True, False)],
    ("BatchNormalization", {}, (7,)),
    ("BatchNormalization", {"axis": 3}, MAP),
    ("ReLU", {}, MAP),
    ("ReLU", {"max_value": 6.0}, MAP),
    ("ReLU", {"negative_slope": 0.2}, MAP),
    ("LeakyReLU", {}, MAP),
    ("LeakyReLU", {"negative_slope": 0.05}, MAP),
    ("PReLU", {"shared_axes": [1, 2]}, MAP),
    ("PReLU", {"shared_axes": [1, 2, 3]}, MAP),
    ("PReLU", {}, (7,)),
    ("PReLU", {}, (1, 1, 7)),
    ("ELU", {}, MAP),
    *[("Activation", {"activation": a}, MAP) for a in ("linear", "relu", "leaky_relu", "tanh", "sigmoid", "elu", "softmax")],
    ("Softmax", {}, MAP),
    ("Softmax", {"axis": 3}, MAP),
    ("Softmax", {}, (7,)),
    ("Flatten", {}, MAP),
    ("Flatten", {}, (7,)),
    ("Flatten", {}, (5, 4)),
    ("Reshape", {"target_shape": (-1,)}, MAP),
    ("Reshape", {"target_shape": (6, -1, 12)}, MAP),
    ("Reshape", {"target_shape": (-1, 6)}, MAP),
    ("Reshape", {"target_shape": (2, 3, 2)}, (12,)),
    ("Reshape", {"target_shape": (5, 4, 1)}, (5, 4)),
    ("ZeroPadding2D", {"padding": 2}, MAP),
    ("ZeroPadding2D", {"padding": (1, 3)}, MAP),
    ("ZeroPadding2D", {"padding": ((0, 1), (2, 3))}, MAP),
    ("Dropout", {"rate": 0.5}, MAP),
    ("SpatialDropout2D", {"rate": 0.5}, MAP),
    ("GaussianNoise", {"stddev": 1.0}, MAP),
    ("GaussianDropout", {"rate": 0.5}, MAP),
    ("AlphaDropout", {"rate": 0.5}, MAP),
    ("ActivityRegularization", {"l1": 0.1}, MAP),
    *[("Activation", {"activation": a}, shape) for a in ACTIVATIONS for shape in (MAP, ROWS)],
    ("Conv2D", {"filters": 4, "kernel_size": 1, "activation": "swish"}, MAP),
    ("Dense", {"units": 6, "activation": "gelu"}, (7,)),
    ("Dense", {"units": 6, "activation": "log_softmax"}, ROWS),
    ("SeparableConv2D", {"filters": 6, "kernel_size": 2, "activation": "glu"}, MAP),
    *[("ReLU", {"max_value": m, "negative_slope": n, "threshold": t}, MAP)
        for m in (None, 0.0, 1.5, 6.0) for n in (0.0, 0.3) for t in (0.0, 0.7, 1.0) if m is None or m >= t],
    ("ELU", {"alpha": 0.4}, MAP),
    *[("Softmax", {"axis": axis}, MAP) for axis in (1, 2, -2)],
    *[("PReLU", {"shared_axes": axes}, MAP) for axes in (None, [1], [2], [3], [1, 3], [2, 3])],
    *[("PReLU", {"shared_axes": axes}, ROWS) for axes in (None, [1], [2])],
    *[("BatchNormalization", {"axis": axis}, MAP) for axis in (1, 2, -2)],
    *[("BatchNormalization", {"axis": axis}, ROWS) for axis in (1, 2)],
    *[("LayerNormalization", {"axis": axis, "epsilon": 0.01}, shape)
        for shape in (MAP, ROWS, (7,)) for axis in (-1, 1, [1, -1]) if shape != (7,) or axis == -1],
    ("LayerNormalization", {"axis": [1, 2]}, MAP),
    ("LayerNormalization", {"axis": [1, 2, 3]}, MAP),
    *[("LayerNormalization", {"scale": s, "center": c}, MAP) for s, c in ((True, False), (False, True), (False, False))],
    *[("RMSNormalization", {"axis": axis, "epsilon": 0.01}, MAP) for axis in (-1, [2, 3], [1, 2, 3])],
    *[("GroupNormalization", {"groups": g, "epsilon": 0.01}, MAP) for g in (1, 2, 3, 6, -1)],
    ("GroupNormalization", {"groups": 3, "scale": False, "center": False}, MAP),
    ("GroupNormalization", {"groups": 2}, (8, 4)),
    *[("UnitNormalization", {"axis": axis}, shape) for axis in (-1, 1, [1, 2]) for shape in (MAP, ROWS)],
    ("Normalization", {}, MAP),
    ("Normalization", {"axis": 1}, MAP),
    ("Normalization", {"axis": None}, MAP),
    ("Normalization", {"axis": [1, 3]}, MAP),
    ("Normalization", {"mean": 0.3, "variance": 2.0, "invert": True}, MAP),
    ("Normalization", {"mean": [0.3] * 6, "variance": [2.0, 0.0, 1.0, 1.0, 1.0, 1.0]}, MAP),
    ("Normalization", {}, (7,)),
    ("Rescaling", {"scale": 1 / 127.5, "offset": -1.0}, MAP),
    ("Rescaling", {"scale": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "offset": [0.5] * 6}, MAP),
    ("Rescaling", {"scale": 2.0}, (7,)),
    *[("Conv1D", {"filters": 4, "kernel_size": k, "strides": s, "padding": p}, ROWS)
        for k in (1, 2, 3) for s in (1, 2) for p in ("same", "valid", "causal")],
    *[("Conv1D", {"filters": 4, "kernel_size": 3, "dilation_rate": 3, "padding": p, "activation": "tanh"}, ROWS)
        for p in ("same", "valid", "causal")],
    ("Conv1D", {"filters": 6, "kernel_size": 3, "groups": 2, "use_bias": False}, ROWS),
    *[("DepthwiseConv1D", {"kernel_size": k, "padding": p, "depth_multiplier": m, "strides": s}, ROWS)
        for k in (2, 3) for p in ("same", "valid") for m in (1, 2) for s in (1, 2)],
    *[("SeparableConv1D", {"filters": 5, "kernel_size": 3, "padding": p, "depth_multiplier": m}, ROWS)
        for p in ("same", "valid") for m in (1, 2)],
    *[("Conv1DTranspose", {"filters": 4, "kernel_size": k, "strides": s, "padding": p, "output_padding": o}, ROWS)
        for k, s, o in ((1, 1, None), (2, 2, None), (3, 2, None), (3, 2, 1), (4, 3, 1), (2, 3, None)) for p in ("same", "valid")],
    *[(f"{kind}Pooling1D", {"pool_size": k, "strides": s, "padding": p}, ROWS)
        for kind in ("Max", "Average") for k in (2, 3) for s in (None, 1, 2) for p in ("same", "valid")],
    *[(f"Global{kind}Pooling1D", {"keepdims": keep}, ROWS) for kind in ("Max", "Average") for keep in (False, True)],
    *[(f"Adaptive{kind}Pooling2D", {"output_size": size}, MAP) for kind in ("Max", "Average") for size in (1, (3, 2), (9, 8))],
    ("AdaptiveAveragePooling1D", {"output_size": 5}, ROWS),
    *[("UpSampling2D", {"size": size, "interpolation": "bilinear"}, MAP) for size in (1, 2, 3, (1, 4))],
    ("UpSampling1D", {"size": 3}, ROWS),
    *[("Resizing", {"height": h, "width": w, "interpolation": i}, MAP)
        for h, w in ((9, 8), (18, 16), (4, 4), (13, 5), (1, 1)) for i in ("nearest", "bilinear")],
    ("CenterCrop", {"height": 4, "width": 5}, MAP),
    ("Cropping2D", {"cropping": ((1, 2), (0, 3))}, MAP),
    ("Cropping2D", {"cropping": (1, 2)}, MAP),
    ("Cropping2D", {"cropping": 2}, MAP),
    ("Cropping1D", {"cropping": (1, 2)}, ROWS),
    ("Cropping1D", {"cropping": 1}, ROWS),
    ("ZeroPadding1D", {"padding": (1, 2)}, ROWS),
    ("ZeroPadding1D", {"padding": 2}, ROWS),
    *[("Permute", {"dims": dims}, MAP) for dims in ((2, 1, 3), (3, 1, 2), (2, 3, 1), (1, 3, 2), (3, 2, 1), (1, 2, 3))],
    ("Permute", {"dims": (2, 1)}, ROWS),
    ("Reshape", {"target_shape": (3, 3, 8, 6)}, MAP),
    ("Reshape", {"target_shape": (-1, 3)}, ROWS),
    ("Reshape", {"target_shape": (2, 5, 6)}, ROWS),
    ("RepeatVector", {"n": 4}, (7,)),
    ("Identity", {}, MAP),
    ("SpatialDropout1D", {"rate": 0.5}, ROWS),
    ("RandomFlip", {"mode": "horizontal"}, MAP),
    ("RandomRotation", {"factor": 0.2}, MAP),
    ("RandomZoom", {"height_factor": 0.2}, MAP),
    ("RandomContrast", {"factor": 0.2}, MAP),
    ("Flatten", {}, ROWS),
    ("Dense", {"units": 5}, ROWS),
    *[("Activation", {"activation": written(type, **settings)}, MAP) for type, settings in WRITTEN],
    ("Dense", {"units": 5, "activation": written("Softmax", axis=1)}, MAP),
    ("Conv1D", {"filters": 4, "kernel_size": 2, "activation": written("Softmax", axis=-2)}, ROWS),
    ("Conv2D", {"filters": 4, "kernel_size": 2, "activation": written("Softmax", axis=2)}, MAP),
    ("Conv1DTranspose", {"filters": 4, "kernel_size": 2, "strides": 2, "activation": "relu", "use_bias": False}, ROWS),
    ("DepthwiseConv1D", {"kernel_size": 3, "dilation_rate": 2, "activation": "relu6", "use_bias": False}, ROWS),
    ("DepthwiseConv2D", {"kernel_size": 3, "use_bias": False, "padding": "same"}, MAP),
    ("SeparableConv1D", {"filters": 5, "kernel_size": 3, "strides": 2, "activation": "relu", "use_bias": False}, ROWS),
    ("SeparableConv1D", {"filters": 5, "kernel_size": 3, "dilation_rate": 2}, ROWS),
    ("AdaptiveMaxPooling1D", {"output_size": 5}, ROWS),
    ("BatchNormalization", {"momentum": 0.5, "renorm_momentum": 0.5, "synchronized": True}, MAP),
    ("GroupNormalization", {"groups": 3, "axis": 3}, MAP),
    ("Resizing", {"height": 5, "width": 13, "fill_value": 0.5}, MAP),
    ("ActivityRegularization", {"l2": 0.1}, MAP),
    ("Dropout", {"rate": 0.5, "noise_shape": (None, 1, 1, 6), "seed": 3}, MAP),
    *[(type, {"rate": 0.5, "seed": 3}, MAP) for type in ("SpatialDropout2D", "GaussianDropout", "AlphaDropout")],
    ("AlphaDropout", {"rate": 0.5, "noise_shape": (None, 1, 1, 6)}, MAP),
    ("GaussianNoise", {"stddev": 1.0, "seed": 3}, MAP),
    ("SpatialDropout1D", {"rate": 0.5, "seed": 3}, ROWS),
    *[(type, settings, (8, 11, 3)) for type, settings in AUGMENTATIONS.items()],
]  # fmt: skip


INPUTS = (MAP, (1, 1, 6), ROWS, (6,))
# Each makes a tensor of x (9, 8, 6), y (1, 1, 6), r (10, 6) and v (6,).
MERGES: list[Make] = [
    *[
        lambda k, x, y, r, v, name=name, pair=pair: getattr(k.layers, name)()([(x, y, r, v)[i] for i in pair])
        for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum")
        for pair in ((0, 0), (0, 1), (1, 0), (0, 3), (3, 0), (2, 3), (2, 2), (1, 3))
    ],
    *[
        lambda k, x, y, r, v, name=name: getattr(k.layers, name)()([x, y, k.layers.ReLU()(x), v])
        for name in ("Add", "Multiply", "Average", "Maximum", "Minimum")
    ],
    lambda k, x, y, r, v: k.layers.Multiply()([k.layers.Conv2D(1, 1)(x), x]),
    lambda k, x, y, r, v: k.layers.Multiply()([x, k.layers.Cropping2D(((0, 8), (0, 0)))(x)]),
    lambda k, x, y, r, v: k.layers.Add()([k.layers.Reshape((9, 2, 4, 6))(x), k.layers.Reshape((9, 2, 4, 6))(x)]),
    *[lambda k, x, y, r, v, axis=axis: k.layers.Concatenate(axis=axis)([x, k.layers.ReLU()(x)]) for axis in (1, 2, 3, -1, -2, -3)],
    *[lambda k, x, y, r, v, axis=axis: k.layers.Concatenate(axis=axis)([r, r, r]) for axis in (1, 2)],
    lambda k, x, y, r, v: k.layers.Concatenate()([v, v]),
    lambda k, x, y, r, v: k.layers.MultiHeadAttention(2, 3)(r, r),
    lambda k, x, y, r, v: k.layers.MultiHeadAttention(3, 4)(x, x),
    lambda k, x, y, r, v: k.layers.MultiHeadAttention(2, 3, value_dim=4, output_shape=5, use_bias=False)(r, pixels(k, x)),
    lambda k, x, y, r, v: k.layers.MultiHeadAttention(2, 3)(query=pixels(k, x), value=k.layers.Dense(4)(r), key=r),
    lambda k, x, y, r, v: k.layers.MultiHeadAttention(1, 3)(*[k.layers.Reshape((9, 2, 4, 6))(x)] * 2),
    lambda k, x, y, r, v: k.layers.Attention()([r, r]),
    lambda k, x, y, r, v: k.layers.Attention()([x, x]),
    lambda k, x, y, r, v: k.layers.Attention(use_scale=True)([r, pixels(k, x), k.layers.ReLU()(pixels(k, x))]),
    lambda k, x, y, r, v: k.layers.Dot(axes=1)([v, v]),
    *[
        lambda k, x, y, r, v, axes=axes, normal=normal: k.layers.Dot(axes=axes, normalize=normal)([r, r])
        for axes, normal in ((1, False), (2, True), ((1, -2), True), ((2, 2), False))
    ],
    lambda k, x, y, r, v: k.layers.Dot(axes=(3, 1))([x, v]),
    lambda k, x, y, r, v: k.layers.Dot(axes=(1, 2))([v, r]),
    lambda k, x, y, r, v: k.layers.Dot(axes=(2, 1))([x, k.layers.Permute((2, 1, 3))(x)]),
    lambda k, x, y, r, v: k.layers.Dot(axes=(4, 1))([k.layers.Reshape((9, 2, 4, 6))(x), v]),
]  # fmt: skip


def pixels(keras: Keras, x: Any) -> Any:
    """A map as rows."""
    return keras.layers.Reshape((72, 6))(x)


def merged_types() -> set[str]:
    """The types of the layers that MERGES makes, named without Keras."""
    keras = MagicMock()
    for make in MERGES:
        make(keras, *(MagicMock() for _ in INPUTS))
    return {name.partition("(")[0] for name, *_ in keras.layers.mock_calls}


OPERATIONS: list[Make] = [
    lambda k, x, y, r, v: x + 3.0,
    lambda k, x, y, r, v: 3.0 - x,
    lambda k, x, y, r, v: x - 1,
    lambda k, x, y, r, v: x * y,
    lambda k, x, y, r, v: y - x,
    lambda k, x, y, r, v: x / (k.ops.exp(y) + 1),
    lambda k, x, y, r, v: x / 2,
    lambda k, x, y, r, v: 2 / (k.ops.abs(x) + 1),
    lambda k, x, y, r, v: x**2,
    lambda k, x, y, r, v: (x * x + 1) ** 0.5,
    lambda k, x, y, r, v: -x,
    lambda k, x, y, r, v: k.ops.multiply(x1=x, x2=y),
    lambda k, x, y, r, v: x + np.arange(6, dtype="float32"),
    lambda k, x, y, r, v: x * np.arange(9 * 8, dtype="float32").reshape(9, 8, 1),
    lambda k, x, y, r, v: r * np.arange(10, dtype="float32").reshape(1, 10, 1),
    lambda k, x, y, r, v: x[:, 1:3, ::2, :4],
    lambda k, x, y, r, v: x[..., 1],
    lambda k, x, y, r, v: x[:, -1],
    lambda k, x, y, r, v: x[:, 2:-2, 3],
    lambda k, x, y, r, v: r[:, 1::3],
    lambda k, x, y, r, v: r[:, :, 2:5],
    *[
        lambda k, x, y, r, v, name=name, axis=axis, keep=keep: getattr(k.ops, name)(x, axis=axis, keepdims=keep)
        for name in ("mean", "max", "min", "sum")
        for axis in ([1, 2], -1, 1, 2, [1, 2, 3], (2, 3))
        for keep in (True, False)
    ],
    lambda k, x, y, r, v: k.ops.mean(r, axis=1),
    lambda k, x, y, r, v: k.ops.max(y, axis=(1, 2)),
    *[
        lambda k, x, y, r, v, name=name: getattr(k.ops, name)(x)
        for name in (
            "relu", "relu6", "sigmoid", "tanh", "silu", "elu", "selu", "softplus", "softsign", "exp", "abs", "square",
            "hard_sigmoid", "hard_silu", "hard_tanh", "log_sigmoid", "tanh_shrink", "soft_shrink", "hard_shrink", "squareplus",
            "sparse_plus", "celu", "gelu", "softmax", "log_softmax", "glu", "leaky_relu", "stop_gradient")
    ],
    lambda k, x, y, r, v: k.ops.gelu(x, approximate=False),
    lambda k, x, y, r, v: k.ops.elu(x, alpha=0.3),
    lambda k, x, y, r, v: k.ops.celu(x, alpha=0.3),
    lambda k, x, y, r, v: k.ops.leaky_relu(x, 0.1),
    lambda k, x, y, r, v: k.ops.softmax(x, axis=1),
    lambda k, x, y, r, v: k.ops.log(k.ops.abs(x) + 1),
    lambda k, x, y, r, v: k.ops.sqrt(k.ops.square(x) + 1),
    lambda k, x, y, r, v: k.ops.rsqrt(k.ops.square(x) + 1),
    lambda k, x, y, r, v: k.ops.reciprocal(k.ops.square(x) + 1),
    lambda k, x, y, r, v: k.activations.relu(x, max_value=1.0, negative_slope=0.1),
    lambda k, x, y, r, v: k.ops.clip(x, -0.5, 0.7),
    lambda k, x, y, r, v: k.ops.clip(x, 0.0, 6.0),
    lambda k, x, y, r, v: k.ops.maximum(x, 0.0),
    lambda k, x, y, r, v: k.ops.minimum(0.3, x),
    lambda k, x, y, r, v: k.ops.maximum(x, y),
    lambda k, x, y, r, v: k.ops.concatenate([x, x], axis=1),
    lambda k, x, y, r, v: k.ops.stack([r, r], axis=1),
    lambda k, x, y, r, v: k.ops.stack([v, v, v], axis=-1),
    lambda k, x, y, r, v: k.ops.reshape(x, (-1, 24, 18)),
    lambda k, x, y, r, v: k.ops.transpose(x, (0, 2, 1, 3)),
    lambda k, x, y, r, v: k.ops.squeeze(y, 1),
    lambda k, x, y, r, v: k.ops.expand_dims(r, 1),
    lambda k, x, y, r, v: k.ops.expand_dims(k.ops.expand_dims(v, 1), 1) * x,
    lambda k, x, y, r, v: k.ops.split(x, 2, axis=-1)[1],
    lambda k, x, y, r, v: k.ops.add(*k.ops.split(x, 2, axis=3)),
    lambda k, x, y, r, v: k.ops.split(x, [2, 3], axis=1)[2],
    lambda k, x, y, r, v: k.ops.concatenate([x[..., 2:2], x, *k.ops.split(x, [0, 2, 2], axis=-1)], axis=-1),
    lambda k, x, y, r, v: k.layers.Concatenate(axis=1)([x[:, 9:], x]),
    lambda k, x, y, r, v: k.ops.pad(x, ((0, 0), (1, 2), (0, 3), (0, 0))),
    lambda k, x, y, r, v: k.ops.image.resize(x, (5, 13)),
    lambda k, x, y, r, v: k.ops.image.resize(x, (18, 16), interpolation="nearest"),
    lambda k, x, y, r, v: k.ops.normalize(x, axis=-1),
    lambda k, x, y, r, v: k.ops.argmax(x, axis=-1),
    lambda k, x, y, r, v: k.ops.argmax(x, axis=1, keepdims=True),
    lambda k, x, y, r, v: k.ops.average_pool(x, 2),
    lambda k, x, y, r, v: k.ops.max_pool(x, (3, 2), strides=2, padding="same"),
    lambda k, x, y, r, v: k.ops.cast(x, "float32"),
    lambda k, x, y, r, v: k.ops.copy(x),
    lambda k, x, y, r, v: k.ops.divide(x, 4.0),
    lambda k, x, y, r, v: k.ops.divide(x, k.ops.exp(y) + 1),
    lambda k, x, y, r, v: k.ops.amax(x, axis=(1, 2)),
    lambda k, x, y, r, v: k.ops.amin(x, axis=-1, keepdims=True),
    lambda k, x, y, r, v: k.ops.sparse_sigmoid(x),
    lambda k, x, y, r, v: k.ops.depth_to_space(k.ops.concatenate([x, x], axis=-1), 2),
    lambda k, x, y, r, v: k.ops.space_to_depth(x[:, :8], 2),
    lambda k, x, y, r, v: k.layers.Conv2D(3, 1)(x * k.ops.relu6(x + 3.0) / 6.0),
    lambda k, x, y, r, v: r @ k.ops.transpose(r, (0, 2, 1)),
    lambda k, x, y, r, v: k.ops.matmul(x, k.ops.transpose(x, (0, 1, 3, 2))),
    lambda k, x, y, r, v: k.ops.matmul(k.ops.expand_dims(r, 1), k.ops.transpose(x, (0, 1, 3, 2))),
    lambda k, x, y, r, v: k.ops.matmul(k.ops.reshape(x, (-1, 3, 3, 8, 6)), k.ops.reshape(x, (-1, 3, 3, 6, 8))),
]  # fmt: skip
