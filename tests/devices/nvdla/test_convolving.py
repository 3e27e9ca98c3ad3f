"""Convolutions in bands and in parts: the twin accepts every plan, and computes the same bits with each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import NV_FULL, Configuration
from cnn_convertor.devices.nvdla.convolution_descriptors import conv_operation
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, MisfitError, bands_of, channels_that_fit, misfits
from cnn_convertor.devices.nvdla.cubes import Place
from cnn_convertor.devices.nvdla.firmware.conv import FEATURE
from cnn_convertor.devices.nvdla.firmware.descriptors import Engine
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.layouts.nvdla.precision import Precision
from devices.nvdla.convolutions import convolved, run_whole
from devices.nvdla.recorded_descriptors import cases

HALF = Precision.FP16


def numbers(seed: int, *shape: int) -> NDArray[Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def given(size: ConvolutionSize) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values (H, W, C), and kernels (K, C, R, S)."""
    return numbers(1, *size.input), numbers(2, size.kernels, size.input.channels, *size.window.kernel)


def small_buffer(banks: int, entries: int) -> Configuration:
    """nv_full, but for its convolution buffer."""
    return replace(NV_FULL, cbuf_banks=banks, cbuf_entries=entries)


def random_size(random: np.random.Generator) -> ConvolutionSize:
    height, width = map(int, random.integers(4, 40, 2))
    kernel = Pair(*map(int, random.integers(1, 4, 2)))
    stride = Pair(*map(int, random.integers(1, 4, 2)))
    dilation = Pair(*map(int, random.integers(1, 3, 2)))
    extent = Window(kernel, stride, dilation).extent
    above, below = map(int, random.integers(0, min(extent.height, 3), 2))
    left, right = map(int, random.integers(0, min(extent.width, 3), 2))
    window = Window(kernel, stride, dilation, Padding(above, below, left, right))
    padded = Shape(max(height, extent.height), max(width, extent.width), int(random.integers(1, 150)))
    return ConvolutionSize(padded, int(random.integers(1, 60)), window)


@pytest.mark.parametrize("seed", range(12))
def test_every_plan_gives_the_same_bits(compiler: None, seed: int) -> None:
    """With the buffer of nv_full, and with smaller ones, which need bands and parts."""
    random = np.random.default_rng(seed)
    size = random_size(random)
    values, kernels = given(size)
    ran = run_whole(size, bands_of(size, NV_FULL, HALF), values, kernels, NV_FULL, HALF)
    expected = convolved(values, kernels, size)
    assert np.allclose(ran.output, expected, rtol=2**-10, atol=2**-12 * np.abs(expected).max())
    kinds = set()
    for banks, entries in ((16, 64), (16, 16), (8, 16), (4, 128), (16, 5)):
        configuration = small_buffer(banks, entries)
        try:
            plan = bands_of(size, configuration, HALF)
        except MisfitError:
            continue
        kinds.add((len(plan.bands) > 1, plan.weights_stay))
        again = run_whole(size, plan, values, kernels, configuration, HALF)
        assert again.output.tobytes() == ran.output.tobytes()
        assert again.bytes_of("CDMA_DAT") == plan.input_bytes
        assert again.bytes_of("CDMA_WT") == plan.weight_bytes
        assert plan.moved_bytes >= plan.least_bytes
    assert kinds


def square(height: int, channels: int, kernels: int, kernel: int, stride: int = 1, pad: int = 0) -> ConvolutionSize:
    window = Window(Pair(kernel, kernel), Pair(stride, stride), padding=Padding(pad, pad, pad, pad))
    return ConvolutionSize(Shape(height, height, channels), kernels, window)


def spread(height: int, kernel: int, dilation: int) -> ConvolutionSize:
    """A convolution with dilation, whose output has the size of its input."""
    pad = (kernel - 1) * dilation // 2
    window = Window(Pair(kernel, kernel), dilation=Pair(dilation, dilation), padding=Padding(pad, pad, pad, pad))
    return ConvolutionSize(Shape(height, height, 64), 64, window)


