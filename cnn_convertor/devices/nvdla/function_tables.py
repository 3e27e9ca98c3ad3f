"""Fits the tables of SDP and of CDP in FP16 to functions of one value.

A form says where the entries of both tables lie. Each function is tried in many forms, evaluated as the device does; the one with
the smallest weighted square error is kept, with entries that are moved to the least error.

Weights: half as values that are uniform in low..high, half as normal ones around 0 (or the end next to it), with an eighth of
the range as deviation. Of CDP's sums of squares the roots are so, and errors count as those of a value that is multiplied by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, inf, isfinite, log2, log10
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.exact_functions import Numbers, OneValued, exact
from cnn_convertor.devices.nvdla.firmware.descriptors import Lut, Slope
from cnn_convertor.devices.nvdla.table_arithmetic import (
    LARGEST_HALF,
    LE_ENTRIES,
    LINEAR,
    LO_ENTRIES,
    bits_of_half,
    bits_of_single,
    entries_of,
    evaluated,
    halves,
    places,
    response,
)
from cnn_convertor.ir import ops

RANGE: Final = (-16.0, 16.0)  # of what a table is for where no samples say more
RANGE_OF_SQUARES: Final = (0.0, 2.0**20)  # the same of CDP's sums
LINES: Final = "lines"  # the form of a table that holds all values
LEAST_SQNR: Final = 40.0  # dB: the CPU computes what no table holds so well
_NEGLIGIBLE: Final = 2.0**-14  # errors below the normal numbers of FP16 do not count
_LE: Final = 0  # priorities
_LO: Final = 1
_FINEST: Final = 9  # how many halvings of the step over the whole range are tried
_REFINED: Final = 3  # the best forms, which get other entries
_WITH_LE: Final = 2  # the best forms of LO, which are tried with LE
_SAMPLES: Final = 701  # of each of two kinds; a prime, so that few lie on entries
_NOTHING: Final = -128  # a select that makes a table end right after its start


class FittedTable(NamedTuple):
    """A table for x in low..high, and how well it holds all FP16 values there.

    form: where its entries lie, in words. largest_error: absolute. sqnr: in dB, with the weights of this module.
    """

    lut: Lut
    low: float
    high: float
    form: str
    largest_error: float
    sqnr: float


def table_of(function: ops.Function | ops.ScalarFunction, low: float, high: float) -> FittedTable | None:
    """SDP's table of a function for FP32 values in low..high; beyond, it continues by slopes. A narrow range is widened.

    None if no table holds the function at 40 dB, as for one with many jumps: the CPU computes it.
    """
    if isinstance(function, ops.PRelu | ops.Floor | ops.Round):
        return None
    return _table_of(function, max(float(low), -LARGEST_HALF), min(float(high), LARGEST_HALF), cdp=False)


def response_table(size: int, alpha: float, beta: float, bias: float, low: float, high: float) -> FittedTable | None:
    """CDP's table for LRN: of the sum of squares s in low..high it makes (bias + alpha / size * s) ** -beta, or None."""
    return _table_of(ops.Power(-beta, alpha / size, bias), float(low), float(high), cdp=True)


@cache
def _table_of(function: OneValued, low: float, high: float, *, cdp: bool) -> FittedTable | None:
    assert low <= high and isfinite(high)
    high = max(high, low + max(1.0, abs(low)) / 16)
    target = _target(function, low, high, cdp)
    if not np.all(np.isfinite(target.exact)) or np.max(np.abs(target.exact)) > LARGEST_HALF:
        return None
    candidates: list[tuple[float, int, str, Lut]] = []
    for form, lut in _fitted(target):
        candidates.append((target.error(lut), len(candidates), form, lut))
    _, _, form, lut = min(candidates)
    every = target.of(_halves_between(low, high))
    largest, sqnr = every.quality(lut)
    if sqnr < LEAST_SQNR and largest > _NEGLIGIBLE:
        return None
    return FittedTable(lut, low, high, form, largest, sqnr)


