"""Caffe's convolutions and pools."""

import math
from typing import Any

import numpy as np

from cnn_convertor.verification.formulas.layer import LOWEST, Blob, Formula, FormulaLayer, Pair, Tops, computes


def _sizes(settings: Any, name: str, short: str, default: int) -> Pair:
    """Height and width, given once, as (h, w), or under two names."""
    sides = (f"{short}_h", f"{short}_w")
    if any(settings.HasField(side) for side in sides):
        return getattr(settings, sides[0]), getattr(settings, sides[1])
    sizes = list(getattr(settings, name)) or [default]
    return sizes[0], sizes[-1]


@computes("Convolution", "DepthwiseConvolution", "ConvolutionDepthwise", "DepthWiseConv", "DepthwiseConv")
def _convolution(layer: FormulaLayer, x: Blob) -> Blob:
    """y[o, h, w] = sum over c, i, j of weight[o, c, i, j] * x[c, h*s + i*d - p, w*s + j*d - p], in each group."""
    settings = layer.message.convolution_param
    groups = settings.group if layer.type == "Convolution" else x.shape[1]
    if x.ndim == 3:
        return _on_one_axis(layer, x, _convolution)
    kernel, stride, pad, dilation = _window(settings)
    count = settings.num_output
    weight = layer.weights[0].reshape(groups, count // groups, x.shape[1] // groups, *kernel)
    weight = np.ascontiguousarray(
        np.moveaxis(weight, (-2, -1), (0, 1))
    )  # one matrix after the other: products are fast
    padded = np.pad(x[0], ((0, 0), (pad[0], pad[0]), (pad[1], pad[1]))).reshape(
        groups, -1, x.shape[2] + 2 * pad[0], x.shape[3] + 2 * pad[1]
    )
    size = [
        (n - ((k - 1) * d + 1)) // s + 1 for n, k, s, d in zip(padded.shape[2:], kernel, stride, dilation, strict=True)
    ]
    y = np.zeros((groups, count // groups, size[0] * size[1]))
    for i, j in np.ndindex(*kernel):
        rows, columns = (
            slice(at * d, at * d + (n - 1) * s + 1, s)
            for at, d, n, s in zip((i, j), dilation, size, stride, strict=True)
        )
        y += weight[i, j] @ padded[:, :, rows, columns].reshape(groups, -1, size[0] * size[1])
    return y.reshape(1, count, *size) + _bias_of(layer, settings)


@computes("Deconvolution")
def _deconvolution(layer: FormulaLayer, x: Blob) -> Blob:
    """The transposed convolution: every element of x adds the kernel, times its value, to a window of y."""
    settings = layer.message.convolution_param
    groups, count = settings.group, settings.num_output
    if x.ndim == 3:
        return _on_one_axis(layer, x, _deconvolution)
    kernel, stride, pad, dilation = _window(settings)
    height, width = x.shape[2:]
    full = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip((height, width), kernel, stride, dilation, strict=True)]
    weight = _deconvolution_weight(layer, settings, x.shape[1]).reshape(groups, -1, count // groups, *kernel)
    y = np.zeros((groups, count // groups, *full))
    source = x.reshape(groups, -1, height * width)
    for i, j in np.ndindex(*kernel):
        rows = slice(i * dilation[0], i * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
        columns = slice(j * dilation[1], j * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
        product = weight[..., i, j].swapaxes(1, 2) @ source
        y[:, :, rows, columns] += product.reshape(groups, -1, height, width)
    y = y[:, :, pad[0] : full[0] - pad[0], pad[1] : full[1] - pad[1]]
    return y.reshape(1, count, *y.shape[2:]) + _bias_of(layer, settings)


def _deconvolution_weight(layer: FormulaLayer, settings: Any, channels: int) -> Blob:
    """The blob; bilinear weights where the layer has none and asks for them."""
    if layer.weights:
        return layer.weights[0]
    if settings.weight_filler.type != "bilinear":
        raise ValueError("the layer has no weights")
    side = _window(settings)[0][1]
    half = math.ceil(side / 2)
    center = (2 * half - 1 - half % 2) / (2 * half)
    slope = 1 - np.abs(np.arange(side) / half - center)
    return np.broadcast_to(np.outer(slope, slope), (channels, settings.num_output // settings.group, side, side))


def _on_one_axis(layer: FormulaLayer, x: Blob, formula: Formula) -> Blob:
    """A blob with one axis after the channels, as a map of width 1."""
    message = type(layer.message)()
    message.CopyFrom(layer.message)
    settings = message.convolution_param
    for name, default in (("kernel_size", 1), ("stride", 1), ("pad", 0), ("dilation", 1)):
        sizes = getattr(settings, name)
        sizes[:] = [sizes[0] if sizes else default, default]
    widened = FormulaLayer(layer.name, layer.type, layer.bottoms, layer.tops, message, layer.weights)
    return np.asarray(formula(widened, x[..., None]))[..., 0]


def _window(settings: Any) -> tuple[Pair, Pair, Pair, Pair]:
    dilation = list(settings.dilation) or [1]
    return (
        _sizes(settings, "kernel_size", "kernel", 0),
        _sizes(settings, "stride", "stride", 1),
        _sizes(settings, "pad", "pad", 0),
        (dilation[0], dilation[-1]),
    )


def _bias_of(layer: FormulaLayer, settings: Any) -> Blob | float:
    if not settings.bias_term:
        return 0.0
    if not layer.weights:  # a bilinear filler without weights in the file
        return float(settings.bias_filler.value)
    return layer.weights[1].reshape(1, -1, 1, 1)


@computes("Pooling")
def _pooling(layer: FormulaLayer, x: Blob) -> Tops:
    settings = layer.message.pooling_param
    kernel = _sizes(settings, "kernel_size", "kernel", 0)
    stride = _sizes(settings, "stride", "stride", 1)
    pad = _sizes(settings, "pad", "pad", 0)
    if settings.global_pooling:
        kernel = (x.shape[2], x.shape[3])
        stride = (1, 1)
        pad = (0, 0)
    rounds_up = settings.ceil_mode and settings.round_mode == settings.CEIL
    pooled, mask = pool(x, kernel, stride, pad, averages=settings.pool == settings.AVE, rounds_up=rounds_up)
    return [pooled, mask][: len(layer.tops)]


def pool(
    x: Blob, kernel: Pair, stride: Pair, pad: Pair, *, averages: bool, rounds_up: bool = True
) -> tuple[Blob, Blob]:
    """Caffe's pooling, and the pixel indices of the maxima in the map, row by row. An average counts the padding, but nothing beyond."""
    height, width = x.shape[2:]
    top, left = (
        np.array(_windows(size, k, s, p, rounds_up=rounds_up, clips=max(pad) > 0))
        for size, k, s, p in zip((height, width), kernel, stride, pad, strict=True)
    )
    result = np.full((*x.shape[:2], len(top), len(left)), 0.0 if averages else LOWEST)
    mask = np.zeros(result.shape)
    for i, j in np.ndindex(*kernel):
        rows, columns = np.ix_(top + i, left + j)
        is_inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        values = x[:, :, rows.clip(0, height - 1), columns.clip(0, width - 1)]
        if averages:
            result += np.where(is_inside, values, 0)
        else:
            is_larger = is_inside & (values > result)
            np.copyto(result, values, where=is_larger)
            np.copyto(mask, rows * width + columns, where=is_larger)
    if averages:
        counted_rows = np.minimum(top + kernel[0], height + pad[0]) - top
        counted_columns = np.minimum(left + kernel[1], width + pad[1]) - left
        result /= np.outer(counted_rows, counted_columns)
    return result, mask


def _windows(size: int, kernel: int, stride: int, pad: int, *, rounds_up: bool, clips: bool) -> list[int]:
    """Where windows start. clips: a padded map has no window that starts beyond it."""
    room = size + 2 * pad - kernel
    count = (-(-room // stride) if rounds_up else room // stride) + 1
    if clips and (count - 1) * stride >= size + pad:
        count -= 1
    return [index * stride - pad for index in range(count)]


@computes("SPP")
def _spatial_pyramid(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.spp_param
    levels = []
    for level in range(settings.pyramid_height):
        bins = 2**level
        kernel = (-(-x.shape[2] // bins), -(-x.shape[3] // bins))
        pad = ((kernel[0] * bins - x.shape[2] + 1) // 2, (kernel[1] * bins - x.shape[3] + 1) // 2)
        levels.append(pool(x, kernel, kernel, pad, averages=settings.pool == 1)[0])
    return levels[0] if len(levels) == 1 else np.concatenate([values.reshape(1, -1) for values in levels], axis=1)
