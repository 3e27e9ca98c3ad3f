"""Registers, bit by bit, against values worked out by hand from section 2 of the specification."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cnn_convertor.devices.dv700.encode.registers import (
    OUTPUT_ADDS,
    OUTPUT_CONCATENATES,
    TRANSPOSED,
    RunRegisters,
    encode,
    half_bits,
)
from cnn_convertor.devices.dv700.runs import Convolution, ConvolutionKind, Pooling, PoolingKind, Run, Weights
from cnn_convertor.devices.dv700.weights.streams import PackedShape
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE, Padding, Pair, Shape

SLOPES = Constant.of(np.ones(16))
WEIGHTS = Weights(
    offset=0x1230,
    packed=PackedShape(16, 3, Pair(5, 3)),
    kernels=Constant.of(np.ones((16, 3, 5, 3))),
    bias=None,
    slopes=None,
    where=None,
)
CONVOLUTION = Convolution(
    ConvolutionKind.CONVOLUTION, kernel=Pair(height=5, width=3), stride=Pair(height=2, width=1), dilation=ONE,
    padding=Padding(top=4, bottom=3, left=2, right=1), output=Shape(9, 8, 16), weights=WEIGHTS,
)  # fmt: skip
POOL = Pooling(
    PoolingKind.MAX, Pair(height=3, width=2), Pair(height=2, width=1), Padding(top=1, bottom=2, left=0, right=5)
)
RUN = Run(Shape(10, 9, 3), Shape(4, 8, 16), CONVOLUTION, None, None)


def test_a_run_with_everything() -> None:
    assert encode(replace(RUN, pooling=POOL, activation=ops.Relu(0.25))) == RunRegisters(
        m=16, conv_enable=1, p=0x0503, pz=1, weight_offs=0x1230, weight_fmt=1, conv_pad=0x03040102, conv_stride=0x0201,
        conv_dilation=0, pool_enable=1, pool_size=0x0302, pool_stride=0x0201, pool_pad=0x02010500, pool_avg_param=0,
        actfunc=2, actfunc_param=0x3400, rectifi_en=0, lrn=0,
    )  # fmt: skip


def test_a_run_without_convolution() -> None:
    average = Pooling(PoolingKind.AVERAGE, Pair(7, 7), Pair(7, 7), ops.NO_PADDING, factor=1 / 49)
    assert encode(replace(RUN, convolution=None, pooling=average, output=Shape(1, 1, 3))) == RunRegisters(
        m=3, conv_enable=0, p=0x0101, pz=1, weight_offs=0, weight_fmt=0, conv_pad=0, conv_stride=0x0101,
        conv_dilation=0, pool_enable=2, pool_size=0x0707, pool_stride=0x0707, pool_pad=0, pool_avg_param=0x2539,
        actfunc=0, actfunc_param=0,
    )  # fmt: skip


def test_unused_strides_are_one() -> None:
    registers = encode(RUN)
    assert (registers.pool_enable, registers.pool_size, registers.pool_stride, registers.pool_pad) == (0, 0, 0x0101, 0)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(ConvolutionKind.CONVOLUTION, 1), (ConvolutionKind.DEPTHWISE, 3), (ConvolutionKind.DECONVOLUTION, 5),
     (ConvolutionKind.DEPTHWISE_DECONVOLUTION, 7)],
)  # fmt: skip
def test_kinds_of_convolution(kind: ConvolutionKind, value: int) -> None:
    assert encode(replace(RUN, convolution=replace(CONVOLUTION, kind=kind))).conv_enable == value


@pytest.mark.parametrize(("kind", "value"), [(PoolingKind.MAX, 1), (PoolingKind.AVERAGE, 2), (PoolingKind.UPSAMPLE, 4)])
def test_kinds_of_pooling(kind: PoolingKind, value: int) -> None:
    assert encode(replace(RUN, convolution=None, pooling=replace(POOL, kind=kind))).pool_enable == value


@pytest.mark.parametrize(
    ("dilation", "value"), [(Pair(1, 1), 0), (Pair(height=2, width=3), 0x0203), (Pair(height=1, width=2), 0x0102)]
)
def test_dilation(dilation: Pair, value: int) -> None:
    assert encode(replace(RUN, convolution=replace(CONVOLUTION, dilation=dilation))).conv_dilation == value


def test_palette_weights() -> None:
    packed = PackedShape(16, 3, Pair(5, 3), palette=True)
    assert (
        encode(replace(RUN, convolution=replace(CONVOLUTION, weights=replace(WEIGHTS, packed=packed)))).weight_fmt == 3
    )


ACTIVATIONS: list[tuple[ops.Function | None, int, int]] = [
    (None, 0, 0),
    (ops.Tanh(), 1, 0),
    (ops.Relu(), 2, 0),
    (ops.Relu(0.1), 2, 0x2E66),
    (ops.Relu(-1.0), 2, 0xBC00),
    (ops.Sigmoid(), 3, 0),
    (ops.PRelu(SLOPES), 4, 0),
    (ops.Elu(), 5, 0),
    (ops.Relu6(), 6, 0),
]


@pytest.mark.parametrize(("function", "actfunc", "parameter"), ACTIVATIONS)
def test_activations(function: ops.Function | None, actfunc: int, parameter: int) -> None:
    registers = encode(replace(RUN, activation=function))
    assert (registers.actfunc, registers.actfunc_param) == (actfunc, parameter)


def test_largest_values_stay_in_their_bits() -> None:
    widest = replace(CONVOLUTION, stride=Pair(255, 255), dilation=Pair(255, 255), padding=Padding(127, 255, 127, 255))
    registers = encode(replace(RUN, convolution=widest, output=Shape(1024, 2047, 65535)))
    assert registers.conv_pad == 0xFF7FFF7F
    assert (registers.conv_stride, registers.conv_dilation, registers.m) == (0xFFFF, 0xFFFF, 0xFFFF)


@pytest.mark.parametrize(
    ("value", "bits"), [(0.0, 0), (1.0, 0x3C00), (-2.0, 0xC000), (0.5, 0x3800), (65504.0, 0x7BFF), (1 / 9, 0x2F1C)]
)
def test_half_bits(value: float, bits: int) -> None:
    assert half_bits(value) == bits


def test_modes() -> None:
    assert (TRANSPOSED, OUTPUT_CONCATENATES, OUTPUT_ADDS) == (0x8000, 0, 1)
