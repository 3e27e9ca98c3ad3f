"""Caffe's layers as plain formulas in numpy (FP64), written from Caffe's definitions and apart from the frontend.

A formula takes a layer and its bottoms, with the axes that Caffe has, and returns its tops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Blob: TypeAlias = NDArray[np.float64]
Tops: TypeAlias = Blob | Sequence[Blob]
Pair: TypeAlias = tuple[int, int]  # height, width

LOWEST = -float(np.finfo(np.float32).max)  # Caffe's -FLT_MAX
SAME_RATIO = 1e-6


@dataclass(frozen=True, slots=True)
class FormulaLayer:
    """A layer of the definition. message: its LayerParameter. weights: its blobs. batch: that of the definition."""

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Any
    weights: tuple[Blob, ...] = ()
    batch: int = 1


Formula: TypeAlias = Callable[..., Tops]
FORMULAS: dict[str, Formula] = {}


def _computes(*types: str) -> Callable[[Formula], Formula]:
    def register(formula: Formula) -> Formula:
        FORMULAS.update(dict.fromkeys(types, formula))
        return formula

    return register


# --- element by element --------------------------------------------------------------------------------------------------

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


@_computes("Split")
def _split(layer: FormulaLayer, x: Blob) -> Tops:
    return [x] * len(layer.tops)


# --- windows -------------------------------------------------------------------------------------------------------------


def _sizes(settings: Any, name: str, short: str, default: int) -> Pair:
    """Height and width, given once, as (h, w), or under two names."""
    sides = (f"{short}_h", f"{short}_w")
    if any(settings.HasField(side) for side in sides):
        return getattr(settings, sides[0]), getattr(settings, sides[1])
    given = list(getattr(settings, name)) or [default]
    return given[0], given[-1]


@_computes("Convolution", "DepthwiseConvolution", "ConvolutionDepthwise")
def _convolution(layer: FormulaLayer, x: Blob) -> Blob:
    """y[o, h, w] = sum over c, i, j of weight[o, c, i, j] * x[c, h*s + i*d - p, w*s + j*d - p], in each group."""
    settings = layer.message.convolution_param
    groups = settings.group if layer.type == "Convolution" else x.shape[1]
    if x.ndim == 3:
        return _on_one_axis(layer, x, _convolution)
    kernel, stride, pad, dilation = _window(settings)
    count = settings.num_output
    weight = layer.weights[0].reshape(groups, count // groups, x.shape[1] // groups, *kernel)
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
        y += weight[..., i, j] @ padded[:, :, rows, columns].reshape(groups, -1, size[0] * size[1])
    return y.reshape(1, count, *size) + _bias_of(layer, settings)


@_computes("Deconvolution")
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
        given = getattr(settings, name)
        given[:] = [given[0] if given else default, default]
    made = FormulaLayer(layer.name, layer.type, layer.bottoms, layer.tops, message, layer.weights)
    return np.asarray(formula(made, x[..., None]))[..., 0]


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


@_computes("Pooling")
def _pooling(layer: FormulaLayer, x: Blob) -> Tops:
    settings = layer.message.pooling_param
    kernel, stride, pad = (
        _sizes(settings, "kernel_size", "kernel", 0),
        _sizes(settings, "stride", "stride", 1),
        _sizes(settings, "pad", "pad", 0),
    )
    if settings.global_pooling:
        kernel, stride, pad = (x.shape[2], x.shape[3]), (1, 1), (0, 0)
    rounds_up = settings.ceil_mode and settings.round_mode == settings.CEIL
    pooled, mask = pool(x, kernel, stride, pad, averages=settings.pool == settings.AVE, rounds_up=rounds_up)
    return [pooled, mask][: len(layer.tops)]


def pool(
    x: Blob, kernel: Pair, stride: Pair, pad: Pair, *, averages: bool, rounds_up: bool = True
) -> tuple[Blob, Blob]:
    """Caffe's pooling, and the places of the maxima in the map, row by row. An average counts the padding, but nothing beyond."""
    height, width = x.shape[2:]
    rows, columns = (
        _windows(size, k, s, p, rounds_up=rounds_up, clips=max(pad) > 0)
        for size, k, s, p in zip((height, width), kernel, stride, pad, strict=True)
    )
    result = np.full((*x.shape[:2], len(rows), len(columns)), LOWEST)
    mask = np.zeros(result.shape)
    for (a, top), (b, left) in ((row, column) for row in enumerate(rows) for column in enumerate(columns)):
        up, start = max(top, 0), max(left, 0)
        seen = x[:, :, up : top + kernel[0], start : left + kernel[1]]
        if averages:
            counted = (min(top + kernel[0], height + pad[0]) - top) * (min(left + kernel[1], width + pad[1]) - left)
            result[:, :, a, b] = seen.sum((2, 3)) / counted
        elif seen.size:
            result[:, :, a, b] = seen.max((2, 3))
            i, j = np.divmod(seen.reshape(*seen.shape[:2], -1).argmax(2), seen.shape[3])
            mask[:, :, a, b] = (i + up) * width + j + start
    return result, mask


