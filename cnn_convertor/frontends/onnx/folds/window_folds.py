"""Nodes on constants whose windows move over an array, and those that resample one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cnn_convertor.errors import UnsupportedError
from cnn_convertor.frontends.onnx.folding import Folding, folds
from cnn_convertor.frontends.onnx.resampling import UNNAMED, Resampling
from cnn_convertor.frontends.onnx.stored import Numbers


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows over the axes after the channels. Each has a number for each of these axes."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def of(self, folding: Folding, x: Numbers, filling: float) -> Numbers:
        """The elements of each window: (batch, channels, *windows, *kernel)."""
        sides = [(0, 0), (0, 0), *zip(self.before, self.after, strict=True)]
        padded = [n + sum(both) for n, both in zip(x.shape, sides, strict=True)]
        folding.budget.check(padded)
        axes = zip(padded[2:], self.extents, self.strides, strict=True)
        folding.budget.check([*x.shape[:2], *((n - e) // s + 1 for n, e, s in axes), *self.kernel])
        filled = np.pad(x, sides, constant_values=x.dtype.type(filling))
        views = np.lib.stride_tricks.sliding_window_view(filled, self.extents, tuple(range(2, x.ndim)))
        positions = (slice(None, None, s) for s in self.strides)
        taps = (slice(None, None, d) for d in self.dilations)
        return np.asarray(views[(slice(None), slice(None), *positions, *taps)])


def _windows(folding: Folding, sizes: Sequence[int], kernel: Sequence[int]) -> _Windows:
    """The windows as the node's attributes have them; beyond the end by ceil_mode, too."""
    count = len(sizes)
    strides, dilations = (folding.attribute(name, (1,) * count) for name in ("strides", "dilations"))
    pads, auto = folding.attribute("pads", (0,) * 2 * count), folding.attribute("auto_pad", b"NOTSET")
    if not len(kernel) == len(strides) == len(dilations) == count == len(pads) // 2 or min(*kernel, *strides) < 1:
        raise ValueError("the window does not fit the axes")
    windows = _Windows(tuple(kernel), strides, dilations, pads[:count], pads[count:])
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        axes = zip(sizes, strides, windows.extents, strict=True)
        total = [max((-(-n // s) - 1) * s + e - n, 0) for n, s, e in axes]
        small, large = tuple(n // 2 for n in total), tuple(n - n // 2 for n in total)
        before, after = (small, large) if auto == b"SAME_UPPER" else (large, small)
        windows = replace(windows, before=before, after=after)
    return windows


def _convolved(folding: Folding, x: Numbers, weights: Numbers, groups: int, windows: _Windows) -> Numbers:
    """weights: (O, I / groups, *kernel)."""
    elements = windows.of(folding, x, 0)
    batch, channels, lengths = x.shape[0], x.shape[1], elements.shape[2 : x.ndim]
    rows = np.moveaxis(elements.reshape(batch, groups, channels // groups, math.prod(lengths), -1), 2, 3)
    matrices = weights.reshape(groups, weights.shape[0] // groups, -1)
    folding.budget.check([batch, weights.shape[0], *lengths])
    folding.budget.spend_products(batch * math.prod(lengths) * weights.size, x.dtype)
    products = np.matmul(matrices, np.swapaxes(rows.reshape(*rows.shape[:3], -1), 2, 3))
    return np.asarray(products.reshape(batch, weights.shape[0], *lengths))


def _with_bias(folding: Folding, result: Numbers) -> Numbers:
    bias = folding.get(2)
    return result if bias is None else result + bias.reshape(-1, *(1,) * (result.ndim - 2))


@folds("Conv")
def _conv(folding: Folding) -> Numbers:
    x, weights = folding[0], folding[1]
    windows = _windows(folding, x.shape[2:], weights.shape[2:])
    return _with_bias(folding, _convolved(folding, x, weights, folding.attribute("group", 1), windows))


@folds("ConvTranspose")
def _conv_transpose(folding: Folding) -> Numbers:
    """A convolution of the input, its elements a stride apart, with the kernels turned around."""
    x, weights, groups = folding[0], folding[1], folding.attribute("group", 1)
    if folding.attribute("output_shape") or folding.attribute("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        problem = "a transposed convolution of constants with output_shape or auto_pad cannot be converted"
        raise UnsupportedError.of("DV302", problem, folding.node.where, "give the padding as pads")
    kernel, axes = weights.shape[2:], range(2, x.ndim)
    windows = _windows(folding, x.shape[2:], kernel)
    spread = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], windows.strides, strict=True)]
    folding.budget.check([*x.shape[:2], *spread])
    apart = np.zeros([*x.shape[:2], *spread], x.dtype)
    apart[(slice(None), slice(None), *(slice(None, None, s) for s in windows.strides))] = x
    more = folding.attribute("output_padding", (0,) * len(kernel))
    before = [e - 1 - n for e, n in zip(windows.extents, windows.before, strict=True)]
    after = [e - 1 - n + m for e, n, m in zip(windows.extents, windows.after, more, strict=True)]
    cut = tuple(slice(max(-a, 0), n + min(b, 0)) for a, b, n in zip(before, after, spread, strict=True))
    grouped = weights.reshape(groups, x.shape[1] // groups, -1, *kernel).swapaxes(1, 2)
    turned = np.flip(grouped.reshape(-1, x.shape[1] // groups, *kernel), tuple(axes))
    ones = (1,) * len(kernel)
    full = _Windows(kernel, ones, windows.dilations, *(tuple(max(n, 0) for n in side) for side in (before, after)))
    return _with_bias(folding, _convolved(folding, apart[(slice(None), slice(None), *cut)], turned, groups, full))


@folds("MaxPool", "AveragePool", "LpPool")
def _pooled(folding: Folding) -> Numbers:
    x, type = folding[0], folding.node.type
    kernel = folding.attribute("kernel_shape", ())
    bare = _windows(folding, x.shape[2:], kernel)
    windows = replace(bare, after=_beyond(folding, x.shape[2:], bare))
    axes = tuple(range(-len(kernel), 0))
    if type == "MaxPool":
        return np.asarray(windows.of(folding, x, -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min).max(axes))
    elements = windows.of(folding, x, 0)
    if type == "LpPool":
        power = folding.attribute("p", 2)
        return np.asarray((np.abs(elements) ** power).sum(axes) ** (1 / power)).astype(x.dtype)
    counted = np.ones((1, 1, *x.shape[2:]), x.dtype)
    if folding.attribute("count_include_pad", 0):
        sides = [(0, 0), (0, 0), *zip(bare.before, bare.after, strict=True)]
        counted = np.pad(counted, sides, constant_values=1)
        past = tuple(b - a for a, b in zip(bare.after, windows.after, strict=True))
        counts = replace(windows, before=(0,) * len(kernel), after=past).of(folding, counted, 0)
    else:
        counts = windows.of(folding, counted, 0)
    return np.asarray(elements.sum(axes) / counts.sum(axes)).astype(x.dtype)


def _beyond(folding: Folding, sizes: Sequence[int], windows: _Windows) -> tuple[int, ...]:
    """The padding at the end, with that of windows that ceil_mode lets reach farther."""
    if not folding.attribute("ceil_mode", 0):
        return windows.after
    ends: list[int] = []
    for n, before, after, extent, stride in zip(
        sizes, windows.before, windows.after, windows.extents, windows.strides, strict=True
    ):
        count = -(-(n + before + after - extent) // stride) + 1
        if (count - 1) * stride >= n + before:  # the last window would start beyond the input
            count -= 1
        ends.append(max((count - 1) * stride + extent - n - before, after))
    return tuple(ends)


@folds("Resize", "Upsample")
def _resized(folding: Folding) -> Numbers:
    x = folding[0]
    is_old = folding.opset < 11
    scales = folding.attribute("scales", folding.get(1 if is_old else 2))
    sizes = None if is_old or folding.get(3) is None else folding.indices(3).reshape(-1).tolist()
    axes = [int(axis) % x.ndim for axis in folding.attribute("axes", range(x.ndim))]
    how = Resampling(
        folding.attribute("mode", b"nearest").decode("utf-8", errors="replace"),
        folding.attribute("coordinate_transformation_mode", b"asymmetric" if is_old else b"half_pixel").decode(),
        UNNAMED if is_old else folding.attribute("nearest_mode", b"round_prefer_floor").decode(),
        folding.attribute("cubic_coeff_a", -0.75),
        bool(folding.attribute("antialias", 0)),
        bool(folding.attribute("exclude_outside", 0)),
    )
    if not how.is_known or folding.attribute("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        problem = f"a resize of constants with {how.mode}, {how.coordinates}, {how.rounding} cannot be converted"
        raise UnsupportedError.of("DV302", problem, folding.node.where, "export it with half_pixel")
    if sizes:
        factors = [length / x.shape[axis] for axis, length in zip(axes, sizes, strict=True)]
    else:
        factors = [float(factor) for factor in np.asarray(() if scales is None else scales).reshape(-1)]
        lengths = (np.float32(x.shape[axis]) * np.float32(f) for axis, f in zip(axes, factors, strict=True))
        sizes = [math.floor(length) for length in lengths]
    result = x.astype(np.float64) if x.dtype.kind == "f" else x
    for axis, length, factor in zip(axes, sizes, factors, strict=True):
        size = x.shape[axis]
        if (length, factor) == (size, 1):
            continue
        if length < 1 or factor <= 0:
            raise ValueError(f"a length of {length}")
        folding.budget.check([size, length])
        folding.budget.check([*result.shape[:axis], length, *result.shape[axis + 1 :]])
        if how.mode == "nearest":
            result = result.take(how.picked(size, length, factor).astype(np.intp), axis)
        else:
            result = np.moveaxis(np.tensordot(how.matrix(size, length, factor), result, (1, axis)), 0, axis)
    return np.asarray(result).astype(x.dtype)
