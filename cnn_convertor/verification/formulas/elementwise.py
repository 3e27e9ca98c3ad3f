"""Caffe's functions of single elements."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cnn_convertor.verification.formulas.layer import FORMULAS, Blob, FormulaLayer, Tops, computes

# type -> (parameters of the layer, x) -> y
ELEMENTWISE: Mapping[str, tuple[str, Callable[[Any, Blob], Blob]]] = {
    "ReLU": ("relu_param", lambda p, x: np.where(x > 0, x, p.negative_slope * x)),
    "ReLU6": ("relu_param", lambda _, x: np.clip(x, 0, 6)),
    "ELU": ("elu_param", lambda p, x: np.where(x > 0, x, p.alpha * np.expm1(np.minimum(x, 0)))),
    "Sigmoid": ("sigmoid_param", lambda _, x: _sigmoid(x)),
    "TanH": ("tanh_param", lambda _, x: np.tanh(x)),
    "Swish": ("swish_param", lambda p, x: x * _sigmoid(p.beta * x)),
    "BNLL": ("", lambda _, x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
    "AbsVal": ("", lambda _, x: np.abs(x)),
    "Threshold": ("threshold_param", lambda p, x: (x > p.threshold).astype(float)),
    "Clip": ("clip_param", lambda p, x: np.clip(x, p.min, p.max)),
    "Power": ("power_param", lambda p, x: np.power(p.shift + p.scale * x, p.power)),
    "Exp": ("exp_param", lambda p, x: np.exp((p.shift + p.scale * x) * _log_of_base(p.base))),
    "Log": ("log_param", lambda p, x: np.log(p.shift + p.scale * x) / _log_of_base(p.base)),
    "Dropout": ("dropout_param", lambda p, x: x if p.scale_train else x * (1 - p.dropout_ratio)),
}


def _elementwise(layer: FormulaLayer, x: Blob) -> Blob:
    group, function = ELEMENTWISE[layer.type]
    return function(getattr(layer.message, group) if group else None, x)


FORMULAS.update(dict.fromkeys(ELEMENTWISE, _elementwise))


def _sigmoid(x: Blob) -> Blob:
    return 0.5 + 0.5 * np.tanh(x / 2)  # cannot overflow


def _log_of_base(base: float) -> float:
    return 1.0 if base == -1 else math.log(base)


@computes("Split")
def _split(layer: FormulaLayer, x: Blob) -> Tops:
    return [x] * len(layer.tops)
