"""Names functions to the twin's exact mode, which then computes them in place of a table."""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import Final, TypeAlias

from cnn_convertor.ir.ops import functions as f

ExactFunction: TypeAlias = f.ElementFunction | f.Elu

ADDRESS: Final = 0xFFFF0  # kExactFunction of nvdla_twin.h
_OF_CDP: Final = 1 << 8
_FUNCTIONS: Final = (  # in the order of exact_functions.cpp, which takes their fields as parameters
    f.Sigmoid,
    f.Tanh,
    f.Elu,
    f.Swish,
    f.HardSigmoid,
    f.HardSwish,
    f.Gelu,
    f.Mish,
    f.Softplus,
    f.Softsign,
    f.ScaledElu,
    f.Exponential,
    f.Logarithm,
    f.Power,
    f.Absolute,
    f.Sine,
    f.Cosine,
    f.Arctangent,
    f.ErrorFunction,
    f.Floor,
    f.Round,
    f.Threshold,
    f.Clip,
    f.BoundedRelu,
)


def naming(function: ExactFunction, *, of_cdp: bool = False) -> tuple[tuple[int, int], ...]:
    """The writes, (address, value), that name the function of SDP's or CDP's table. They come after those of its entries.

    The response of CDP to a sum of squares is a Power.
    """
    parameters = [float(value) for value in astuple(function)]
    writes = []
    for number, value in enumerate(parameters, 1):
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        writes.append((ADDRESS + 4 * number, bits))
    number = _FUNCTIONS.index(type(function))
    return (*writes, (ADDRESS, number | _OF_CDP * of_cdp))
