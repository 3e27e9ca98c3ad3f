"""Caffe's layers that sum or compare several elements."""

import numpy as np

from cnn_convertor.verification.formulas.channels import on_channels
from cnn_convertor.verification.formulas.layer import Blob, FormulaLayer, computes
from cnn_convertor.verification.formulas.windows import pool


@computes("LRN")
def _lrn(layer: FormulaLayer, x: Blob) -> Blob:
    """Across channels x / (k + alpha / n * sum of n squares) ** beta; within one, with Caffe's average pooling and without k."""
    settings = layer.message.lrn_param
    n, squares = settings.local_size, np.square(x)
    if settings.norm_region == settings.WITHIN_CHANNEL:
        means, _ = pool(squares, (n, n), (1, 1), ((n - 1) // 2,) * 2, averages=True)
        return np.asarray(x * np.power(1 + settings.alpha * means, -settings.beta))
    half = (n - 1) // 2
    sums = [squares[:, max(c - half, 0) : c + half + 1].sum(1) for c in range(x.shape[1])]
    return np.asarray(x * np.power(settings.k + settings.alpha / n * np.stack(sums, 1), -settings.beta))


@computes("Normalize")
def _normalize(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.norm_param
    axes = tuple(range(1, x.ndim)) if settings.across_spatial else (1,)
    y = x / np.sqrt(np.square(x).sum(axes, keepdims=True) + settings.eps)
    factor = layer.weights[0]
    return np.asarray(y * (factor.ravel()[0] if settings.channel_shared else on_channels(factor, x)))


@computes("MVN")
def _mvn(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.mvn_param
    axes = tuple(range(1 if settings.across_channels else 2, x.ndim))
    y = x - x.mean(axes, keepdims=True)
    return np.asarray(y / (x.std(axes, keepdims=True) + settings.eps) if settings.normalize_variance else y)


@computes("Softmax")
def _softmax(layer: FormulaLayer, x: Blob) -> Blob:
    axis = layer.message.softmax_param.axis
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


@computes("ArgMax")
def _arg_max(layer: FormulaLayer, x: Blob) -> Blob:
    """The largest elements' indices or values. Of equal elements, the last comes first."""
    settings = layer.message.argmax_param
    count = settings.top_k
    has_axis = settings.HasField("axis")
    axis, values = (settings.axis % x.ndim, x) if has_axis else (1, x.reshape(len(x), -1))
    order = np.argsort(-np.flip(values, axis), axis, kind="stable").take(range(count), axis)
    indices = values.shape[axis] - 1 - order
    largest = np.take_along_axis(values, indices, axis)
    if has_axis:
        return largest if settings.out_max_val else indices.astype(float)
    blobs = [indices.astype(float), *([largest] if settings.out_max_val else [])]
    return np.stack(blobs, 1).reshape(len(x), len(blobs), count, *[1] * (x.ndim - 3))


@computes("Reduction")
def _reduction(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.reduction_param
    axis = settings.axis % x.ndim
    rows = x.reshape(*x.shape[:axis], -1)
    results = {
        settings.SUM: rows.sum(-1),
        settings.ASUM: np.abs(rows).sum(-1),
        settings.SUMSQ: np.square(rows).sum(-1),
        settings.MEAN: rows.mean(-1),
    }
    return np.asarray(settings.coeff * results[settings.operation])