# A convolution -> operations, banks for data and for weights, bytes moved for each that must be, and why.
PLANS = {
    "small": (square(14, 64, 64, 3, 1, 1), 1, (1, 3), 1.0, "all input and all weights fit"),
    "many weights": (square(14, 512, 512, 3, 1, 1), 1, (7, 9), 1.0, "all input fits, weights pass through 9 banks"),
    "a vector": (square(1, 4096, 4096, 1), 1, (1, 15), 1.0, "all input fits, weights pass through 15 banks"),
    "an image": (
        square(224, 3, 64, 3, 1, 1),
        4,
        (15, 1),
        1.027,
        "input in 4 bands of rows, since its 224 lines take 12,544 entries of the buffer; all weights stay",
    ),
    "beside the weights": (
        square(30, 256, 512, 3, 1, 1),
        2,
        (13, 3),
        1.847,
        (
            "input in 2 bands of rows, since its 30 lines take 3,600 entries of the buffer, too many beside the weights; "
            "weights pass through 3 banks for each band"
        ),
    ),
    "dilation": (
        spread(65, 3, 6),
        6,
        (3, 3),
        1.0,
        "input in 6 bands of rows, each with one of 6 lines as the kernel is dilated; all weights stay",
    ),
    "every second line": (
        square(56, 256, 512, 1, 2),
        4,
        (8, 8),
        1.0,
        "input in 4 bands of rows, since its 28 lines take 6,272 entries of the buffer; all weights stay",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_usual_layers(name: str) -> None:
    size, operations, banks, ratio, reason = PLANS[name]
    plan = bands_of(size, NV_FULL, HALF)
    assert (len(plan.bands), (plan.data_banks, plan.weight_banks), plan.reason) == (operations, banks, reason)
    assert round(plan.moved_bytes / plan.least_bytes, 3) == ratio


@pytest.mark.parametrize(
    "window",
    [
        Window(Pair(3, 2), Pair(1, 1), Pair(4, 3), Padding(4, 4, 1, 1)),
        Window(Pair(3, 3), Pair(2, 1), Pair(4, 1), Padding(5, 2, 1, 1)),
        Window(Pair(2, 1), Pair(3, 2), Pair(5, 1)),
        Window(Pair(3, 1), Pair(4, 1), Pair(6, 1), Padding(6, 0, 0, 0)),
        Window(Pair(1, 3), Pair(12, 2)),
        Window(Pair(3, 3), Pair(1, 1), Pair(40, 1), Padding(40, 40, 0, 0)),
    ],
    ids=str,
)
def test_skipped_lines_change_nothing(compiler: None, window: Window) -> None:
    """Kernels that see one of several lines: in operations that fetch these lines alone."""
    size = ConvolutionSize(Shape(43, 6, 70), 20, window)
    values, kernels = given(size)
    configuration = small_buffer(16, 24)
    plan = bands_of(size, configuration, HALF)
    assert plan.bands[0].lines.step > 1
    ran = run_whole(size, plan, values, kernels, configuration, HALF)
    expected = convolved(values, kernels, size)
    assert np.allclose(ran.output, expected, rtol=2**-10, atol=2**-12 * np.abs(expected).max())
    assert ran.bytes_of("CDMA_DAT") == plan.input_bytes
    assert ran.bytes_of("CDMA_WT") == plan.weight_bytes


def test_kernels_that_see_no_line_at_all_sum_zeros(compiler: None) -> None:
    window = Window(Pair(2, 2), Pair(1, 1), Pair(2, 1), Padding(1, 1, 0, 0))
    size = ConvolutionSize(Shape(1, 3, 5), 4, window)
    values, kernels = given(size)
    plan = bands_of(size, NV_FULL, HALF)
    assert not run_whole(size, plan, values, kernels, NV_FULL, HALF).output.any()


def test_what_fits_in_no_way_is_refused() -> None:
    reason = "a group of 16 kernels takes 25 banks of the convolution buffer and 7 lines of its input 2; there are 16"
    with pytest.raises(MisfitError, match=reason):
        bands_of(square(7, 512, 4096, 7), NV_FULL, HALF)
    assert misfits(square(7, 512, 4096, 7), NV_FULL, HALF) == (reason,)


@pytest.mark.parametrize(
    ("size", "channels"),
    [
        (square(7, 512, 4096, 7), 304),
        (square(14, 512, 512, 3, 1, 1), 512),
        (square(40, 16, 8, 33), 0),
        (ConvolutionSize(Shape(3, 2048, 64), 16, Window(Pair(3, 3))), 32),
    ],
)
def test_the_most_channels_that_fit(size: ConvolutionSize, channels: int) -> None:
    assert channels_that_fit(size, NV_FULL, HALF) == channels
    if 0 < channels < size.input.channels:
        more = size._replace(input=size.input._replace(channels=channels + 16))
        assert misfits(more, NV_FULL, HALF)
        assert not misfits(size._replace(input=size.input._replace(channels=channels)), NV_FULL, HALF)


MISFITS = {
    "height of its kernel is 33": square(40, 8, 8, 33),
    "horizontal stride is 9": square(40, 8, 8, 3, 9),
    "vertical stride is 9": square(40, 8, 8, 3, 9),
    "horizontal dilation is 33": spread(80, 3, 33),
    "channels of its input is 8193": square(1, 8193, 8, 1),
    "channels of its output is 9000": square(1, 16, 9000, 1),
    "padding above is 32": square(40, 8, 8, 32, 1, 32),
    "padding above or below is 3, not smaller than its kernel of 3": square(9, 8, 8, 3, 1, 3),
    "the size of a kernel in bytes is 401,408; the device takes 1 to 262,144": square(14, 1024, 8, 14),
}


@pytest.mark.parametrize("part", MISFITS)
def test_each_field_has_its_limit(part: str) -> None:
    assert any(part in clause for clause in misfits(MISFITS[part], NV_FULL, HALF))


def test_operations_equal_recorded_ones(shared: Path) -> None:
    """Those of features that need no bands, and see all their lines and all their padding; but for pad values and converters."""
    equal = Counter[str]()
    for case in cases(shared):
        for operation in case.task.operations:
            op, surfaces = operation.op, operation.surfaces
            if operation.engine is not Engine.CONV or op.data_format != FEATURE:
                continue
            precision = list(Precision)[op.in_precision]
            source = surfaces.src_data
            window = Window(
                Pair(op.kernel_height_csc, op.kernel_width_csc),
                Pair(op.conv_stride_y, op.conv_stride_x),
                Pair(op.dilation_y, op.dilation_x),
                Padding(op.pad_y_top, op.pad_y_bottom, op.pad_x_left, op.pad_x_right),
            )
            shape = Shape(source.height, source.width, source.channel)
            size = ConvolutionSize(shape, surfaces.dst_data.channel, window)
            plan = bands_of(size, case.configuration, precision)
            (band,) = plan.bands
            if (band.lines.number, band.pad_bottom, size.pad_right) != (
                source.height,
                op.pad_y_bottom,
                op.pad_x_right,
            ) or plan.weight_banks != op.weight_bank:
                continue
            weights = Place(surfaces.weight_data.address, surfaces.weight_data.offset)
            own, own_surfaces = conv_operation(
                size,
                band,
                plan,
                source=source,
                weights=weights,
                configuration=case.configuration,
                precision=precision,
            )
            assert replace(own, pad_val=op.pad_val, in_cvt=op.in_cvt, out_cvt=op.out_cvt) == op, case.name
            read = replace(own_surfaces.src_data, size=source.size)  # recorded: with the gap after the last line
            own_surfaces = replace(own_surfaces, src_data=read, weight_data=surfaces.weight_data)
            assert own_surfaces == surfaces, case.name
            equal[case.configuration.name] += 1
    assert equal == {"nv_full": 80, "nv_small": 53}
