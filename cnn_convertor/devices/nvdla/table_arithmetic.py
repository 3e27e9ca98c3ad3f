"""What SDP and CDP compute with their tables in FP16, bit for bit, on arrays.

The numbers are FP64 that hold the device's FP32 or fp17 (a sign, 6 bits of exponent, 10 of fraction). It has no subnormal
numbers and no infinities inside; what is too large becomes the largest finite number.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.firmware.descriptors import Lut, Slope

Numbers: TypeAlias = NDArray[np.float64]
LE_ENTRIES: Final = 65  # of the first table, exponential or linear
LO_ENTRIES: Final = 257  # of the second one, linear
LINEAR: Final = 1  # the first table's method; else it is exponential
LARGEST_HALF: Final = 65504.0
_LARGEST: Final = float((2 - 2**-10) * 2**31)
_SMALLEST: Final = 2.0**-30
_LARGEST_SINGLE: Final = float(np.finfo(np.float32).max)
_SMALLEST_SINGLE: Final = 2.0**-126
_DROPPED: Final = 42  # bits of FP64's fraction that fp17 lacks
_SDP_FRACTION: Final = 35  # bits of a position between two entries
_CDP_FRACTION: Final = 16


def bits_of_single(value: float) -> int:
    """The FP32 number as its bits: what the starts and ends of tables hold."""
    return int(np.float32(value).view(np.uint32))


def bits_of_half(value: float) -> int:
    """The FP16 number as a signed number: what entries and slopes hold."""
    return int(np.float16(value).view(np.int16))


def halves(values: Numbers) -> tuple[int, ...]:
    """Values as entries of a table."""
    clipped = np.clip(values, -LARGEST_HALF, LARGEST_HALF)
    return tuple(clipped.astype(np.float16).view(np.int16).tolist())


def evaluated(lut: Lut, x: NDArray[Any]) -> NDArray[np.float16]:
    """What SDP's table makes of FP32 values. A NaN gives a NaN."""
    place = places(lut, x)
    entries = entries_of(lut)
    lower = _product(_rounded(1 - place.part), entries[place.entry])
    upper = _product(_kept(_rounded(place.part)), entries[place.entry + place.hit])
    return _half(
        _sum(np.where(place.hit == 1, lower, entries[place.entry]), np.where(place.hit == 1, upper, place.beside))
    )


def response(lut: Lut, sums: NDArray[Any]) -> Numbers:
    """The factors that CDP's table makes of sums of squares in FP32; fp17 numbers."""
    place = places(lut, sums, _CDP_FRACTION)
    entries = entries_of(lut)
    lower = entries[place.entry]
    upper = entries[place.entry + place.hit]
    rise = np.where(upper == lower, np.copysign(0.0, upper), _rounded(_single(upper - lower)))
    more = np.where(place.hit == 1, _product(rise, _kept(_rounded(place.part))), place.beside)
    return _sum(more, lower)


def responded(lut: Lut, x: NDArray[Any], size: int) -> NDArray[np.float16]:
    """What CDP makes of FP16 values (..., C), with windows of `size` channels."""
    values = np.asarray(x, np.float16).astype(np.float64)
    reach = size // 2
    squares = np.zeros((*values.shape[:-1], values.shape[-1] + 2 * reach))
    channels = values.shape[-1]
    squares[..., reach : reach + channels] = values * values  # exact in FP32
    sums = squares[..., reach : reach + channels]
    for distance in range(1, reach + 1):
        left = squares[..., reach - distance : reach - distance + channels]
        right = squares[..., reach + distance : reach + distance + channels]
        pair = _single(left + right)
        sums = _single(pair + sums)
    return _half(_product(values, response(lut, sums)))


class TablePlaces(NamedTuple):
    """Of each value: hit: 1 if it lies between two entries, else 0; entry: the lower one or the end, of both tables in one;
    part: of the way to the next entry; beside: what the slope adds to the end."""

    hit: NDArray[np.intp]
    entry: NDArray[np.intp]
    part: Numbers
    beside: Numbers


