"""Encodes runs as the device's registers; the fields keep the SDK's names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cnn_convertor.devices.dv700.program import Run
from cnn_convertor.errors import assert_never
from cnn_convertor.ir.ops import Elu, Function, Padding, Pair, PRelu, Relu, Relu6, Sigmoid, Tanh

TRANSPOSED = 0x8000  # input_circular_offset: maps lie in HWC order
OUTPUT_CONCATENATES, OUTPUT_ADDS = 0, 1  # output_mode
NO_WEIGHTS, FP16_WEIGHTS, PALETTE_WEIGHTS = 0, 1, 3  # weight_fmt
MAX_HALF = 65504.0  # the largest FP16 number


class RunRegisters(NamedTuple):
    """One dmp_dv_cmdraw_conv_v0_run, but for the memory that weight_offs belongs to."""

    m: int
    conv_enable: int
    p: int
    pz: int
    weight_offs: int
    weight_fmt: int
    conv_pad: int
    conv_stride: int
    conv_dilation: int
    pool_enable: int
    pool_size: int
    pool_stride: int
    pool_pad: int
    pool_avg_param: int
    actfunc: int
    actfunc_param: int
    rectifi_en: int = 0
    lrn: int = 0


def encode(run: Run) -> RunRegisters:
    """The registers of one run."""
    convolution, pooling = run.convolution, run.pooling
    dilated = convolution is not None and convolution.dilation != (1, 1)
    actfunc, actfunc_param = _activation(run.activation)
    return RunRegisters(
        m=run.output.channels,
        conv_enable=0 if convolution is None else int(convolution.kind),
        p=_pair(Pair(1, 1) if convolution is None else convolution.kernel),
        pz=1,
        weight_offs=0 if convolution is None else convolution.weights.offset,
        weight_fmt=_weight_format(run),
        conv_pad=0 if convolution is None else _padding(convolution.padding),
        conv_stride=_pair(Pair(1, 1) if convolution is None else convolution.stride),
        conv_dilation=_pair(convolution.dilation) if convolution is not None and dilated else 0,
        pool_enable=0 if pooling is None else int(pooling.kind),
        pool_size=0 if pooling is None else _pair(pooling.kernel),
        pool_stride=_pair(Pair(1, 1) if pooling is None else pooling.stride),
        pool_pad=0 if pooling is None else _padding(pooling.padding),
        pool_avg_param=0 if pooling is None else half_bits(pooling.factor),
        actfunc=actfunc,
        actfunc_param=actfunc_param,
    )


def half_bits(value: float) -> int:
    """The bits of the FP16 number next to the value."""
    return int(np.float16(value).view(np.uint16))


def _pair(pair: Pair) -> int:
    """x in bits 7..0, y in bits 15..8."""
    return pair.width | pair.height << 8


def _padding(padding: Padding) -> int:
    """Left in bits 7..0, then right, top, bottom."""
    return padding.left | padding.right << 8 | padding.top << 16 | padding.bottom << 24


def _weight_format(run: Run) -> int:
    if run.convolution is None:
        return NO_WEIGHTS
    return PALETTE_WEIGHTS if run.convolution.weights.packed.palette else FP16_WEIGHTS


def _activation(function: Function | None) -> tuple[int, int]:
    """actfunc and actfunc_param."""
    match function:
        case None:
            return 0, 0
        case Tanh():
            return 1, 0
        case Relu(slope=slope):
            return 2, half_bits(slope)
        case Sigmoid():
            return 3, 0
        case PRelu():
            return 4, 0
        case Elu():
            return 5, 0
        case Relu6():
            return 6, 0
        case _:
            assert_never(function)