# --- what is fitted ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Target:
    """A function on samples x. slopes: how it continues below low and above high."""

    function: OneValued
    low: float
    high: float
    cdp: bool
    slopes: tuple[float, float]
    x: Numbers
    exact: Numbers
    weights: Numbers  # their sum is 1

    def of(self, x: Numbers) -> _Target:
        """The same function on other samples, in order."""
        value = np.sqrt(x) if self.cdp else x
        middle = min(max(0.0, value[0]), value[-1])
        deviation = (value[-1] - value[0]) / 8
        normal = np.exp(-(((value - middle) / deviation) ** 2) / 2)
        gaps = np.gradient(value)
        weights = gaps / gaps.sum() + gaps * normal / (gaps * normal).sum()
        if self.cdp:
            weights *= x
        return replace(self, x=x, exact=exact(self.function, x), weights=weights / weights.sum())

    def compute(self, lut: Lut) -> Numbers:
        """What the device makes of the samples."""
        return response(lut, self.x) if self.cdp else evaluated(lut, self.x).astype(np.float64)

    def at(self, x: Numbers) -> Numbers:
        """Entries: the function, and where it has no value the nearest one."""
        values = np.clip(exact(self.function, x), -LARGEST_HALF, LARGEST_HALF)
        known = np.flatnonzero(~np.isnan(values))
        if not len(known):
            return np.zeros_like(x)
        return np.interp(np.arange(len(x)), known, values[known])

    def error(self, lut: Lut) -> float:
        """The mean square."""
        return float(np.sum(self.weights * (self.compute(lut) - self.exact) ** 2))

    def quality(self, lut: Lut) -> tuple[float, float]:
        """The largest error, and dB."""
        errors = self.compute(lut) - self.exact
        noise = float(np.sum(self.weights * errors**2))
        signal = float(np.sum(self.weights * self.exact**2))
        sqnr = inf if noise == 0 else -inf if signal == 0 else 10 * log10(signal / noise)
        return float(np.max(np.abs(errors))), sqnr


def _target(function: OneValued, low: float, high: float, cdp: bool) -> _Target:
    share = (np.arange(_SAMPLES) + 0.5) / _SAMPLES
    uniform = low + share**2 * (high - low) if cdp else low + share * (high - low)
    every = _halves_between(low, high)
    some = every[np.linspace(0, len(every) - 1, _SAMPLES).astype(int)]
    x = np.unique(np.concatenate((uniform, some)).astype(np.float32)).astype(np.float64)
    slopes = _continuing(function, low, high, -1), _continuing(function, low, high, 1)
    empty = np.zeros(0)
    return _Target(function, low, high, cdp, slopes, empty, empty, empty).of(x)


def _halves_between(low: float, high: float) -> Numbers:
    """All FP16 values, in order; beyond FP16's range, FP32 values of its precision."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].astype(np.float64)
    larger = finite[finite >= 1]
    values = np.unique(np.concatenate((finite, larger * 2.0**16, larger * 2.0**32)))
    return values[(values >= low) & (values <= high)]


def _continuing(function: OneValued, low: float, high: float, outward: int) -> float:
    """The slope beyond an end: that of the asymptote, 0 if the function stays near its values in the range, else the last one."""
    end = high if outward > 0 else low
    span = high - low
    inside = exact(function, np.linspace(low, high, 257))
    far = end + outward * span * np.array([0.0, 4.0, 8.0, 16.0])
    values = exact(function, far)
    if np.all(np.isfinite(values)):
        if np.max(np.abs(values)) <= 1.25 * np.max(np.abs(inside)):
            return 0.0
        near, beyond = np.diff(values)[1:] / np.diff(far)[1:]
        if abs(near - beyond) <= 1e-3 * abs(beyond):
            return _slope(float(beyond))
    last = inside[[-1, -2]] if outward > 0 else inside[[1, 0]]
    slope = float(last[0] - last[1]) * 256 / span
    return _slope(slope) if isfinite(slope) else 0.0


def _slope(value: float) -> float:
    return min(max(value, -LARGEST_HALF), LARGEST_HALF)


# --- forms -------------------------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """Where entries lie: 2 ** power apart; exponential: 2 ** power above the start, and each twice as far as the one before."""

    start: float
    power: int
    exponential: bool = False

    def entries(self, count: int) -> Numbers:
        if self.exponential:
            return self.start + np.ldexp(1.0, np.clip(self.power + np.arange(count), -126, 127))
        return self.start + np.arange(count, dtype=np.float64) * 2.0**self.power

    def described(self, name: str, count: int) -> str:
        if self.exponential:
            return f"{name} exponential from {self.start:g} + 2^{self.power}"
        return f"{name} {self.start:g}..{self.start + (count - 1) * 2.0**self.power:g} by 2^{self.power}"


def _linear(start: float, power: int) -> _Table:
    return _Table(float(np.float32(start)), power)


class _Form(NamedTuple):
    lo: _Table
    le: _Table | None = None

    def __str__(self) -> str:
        words = self.lo.described("LO", LO_ENTRIES)
        return f"{words}, {self.le.described('LE', LE_ENTRIES)}" if self.le else words


def _lut(target: _Target, form: _Form) -> Lut:
    """The tables of a form, with the function's values. Where both tables have a value, the finer one counts."""
    lo = form.lo.entries(LO_ENTRIES)
    le = form.le.entries(LE_ENTRIES) if form.le else lo[:1].repeat(LE_ENTRIES)
    table = form.le or _Table(form.lo.start, _NOTHING)
    below, above = (Slope(bits_of_half(slope), 0) for slope in target.slopes)
    return Lut(
        linear_exp_table=halves(target.at(le)),
        linear_only_table=halves(target.at(lo)),
        linear_exp_offset=table.power,
        linear_only_offset=form.lo.power,
        linear_exp_start=bits_of_single(table.start),
        linear_exp_end=bits_of_single(le[-1]),
        linear_only_start=bits_of_single(form.lo.start),
        linear_only_end=bits_of_single(lo[-1]),
        linear_exp_underflow_slope=below,
        linear_exp_overflow_slope=above,
        linear_only_underflow_slope=below,
        linear_only_overflow_slope=above,
        hybrid_priority=_LE if form.le and table.power < form.lo.power else _LO,
        underflow_priority=_LE if le[0] < lo[0] else _LO,
        overflow_priority=_LE if le[-1] > lo[-1] else _LO,
        method=0 if table.exponential else LINEAR,
    )


