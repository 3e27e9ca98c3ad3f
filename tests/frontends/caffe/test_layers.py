"""Layers, one by one: what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cnn_convertor.ir import ops
from frontends.caffe.layer_texts import (
    FOUR,
    HEADER,
    MAP,
    OTHER,
    RANDOM,
    ROWS_HEADER,
    SMALL,
    SQUARE,
    TALL,
    VECTOR,
    VECTOR_HEADER,
    Array,
    Values,
    averages,
    between,
    column,
    correlated,
    layer,
    spread,
    unpooling,
    where_largest,
    windows,
)

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
    **{
        f"batch norm with {setting}": (
            layer("BatchNorm", f"batch_norm_param {{ {setting} eps: 0.5 }}"),
            [OTHER * 4, FOUR**2 * 4, np.array([4.0]), FOUR, OTHER],
            (MAP - OTHER[:, None, None]) / np.sqrt(FOUR[:, None, None] ** 2 + 0.5) * FOUR[:, None, None]
            + OTHER[:, None, None],
        )
        for setting in ("scale_bias: true", 'scale_filler { type: "constant" value: 1 }', "bias_filler { value: 0 }")
    },
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
        for type in ("ConvolutionDepthwise", "DepthwiseConvolution", "DepthWiseConv", "DepthwiseConv")
    },
    **{
        f"dilated {type}": (
            layer(
                type, "convolution_param { num_output: 4 kernel_size: 2 stride: 2 pad: 1 dilation: 3 bias_term: false }"
            ),
            [SMALL],
            correlated(MAP, SMALL, stride=(2, 2), pad=(1, 1), dilation=3),
        )
        for type in ("ConvolutionDepthwise", "DepthwiseConvolution", "DepthWiseConv", "DepthwiseConv")
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


def test_slices_have_the_names_of_their_blobs_and_unread_ones_are_left_out(load: Any, values: Values) -> None:
    slices = layer("Slice", "slice_param { axis: 2 slice_point: [1, 3] }", tops=("a", "b", "c"))
    graph = load(HEADER + slices)
    assert graph.outputs == ("a", "b", "c")
    for got, bounds in zip(values(graph, MAP), (slice(1), slice(1, 3), slice(3, 6)), strict=True):
        np.testing.assert_array_equal(got, MAP[:, bounds])
    silence = "".join(f'layer {{ name: "{n}" type: "Silence" bottom: "{n}" }}' for n in "ac")
    assert [node.name for node in load(HEADER + slices + silence).nodes] == ["x", "b"]


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
