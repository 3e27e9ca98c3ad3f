"""Caffe's layers with parameters for each channel or element."""

import math
from typing import Any

import numpy as np

from cnn_convertor.verification.formulas.layer import Blob, FormulaLayer, computes


@computes("InnerProduct")
def _inner_product(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.inner_product_param
    axis = settings.axis % x.ndim
    rows = x.reshape(math.prod(x.shape[:axis]), -1)
    weight = layer.weights[0].reshape((-1, settings.num_output) if settings.transpose else (settings.num_output, -1))
    y = rows @ (weight if settings.transpose else weight.T)
    return (y + (layer.weights[1].ravel() if settings.bias_term else 0)).reshape(*x.shape[:axis], -1)


def _along(values: Blob, axis: int, x: Blob) -> Blob:
    """Values for axes of x from `axis` on, shaped so that they repeat over the others."""
    return values.reshape(*[1] * axis, *values.shape, *[1] * (x.ndim - axis - values.ndim))


def on_channels(values: Blob, x: Blob) -> Blob:
    """A number for each channel."""
    return _along(values.ravel(), 1, x) if x.ndim > 1 else values.ravel()


@computes("BatchNorm")
def _batch_norm(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.batch_norm_param
    if settings.HasField("use_global_stats") and not settings.use_global_stats:
        axes = (0, *range(2, x.ndim))
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    else:
        total = layer.weights[2].ravel()[0]
        factor = 1 / total if total else 0.0
        mean, variance = (on_channels(values * factor, x) for values in layer.weights[:2])
    y = (x - mean) / np.sqrt(variance + settings.eps)
    if settings.scale_bias or settings.HasField("scale_filler") or settings.HasField("bias_filler"):
        y = y * on_channels(layer.weights[3], x) + on_channels(layer.weights[4], x)
    return np.asarray(y)


@computes("BN")
def _bn(layer: FormulaLayer, x: Blob) -> Blob:
    """SegNet's layer has a factor and a shift; PSPNet's has statistics, too."""
    settings = layer.message.bn_param
    slope, shift, *statistics = (on_channels(values, x) for values in layer.weights)
    if settings.HasField("bn_mode"):
        return x * slope + shift
    mean, variance = statistics
    return np.asarray((x - mean) / np.sqrt(variance + settings.eps) * slope + shift)


@computes("PReLU")
def _prelu(layer: FormulaLayer, x: Blob) -> Blob:
    slope = layer.weights[0]
    slopes = slope.ravel()[0] if layer.message.prelu_param.channel_shared else on_channels(slope, x)
    return np.maximum(x, 0) + slopes * np.minimum(x, 0)


@computes("Scale")
def _scale(layer: FormulaLayer, x: Blob, *factor: Blob) -> Blob:
    settings, weights = layer.message.scale_param, list(layer.weights)
    axis = settings.axis % max(x.ndim, 1)
    shape = factor[0].shape if factor else _covered(settings, x)
    y = x * _along((factor[0] if factor else weights.pop(0)).reshape(shape), axis, x)
    return y + _along(weights[0].reshape(shape), axis, x) if settings.bias_term else y


@computes("Bias")
def _bias(layer: FormulaLayer, x: Blob, *shift: Blob) -> Blob:
    settings = layer.message.bias_param
    values = shift[0] if shift else layer.weights[0].reshape(_covered(settings, x))
    return x + _along(values, settings.axis % max(x.ndim, 1), x)


def _covered(settings: Any, x: Blob) -> tuple[int, ...]:
    axis = settings.axis % max(x.ndim, 1)
    return x.shape[axis:] if settings.num_axes == -1 else x.shape[axis : axis + settings.num_axes]