def places(lut: Lut, x: NDArray[Any], fraction: int = _SDP_FRACTION) -> TablePlaces:
    """Where FP32 values lie in the tables. fraction: bits of `part`."""
    values = np.clip(np.asarray(x, np.float32).astype(np.float64), -_LARGEST_SINGLE, _LARGEST_SINGLE)
    first = _single(values - _start(lut.linear_exp_start))
    le = _exponential(lut, first) if lut.method != LINEAR else _linear(first, lut.linear_exp_offset, LE_ENTRIES)
    lo = _linear(_single(values - _start(lut.linear_only_start)), lut.linear_only_offset, LO_ENTRIES)
    by_side = np.where(le[1] == 1, lut.overflow_priority, lut.underflow_priority)
    alike = (le[0] == 1) | (le[1] != lo[1])
    table = np.where(le[0] != lo[0], lo[0], np.where(alike, lut.hybrid_priority, by_side))
    hit, over, position = (np.where(table == 1, of_lo, of_le) for of_le, of_lo in zip(le, lo, strict=True))
    index = np.floor(position)
    part = np.floor((position - index) * 2.0**fraction) / 2.0**fraction
    last = np.where(table == 1, LO_ENTRIES - 1, LE_ENTRIES - 1)
    entry = index.astype(np.intp) + over * last + table * LE_ENTRIES
    beside = np.zeros_like(values)
    missed = np.nonzero(hit == 0)
    beside[missed] = _beside(lut, values[missed], (table[missed], over[missed]))
    return TablePlaces(hit, entry, part, beside)


def _linear(distance: Numbers, select: int, entries: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Numbers]:
    """Hit, over, and the position in entries, which is 0 without a hit."""
    position = distance * 2.0**-select
    over = position >= entries - 1
    hit = (distance > 0) & ~over
    return hit.astype(np.intp), over.astype(np.intp), np.where(hit, position, 0.0)


def _exponential(lut: Lut, distance: Numbers) -> tuple[NDArray[np.intp], NDArray[np.intp], Numbers]:
    mantissa, power = np.frexp(distance)  # mantissa: 0.5..1
    index = power - 1 - lut.linear_exp_offset
    under = ~(distance > 0) | (index < 0)
    over = ~under & (index >= LE_ENTRIES - 1)
    hit = ~under & ~over
    return hit.astype(np.intp), over.astype(np.intp), np.where(hit, index + (2 * mantissa - 1), 0.0)


def _beside(lut: Lut, values: Numbers, where: tuple[NDArray[np.intp], NDArray[np.intp]]) -> Numbers:
    """What the slopes give. where: of each value the table, and whether it lies above."""
    below = _start(lut.linear_exp_start)
    if lut.method != LINEAR:
        below = float(_single(np.array(below + 2.0**lut.linear_exp_offset)))
    bounds = (below, _start(lut.linear_exp_end)), (_start(lut.linear_only_start), _start(lut.linear_only_end))
    slopes = (
        (_slope(lut.linear_exp_underflow_slope), _slope(lut.linear_exp_overflow_slope)),
        (_slope(lut.linear_only_underflow_slope), _slope(lut.linear_only_overflow_slope)),
    )
    distance = _kept(_rounded(_single(values - np.array(bounds)[where])))
    return _product(distance, np.array(slopes)[where])


def _start(bits: int) -> float:
    return float(np.uint32(bits & 0xFFFF_FFFF).view(np.float32))


def _slope(slope: Slope) -> float:
    return float(np.array(slope.scale & 0xFFFF, np.uint16).view(np.float16))


def entries_of(lut: Lut) -> Numbers:
    """Of both tables; they are finite."""
    both = np.array((*lut.linear_exp_table, *lut.linear_only_table), np.int16)
    return both.view(np.float16).astype(np.float64)


def _single(values: Numbers) -> Numbers:
    """A sum or difference in FP32."""
    rounded = np.clip(values, -_LARGEST_SINGLE, _LARGEST_SINGLE).astype(np.float32).astype(np.float64)
    return np.where(np.abs(values) < _SMALLEST_SINGLE, 0.0, rounded)


def _rounded(values: Numbers) -> Numbers:
    """The nearest of 11 bits, ties to even."""
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    odd = bits >> np.uint64(_DROPPED) & np.uint64(1)
    whole = bits + odd + np.uint64((1 << (_DROPPED - 1)) - 1)
    return (whole & np.uint64((1 << 64) - (1 << _DROPPED))).view(np.float64)


def _kept(rounded: Numbers) -> Numbers:
    """Rounded values within fp17's range."""
    clipped = np.clip(rounded, -_LARGEST, _LARGEST)
    return np.where(np.abs(clipped) < _SMALLEST, np.copysign(0.0, rounded), clipped)


def _product(a: Numbers, b: Numbers) -> Numbers:
    return _kept(_rounded(a * b))


def _sum(a: Numbers, b: Numbers) -> Numbers:
    """A sum below the smallest number is zero before it is rounded. A zero that both make together has the sign of `a`."""
    total = a + b
    total = np.where(total == 0, np.copysign(0.0, a), total)
    small = np.abs(total) < _SMALLEST
    return np.where(small, np.copysign(0.0, total), np.clip(_rounded(total), -_LARGEST, _LARGEST))


def _half(values: Numbers) -> NDArray[np.float16]:
    return np.clip(values, -LARGEST_HALF, LARGEST_HALF).astype(np.float16)