def _fitted(target: _Target) -> Iterator[tuple[str, Lut]]:
    """Forms with their tables, among them the best. Lines are exact but for the roundings of their slopes."""
    lines = _lines(target.function)
    if lines is not None:
        yield LINES, lines
        return
    single = _best(target, _forms_of_lo(target.low, target.high), _WITH_LE)
    both = [_Form(form.lo, le) for form in single for le in _forms_of_le(form.lo, target.low, target.high)]
    for form in _best(target, iter((*single, *both)), _REFINED):
        lut = _lut(target, form)
        yield str(form), lut
        yield str(form), _least_squares(target, lut)


def _best(target: _Target, forms: Iterator[_Form], count: int) -> list[_Form]:
    errors = {}
    for form in forms:
        if form not in errors:
            errors[form] = target.error(_lut(target, form))
    return sorted(errors, key=errors.__getitem__)[:count]


def _forms_of_lo(low: float, high: float) -> Iterator[_Form]:
    """The table over the range, and finer ones over parts of it: at the ends and around 0."""
    coarsest = ceil(log2((high - low) / (LO_ENTRIES - 1)))
    for power in range(coarsest, coarsest - _FINEST, -1):
        step = 2.0**power
        span = (LO_ENTRIES - 1) * step
        first = np.floor(low / step) * step
        last = np.ceil(high / step) * step - span
        for start in (first, low, last, -span / 4, -span / 2, -3 * span / 4):
            if start < high and start + span > low:
                yield _Form(_linear(start, power))


def _forms_of_le(lo: _Table, low: float, high: float) -> Iterator[_Table]:
    """A table that goes on where the other ends, a finer one within it, or one for the smallest or largest distances."""
    end = lo.start + (LO_ENTRIES - 1) * 2.0**lo.power
    for power in range(lo.power - 5, lo.power + 6):
        span = (LE_ENTRIES - 1) * 2.0**power
        for start in (lo.start - span, end):
            if start < high and start + span > low:
                yield _linear(start, power)
        if power < lo.power:
            for start in (lo.start, -span, -span / 2, 0.0, end - span):
                if max(low, lo.start) <= start <= min(high, end) - span:
                    yield _linear(start, power)
    if end < high:
        yield _Table(lo.start, lo.power + 8, exponential=True)
    for power in range(4):
        yield _Table(lo.start, lo.power + power - 64, exponential=True)


# --- entries -----------------------------------------------------------------------------------------------------------


