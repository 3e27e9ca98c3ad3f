"""Caffe's layers that join, cut and reorder blobs."""

from typing import Any

import numpy as np

from cnn_convertor.verification.formulas.layer import Blob, FormulaLayer, Tops, computes


@computes("Eltwise")
def _eltwise(layer: FormulaLayer, *blobs: Blob) -> Blob:
    settings = layer.message.eltwise_param
    if settings.operation == settings.PROD:
        return np.asarray(np.multiply.reduce(blobs))
    if settings.operation == settings.MAX:
        return np.asarray(np.maximum.reduce(blobs))
    factors = list(settings.coeff) or [1.0] * len(blobs)
    return np.asarray(np.add.reduce([factor * x for factor, x in zip(factors, blobs, strict=True)]))


@computes("Axpy")
def _axpy(_: FormulaLayer, factors: Blob, x: Blob, y: Blob) -> Blob:
    return factors.reshape(*x.shape[:2], *[1] * (x.ndim - 2)) * x + y


def _axis(settings: Any, old: str) -> int:
    return int(getattr(settings, old)) if settings.HasField(old) else int(settings.axis)


@computes("Concat")
def _concat(layer: FormulaLayer, *blobs: Blob) -> Blob:
    return np.concatenate(blobs, _axis(layer.message.concat_param, "concat_dim"))


@computes("Slice")
def _slice(layer: FormulaLayer, x: Blob) -> Tops:
    settings = layer.message.slice_param
    points = list(settings.slice_point) or len(layer.tops)
    return np.split(x, points, _axis(settings, "slice_dim"))


@computes("Tile")
def _tile(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.tile_param
    return np.concatenate([x] * settings.tiles, settings.axis)


@computes("Crop")
def _crop(layer: FormulaLayer, x: Blob, like: Blob) -> Blob:
    settings = layer.message.crop_param
    first = settings.axis % x.ndim
    offsets = list(settings.offset) or [0]
    if len(offsets) == 1:
        offsets *= x.ndim - first
    parts = [slice(o, o + size) for o, size in zip(offsets, like.shape[first:], strict=True)]
    return x[(*[slice(None)] * first, *parts)]


@computes("Flatten")
def _flatten(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.flatten_param
    first, last = settings.axis % x.ndim, settings.end_axis % x.ndim
    return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])


@computes("Reshape")
def _reshape(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.reshape_param
    first = settings.axis + (x.ndim + 1 if settings.axis < 0 else 0)
    end = x.ndim if settings.num_axes == -1 else first + settings.num_axes
    dims = list(settings.shape.dim)
    if first == 0 and dims and dims[0] == layer.batch:
        dims[0] = 1  # one sample of the batch
    kept = [x.shape[first + index] if dim == 0 else dim for index, dim in enumerate(dims)]
    return x.reshape(*x.shape[:first], *kept, *x.shape[end:])


@computes("Permute")
def _permute(layer: FormulaLayer, x: Blob) -> Blob:
    order = list(layer.message.permute_param.order)
    return x.transpose(*order, *(axis for axis in range(x.ndim) if axis not in order))


@computes("ShuffleChannel")
def _shuffle_channel(layer: FormulaLayer, x: Blob) -> Blob:
    group = layer.message.shuffle_channel_param.group
    return x.reshape(group, x.shape[1] // group, -1).swapaxes(0, 1).reshape(x.shape)
