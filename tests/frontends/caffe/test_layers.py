"""Layers, one by one: what they compute, and which of their forms are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.errors import ConvertorError, ConvertorWarning, ModelError, UnsupportedError
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph

Array = NDArray[Any]
Values = Callable[[Graph, Array], list[Array]]

RANDOM = np.random.default_rng(5)
MAP = RANDOM.standard_normal((4, 6, 5))
VECTOR = RANDOM.standard_normal((6, 1, 1))
HEADER = 'input: "x" input_shape { dim: 8 dim: 4 dim: 6 dim: 5 }\n'
VECTOR_HEADER = 'input: "x" input_shape { dim: 8 dim: 6 }\n'


def layer(type: str, settings: str = "", *, bottoms: Sequence[str] = ("x",), tops: Sequence[str] = ("y",)) -> str:
    ends = " ".join([f'bottom: "{name}"' for name in bottoms] + [f'top: "{name}"' for name in tops])
    return f'layer {{ name: "l" type: "{type}" {ends} {settings} }}'


def column(*numbers: float) -> Array:
    return np.array(numbers).reshape(-1, 1, 1)


def between(x: Array, axis: int) -> Array:
    """With the mean of each two neighbors put between them."""
    x = np.moveaxis(x, axis, 0)
    result = np.repeat(x, 2, axis=0)[:-1]
    result[1::2] = (x[:-1] + x[1:]) / 2
    return np.moveaxis(result, 0, axis)


def unpooling(settings: str = "", *, pool: str = "kernel_size: 2 stride: 2") -> str:
    """A pooling with its mask, and an unpooling of what it gives."""
    pooling = layer("Pooling", f"pooling_param {{ {pool} }}", tops=("p", "m")).replace('"l"', '"pool"')
    return pooling + layer("Upsample", f"upsample_param {{ {settings} }}", bottoms=("p", "m"))


def where_largest(x: Array, kernel: int, *, stride: int, pad: int = 0) -> Array:
    """(C, H, W), of which only the maximum of each window is left."""
    result = np.zeros_like(x)
    for y, left in product(range(-pad, x.shape[1] + pad, stride), range(-pad, x.shape[2] + pad, stride)):
        rows, columns = slice(max(y, 0), y + kernel), slice(max(left, 0), left + kernel)
        if x[0, rows, columns].size and y + kernel <= x.shape[1] + pad + stride - 1:
            largest = x[:, rows, columns] == x[:, rows, columns].max((1, 2), keepdims=True)
            result[:, rows, columns] = np.where(largest, x[:, rows, columns], result[:, rows, columns])
    return result


def correlated(x: Array, weight: Array, *, stride: tuple[int, int], pad: tuple[int, int], dilation: int = 1) -> Array:
    """A depthwise convolution written out: weight (O, 1, h, w), with O / C outputs for each channel."""
    x = np.pad(x, ((0, 0), (pad[0], pad[0]), (pad[1], pad[1]))).repeat(len(weight) // len(x), 0)
    reach = [dilation * (side - 1) for side in weight.shape[2:]]
    rows, columns = (range(0, x.shape[axis + 1] - reach[axis], stride[axis]) for axis in (0, 1))
    return np.stack(
        [
            [
                (weight[:, 0] * x[:, i : i + reach[0] + 1 : dilation, j : j + reach[1] + 1 : dilation]).sum((1, 2))
                for j in columns
            ]
            for i in rows
        ]
    ).transpose(2, 0, 1)


def spread(x: Array, weight: Array, dilation: int) -> Array:
    """A deconvolution of stride 1 written out: weight (C, O, h, w)."""
    _, outputs, height, width = weight.shape
    result = np.zeros((outputs, x.shape[1] + dilation * (height - 1), x.shape[2] + dilation * (width - 1)))
    for i, j in np.ndindex(height, width):
        part = np.einsum("co,chw->ohw", weight[:, :, i, j], x)
        result[:, dilation * i : dilation * i + x.shape[1], dilation * j : dilation * j + x.shape[2]] += part
    return result


def windows(x: Array, kernel: tuple[int, int], starts: tuple[Sequence[int], Sequence[int]]) -> Array:
    """A max pool whose windows begin at these rows and columns, which may lie outside: they see what is inside."""
    (high, wide), (rows, columns) = kernel, starts
    return np.stack(
        [[x[:, max(i, 0) : i + high, max(j, 0) : j + wide].max((1, 2)) for j in columns] for i in rows]
    ).transpose(2, 0, 1)


def averages(x: Array, kernel: tuple[int, int], starts: tuple[Sequence[int], Sequence[int]]) -> Array:
    """An average pool whose windows begin at these rows and columns: zeros outside count, as far as the padding goes."""
    pad = [-first[0] for first in starts]
    padded = np.pad(x, ((0, 0), (pad[0], pad[0]), (pad[1], pad[1])))
    (high, wide), (rows, columns) = kernel, ([start + pad[axis] for start in starts[axis]] for axis in (0, 1))
    return np.stack([[padded[:, i : i + high, j : j + wide].mean((1, 2)) for j in columns] for i in rows]).transpose(
        2, 0, 1
    )


TALL = RANDOM.standard_normal((8, 1, 3, 2))
SMALL = RANDOM.standard_normal((4, 1, 2, 2))
SQUARE = RANDOM.standard_normal((4, 3, 2, 2))
FOUR = np.array([0.5, -2, 3, 0.25])
OTHER = np.array([1.0, 0, -1, 2])
LAYERS: dict[str, tuple[str, list[Array], Array]] = {
    "pyramid of maxima": (
        layer("SPP", "spp_param { pyramid_height: 2 }"),
        [],
        column(*MAP.max((1, 2)), *windows(MAP, (3, 3), ([0, 3], [-1, 2])).ravel()),
    ),
    "pyramid of averages": (
        layer("SPP", "spp_param { pyramid_height: 2 pool: AVE }"),
        [],
        column(
            *MAP.mean((1, 2)),
            *averages(MAP, (3, 3), ([0, 3], [-1, 2])).ravel(),
        ),
    ),
    "pyramid of one level": (layer("SPP", "spp_param { pyramid_height: 1 }"), [], MAP.max((1, 2), keepdims=True)),
    "relu": (layer("ReLU"), [], np.maximum(MAP, 0)),
    "leaky relu": (layer("ReLU", "relu_param { negative_slope: 0.1 }"), [], np.where(MAP > 0, MAP, MAP * 0.1)),
    "relu6": (layer("ReLU6"), [], np.clip(MAP, 0, 6)),
    "prelu": (layer("PReLU"), [FOUR], np.where(MAP > 0, MAP, MAP * FOUR[:, None, None])),
    "shared prelu": (
        layer("PReLU", "prelu_param { channel_shared: true }"),
        [column(3)],
        np.where(MAP > 0, MAP, MAP * 3),
    ),
    "elu": (layer("ELU", "elu_param { alpha: 1 }"), [], np.where(MAP > 0, MAP, np.expm1(MAP))),
    "sigmoid": (layer("Sigmoid"), [], 1 / (1 + np.exp(-MAP))),
    "tanh": (layer("TanH", "tanh_param { engine: CAFFE }"), [], np.tanh(MAP)),
    "softmax": (layer("Softmax", "softmax_param { axis: -3 }"), [], np.exp(MAP) / np.exp(MAP).sum(0)),
    "power": (layer("Power", "power_param { scale: 2 shift: 3 }"), [], 2 * MAP + 3),
    "scale": (layer("Scale"), [FOUR], MAP * FOUR[:, None, None]),
    "scale with bias": (
        layer("Scale", "scale_param { bias_term: true axis: -3 }"),
        [FOUR, OTHER.reshape(1, 1, 1, 4)],
        MAP * FOUR[:, None, None] + OTHER[:, None, None],
    ),
    "scale by one number": (layer("Scale", "scale_param { num_axes: 0 }"), [np.array(2.0)], MAP * 2),
    "batch norm": (
        layer("BatchNorm", "batch_norm_param { eps: 0.5 }"),
        [OTHER * 4, FOUR**2 * 4, np.array([4.0])],
        (MAP - OTHER[:, None, None]) / np.sqrt(FOUR[:, None, None] ** 2 + 0.5),
    ),
    "batch norm without statistics": (
        layer("BatchNorm", "batch_norm_param { eps: 4 }"),
        [OTHER, FOUR, np.zeros(1)],
        MAP / 2,
    ),
    "BN of PSPNet": (
        layer("BN", "bn_param { frozen: true eps: 0.5 momentum: 0.9 slope_filler { type: 'constant' } }"),
        [*(array.reshape(1, 4, 1, 1) for array in (FOUR, OTHER, FOUR + 1, FOUR**2))],
        (MAP - column(*FOUR + 1)) / np.sqrt(column(*FOUR**2) + 0.5) * column(*FOUR) + column(*OTHER),
    ),
    "BN of SegNet": (
        layer("BN", "bn_param { bn_mode: INFERENCE }"),
        [FOUR, OTHER],
        MAP * FOUR[:, None, None] + OTHER[:, None, None],
    ),
    "sum": (layer("Eltwise", bottoms=("x", "x", "x")), [], 3 * MAP),
    "weighted sum": (layer("Eltwise", "eltwise_param { coeff: 1 coeff: -0.5 }", bottoms=("x", "x")), [], MAP / 2),
    "concat": (layer("Concat", "concat_param { axis: -3 }", bottoms=("x", "x")), [], np.concatenate([MAP, MAP])),
    "concat of one": (layer("Concat"), [], MAP),
    "sum of three": (layer("Eltwise", "eltwise_param { coeff: [1, 2, -0.5] }", bottoms=("x", "x", "x")), [], 2.5 * MAP),
    "product of three": (layer("Eltwise", "eltwise_param { operation: PROD }", bottoms=("x", "x", "x")), [], MAP**3),
    "maximum": (
        layer("AbsVal").replace('"l"', '"m"')
        + layer("Eltwise", "eltwise_param { operation: MAX }", bottoms=("x", "y", "x"), tops=("z",)),
        [],
        np.abs(MAP),
    ),
    "axpy": (
        layer("Pooling", "pooling_param { global_pooling: true }", tops=("s",)).replace('"l"', '"m"')
        + layer("Axpy", bottoms=("s", "x", "x")),
        [],
        MAP.max((1, 2), keepdims=True) * MAP + MAP,
    ),
    "elu of another alpha": (layer("ELU", "elu_param { alpha: 0.5 }"), [], np.where(MAP > 0, MAP, np.expm1(MAP) / 2)),
    "swish": (layer("Swish", "swish_param { beta: 2 }"), [], MAP / (1 + np.exp(-2 * MAP))),
    "absolute": (layer("AbsVal"), [], np.abs(MAP)),
    "BNLL": (layer("BNLL"), [], np.log1p(np.exp(MAP))),
    "threshold": (layer("Threshold", "threshold_param { threshold: 0.5 }"), [], np.where(MAP > 0.5, 1.0, 0.0)),
    "threshold of what is equal to it": (
        layer("Power", "power_param { scale: 0 shift: 0.5 }").replace('"l"', '"m"')
        + layer("Threshold", "threshold_param { threshold: 0.5 }", bottoms=("y",), tops=("z",)),
        [],
        np.zeros_like(MAP),
    ),
    "clip": (layer("Clip", "clip_param { min: -0.5 max: 0.25 }"), [], np.clip(MAP, -0.5, 0.25)),
    "square": (layer("Power", "power_param { power: 2 scale: 0.5 shift: 1 }"), [], (MAP / 2 + 1) ** 2),
    "power of 0": (layer("Power", "power_param { power: 0 }"), [], np.ones_like(MAP)),
    "exponential": (layer("Exp", "exp_param { base: 2 scale: 3 shift: -1 }"), [], 2 ** (3 * MAP - 1)),
    "exponential of base e": (layer("Exp", "exp_param { shift: 0.5 }"), [], np.exp(MAP + 0.5)),
    "logarithm": (layer("Log", "log_param { base: 10 scale: 0.1 shift: 5 }"), [], np.log10(MAP / 10 + 5)),
    "logarithm of base e": (layer("Log", "log_param { shift: 9 }"), [], np.log(MAP + 9)),
    "softmax of rows": (
        layer("Softmax", "softmax_param { axis: 2 }"),
        [],
        np.exp(MAP) / np.exp(MAP).sum(1, keepdims=True),
    ),
    "softmax of columns": (
        layer("Softmax", "softmax_param { axis: -1 }"),
        [],
        np.exp(MAP) / np.exp(MAP).sum(2, keepdims=True),
    ),
    "LRN across": (
        layer("LRN", "lrn_param { local_size: 3 alpha: 2 beta: 0.5 k: 3 }"),
        [],
        MAP / np.sqrt(3 + 2 / 3 * np.stack([(MAP[max(c - 1, 0) : c + 2] ** 2).sum(0) for c in range(4)])),
    ),
    "LRN within, where k is ignored": (
        layer("LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 1 alpha: 2 beta: 1 k: 3 }"),
        [],
        MAP / (1 + 2 * MAP**2),
    ),
    "normalize": (layer("Normalize"), [np.array([3.0])], 3 * MAP / np.sqrt((MAP**2).sum())),
    "normalize channels": (
        layer(
            "Normalize",
            "norm_param { across_spatial: false channel_shared: false eps: 0.5 scale_filler { value: 20 } }",
        ),
        [FOUR],
        FOUR[:, None, None] * MAP / np.sqrt((MAP**2).sum(0) + 0.5),
    ),
    "MVN": (
        layer("MVN", "mvn_param { eps: 0.5 }"),
        [],
        (MAP - MAP.mean((1, 2), keepdims=True)) / (MAP.std((1, 2), keepdims=True) + 0.5),
    ),
    "MVN across channels without variance": (
        layer("MVN", "mvn_param { across_channels: true normalize_variance: false }"),
        [],
        MAP - MAP.mean(),
    ),
    "batch norm of its own statistics": (
        layer("BatchNorm", "batch_norm_param { use_global_stats: false eps: 0.5 }"),
        [],
        (MAP - MAP.mean((1, 2), keepdims=True)) / np.sqrt(MAP.var((1, 2), keepdims=True) + 0.5),
    ),
    "batch norm with scale": (
        layer("BatchNorm", "batch_norm_param { scale_bias: true eps: 0.5 }"),
        [OTHER * 4, FOUR**2 * 4, np.array([4.0]), FOUR, OTHER],
        (MAP - OTHER[:, None, None]) / np.sqrt(FOUR[:, None, None] ** 2 + 0.5) * FOUR[:, None, None]
        + OTHER[:, None, None],
    ),
    "scale of rows": (layer("Scale", "scale_param { axis: 2 }"), [np.arange(6.0)], MAP * np.arange(6.0)[:, None]),
    "scale of columns with bias": (
        layer("Scale", "scale_param { axis: -1 bias_term: true }"),
        [np.arange(5.0), np.arange(5.0) ** 2],
        MAP * np.arange(5.0) + np.arange(5.0) ** 2,
    ),
    "scale of channels and rows": (
        layer("Scale", "scale_param { axis: 1 num_axes: 2 }"),
        [np.arange(24.0).reshape(4, 6)],
        MAP * np.arange(24.0).reshape(4, 6, 1),
    ),
    "scale of everything": (layer("Scale", "scale_param { axis: 0 num_axes: -1 }"), [MAP[None]], MAP**2),
    "scale by another blob": (
        layer("Reduction", "reduction_param { axis: 2 operation: MEAN }", tops=("s",)).replace('"l"', '"m"')
        + layer("Scale", "scale_param { axis: 0 }", bottoms=("x", "s")),
        [],
        MAP * MAP.mean((1, 2), keepdims=True),
    ),
    "scale by another blob with bias": (
        layer("Reduction", "reduction_param { axis: 2 operation: MEAN }", tops=("s",)).replace('"l"', '"m"')
        + layer("Scale", "scale_param { axis: 0 bias_term: true }", bottoms=("x", "s")),
        [FOUR.reshape(1, 4)],
        MAP * MAP.mean((1, 2), keepdims=True) + FOUR[:, None, None],
    ),
    "bias": (layer("Bias"), [FOUR], MAP + FOUR[:, None, None]),
    "bias of rows": (layer("Bias", "bias_param { axis: 2 }"), [np.arange(6.0)], MAP + np.arange(6.0)[:, None]),
    "bias by one number": (layer("Bias", "bias_param { num_axes: 0 }"), [np.array(2.0)], MAP + 2),
    "bias by another blob": (layer("Bias", "bias_param { axis: 0 }", bottoms=("x", "x")), [], 2 * MAP),
    "inner product of rows": (
        layer("InnerProduct", "inner_product_param { num_output: 2 axis: 2 }"),
        [np.arange(60.0).reshape(2, 30), np.array([5.0, 6])],
        (MAP.reshape(4, 30) @ np.arange(60.0).reshape(2, 30).T + [5, 6])[:, :, None],
    ),
    "transposed inner product of columns": (
        layer("InnerProduct", "inner_product_param { num_output: 2 axis: -1 transpose: true bias_term: false }"),
        [np.arange(10.0).reshape(5, 2)],
        MAP @ np.arange(10.0).reshape(5, 2),
    ),
    "concat of rows": (
        layer("Concat", "concat_param { axis: 2 }", bottoms=("x", "x")),
        [],
        np.concatenate([MAP, MAP], 1),
    ),
    "tile": (layer("Tile", "tile_param { tiles: 3 }"), [], np.tile(MAP, (3, 1, 1))),
    "many tiles": (layer("Tile", "tile_param { axis: 2 tiles: 4229 }"), [], np.tile(MAP, (1, 4229, 1))),
    "tile of columns": (layer("Tile", "tile_param { axis: 3 tiles: 2 }"), [], np.tile(MAP, 2)),
    "dropout that scales": (
        layer("Dropout", "dropout_param { scale_train: false dropout_ratio: 0.25 }"),
        [],
        MAP * 0.75,
    ),
    "flatten of rows": (layer("Flatten", "flatten_param { axis: 2 }"), [], MAP.reshape(4, 30, 1)),
    "flatten of channels and rows": (
        layer("Flatten", "flatten_param { axis: 1 end_axis: 2 }"),
        [],
        MAP.reshape(24, 5, 1),
    ),
    "reshape to three axes": (
        layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 2 } }"),
        [],
        MAP.reshape(60, 2, 1),
    ),
    "reshape of the batch": (layer("Reshape", "reshape_param { shape { dim: -1 dim: 5 } }"), [], MAP.reshape(24, 5, 1)),
    "softmax of rows that became the batch": (
        layer("Reshape", "reshape_param { shape { dim: -1 dim: 5 } }").replace('"l"', '"m"')
        + layer("Softmax", bottoms=("y",), tops=("z",)),
        [],
        (np.exp(MAP) / np.exp(MAP).sum(2, keepdims=True)).reshape(24, 5, 1),
    ),
    "permute": (layer("Permute", "permute_param { order: [0, 2, 3, 1] }"), [], MAP.transpose(1, 2, 0)),
    "permute of some": (layer("Permute", "permute_param { order: [0, 3] }"), [], MAP.transpose(2, 0, 1)),
    "channel shuffle": (
        layer("ShuffleChannel", "shuffle_channel_param { group: 2 }"),
        [],
        MAP.reshape(2, 2, 6, 5).swapaxes(0, 1).reshape(4, 6, 5),
    ),
    "channel shuffle by five axes": (
        layer("Reshape", "reshape_param { shape { dim: [0, 2, 2, 6, 5] } }").replace('"l"', '"m"')
        + layer("Permute", "permute_param { order: [0, 2, 1] }", bottoms=("y",), tops=("z",)).replace('"l"', '"n"')
        + layer("Reshape", "reshape_param { shape { dim: [0, 4, 6, 5] } }", bottoms=("z",), tops=("w",)),
        [],
        MAP.reshape(2, 2, 6, 5).swapaxes(0, 1).reshape(4, 6, 5),
    ),
    "crop": (
        layer("Pooling", "pooling_param { kernel_size: 3 stride: 1 }", tops=("p",)).replace('"l"', '"m"')
        + layer("Crop", "crop_param { axis: 2 offset: [2, 1] }", bottoms=("x", "p")),
        [],
        MAP[:, 2:6, 1:4],
    ),
    "argmax": (layer("ArgMax", "argmax_param { axis: 1 }"), [], MAP.argmax(0)[None]),
    "argmax with values": (
        layer("ArgMax", "argmax_param { axis: 2 top_k: 2 out_max_val: true }"),
        [],
        np.sort(MAP, 1)[:, :-3:-1],
    ),
    "argmax of all": (layer("ArgMax", "argmax_param { top_k: 3 }"), [], np.argsort(-MAP.ravel())[:3].reshape(1, 3, 1)),
    "argmax of all with values": (
        layer("ArgMax", "argmax_param { top_k: 3 out_max_val: true }"),
        [],
        np.stack([np.argsort(-MAP.ravel())[:3], -np.sort(-MAP.ravel())[:3]])[:, :, None],
    ),
    "argmax of equal numbers": (
        layer("Threshold", "threshold_param { threshold: 100 }").replace('"l"', '"m"')
        + layer("ArgMax", "argmax_param { axis: 1 }", bottoms=("y",), tops=("z",)),
        [],
        np.full((1, 6, 5), 3),
    ),
    "reduction": (layer("Reduction", "reduction_param { axis: 2 coeff: 2 }"), [], 2 * MAP.sum((1, 2), keepdims=True)),
    "reduction to magnitudes": (
        layer("Reduction", "reduction_param { operation: ASUM axis: 3 }"),
        [],
        np.abs(MAP).sum(2)[:, :, None],
    ),
    "reduction of all": (
        layer("Reduction", "reduction_param { operation: SUMSQ }"),
        [],
        (MAP**2).sum().reshape(1, 1, 1),
    ),
    "reduction of five axes": (
        layer("Reshape", "reshape_param { shape { dim: [0, 2, 2, 6, 5] } }").replace('"l"', '"m"')
        + layer("Reduction", "reduction_param { operation: MEAN axis: 4 }", bottoms=("y",), tops=("z",)),
        [],
        MAP.mean(2).reshape(2, 2, 6),
    ),
    "upsample by two scales": (
        layer("Upsample", "upsample_param { scale_h: 2 scale_w: 3 }"),
        [],
        MAP.repeat(2, 1).repeat(3, 2),
    ),
    "unpooling to a size": (unpooling("scale: 7 upsample_h: 6 upsample_w: 5"), [], where_largest(MAP, 2, stride=2)),
    "unpooling to an odd width": (unpooling("scale: 2 pad_out_w: true"), [], where_largest(MAP, 2, stride=2)),
    "unpooling to an odd height": (
        layer("Reshape", "reshape_param { shape { dim: [0, 4, 5, 6] } }", tops=("t",)).replace('"l"', '"turned"')
        + unpooling("scale: 2 pad_out_h: true").replace('bottom: "x"', 'bottom: "t"'),
        [],
        where_largest(MAP.reshape(4, 5, 6), 2, stride=2),
    ),
    "unpooling by two factors": (
        unpooling("scale_h: 2 scale_w: 1", pool="kernel_h: 1 kernel_w: 1 stride_h: 2 stride_w: 1 round_mode: FLOOR"),
        [],
        MAP * (np.arange(6) % 2 == 0)[:, None],
    ),
    "unpooling with more rows": (
        unpooling("upsample_h: 9 upsample_w: 5"),
        [],
        np.pad(where_largest(MAP, 2, stride=2), ((0, 0), (0, 3), (0, 0))),
    ),
    "unpooling of windows that overlap": (
        unpooling("upsample_h: 6 upsample_w: 5", pool="kernel_size: 3 stride: 2 pad: 1"),
        [],
        where_largest(MAP, 3, stride=2, pad=1),
    ),
    "unpooling of the whole map": (
        unpooling("upsample_h: 6 upsample_w: 5", pool="global_pooling: true"),
        [],
        np.where(MAP.max((1, 2), keepdims=True) == MAP, MAP, 0),
    ),
    "interp": (layer("Interp", "interp_param { height: 11 width: 9 }"), [], between(between(MAP, 1), 2)),
    "interp by a factor": (layer("Interp", "interp_param { zoom_factor: 2 }"), [], between(between(MAP, 1), 2)),
    "interp by shrinking what is cropped": (
        layer("Interp", "interp_param { shrink_factor: 2 pad_beg: -1 }"),
        [],
        (MAP[:, 1::2, 1:] + 0)[:, :, [0, 3]],
    ),
    "interp to the size of another": (
        layer("Reshape", "reshape_param { shape { dim: [0, 1, 20, 6] } }", tops=("p",)).replace('"l"', '"m"')
        + layer("Crop", "crop_param { offset: 0 }", bottoms=("p", "x"), tops=("q",)).replace('"l"', '"n"')
        + layer("Interp", bottoms=("q", "x")),
        [],
        MAP.reshape(1, 20, 6)[:, :6, :5],
    ),
    "interpolation of half pixels": (
        layer("BilinearInterpolate", "bilinear_interpolate_param { dst_h: 3 dst_w: 5 align_corners: false }"),
        [],
        (MAP[:, ::2] + MAP[:, 1::2]) / 2,
    ),
    "padding": (
        layer("Pad", "pad_param { pad_u: 1 pad_d: 2 pad_l: 3 pad_r: 4 pad_value: 0.5 }"),
        [],
        np.pad(MAP, ((0, 0), (1, 2), (3, 4)), constant_values=0.5),
    ),
    "padding of zeros": (layer("Pad", "pad_param { pad_u: 1 }"), [], np.pad(MAP, ((0, 0), (1, 0), (0, 0)))),
    "dropout": (layer("Dropout", "dropout_param { dropout_ratio: 0.9 }"), [], MAP),
    "flatten": (layer("Flatten"), [], MAP.reshape(-1, 1, 1)),
    "reshape to a vector": (
        layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }"),
        [],
        MAP.reshape(-1, 1, 1),
    ),
    "reshape to a map": (
        layer("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: 10 dim: 6 } }"),
        [],
        MAP.reshape(2, 10, 6),
    ),
    "reshape with the definition's batch": (
        layer("Reshape", "reshape_param { shape { dim: 8 dim: 2 dim: 10 dim: 6 } }"),
        [],
        MAP.reshape(2, 10, 6),
    ),
    "reshape of some axes": (
        layer("Reshape", "reshape_param { shape { dim: 5 dim: 6 } axis: -3 num_axes: 2 }"),
        [],
        MAP.reshape(4, 5, 6),
    ),
    "upsample": (layer("Upsample", "upsample_param { scale: 3 }"), [], MAP.repeat(3, 1).repeat(3, 2)),
    "max pool": (
        layer("Pooling", "pooling_param { kernel_size: 3 stride: 3 }"),
        [],
        np.stack([MAP[:, i : i + 3, j : j + 3].max((1, 2)) for i in (0, 3) for j in (0, 3)], 1).reshape(4, 2, 2),
    ),
    "average pool that reaches beyond": (
        layer("Pooling", "pooling_param { pool: AVE kernel_h: 6 kernel_w: 4 stride: 4 }"),
        [],
        np.stack([MAP[:, :, :4].mean((1, 2)), MAP[:, :, 4:].mean((1, 2))], 1)[:, None],
    ),
    "global pool": (
        layer("Pooling", "pooling_param { pool: AVE global_pooling: true }"),
        [],
        MAP.mean((1, 2), keepdims=True),
    ),
    "pool wider than the map": (
        layer("Pooling", "pooling_param { pool: AVE kernel_size: 7 stride: 7 }"),
        [],
        MAP.mean((1, 2), keepdims=True),
    ),
    "convolution of 1x1": (
        layer("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }"),
        [np.arange(8.0).reshape(2, 4, 1, 1), np.array([1.0, 2]).reshape(1, 1, 1, 2)],
        np.einsum("oi,ihw->ohw", np.arange(8.0).reshape(2, 4), MAP) + column(1, 2),
    ),
    "depthwise convolution without group": (
        layer("ConvolutionDepthwise", "convolution_param { num_output: 4 kernel_size: 1 bias_term: false }"),
        [FOUR.reshape(4, 1, 1, 1)],
        MAP * FOUR[:, None, None],
    ),
    **{
        f"{type} of a tall kernel": (
            layer(
                type,
                "convolution_param { num_output: 8 kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 2 }",
            ),
            [TALL, np.arange(8.0)],
            correlated(MAP, TALL, stride=(2, 3), pad=(1, 2)) + column(*range(8)),
        )
        for type in ("ConvolutionDepthwise", "DepthwiseConvolution")
    },
    **{
        f"dilated {type}": (
            layer(
                type, "convolution_param { num_output: 4 kernel_size: 2 stride: 2 pad: 1 dilation: 3 bias_term: false }"
            ),
            [SMALL],
            correlated(MAP, SMALL, stride=(2, 2), pad=(1, 1), dilation=3),
        )
        for type in ("ConvolutionDepthwise", "DepthwiseConvolution")
    },
    "dilated deconvolution": (
        layer("Deconvolution", "convolution_param { num_output: 3 kernel_size: 2 dilation: 3 bias_term: false }"),
        [SQUARE],
        spread(MAP, SQUARE, 3),
    ),
    "max pool of other pads": (
        layer("Pooling", "pooling_param { kernel_h: 3 kernel_w: 2 stride: 2 pad_h: 2 pad_w: 1 }"),
        [],
        windows(MAP, (3, 2), ((-2, 0, 2, 4), (-1, 1, 3))),
    ),
    "max pool rounded down by ceil_mode": (
        layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 ceil_mode: false }"),
        [],
        windows(MAP, (3, 3), ((0, 2), (0, 2))),
    ),
    "max pool rounded down by round_mode": (
        layer("Pooling", "pooling_param { kernel_size: 2 stride: 3 round_mode: FLOOR }"),
        [],
        windows(MAP, (2, 2), ((0, 3), (0, 3))),
    ),
    "concat on the axis of old definitions": (
        layer("Concat", "concat_param { concat_dim: 2 }", bottoms=("x", "x")),
        [],
        np.concatenate([MAP, MAP], 1),
    ),
    "slice on the axis of old definitions": (
        layer("Slice", "slice_param { slice_dim: 2 slice_point: 1 }", tops=("a", "b")).replace('"l"', '"m"')
        + layer("Concat", "concat_param { axis: 2 }", bottoms=("b", "a")),
        [],
        np.roll(MAP, -1, 1),
    ),
    "crop of columns alone": (
        layer("Pooling", "pooling_param { kernel_size: 3 stride: 1 }", tops=("p",)).replace('"l"', '"m"')
        + layer("Crop", "crop_param { axis: 3 offset: 2 }", bottoms=("x", "p")),
        [],
        MAP[:, :, 2:5],
    ),
    "interp of what is cropped at the end": (
        layer("Interp", "interp_param { zoom_factor: 1 pad_end: -2 }"),
        [],
        MAP[:, :4, :3],
    ),
    "deconvolution in two groups": (
        layer("Deconvolution", "convolution_param { num_output: 2 group: 2 kernel_size: 1 bias_term: false }"),
        [FOUR.reshape(4, 1, 1, 1)],
        (MAP * FOUR[:, None, None]).reshape(2, 2, 6, 5).sum(1),
    ),
    "inner product": (
        layer("InnerProduct", "inner_product_param { num_output: 2 bias_term: false }"),
        [np.arange(240.0).reshape(1, 1, 2, 120)],
        (np.arange(240.0).reshape(2, 120) @ MAP.ravel()).reshape(2, 1, 1),
    ),
    "transposed inner product": (
        layer("InnerProduct", "inner_product_param { num_output: 2 transpose: true }"),
        [np.arange(240.0).reshape(120, 2), np.array([5.0, 6])],
        (MAP.ravel() @ np.arange(240.0).reshape(120, 2) + [5, 6]).reshape(2, 1, 1),
    ),
}


@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_computes_what_it_should(case: str, load: Any, values: Values) -> None:
    definition, blobs, expected = LAYERS[case]
    graph = load(HEADER + definition, {"l": blobs})
    (result,) = values(graph, MAP)
    np.testing.assert_allclose(result, expected, atol=1e-4)
    assert graph.outputs == ("l",)
    assert [origin.line for origin in graph["l"].origins] == [2]


VECTOR_LAYERS: dict[str, tuple[str, list[Array], Array]] = {
    "softmax on the last axis": (layer("Softmax", "softmax_param { axis: -1 }"), [], np.exp(VECTOR) / np.exp(VECTOR).sum()),
    "flatten": (layer("Flatten"), [], VECTOR),
    "reshape to a map": (
        layer("Reshape", "reshape_param { shape { dim: -1 dim: 2 dim: 3 dim: 1 } }"),
        [],
        VECTOR.reshape(2, 3, 1),
    ),
    "scale of all axes": (layer("Scale", "scale_param { num_axes: -1 }"), [np.arange(6.0)], VECTOR * column(*range(6))),
}  # fmt: skip


@pytest.mark.parametrize("case", VECTOR_LAYERS)
def test_a_layer_on_a_vector_computes_what_it_should(case: str, load: Any, values: Values) -> None:
    definition, blobs, expected = VECTOR_LAYERS[case]
    (result,) = values(load(VECTOR_HEADER + definition, {"l": blobs}), VECTOR)
    np.testing.assert_allclose(result, expected, atol=1e-6)


UNSUPPORTED = {
    "unknown type": (layer("Warp"), "DV301", "layers of the type Warp cannot be converted"),
    "type in other letters": (layer("Relu"), "DV301", 'did you mean "ReLU"?'),
    "type with a typo": (layer("Convolutoin"), "DV301", 'did you mean "Convolution"?'),
    "type of a fork, named after Caffe's": (layer("YoloDetectionOutput"), "DV301", "let the network end before it"),
    "type of more dimensions": (layer("Pooling3D"), "DV301", "let the network end before it"),
    "data": (layer("Data", bottoms=()) + layer("Eltwise", bottoms=("y", "x"), tops=("z",)), "DV301", "replace it with an Input layer"),
    "words": (layer("Embed"), "DV301", "make them the network's input"),
    "LSTM": (layer("LSTM"), "DV301", "run the recurrent part in the application"),
    "RNN": (layer("RNN"), "DV301", "run the recurrent part in the application"),
    "Python": (layer("Python", "python_param { module: 'm' layer: 'l' }"), "DV301", "with Caffe's own layers"),
    "proposals": (layer("ROIPooling"), "DV301", "let the network end before it"),
    "stochastic pool": (layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }"), "DV302", "STOCHASTIC"),
    "leaky relu6": (layer("ReLU6", "relu_param { negative_slope: 0.1 }"), "DV302", "negative slope"),
    "concat of the batch": (layer("Concat", "concat_param { concat_dim: 0 }", bottoms=("x", "x")), "DV302", "axis 0 of 1x4x6x5"),
    "softmax of the batch": (layer("Softmax", "softmax_param { axis: 0 }"), "DV302", "axis 0 of 1x4x6x5"),
    "convolution of rows": (layer("Convolution", "convolution_param { num_output: 2 kernel_size: 1 axis: 2 }"), "DV302", "other axes"),
    "pool with its mask": (layer("Pooling", "pooling_param { kernel_size: 2 }", tops=("y", "m")), "DV302", "the mask of a pooling"),
    "pool with dilation": (layer("Pooling", "pooling_param { kernel_size: 2 dilation: 2 }"), "DV302", "pooling_param.dilation"),
    "pool of nothing": (layer("Pooling", "pooling_param { kernel_size: 1 stride: 7 }"), "DV302", "entirely beyond"),
    "unpooling by a map": (layer("Upsample", "upsample_param { scale: 2 }", bottoms=("x", "x")), "DV302", "is no mask of a pooling"),
    "unpooling to another width": (unpooling("upsample_h: 6 upsample_w: 6"), "DV302", "give upsample_h: 6 and upsample_w: 5"),
    "unpooling to less": (unpooling("upsample_h: 5 upsample_w: 5"), "DV302", "an unpooling to the size 5x5"),
    "unpooling by two, as nothing is said": (unpooling(), "DV302", "an unpooling to the size 6x6"),
    "values that are a mask": (
        unpooling("upsample_h: 6 upsample_w: 5").replace('bottom: "p" bottom: "m"', 'bottom: "m" bottom: "m"'), "DV302", "an input of an unpooling",
    ),
    "arithmetic on a mask": (
        layer("Pooling", "pooling_param { kernel_size: 2 }", tops=("p", "m")).replace('"l"', '"pool"') + layer("ReLU", bottoms=("m",)),
        "DV302", "the mask of a pooling",
    ),
    "average pool with a mask": (layer("Pooling", "pooling_param { pool: AVE kernel_size: 2 }", tops=("y", "m")), "DV302", "2 outputs"),
    "upsample to a size": (layer("Upsample", "upsample_param { upsample_h: 9 }"), "DV302", 'by a given "scale"'),
    "upsample by two scales": (layer("Upsample", "upsample_param { scale: 2 scale_h: 3 scale_w: 2 }"), "DV302", 'by a given "scale"'),
    "upsample with more": (layer("Upsample", "upsample_param { scale: 2 pad_out_h: true }"), "DV302", "pad_out_h"),
    "batch norm of the batch with scale": (
        layer("BatchNorm", "batch_norm_param { scale_bias: true use_global_stats: false }"), "DV302", "together with scale_bias",
    ),
    "BN of the batch": (layer("BN", "bn_param { bn_mode: LEARN }"), "DV302", "bn_mode: LEARN"),
    "training form": (layer("Dropout", "phase: TRAIN"), "DV302", "phase: TRAIN"),
    "largest of several samples": (
        layer("Reshape", "reshape_param { shape { dim: -1 dim: 5 } }").replace('"l"', '"m"') + layer("ArgMax", bottoms=("y",), tops=("z",)),
        "DV302", "each of several samples",
    ),
    "reduction of some of five axes": (
        layer("Reshape", "reshape_param { shape { dim: [0, 2, 2, 6, 5] } }").replace('"l"', '"m"')
        + layer("Reduction", "reduction_param { axis: 2 }", bottoms=("y",), tops=("z",)),
        "DV302", "a reduction of the axes 2 to 4 of 5",
    ),
    "input of five axes": (layer("Input", "input_param { shape { dim: [1, 2, 3, 4, 5] } }", bottoms=(), tops=("w",)) + layer("ReLU", bottoms=("w",)).replace('"l"', '"m"'), "DV302", "has 5 axes"),
    "depthwise in groups": (layer("DepthwiseConvolution", "convolution_param { num_output: 4 group: 2 }"), "DV302", "in 2 groups"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_a_form_that_cannot_be_converted_is_refused(case: str, load: Any) -> None:
    definition, code, says = UNSUPPORTED[case]
    with pytest.raises(UnsupportedError) as caught:
        load(HEADER + definition, {"l": [FOUR, FOUR, np.ones(1)]})
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in str(problem)
    assert problem.where is not None
    assert (problem.where.layer, problem.where.line) == ("l", 2)


SMALLER = layer("Pooling", "pooling_param { kernel_size: 2 }").replace('"l"', '"m"')
CONVOLUTION = "convolution_param { num_output: 2 kernel_size: 1 %s }"
SENSELESS = {
    "no type": (layer(""), "DV212", "the layer has no type"),
    "no kernel": (layer("Convolution", "convolution_param { num_output: 2 }"), "DV206", "no kernel size"),
    "no outputs": (layer("Convolution", "convolution_param { kernel_size: 2 }"), "DV206", '"num_output" is missing'),
    "outputs beyond all networks": (
        layer("Convolution", "convolution_param { kernel_size: 2 num_output: 2147483647 }"), "DV206", "more than 16777216",
    ),
    "no outputs, full": (layer("InnerProduct"), "DV206", '"num_output" is missing'),
    "stride 0": (layer("Convolution", CONVOLUTION % "stride: 0"), "DV206", "must be at least 1"),
    "kernel twice": (layer("Convolution", CONVOLUTION % "kernel_h: 3 kernel_w: 3"), "DV206", '"kernel_size" is given, and'),
    "half a stride": (layer("Convolution", CONVOLUTION % "stride_h: 2"), "DV206", "must be given together"),
    "three pads": (layer("Convolution", CONVOLUTION % "pad: [1, 1, 1]"), "DV206", '"pad" is given 3 times'),
    "three dilations": (layer("Convolution", CONVOLUTION % "dilation: [1, 1, 1]"), "DV206", '"dilation" is given 3 times'),
    "a kernel not fit any memory": (
        layer("Convolution", "convolution_param { num_output: 2 kernel_size: 4000000000 pad: 4000000000 bias_term: false }"),
        "DV205", "but the definition needs 2x4x4000000000x4000000000",
    ),
    "groups that do not divide": (layer("Convolution", CONVOLUTION % "group: 3"), "DV206", "do not make 3 groups"),
    "no group": (layer("Deconvolution", CONVOLUTION % "group: 0"), "DV206", "do not make 0 groups"),
    "axis beyond": (layer("Softmax", "softmax_param { axis: 4 }"), "DV206", "axis is 4, but the input has 4 axes"),
    "pool without kernel": (layer("Pooling"), "DV206", "no kernel size"),
    "pool padded too much": (layer("Pooling", "pooling_param { kernel_size: 2 pad: 2 }"), "DV206", "must be smaller than the kernel"),
    "padded global pool": (layer("Pooling", "pooling_param { global_pooling: true pad: 1 }"), "DV206", "no padding"),
    "floor pool wider than the map": (layer("Pooling", "pooling_param { kernel_size: 7 ceil_mode: false }"), "DV206", "does not fit"),
    "sum of one": (layer("Eltwise"), "DV206", "two inputs or more"),
    "coefficients missing": (layer("Eltwise", "eltwise_param { coeff: 2 }", bottoms=("x", "x")), "DV206", "1 coefficients"),
    "concat on two axes": (layer("Concat", "concat_param { axis: 1 concat_dim: 1 }"), "DV206", "both given"),
    "reshape to another size": (layer("Reshape", "reshape_param { shape { dim: 0 dim: 7 } }"), "DV206", "cannot become 1x7"),
    "reshape with two unknowns": (layer("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }"), "DV206", "cannot become"),
    "reshape with a 0 too many": (layer("Reshape", "reshape_param { shape { dim: [0, 0, 0, 0, 0] } }"), "DV206", "does not have"),
    "reshape beyond the axes": (layer("Reshape", "reshape_param { axis: 3 num_axes: 2 }"), "DV206", "do not fit an input"),
    "product with coefficients": (
        layer("Eltwise", "eltwise_param { operation: PROD coeff: 1 coeff: 1 }", bottoms=("x", "x")), "DV206", "for sums only",
    ),
    "LRN of an even size": (layer("LRN", "lrn_param { local_size: 4 }"), "DV206", "local_size is 4"),
    "clip without a maximum": (layer("Clip", "clip_param { min: 1 }"), "DV206", "must both be given"),
    "clip to nothing": (layer("Clip", "clip_param { min: 1 max: 0 }"), "DV206", "min is 1, above max"),
    "exponential of a negative base": (layer("Exp", "exp_param { base: -2 }"), "DV206", "the base is -2"),
    "logarithm of the base 1": (layer("Log", "log_param { base: 1 }"), "DV206", "the base 1"),
    "flatten backwards": (layer("Flatten", "flatten_param { axis: 3 end_axis: 2 }"), "DV206", "after end_axis"),
    "permute twice": (layer("Permute", "permute_param { order: 1 order: 1 }"), "DV206", "the order 1 1"),
    "permute beyond": (layer("Permute", "permute_param { order: 4 }"), "DV206", "the order 4"),
    "shuffle unequal groups": (layer("ShuffleChannel", "shuffle_channel_param { group: 3 }"), "DV206", "do not make 3 groups"),
    "unequal slices": (layer("Slice", tops=("a", "b", "c")), "DV206", "4 elements on axis 1 do not make 3 equal slices"),
    "slice points that fall": (layer("Slice", "slice_param { slice_point: [2, 1] }", tops=("a", "b", "c")), "DV206", "the slice points [2, 1]"),
    "slice on two axes": (layer("Slice", "slice_param { axis: 1 slice_dim: 1 }"), "DV206", "both given"),
    "crop without a reference": (layer("Crop"), "DV206", "needs two inputs"),
    "crop beyond": (layer("Crop", "crop_param { offset: 1 }", bottoms=("x", "x")), "DV206", "is not a part of 1x4x6x5"),
    "crop with three offsets": (layer("Crop", "crop_param { offset: [0, 0, 0] }", bottoms=("x", "x")), "DV206", "3 offsets"),
    "tile to nothing": (layer("Tile"), "DV206", '"tiles" must be at least 1'),
    "tile not fit any memory": (layer("Tile", "tile_param { tiles: 2000000000 }"), "DV206", "not fit any memory"),
    "pyramid without levels": (layer("SPP", "spp_param { pyramid_height: 0 }"), "DV206", "pyramid_height is 0; it must be 1 to 12"),
    "pyramid of tiny windows": (layer("SPP", "spp_param { pyramid_height: 3 }"), "DV206", "the input 6x5x4 is too small for 4x4 windows"),
    "axpy of one": (layer("Axpy"), "DV206", "needs factors and two maps"),
    "axpy of maps": (layer("Axpy", bottoms=("x", "x", "x")), "DV206", "factors of 1x4x6x5"),
    "top 5 of 4": (layer("ArgMax", "argmax_param { axis: 1 top_k: 5 }"), "DV206", "top_k is 5, of 4"),
    "scale of too many axes": (layer("Scale", "scale_param { axis: 2 num_axes: 3 }"), "DV206", "do not fit an input of 4 axes"),
    "bias by more": (layer("Bias", bottoms=("x", "x")), "DV206", "1x4x6x5 from axis 1 on does not fit"),
    "interp without a size": (layer("Interp"), "DV206", "the settings (none) do not define"),
    "interp with half a size": (layer("Interp", "interp_param { height: 9 }"), "DV206", "the settings (height) do not define"),
    "interp to nothing": (layer("Interp", "interp_param { height: 0 width: 5 }"), "DV206", "0x5 is no size"),
    "interp with padding": (layer("Interp", "interp_param { pad_beg: 1 zoom_factor: 2 }"), "DV206", "must not be above 0"),
    "interpolation of unknown corners": (
        layer("BilinearInterpolate", "bilinear_interpolate_param { dst_h: 2 dst_w: 2 }"), "DV206", '"align_corners" must be given',
    ),
    "unpooling by one factor": (unpooling("scale_h: 2"), "DV206", "the factors of the unpooling are not clear"),
    "unpooling by three factors": (unpooling("scale: 2 scale_h: 2 scale_w: 2"), "DV206", "the factors of the unpooling are not clear"),
    "unpooling to half a size": (unpooling("upsample_h: 6"), "DV206", "6x0 is no size"),
    "unpooling by three less a row": (unpooling("scale: 3 pad_out_h: true"), "DV206", "apply to an unpooling by 2"),
    "boxes without an image": (layer("PriorBox", "prior_box_param { min_size: 2 }"), "DV206", "needs a map and the image"),
    "boxes without a size": (layer("PriorBox", bottoms=("x", "x")), "DV206", "0 min_size and 0 max_size"),
    "boxes that shrink": (
        layer("PriorBox", "prior_box_param { min_size: 2 max_size: 2.5 }", bottoms=("x", "x")), "DV206", "each max_size above its min_size",
    ),
    "boxes of two steps": (
        layer("PriorBox", "prior_box_param { min_size: 2 step: 2 step_h: 2 }", bottoms=("x", "x")), "DV206", 'either "step", or "step_h"',
    ),
    "boxes of no width": (
        layer("PriorBox", "prior_box_param { min_size: 2 aspect_ratio: 0 }", bottoms=("x", "x")), "DV206", "the aspect ratio 0",
    ),
    "boxes of three variances": (
        layer("PriorBox", "prior_box_param { min_size: 2 variance: [1, 2, 3] }", bottoms=("x", "x")), "DV206", "one variance, or four",
    ),
    "detections of nothing": (layer("DetectionOutput"), "DV206", "needs locations, confidences and boxes"),
    "detections without classes": (layer("DetectionOutput", bottoms=("x", "x", "x")), "DV206", '"num_classes" is missing'),
    "no detections": (
        layer("DetectionOutput", "detection_output_param { num_classes: 2 keep_top_k: 0 }", bottoms=("x", "x", "x")), "DV206", "keep_top_k is 0",
    ),
    "detections of other boxes": (
        layer("DetectionOutput", "detection_output_param { num_classes: 2 keep_top_k: 5 }", bottoms=("x", "x", "x")), "DV202", "is not a shape of prior boxes",
    ),
    "global pool with a kernel": (layer("Pooling", "pooling_param { global_pooling: true kernel_size: 2 }"), "DV206", "has no kernel size"),
    "concat of nothing": (layer("Concat", bottoms=()), "DV206", "the layer has no input"),
    "concat of unequal ranks": (
        layer("Flatten").replace('"l"', '"m"') + layer("Concat", bottoms=("x", "y"), tops=("z",)), "DV206", "different numbers of axes: 4, 2",
    ),
    "concat of unequal maps": (SMALLER + layer("Concat", bottoms=("x", "y"), tops=("z",)), "DV206", "cannot be joined on axis 1"),
    "sum of unequal maps": (SMALLER + layer("Eltwise", bottoms=("x", "y"), tops=("z",)), "DV206", "have different sizes: 1x4x6x5, 1x4x5x4"),
    "crop to another rank": (
        layer("Flatten").replace('"l"', '"m"') + layer("Crop", bottoms=("x", "y"), tops=("z",)), "DV206", "cropped to one of 2",
    ),
    "convolution of one axis with two kernels": (
        layer("Reshape", "reshape_param { shape { dim: [0, 4, 30] } }").replace('"l"', '"m"')
        + layer("Convolution", "convolution_param { num_output: 1 kernel_h: 2 kernel_w: 3 }", bottoms=("y",), tops=("z",)),
        "DV206", "the settings are for two",
    ),
    "detections of no eta": (
        layer("DetectionOutput", "detection_output_param { num_classes: 2 nms_param { eta: 0 } }", bottoms=("x", "x", "x")), "DV206", "eta is 0",
    ),
    "detections below any overlap": (
        layer("DetectionOutput", "detection_output_param { num_classes: 2 nms_param { nms_threshold: -1 } }", bottoms=("x", "x", "x")),
        "DV206", "nms_threshold must not be below 0",
    ),
    "boxes of no step": (layer("PriorBox", "prior_box_param { min_size: 2 step: 0 }", bottoms=("x", "x")), "DV206", '"step" must be above 0'),
    "two sizes for one input": (
        layer("Input", "input_param { shape { dim: [1, 2] } shape { dim: [1, 2] } }", bottoms=(), tops=("w",)) + layer("ReLU", bottoms=("w",)).replace('"l"', '"m"'), "DV206", "2 sizes are given for 1 inputs",
    ),
    "input without channels": (layer("Input", "input_param { shape { dim: [1, 0, 3, 3] } }", bottoms=(), tops=("w",)) + layer("ReLU", bottoms=("w",)).replace('"l"', '"m"'), "DV206", "number of channels"),
    "input without a size": (layer("Input", "input_param { shape { dim: [1, 3, 0, 3] } }", bottoms=(), tops=("w",)) + layer("ReLU", bottoms=("w",)).replace('"l"', '"m"'), "DV206", "size of the input"),
    "kernel wider than the map": (layer("Convolution", "convolution_param { num_output: 2 kernel_size: 9 bias_term: false }"), "DV202", "smaller than the kernel"),
}  # fmt: skip


@pytest.mark.parametrize("case", SENSELESS)
def test_a_layer_that_makes_no_sense_is_an_error(case: str, load: Any) -> None:
    definition, code, says = SENSELESS[case]
    with pytest.raises(ModelError) as caught:
        load(HEADER + definition, {"l": [np.ones((2, 4, 9, 9))]})
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in str(problem)
    assert problem.where is not None
    assert (problem.where.layer, problem.where.line) == ("l", 2)


ROWS_HEADER = 'input: "x" input_shape { dim: 8 dim: 4 dim: 6 }\n'
ROWS = RANDOM.standard_normal((4, 6, 1))
ROWS_LAYERS: dict[str, tuple[str, list[Array], Array]] = {
    "convolution": (
        layer("Convolution", "convolution_param { num_output: 1 kernel_size: 2 stride: 2 pad: 1 dilation: 2 bias_term: false }"),
        [np.stack([FOUR, OTHER], 1)[None]],
        np.array([sum(w[0] * (c[i] if i >= 0 else 0) + w[1] * (c[i + 2] if i + 2 < 6 else 0) for w, c in zip(zip(FOUR, OTHER, strict=True), ROWS[:, :, 0], strict=True)) for i in (-1, 1, 3)])[None, :, None],
    ),
    "deconvolution": (
        layer("Deconvolution", "convolution_param { num_output: 4 group: 4 kernel_size: 2 stride: 2 bias_term: false }"),
        [np.stack([FOUR, OTHER], 1)[:, None]],
        (ROWS * np.stack([FOUR, OTHER], 1)[:, None]).reshape(4, 12, 1),
    ),
    "batch norm of its own statistics": (
        layer("BatchNorm", "batch_norm_param { use_global_stats: false eps: 0 }"), [],
        (ROWS - ROWS.mean(1, keepdims=True)) / ROWS.std(1, keepdims=True),
    ),
    "prelu": (layer("PReLU"), [FOUR], np.where(ROWS > 0, ROWS, ROWS * FOUR[:, None, None])),
    "softmax of the last axis": (layer("Softmax", "softmax_param { axis: 2 }"), [], np.exp(ROWS) / np.exp(ROWS).sum(1, keepdims=True)),
    "permute": (layer("Permute", "permute_param { order: [0, 2, 1] }"), [], ROWS.swapaxes(0, 1)),
    "argmax of all": (layer("ArgMax"), [], ROWS.argmax().reshape(1, 1, 1)),
    "inner product": (layer("InnerProduct", "inner_product_param { num_output: 1 bias_term: false }"), [np.arange(24.0)[None]], (np.arange(24.0) @ ROWS.ravel()).reshape(1, 1, 1)),
    "slice": (layer("Slice", "slice_param { axis: 2 slice_point: 2 }", tops=("y", "z")) + layer("Concat", "concat_param { axis: 2 }", bottoms=("z", "y"), tops=("w",)), [], np.roll(ROWS, 4, 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS_LAYERS)
def test_a_layer_on_rows_of_channels_computes_what_it_should(case: str, load: Any, values: Values) -> None:
    definition, blobs, expected = ROWS_LAYERS[case]
    (result,) = values(load(ROWS_HEADER + definition, {"l": blobs}), ROWS)
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_a_convolution_on_one_axis_has_settings_of_one_axis(load: Any) -> None:
    with pytest.raises(ModelError, match="the settings are for two"):
        load(ROWS_HEADER + layer("Convolution", "convolution_param { num_output: 1 kernel_h: 2 kernel_w: 3 }"))


def test_slices_have_the_names_of_their_blobs_and_unread_ones_are_left_out(load: Any, values: Values) -> None:
    slices = layer("Slice", "slice_param { axis: 2 slice_point: [1, 3] }", tops=("a", "b", "c"))
    graph = load(HEADER + slices)
    assert graph.outputs == ("a", "b", "c")
    for got, bounds in zip(values(graph, MAP), (slice(1), slice(1, 3), slice(3, 6)), strict=True):
        np.testing.assert_array_equal(got, MAP[:, bounds])
    silence = "".join(f'layer {{ name: "{n}" type: "Silence" bottom: "{n}" }}' for n in "ac")
    assert [node.name for node in load(HEADER + slices + silence).nodes] == ["x", "b"]


@pytest.mark.parametrize(("kernel", "row"), [(4, [0.25, 0.75, 0.75, 0.25]), (5, [1 / 3, 2 / 3, 1, 2 / 3, 1 / 3])])
def test_a_bilinear_deconvolution_that_was_never_trained(kernel: int, row: list[float], load: Any) -> None:
    settings = f"num_output: 4 group: 4 kernel_size: {kernel} stride: 2 weight_filler {{ type: 'bilinear' }}"
    definition = HEADER + layer("Deconvolution", f"convolution_param {{ {settings} bias_filler {{ value: 0.5 }} }}")
    with pytest.warns(ConvertorWarning, match="DV214: the weights file holds nothing for the layer"):
        op = load(definition)["l"].op
    assert isinstance(op, ops.ConvTranspose2d) and op.bias is not None
    np.testing.assert_allclose(op.weight.load(), np.broadcast_to(np.outer(row, row), (4, 1, kernel, kernel)), rtol=1e-6)
    np.testing.assert_array_equal(op.bias.load(), [0.5] * 4)

    trained = load(definition, {"l": [np.full((4, 1, kernel, kernel), 7.0), FOUR]})["l"].op
    assert isinstance(trained, ops.ConvTranspose2d)
    assert (trained.weight.load() == 7).all()


def test_other_weights_that_are_missing_are_never_made_up(load: Any) -> None:
    for filler in (
        "kernel_size: 4 weight_filler { type: 'constant' value: 1 }",
        "kernel_size: 3 weight_filler { type: 'bilinear' }",
    ):
        with pytest.raises(ModelError, match="DV204"):
            load(HEADER + layer("Deconvolution", f"convolution_param {{ num_output: 4 {filler} }}"))


def test_convolutions_need_maps(load: Any) -> None:
    with pytest.raises(ModelError, match="needs a map"):
        load(VECTOR_HEADER + layer("Convolution", CONVOLUTION % ""), {"l": []})


def test_all_that_is_unsupported_is_listed_in_the_order_of_the_network(load: Any) -> None:
    definition = "".join(
        f'\nlayer {{ name: "{name}" type: "{type}" bottom: "{bottom}" top: "{name}" {settings} }}'
        for name, type, bottom, settings in (
            ("a", "LSTM", "x", ""),
            ("b", "Pooling", "a", "pooling_param { pool: STOCHASTIC kernel_size: 2 }"),
            ("c", "ReLU", "b", ""),
            ("d", "Warp", "c", ""),
            ("e", "InnerProduct", "d", "inner_product_param { num_output: 3 }"),
            ("f", "Embed", "x", ""),
        )
    )
    with pytest.raises(UnsupportedError) as caught:
        load(HEADER + definition, {"e": [np.ones((3, 7)), np.ones(3)]})
    assert [(p.code, p.where.layer, p.where.line) for p in caught.value.problems if p.where] == [
        ("DV301", "a", 3),
        ("DV302", "b", 4),
        ("DV301", "d", 6),
        ("DV301", "f", 8),
    ]


def test_an_unpooling_is_not_blamed_for_the_pooling_before_it(load: Any) -> None:
    with pytest.raises(UnsupportedError) as caught:
        load(HEADER + unpooling("scale: 2", pool="pool: STOCHASTIC kernel_size: 2"))
    assert [p.where.layer for p in caught.value.problems if p.where] == ["pool"]


def test_a_mask_that_nobody_needs_is_none(load: Any) -> None:
    pooling = layer("Pooling", "pooling_param { kernel_size: 2 }", tops=("y", "m"))
    graph = load(HEADER + pooling + 'layer { name: "s" type: "Silence" bottom: "m" }')
    assert [(node.name, type(node.op)) for node in graph.nodes] == [("x", ops.Input), ("l", ops.MaxPool2d)]


def test_an_unpooling_goes_by_what_was_pooled_before_layers_in_place(load: Any, values: Values) -> None:
    """The pooling reads the blob before a ReLU in place."""
    pooling, unpooled = unpooling("upsample_h: 6 upsample_w: 5").split("layer { ")[1:]
    relu = layer("ReLU", bottoms=("x",), tops=("x",)).replace('"l"', '"relu"')
    graph = load(HEADER + f"layer {{ {pooling} {relu} layer {{ {unpooled}")
    result, _ = sorted(zip(graph.outputs, values(graph, MAP), strict=True))
    np.testing.assert_array_equal(result[1], where_largest(MAP, 2, stride=2))


def test_settings_of_another_type_are_left_out_with_a_warning(load: Any) -> None:
    with pytest.warns(ConvertorWarning, match='"pooling_param" does not belong to a layer of this type'):
        load(HEADER + layer("ReLU", "pooling_param { kernel_size: 2 }"))


# --- weights


def test_all_missing_weights_are_listed(load: Any) -> None:
    definition = HEADER + layer("PReLU") + layer("Scale", bottoms=("y",), tops=("z",)).replace('"l"', '"m"')
    with pytest.raises(ModelError) as caught:
        load(definition)
    assert [(p.code, p.where.layer) for p in caught.value.problems if p.where] == [("DV204", "l"), ("DV204", "m")]
    assert "net.caffemodel holds no weights for the layer" in str(caught.value)


@pytest.mark.parametrize(
    ("blobs", "code", "says"),
    [
        ([np.ones((2, 4, 1, 1))], "DV204", "only 1 of 2 blobs"),
        ([np.ones((2, 4, 1, 1)), np.ones(2), np.ones(2)], "DV204", "3 blobs for the layer, but its definition has only 2"),
        ([np.ones((2, 4, 3, 3)), np.ones(2)], "DV205", "blob 0 of the layer is 2x4x3x3 in net.caffemodel, but the definition needs 2x4x1x1"),
        ([np.ones((2, 4, 1, 1)), np.ones(3)], "DV205", "blob 1 of the layer is 3 in net.caffemodel, but the definition needs 2"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_an_error(blobs: list[Array], code: str, says: str, load: Any) -> None:
    with pytest.raises(ConvertorError) as caught:
        load(HEADER + layer("Convolution", CONVOLUTION % ""), {"l": blobs})
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in problem.message


@pytest.mark.parametrize("shape", [(2, 36), (72,), (2, 4, 9), (1, 1, 2, 36), (8, 9)], ids=str)
def test_blobs_whose_axes_are_joined_are_accepted(shape: tuple[int, ...], load: Any) -> None:
    """Old files hold 2x36 for 2x4x3x3: the same numbers in the same order."""
    weight = RANDOM.standard_normal((2, 4, 3, 3)).astype(np.float32)
    settings = "convolution_param { num_output: 2 kernel_size: 3 bias_term: false }"
    op = load(HEADER + layer("Convolution", settings), {"l": [weight.reshape(shape)]})["l"].op
    assert isinstance(op, ops.Conv2d)
    np.testing.assert_array_equal(op.weight.load(slice(1, 2)), weight[1:])


@pytest.mark.parametrize("shape", [(36, 2), (3, 24), (4, 2, 3, 3), (2, 6, 6)], ids=str)
def test_blobs_of_the_same_size_with_other_axes_are_an_error(shape: tuple[int, ...], load: Any) -> None:
    settings = "convolution_param { num_output: 2 kernel_size: 3 bias_term: false }"
    with pytest.raises(ModelError, match="but the definition needs 2x4x3x3"):
        load(HEADER + layer("Convolution", settings), {"l": [np.ones(shape)]})


def test_weights_are_read_in_ranges_of_rows(load: Any) -> None:
    weight = RANDOM.standard_normal((4, 6, 3, 3)).astype(np.float32)
    settings = "convolution_param { num_output: 6 kernel_size: 3 bias_term: false %s }"
    graph = load(HEADER + layer("Deconvolution", settings % ""), {"l": [weight]})
    op = graph["l"].op
    assert isinstance(op, ops.ConvTranspose2d)
    np.testing.assert_array_equal(op.weight.load(slice(2, 5)), weight.swapaxes(0, 1)[2:5])

    grouped = load(HEADER + layer("Deconvolution", settings % "group: 2"), {"l": [weight[:, :3]]})["l"].op
    assert isinstance(grouped, ops.ConvTranspose2d)
    expected = np.concatenate([weight[:2, :3].swapaxes(0, 1), weight[2:, :3].swapaxes(0, 1)])
    np.testing.assert_array_equal(grouped.weight.load(slice(1, 5)), expected[1:5])


def test_blobs_are_shared_by_name(load: Any, values: Values) -> None:
    shared = 'param { name: "w" }'
    definition = (
        HEADER + layer("Scale", shared) + layer("Scale", shared, bottoms=("y",), tops=("z",)).replace('"l"', '"m"')
    )
    (result,) = values(load(definition, {"l": [FOUR]}), MAP)
    np.testing.assert_allclose(result, MAP * FOUR[:, None, None] ** 2, atol=1e-6)


def test_two_layers_of_one_name_with_weights_are_an_error(load: Any) -> None:
    definition = HEADER + layer("Scale") + layer("Scale", bottoms=("y",), tops=("z",))
    with pytest.raises(ModelError, match='several layers have the name "l"'):
        load(definition, {"l": [FOUR]})


def test_old_weights_and_old_definitions(load: Any, values: Values) -> None:
    weight, bias = RANDOM.standard_normal((3, 120)), np.array([1.0, 2, 3])
    definition = 'layers { name: "l" type: INNER_PRODUCT bottom: "x" top: "y" inner_product_param { num_output: 3 } }'
    (result,) = values(load(HEADER + definition, {"l": [weight, bias]}, v1=True), MAP)
    np.testing.assert_allclose(result.ravel(), weight @ MAP.ravel() + bias, atol=1e-4)