def _windows(size: int, kernel: int, stride: int, pad: int, *, rounds_up: bool, clips: bool) -> list[int]:
    """Where windows start. clips: a padded map has no window that starts beyond it."""
    room = size + 2 * pad - kernel
    count = (-(-room // stride) if rounds_up else room // stride) + 1
    if clips and (count - 1) * stride >= size + pad:
        count -= 1
    return [index * stride - pad for index in range(count)]


@_computes("SPP")
def _spatial_pyramid(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.spp_param
    levels = []
    for level in range(settings.pyramid_height):
        bins = 2**level
        kernel = (-(-x.shape[2] // bins), -(-x.shape[3] // bins))
        pad = ((kernel[0] * bins - x.shape[2] + 1) // 2, (kernel[1] * bins - x.shape[3] + 1) // 2)
        levels.append(pool(x, kernel, kernel, pad, averages=settings.pool == 1)[0])
    return levels[0] if len(levels) == 1 else np.concatenate([values.reshape(1, -1) for values in levels], axis=1)


@_computes("Upsample")
def _upsample(layer: FormulaLayer, x: Blob, *masks: Blob) -> Blob:
    """Repeats pixels; with the mask of a pooling, puts each value where the maximum was."""
    settings = layer.message.upsample_param
    both = settings.scale or 2
    down, right = settings.scale_h or both, settings.scale_w or both
    if not masks:
        return x.repeat(down, axis=2).repeat(right, axis=3)
    size = (settings.upsample_h, settings.upsample_w)
    if not all(size):
        size = (x.shape[2] * down - settings.pad_out_h, x.shape[3] * right - settings.pad_out_w)
    result = np.zeros((x.shape[1], size[0] * size[1]))
    np.put_along_axis(result, masks[0].astype(int).reshape(x.shape[1], -1), x.reshape(x.shape[1], -1), axis=1)
    return result.reshape(1, -1, *size)


@_computes("Interp")
def _interp(layer: FormulaLayer, x: Blob, *like: Blob) -> Blob:
    settings = layer.message.interp_param
    if like:
        return _bilinear(x, like[0].shape[2:], corners=True)
    first, last = -settings.pad_beg, -settings.pad_end
    x = x[:, :, first : x.shape[2] - last, first : x.shape[3] - last]
    size = (settings.height, settings.width)
    if not settings.HasField("height"):
        size = tuple((n - 1) // settings.shrink_factor * settings.zoom_factor + 1 for n in x.shape[2:])
    return _bilinear(x, size, corners=True)


@_computes("BilinearInterpolate")
def _bilinear_interpolate(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.bilinear_interpolate_param
    return _bilinear(x, (settings.dst_h, settings.dst_w), corners=settings.align_corners)


def _bilinear(x: Blob, size: Sequence[int], *, corners: bool) -> Blob:
    """corners: the outermost pixels keep their places; else pixels are areas, whose centers lie at halves."""
    for axis, count in zip((2, 3), size, strict=True):
        given = x.shape[axis]
        at = np.arange(count) * ((given - 1) / (count - 1) if count > 1 else 0)
        if not corners:
            at = np.clip((np.arange(count) + 0.5) * given / count - 0.5, 0, given - 1)
        low = np.floor(at).astype(int)
        part = (at - low).reshape([-1 if n == axis else 1 for n in range(4)])
        x = x.take(low, axis) * (1 - part) + x.take(np.minimum(low + 1, given - 1), axis) * part
    return x


@_computes("Pad")
def _pad(layer: FormulaLayer, x: Blob) -> Blob:
    p = layer.message.pad_param
    return np.pad(x, ((0, 0), (0, 0), (p.pad_u, p.pad_d), (p.pad_l, p.pad_r)), constant_values=p.pad_value)


# --- numbers for each channel --------------------------------------------------------------------------------------------


@_computes("InnerProduct")
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


def _on_channels(values: Blob, x: Blob) -> Blob:
    """A number for each channel."""
    return _along(values.ravel(), 1, x) if x.ndim > 1 else values.ravel()


@_computes("BatchNorm")
def _batch_norm(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.batch_norm_param
    if settings.HasField("use_global_stats") and not settings.use_global_stats:
        axes = (0, *range(2, x.ndim))
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    else:
        total = layer.weights[2].ravel()[0]
        factor = 1 / total if total else 0.0
        mean, variance = (_on_channels(values * factor, x) for values in layer.weights[:2])
    y = (x - mean) / np.sqrt(variance + settings.eps)
    if settings.scale_bias:
        y = y * _on_channels(layer.weights[3], x) + _on_channels(layer.weights[4], x)
    return np.asarray(y)


@_computes("BN")
def _bn(layer: FormulaLayer, x: Blob) -> Blob:
    """SegNet's layer has a factor and a shift; PSPNet's has statistics, too."""
    settings = layer.message.bn_param
    slope, shift, *statistics = (_on_channels(values, x) for values in layer.weights)
    if settings.HasField("bn_mode"):
        return x * slope + shift
    mean, variance = statistics
    return np.asarray((x - mean) / np.sqrt(variance + settings.eps) * slope + shift)


@_computes("PReLU")
def _prelu(layer: FormulaLayer, x: Blob) -> Blob:
    slope = layer.weights[0]
    slopes = slope.ravel()[0] if layer.message.prelu_param.channel_shared else _on_channels(slope, x)
    return np.maximum(x, 0) + slopes * np.minimum(x, 0)


@_computes("Scale")
def _scale(layer: FormulaLayer, x: Blob, *factor: Blob) -> Blob:
    settings, weights = layer.message.scale_param, list(layer.weights)
    axis = settings.axis % max(x.ndim, 1)
    shape = factor[0].shape if factor else _covered(settings, x)
    y = x * _along((factor[0] if factor else weights.pop(0)).reshape(shape), axis, x)
    return y + _along(weights[0].reshape(shape), axis, x) if settings.bias_term else y


@_computes("Bias")
def _bias(layer: FormulaLayer, x: Blob, *shift: Blob) -> Blob:
    settings = layer.message.bias_param
    given = shift[0] if shift else layer.weights[0].reshape(_covered(settings, x))
    return x + _along(given, settings.axis % max(x.ndim, 1), x)


def _covered(settings: Any, x: Blob) -> tuple[int, ...]:
    axis = settings.axis % max(x.ndim, 1)
    return x.shape[axis:] if settings.num_axes == -1 else x.shape[axis : axis + settings.num_axes]


# --- several blobs -------------------------------------------------------------------------------------------------------


@_computes("Eltwise")
def _eltwise(layer: FormulaLayer, *blobs: Blob) -> Blob:
    settings = layer.message.eltwise_param
    if settings.operation == settings.PROD:
        return np.asarray(np.multiply.reduce(blobs))
    if settings.operation == settings.MAX:
        return np.asarray(np.maximum.reduce(blobs))
    factors = list(settings.coeff) or [1.0] * len(blobs)
    return np.asarray(np.add.reduce([factor * x for factor, x in zip(factors, blobs, strict=True)]))


@_computes("Axpy")
def _axpy(_: FormulaLayer, factors: Blob, x: Blob, y: Blob) -> Blob:
    return factors.reshape(*x.shape[:2], *[1] * (x.ndim - 2)) * x + y


def _axis(settings: Any, old: str) -> int:
    return int(getattr(settings, old)) if settings.HasField(old) else int(settings.axis)


@_computes("Concat")
def _concat(layer: FormulaLayer, *blobs: Blob) -> Blob:
    return np.concatenate(blobs, _axis(layer.message.concat_param, "concat_dim"))


@_computes("Slice")
def _slice(layer: FormulaLayer, x: Blob) -> Tops:
    settings = layer.message.slice_param
    points = list(settings.slice_point) or len(layer.tops)
    return np.split(x, points, _axis(settings, "slice_dim"))


@_computes("Tile")
def _tile(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.tile_param
    return np.concatenate([x] * settings.tiles, settings.axis)


@_computes("Crop")
def _crop(layer: FormulaLayer, x: Blob, like: Blob) -> Blob:
    settings = layer.message.crop_param
    first = settings.axis % x.ndim
    offsets = list(settings.offset) or [0]
    if len(offsets) == 1:
        offsets *= x.ndim - first
    parts = [slice(o, o + size) for o, size in zip(offsets, like.shape[first:], strict=True)]
    return x[(*[slice(None)] * first, *parts)]


# --- the same elements in another order or shape -------------------------------------------------------------------------


@_computes("Flatten")
def _flatten(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.flatten_param
    first, last = settings.axis % x.ndim, settings.end_axis % x.ndim
    return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])


@_computes("Reshape")
def _reshape(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.reshape_param
    first = settings.axis + (x.ndim + 1 if settings.axis < 0 else 0)
    end = x.ndim if settings.num_axes == -1 else first + settings.num_axes
    dims = list(settings.shape.dim)
    if first == 0 and dims and dims[0] == layer.batch:
        dims[0] = 1  # one sample of the batch
    kept = [x.shape[first + index] if dim == 0 else dim for index, dim in enumerate(dims)]
    return x.reshape(*x.shape[:first], *kept, *x.shape[end:])


@_computes("Permute")
def _permute(layer: FormulaLayer, x: Blob) -> Blob:
    order = list(layer.message.permute_param.order)
    return x.transpose(*order, *(axis for axis in range(x.ndim) if axis not in order))


@_computes("ShuffleChannel")
def _shuffle_channel(layer: FormulaLayer, x: Blob) -> Blob:
    group = layer.message.shuffle_channel_param.group
    return x.reshape(group, x.shape[1] // group, -1).swapaxes(0, 1).reshape(x.shape)


# --- over several elements -----------------------------------------------------------------------------------------------


@_computes("LRN")
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


@_computes("Normalize")
def _normalize(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.norm_param
    axes = tuple(range(1, x.ndim)) if settings.across_spatial else (1,)
    y = x / np.sqrt(np.square(x).sum(axes, keepdims=True) + settings.eps)
    factor = layer.weights[0]
    return np.asarray(y * (factor.ravel()[0] if settings.channel_shared else _on_channels(factor, x)))


@_computes("MVN")
def _mvn(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.mvn_param
    axes = tuple(range(1 if settings.across_channels else 2, x.ndim))
    y = x - x.mean(axes, keepdims=True)
    return np.asarray(y / (x.std(axes, keepdims=True) + settings.eps) if settings.normalize_variance else y)


@_computes("Softmax")
def _softmax(layer: FormulaLayer, x: Blob) -> Blob:
    axis = layer.message.softmax_param.axis
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


@_computes("ArgMax")
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
    found = [indices.astype(float), *([largest] if settings.out_max_val else [])]
    return np.stack(found, 1).reshape(len(x), len(found), count, *[1] * (x.ndim - 3))


@_computes("Reduction")
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


# --- boxes ---------------------------------------------------------------------------------------------------------------


@_computes("PriorBox")
def _prior_box(layer: FormulaLayer, features: Blob, image: Blob) -> Blob:
    """Boxes around the center of each pixel, and their variances: (1, 2, boxes * 4)."""
    settings = layer.message.prior_box_param
    rows, columns = features.shape[2:]
    height, width = image.shape[2:]
    if settings.img_size or settings.img_h:
        height, width = settings.img_h or settings.img_size, settings.img_w or settings.img_size
    down = (settings.step_h or settings.step) or height / rows
    right = (settings.step_w or settings.step) or width / columns
    sizes = np.array(list(_box_sizes(settings)))  # (n, 2): width, height
    x = ((np.arange(columns) + settings.offset) * right)[None, :, None]
    y = ((np.arange(rows) + settings.offset) * down)[:, None, None]
    half_width, half_height = sizes[:, 0] / 2, sizes[:, 1] / 2
    corners = (
        (x - half_width) / width,
        (y - half_height) / height,
        (x + half_width) / width,
        (y + half_height) / height,
    )
    boxes = np.stack(np.broadcast_arrays(*corners), -1).reshape(-1)
    variance = list(settings.variance) or [0.1]
    variances = np.resize(variance * (4 // len(variance)), boxes.size)
    return np.stack([np.clip(boxes, 0, 1) if settings.clip else boxes, variances])[None]


def _box_sizes(settings: Any) -> Iterator[tuple[float, float]]:
    """Width and height of each box of a pixel. Caffe keeps sizes as whole numbers."""
    ratios = [1.0]
    for ratio in settings.aspect_ratio:
        if all(abs(ratio - known) >= SAME_RATIO for known in ratios):
            ratios += [ratio, 1 / ratio] if settings.flip else [ratio]
    for index, size in enumerate(map(int, settings.min_size)):
        yield size, size
        if settings.max_size:
            yield (math.sqrt(size * int(settings.max_size[index])),) * 2
        for ratio in ratios[1:]:
            yield size * math.sqrt(ratio), size / math.sqrt(ratio)


@_computes("DetectionOutput")
def _detection_output(layer: FormulaLayer, locations: Blob, confidences: Blob, priors: Blob) -> Blob:
    """Rows (1, 1, n, 7): image, label, confidence, box. Labels ascend; within one, confidences descend."""
    settings = layer.message.detection_output_param
    classes = settings.num_classes
    count = priors.shape[2] // 4
    encoded = locations.reshape(count, -1, 4)
    scores = confidences.reshape(count, classes)
    found: list[tuple[int, int]] = []  # label, box
    boxes = [
        _decoded(settings, encoded[:, group], *priors[0].reshape(2, count, 4)) for group in range(encoded.shape[1])
    ]
    for label in (label for label in range(classes) if label != settings.background_label_id):
        own = boxes[0] if settings.share_location else boxes[label]
        found += [(label, box) for box in _kept(settings, own, scores[:, label])]
    if -1 < settings.keep_top_k < len(found):
        best = sorted(found, key=lambda each: -scores[each[1], each[0]])[: settings.keep_top_k]
        found = sorted(best, key=lambda each: each[0])
    rows = [
        [0, label, scores[box, label], *(boxes[0] if settings.share_location else boxes[label])[box]]
        for label, box in found
    ]
    return np.array(rows or [[0, *[-1] * 6]], float)[None, None]


def _decoded(settings: Any, encoded: Blob, priors: Blob, variances: Blob) -> Blob:
    """Boxes (n, 4): left, top, right, bottom."""
    moved = encoded if settings.variance_encoded_in_target else encoded * variances
    if settings.code_type == 1:  # CORNER
        return priors + moved
    size = priors[:, 2:] - priors[:, :2]
    if settings.code_type == 3:  # CORNER_SIZE
        return priors + moved * np.tile(size, 2)
    center = (priors[:, :2] + priors[:, 2:]) / 2 + moved[:, :2] * size
    half = np.exp(moved[:, 2:]) * size / 2
    return np.concatenate([center - half, center + half], axis=1)


def _kept(settings: Any, boxes: Blob, scores: Blob) -> list[int]:
    """Boxes from the best on, without those that overlap a better one too much."""
    nms = settings.nms_param
    threshold = settings.confidence_threshold if settings.HasField("confidence_threshold") else LOWEST
    order = [int(box) for box in np.argsort(-scores, kind="stable") if scores[box] > threshold]
    limit, kept = nms.nms_threshold, list[int]()
    for box in order[: nms.top_k] if nms.HasField("top_k") and nms.top_k > -1 else order:
        if all(_overlap(boxes[box], boxes[other]) <= limit for other in kept):
            kept.append(box)
            if nms.eta < 1 and limit > 0.5:
                limit *= nms.eta
    return kept


def _overlap(one: Blob, other: Blob) -> float:
    """The common area over the area of both."""

    def area(low: Blob, high: Blob) -> float:
        return float(np.prod(np.maximum(high - low, 0)))

    common = area(np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:]))
    both = area(one[:2], one[2:]) + area(other[:2], other[2:]) - common
    return common / both if common else 0.0