def _least_squares(target: _Target, lut: Lut) -> Lut:
    """The table with entries that make the weighted error least; an entry that no sample meets stays."""
    first = entries_of(lut)
    place = places(lut, target.x)
    lower = place.entry
    upper = lower + place.hit
    size = len(first)

    def sums(entries: NDArray[np.intp], values: Numbers) -> Numbers:
        return np.bincount(entries, target.weights * values, size).astype(np.float64)

    hold = np.full(size, 1e-3 / size)
    zero = places(lut, np.zeros(1))
    if target.at(np.zeros(1)) == 0 and zero.part == 0:
        hold[zero.entry] = 1e3  # a zero stays zero
    rest = target.exact - place.beside
    wanted = sums(lower, (1 - place.part) * rest) + sums(upper, place.part * rest) + hold * first
    diagonal = sums(lower, (1 - place.part) ** 2) + sums(upper, place.part**2) + hold
    beside = sums(lower, (1 - place.part) * place.part)
    entries = halves(_tridiagonal(diagonal.tolist(), beside.tolist(), wanted.tolist()))
    return replace(lut, linear_exp_table=entries[:LE_ENTRIES], linear_only_table=entries[LE_ENTRIES:])


def _tridiagonal(diagonal: list[float], beside: list[float], wanted: list[float]) -> Numbers:
    """Solve a symmetric system. beside: the elements right of the diagonal. Plain sums, which every computer rounds alike."""
    for i in range(1, len(diagonal)):
        factor = beside[i - 1] / diagonal[i - 1]
        diagonal[i] -= factor * beside[i - 1]
        wanted[i] -= factor * wanted[i - 1]
    solution = np.zeros(len(diagonal))
    after = 0.0
    for i in reversed(range(len(diagonal))):
        after = (wanted[i] - beside[i] * after) / diagonal[i]
        solution[i] = after
    return solution


# --- lines -------------------------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    """Of values up to `end`."""

    slope: float
    shift: float
    end: float = inf


def _lines(function: OneValued) -> Lut | None:
    """The table of a function of two or three lines: the first lies below both tables, the others above one and both."""
    pieces = _pieces(function)
    if pieces is None or len(pieces) < 2:
        return None
    first = pieces[0]
    if len(pieces) == 2 and first.slope and first.end:  # the distance from another end than 0 would be rounded
        first = first._replace(end=-2 * LARGEST_HALF)
    middle = pieces[-2]
    last = pieces[-1]
    value = first.slope * first.end + first.shift
    starts = bits_of_single(first.end), bits_of_single(middle.end)
    return Lut(
        linear_exp_table=halves(np.array((value, *(LE_ENTRIES - 1) * (middle.shift,)))),
        linear_only_table=halves(np.array(LO_ENTRIES * (last.shift,))),
        linear_exp_offset=_NOTHING,
        linear_only_offset=_NOTHING,
        linear_exp_start=starts[0],
        linear_exp_end=0,
        linear_only_start=starts[1],
        linear_only_end=0,
        linear_exp_underflow_slope=Slope(bits_of_half(first.slope), 0),
        linear_exp_overflow_slope=Slope(bits_of_half(middle.slope), 0),
        linear_only_underflow_slope=Slope(0, 0),
        linear_only_overflow_slope=Slope(bits_of_half(last.slope), 0),
        hybrid_priority=_LE,
        underflow_priority=_LE,
        overflow_priority=_LO,
        method=LINEAR,
    )


def _pieces(function: OneValued) -> tuple[_Line, ...] | None:
    match function:
        case ops.Relu(slope=slope):
            return (_Line(slope, 0, 0), _Line(1, 0))
        case ops.Relu6():
            return _clipped(1, 0, 0, 6)
        case ops.Absolute():
            return (_Line(-1, 0, 0), _Line(1, 0))
        case ops.Clip(low=low, high=high):
            return _clipped(1, 0, low, high)
        case ops.HardSigmoid(slope=slope, shift=shift) if slope > 0:
            return _clipped(slope, shift, 0, 1)
        case ops.Threshold(threshold=threshold):
            return (_Line(0, 0, threshold), _Line(0, 1))
        case ops.BoundedRelu(slope=slope, threshold=threshold, high=high):
            left = _Line(slope, -slope * threshold, threshold)
            if high <= threshold:
                return (left, _Line(0, high))
            return (left, *_clipped(1, 0, -inf, high))
        case _:
            return None


def _clipped(slope: float, shift: float, low: float, high: float) -> tuple[_Line, ...]:
    """slope * x + shift in low..high."""
    lines = []
    if low > -inf:
        lines.append(_Line(0, low, (low - shift) / slope))
    lines.append(_Line(slope, shift, (high - shift) / slope))
    if high < inf:
        lines.append(_Line(0, high))
    return tuple(lines)
