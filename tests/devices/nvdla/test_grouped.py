"""Convolutions of groups: each block reads and writes its channels of the whole maps, as the twin shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, MisfitError
from cnn_convertor.devices.nvdla.cubes import Place, channels_of, packed_cube
from cnn_convertor.devices.nvdla.grouped import blocks_of
from cnn_convertor.devices.nvdla.weight_packing import StoredKernels, aligned, packed
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.layouts.nvdla import features
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import pack
from devices.nvdla.convolutions import INPUT, OUTPUT, WEIGHTS, Convolved, convolved, run

HALF = Precision.FP16
THREE = Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))


def numbers(seed: int, *shape: int) -> NDArray[Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def size_of(height: int, channels: int, kernels: int, window: Window = THREE) -> ConvolutionSize:
    return ConvolutionSize(Shape(height, height + 1, channels), kernels, window)


# Groups, and how many each block has.
CASES = {
    "depthwise": (size_of(7, 144, 144), 144, [32, 32, 32, 32, 16]),
    "depthwise, few channels": (size_of(7, 20, 20), 20, [20]),
    "depthwise, two kernels a channel": (size_of(9, 96, 192), 96, [32, 32, 32]),
    "one group a surface": (size_of(7, 64, 64), 4, [2, 2]),
    "groups of 24": (size_of(12, 120, 240), 5, [2, 2, 1]),
    "groups of 3": (size_of(5, 51, 51), 17, [17]),
    "AlexNet": (size_of(13, 256, 384), 2, [1, 1]),
    "strides": (size_of(16, 64, 64, Window(Pair(3, 3), Pair(2, 2))), 64, [32, 32]),
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_compute_the_groups(compiler: None, name: str) -> None:
    size, groups, of_blocks = CASES[name]
    channels = size.input.channels // groups
    values = numbers(1, *size.input)
    kernels = numbers(2, size.kernels, channels, *size.window.kernel)
    blocks = blocks_of(size, groups, NV_FULL, HALF)
    assert [block.groups for block in blocks] == of_blocks
    source = packed_cube(size.input, Place(INPUT, 0), NV_FULL, HALF)
    output = packed_cube(size.output, Place(OUTPUT, 0), NV_FULL, HALF)
    offset = 0
    each, stored = [], []
    for block in blocks:
        assert block.first_input % 16 == block.first_output % 16 == 0
        weights = StoredKernels(offset, block.weight_of(Constant.of(kernels)), None, block.groups)
        read = channels_of(source, block.first_input, block.size.input.channels, NV_FULL, HALF)
        written = channels_of(output, block.first_output, block.size.kernels, NV_FULL, HALF)
        each.append(Convolved(block.size, block.convolving, read, written, Place(WEIGHTS, offset)))
        stored.append(weights)
        offset = aligned(offset + weights.nbytes(NV_FULL))
    memory = (
        pack(values.transpose(2, 0, 1), features.feature_data(HALF)).tobytes(),
        b"".join(piece.tobytes() for piece in packed(stored, NV_FULL)),
        bytes(output.size),
    )
    ran = run(each, memory, size.output, NV_FULL, HALF)
    dense = np.zeros((size.kernels, size.input.channels, *size.window.kernel), np.float16)
    for kernel in range(size.kernels):
        first = kernel // (size.kernels // groups) * channels
        dense[kernel, first : first + channels] = kernels[kernel]
    expected = convolved(values, dense, size)
    assert np.allclose(ran.output, expected, rtol=2**-10, atol=2**-12 * np.abs(expected).max())


def test_large_depthwise_layers_never_become_dense() -> None:
    blocks = blocks_of(size_of(14, 2048, 2048), 2048, NV_FULL, HALF)
    assert len(blocks) > 16
    assert sum(block.convolving.weight_bytes for block in blocks) < 64 * 2048 * 9 * 2 + 1


def test_a_convolution_that_fits_in_no_blocks_is_refused() -> None:
    with pytest.raises(MisfitError, match="banks of the convolution buffer"):
        blocks_of(ConvolutionSize(Shape(7, 7, 1024), 8192, Window(Pair(7, 7))), 2, NV_FULL, HALF)
