"""Names functions to the twin's exact mode, which then computes them in place of a table."""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import Final, NamedTuple, TypeAlias

from cnn_convertor.ir.ops import functions as f

ExactFunction: TypeAlias = f.ElementFunction | f.Elu

ADDRESS: Final = 0xFFFE0  # kExactFunction of nvdla_twin.h
_OF_CDP: Final = 1 << 8
_BOUNDS: Final = 4  # place of the first number of a table
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


class NamedTable(NamedTuple):
    """What a table stands for: a function, of CDP of a sum of squares, for x in low..high with this error at most."""

    function: ExactFunction
    low: float
    high: float
    largest_error: float


def naming(table: NamedTable, *, of_cdp: bool = False) -> tuple[tuple[int, int], ...]:
    """The writes, (address, value), that name the function of SDP's or CDP's table. They come after those of its entries.

    The response of CDP to a sum of squares is a Power.
    """
    function = table.function
    parameters = {number: float(value) for number, value in enumerate(astuple(function), 1)}
    parameters |= {_BOUNDS: table.low, _BOUNDS + 1: table.high, _BOUNDS + 2: table.largest_error}
    writes = []
    for number, value in parameters.items():
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        writes.append((ADDRESS + 4 * number, bits))
    number = _FUNCTIONS.index(type(function))
    return (*writes, (ADDRESS, number | _OF_CDP * of_cdp))
