"""Layers as text, their inputs, and what they compute, written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir.graph import Graph

Array = NDArray[Any]
Values = Callable[[Graph, Array], list[Array]]

RANDOM = np.random.default_rng(5)
MAP = RANDOM.standard_normal((4, 6, 5))
VECTOR = RANDOM.standard_normal((6, 1, 1))
HEADER = 'input: "x" input_shape { dim: 8 dim: 4 dim: 6 dim: 5 }\n'
VECTOR_HEADER = 'input: "x" input_shape { dim: 8 dim: 6 }\n'
ROWS_HEADER = 'input: "x" input_shape { dim: 8 dim: 4 dim: 6 }\n'


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
CONVOLUTION = "convolution_param { num_output: 2 kernel_size: 1 %s }"
