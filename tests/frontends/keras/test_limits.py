"""Each setting of Keras's layers at its limits: the last value that converts, and the first that does not, with its code.

A row without a code: the last value for which the device needs no other form. Values beyond it convert, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cnn_convertor.conversion.inspection import inspect
from frontends.keras import networks
from frontends.keras.networks import written
from frontends.keras.test_every_setting import NOT_IN_KERAS_3, SETTINGS


class Limit(NamedTuple):
    """types: that have the setting and this limit. more: other settings that the layer needs."""

    types: tuple[str, ...]
    setting: str
    accepted: Any
    refused: Any
    code: str
    more: Mapping[str, Any] = {}
    shape: tuple[int, ...] = (30, 30, 8)


CONV = {"filters": 8, "use_bias": False}
ONE, THREE = {**CONV, "kernel_size": 1}, {**CONV, "kernel_size": 3}
DEPTH_ONE = {"kernel_size": 1, "use_bias": False}
LIMITS = [
    Limit(("Conv2D", "SeparableConv2D"), "strides", 255, 256, "", ONE, (300, 300, 8)),
    Limit(("DepthwiseConv2D",), "strides", 255, 256, "", DEPTH_ONE, (300, 300, 8)),
    Limit(("Conv2DTranspose",), "strides", 255, 256, "", ONE, (3, 3, 8)),
    Limit(("Conv1D", "SeparableConv1D"), "strides", 255, 256, "", ONE, (300, 8)),
    Limit(("DepthwiseConv1D",), "strides", 255, 256, "", DEPTH_ONE, (300, 8)),
    Limit(("Conv1DTranspose",), "strides", 255, 256, "", ONE, (3, 8)),
    Limit(("MaxPooling2D", "AveragePooling2D"), "strides", 255, 256, "", {}, (300, 300, 8)),
    Limit(("MaxPooling1D", "AveragePooling1D"), "strides", 255, 256, "", {}, (300, 8)),
    Limit(("Conv1D", "SeparableConv1D"), "dilation_rate", 127, 128, "", THREE, (600, 8)),
    Limit(("DepthwiseConv1D",), "dilation_rate", 127, 128, "", {"kernel_size": 3, "use_bias": False}, (600, 8)),
    Limit(("Conv2D", "SeparableConv2D"), "dilation_rate", (127, 1), (128, 1), "", {**CONV, "kernel_size": (3, 1)}, (600, 1, 8)),
    Limit(("DepthwiseConv2D",), "dilation_rate", (127, 127), (128, 128), "", {"kernel_size": (3, 1), "use_bias": False}, (600, 1, 8)),
    Limit(("Conv2DTranspose",), "dilation_rate", 1, 2, "DV302", THREE),
    Limit(("Conv1DTranspose",), "dilation_rate", 1, 2, "DV302", THREE, (30, 8)),
    Limit(("Conv2D", "Conv2DTranspose"), "filters", 32768, 32769, "", {"kernel_size": 1, "use_bias": False}, (1, 1, 1)),
    Limit(("SeparableConv2D",), "filters", 32768, 32769, "", {"kernel_size": 1, "use_bias": False}, (1, 1, 1)),
    Limit(("Conv1D", "Conv1DTranspose", "SeparableConv1D"), "filters", 32768, 32769, "", {"kernel_size": 1, "use_bias": False}, (1, 1)),
    Limit(("Dense",), "units", 32768, 32769, "", {"use_bias": False}, (1,)),
    Limit(("DepthwiseConv2D",), "depth_multiplier", 4096, 4097, "", DEPTH_ONE, (1, 1, 8)),
    Limit(("SeparableConv2D",), "depth_multiplier", 4096, 4097, "", {"filters": 1, **DEPTH_ONE}, (1, 1, 8)),
    Limit(("DepthwiseConv1D",), "depth_multiplier", 4096, 4097, "", DEPTH_ONE, (1, 8)),
    Limit(("SeparableConv1D",), "depth_multiplier", 4096, 4097, "", {"filters": 1, **DEPTH_ONE}, (1, 8)),
    Limit(("ZeroPadding2D",), "padding", ((0, 994), (0, 0)), ((0, 995), (0, 0)), ""),
    Limit(("ZeroPadding2D",), "padding", ((0, 0), (2017, 0)), ((0, 0), (2018, 0)), ""),
    Limit(("ZeroPadding1D",), "padding", (2017, 0), (2018, 0), "", {}, (30, 8)),
    Limit(("AdaptiveAveragePooling2D", "AdaptiveMaxPooling2D"), "output_size", 15, 16, "DV302"),
    Limit(("AdaptiveAveragePooling1D", "AdaptiveMaxPooling1D"), "output_size", 15, 16, "DV302", {}, (30, 8)),
    Limit(("GroupNormalization",), "axis", 3, 2, "DV302", {"groups": 2}),
    Limit(("RMSNormalization",), "axis", [2, 3], [1, 2], "DV302"),
    Limit(("Softmax",), "axis", [1], [1, 2], "DV302"),
    Limit(("LayerNormalization",), "rms_scaling", False, True, "DV302"),
    Limit(("BatchNormalization",), "renorm", False, True, "DV302"),
    Limit(("UpSampling2D", "Resizing"), "interpolation", "bilinear", "bicubic", "DV302", {}),
    *(Limit(("Resizing",), name, False, True, "DV302") for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias")),
    Limit(("ReLU",), "negative_slope", 65504.0, 65520.0, "DV503"),
    Limit(("LeakyReLU",), "negative_slope", 65504.0, 65520.0, "DV503"),
    Limit(("Rescaling",), "scale", 65504.0, 65520.0, "DV503"),
    Limit(("ReLU",), "max_value", 0.5, 0.4, "DV302", {"threshold": 0.5}),
    Limit(("ReLU",), "threshold", 0.5, 0.6, "DV302", {"max_value": 0.5}),
    Limit(("CenterCrop",), "height", 30, 31, "DV302", {"width": 3}),
    Limit(("CenterCrop",), "width", 30, 31, "DV302", {"height": 3}),
    Limit(
        ("Activation", "Dense", "Conv2D", "DepthwiseConv2D", "SeparableConv2D", "Conv2DTranspose"),
        "activation", written("Softmax", axis=[1]), written("Softmax", axis=[1, 2]), "DV302", {},
    ),
    Limit(
        ("Conv1D", "DepthwiseConv1D", "SeparableConv1D", "Conv1DTranspose"),
        "activation", written("Softmax", axis=[1]), written("Softmax", axis=[1, 2]), "DV302", {}, (30, 8),
    ),
]  # fmt: skip
REQUIRED = {
    "filters": 2,
    "units": 2,
    "kernel_size": 1,
    "height": 5,
    "width": 5,
    "pool_size": 2,
    "output_size": 1,
    "scale": 1.0,
}

# Settings of which every value that Keras accepts converts, in layers without a row above; and why.
FREE: Mapping[str, str] = {
    **dict.fromkeys(("use_bias", "center", "scale", "keepdims", "invert", "synchronized"), "on or off"),
    **dict.fromkeys(("epsilon", "alpha", "offset", "mean", "variance", "theta"), "any number: the CPU calculates, or it is folded into weights"),
    **dict.fromkeys(("rate", "seed", "noise_shape", "stddev", "l1", "l2", "drop_path_rate", "momentum", "renorm_momentum", "renorm_clipping", "fused", "init_values", "dropout"), "for training"),
    **dict.fromkeys(("data_format", "padding", "fill_value", "fill_mode", "interpolation"), "Keras's own words"),
    **dict.fromkeys(("axis", "shared_axes", "dims", "target_shape", "cropping", "groups", "output_padding"), "what Keras refuses, no model has"),
    "kernel_size": "large ones are cut up, and those that exceed the map are refused by Keras",
    **dict.fromkeys(("pool_size", "size", "n", "height", "width"), "what is too large for the device is done by the CPU"),
    **dict.fromkeys(("activation", "negative_slope", "max_value", "threshold"), "those that are refused are in test_every_setting.py"),
    "layer": "has the limits of its own settings",
    "projection_dim": "is the number of channels",
    **dict.fromkeys(("query_shape", "key_shape", "value_shape", "flash_attention"), "change nothing"),
    **dict.fromkeys(("num_heads", "key_dim", "value_dim", "axes"), "any that Keras accepts"),
    **dict.fromkeys(("use_scale", "normalize", "use_gate", "causal"), "on or off; what is refused is in test_every_reason.py"),
    **dict.fromkeys(("score_mode", "output_shape", "attention_axes", "sliding_window"), "what is refused is in test_every_reason.py"),
}  # fmt: skip


# Settings that have a limit in every layer that has them.
DEVICE = {"strides", "dilation_rate", "filters", "units", "depth_multiplier", "output_size"}


def needed(limit: Limit, layer: Any) -> dict[str, Any]:
    """The settings without which Keras makes no such layer."""
    import inspect as python

    asked = [
        name for name, p in python.signature(layer).parameters.items() if p.default is p.empty and name in REQUIRED
    ]
    return {**{name: REQUIRED[name] for name in asked}, **limit.more}


def rows() -> Iterator[tuple[str, Limit]]:
    for limit in LIMITS:
        for type in limit.types:
            yield type, limit


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_last_value_converts_and_the_first_beyond_it_does_not(tmp_path: Path) -> None:
    keras = networks.imported()
    keras.backend.clear_session()
    sources = {limit.shape: keras.Input(limit.shape) for limit in LIMITS}
    outputs, expected = [], {}
    for number, (type, limit) in enumerate(rows()):
        cls = getattr(keras.layers, type)
        for kind, value in (("accepted", limit.accepted), ("refused", limit.refused)):
            settings = {**needed(limit, cls), limit.setting: value, "name": f"{kind}{number}"}
            outputs.append(cls(**settings)(sources[limit.shape]))
            expected[f"{kind}{number}"] = (type, limit, limit.code if kind == "refused" else "")
    keras.Model(list(sources.values()), outputs).save(tmp_path / "model.keras")
    told: dict[str, set[str]] = {name: set() for name in expected}
    for problem in inspect(tmp_path / "model.keras").problems:
        told[problem.layer].add(problem.code)
    wrong = [
        (told[name], *row) for name, row in expected.items() if (row[2] not in told[name] if row[2] else told[name])
    ]
    assert wrong == []


def test_each_setting_has_a_limit_or_none() -> None:
    limited = {(type, limit.setting) for type, limit in rows()}
    elsewhere = {"InputLayer", *NOT_IN_KERAS_3}  # test_keras_layers.py
    every = {(type, name) for type, names in SETTINGS.items() for name in names if type not in elsewhere}
    assert limited <= every
    assert {(type, name) for type, name in every - limited if name not in FREE} == set()
    for type, name in every:  # what has a limit in some layer, and none in others
        assert name not in DEVICE or (type, name) in limited, f"{name} of {type} has no row"
