"""Encodes runs as the device's registers; the fields keep the SDK's names."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np

from cnn_convertor.devices.dv700.runs import ConvolutionKind, PoolingKind, Run
from cnn_convertor.ir.ops import Elu, Function, Padding, Pair, PRelu, Relu, Relu6, Sigmoid, Tanh

TRANSPOSED = 0x8000  # input_circular_offset: maps lie in HWC order
OUTPUT_CONCATENATES, OUTPUT_ADDS = 0, 1  # output_mode
NO_WEIGHTS, FP16_WEIGHTS, PALETTE_WEIGHTS = 0, 1, 3  # weight_fmt
ACTFUNC: Mapping[type[Function], int] = {Tanh: 1, Relu: 2, Sigmoid: 3, PRelu: 4, Elu: 5, Relu6: 6}


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
    convolution, pooling = run.convolution, run.pooling
    dilated = convolution is not None and convolution.dilation != (1, 1)
    actfunc, actfunc_param = _activation(run.activation)
    return RunRegisters(
        m=run.output.channels,
        conv_enable=0 if run.kind is None else int(run.kind),
        p=_pair(Pair(1, 1) if convolution is None else convolution.kernel),
        pz=1,
        weight_offs=0 if run.weights is None else run.weights.offset,
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
    if run.weights is None:
        return NO_WEIGHTS
    return PALETTE_WEIGHTS if run.weights.packed.palette else FP16_WEIGHTS


def _activation(function: Function | None) -> tuple[int, int]:
    """actfunc and actfunc_param."""
    if function is None:
        return 0, 0
    return ACTFUNC[type(function)], half_bits(function.slope) if isinstance(function, Relu) else 0


def legend() -> tuple[str, ...]:
    """What the values of the registers mean, one line each."""
    return (
        "topo: bit i is 1 if run i writes to external memory, and 0 if run i + 1 reads its output",
        _values("conv_enable", "off", {int(kind): _words(kind) for kind in ConvolutionKind}),
        _values("weight_fmt", "none", {FP16_WEIGHTS: "FP16", PALETTE_WEIGHTS: "8-bit palette"}),
        _values("pool_enable", "off", {int(kind): _words(kind) for kind in PoolingKind}),
        _values("actfunc", "none", {value: kind.__name__ for kind, value in ACTFUNC.items()}),
    )


def _values(register: str, zero: str, words: Mapping[int, str]) -> str:
    return f"{register}: 0 {zero}, {', '.join(f'{value} {word}' for value, word in words.items())}"


def _words(kind: Enum) -> str:
    return kind.name.lower().replace("_", " ")
