"""Counts how large the weights of a program are, as they are read for packing."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.facts import Magnitudes
from cnn_convertor.devices.half import LARGEST_HALF
from cnn_convertor.devices.program import PackedWeights, Program

_BIAS, _FRACTION = 127, 23  # of FP32: the exponent's bias, and the digits of the fraction
_OVERFLOW: Final = LARGEST_HALF + 16  # from there on, FP16 has infinity: half of its last step
_UNDERFLOW: Final = 2.0**-25  # and below, FP16 has 0: half of its smallest number
_LARGE, _SMALL = (int(np.float32(limit).view(np.uint32)) >> _FRACTION for limit in (_OVERFLOW, _UNDERFLOW))


class MagnitudeCounter:
    """Counts the weights of each convolution, which come in pieces, before they are rounded to FP16."""

    def __init__(self) -> None:
        self._counts: dict[int, _Counts] = {}  # by offsets in the weight buffer

    def __call__(self, weights: PackedWeights, piece: NDArray[np.float32]) -> None:
        self._counts.setdefault(weights.offset, _Counts()).add(piece)

    def of(self, weights: PackedWeights) -> Magnitudes:
        return self._counts[weights.offset].magnitudes()


def counted(program: Program) -> MagnitudeCounter:
    """All weights of a program, which are read for this."""
    counter = MagnitudeCounter()
    for weights in program.weights:
        for rows in weights.kernels.ranges():
            counter(weights, weights.kernels.load(rows))
    return counter


class _Counts:
    """Counts by the exponents of FP32, of two weights at a time, which is fast; weights near FP16's limits are compared."""

    def __init__(self) -> None:
        self._exponents = np.zeros(1 << 8, np.int64)
        self._zeros = self._overflow = self._underflow = 0

    def add(self, piece: NDArray[np.float32]) -> None:
        weights = np.ascontiguousarray(piece, "<f4").reshape(-1)
        exponents = (weights.view("<u4") >> _FRACTION).astype(np.uint8)  # without the sign
        pairs, single = np.split(exponents, [weights.size // 2 * 2])
        largest = int(exponents.max(initial=0))
        both = np.bincount(pairs.view("<u2"), minlength=(largest + 1) << 8).reshape(-1, 1 << 8)
        self._exponents += both.sum(axis=0)
        self._exponents[: largest + 1] += both.sum(axis=1)
        self._exponents[single] += 1
        if exponents.min(initial=_SMALL + 1) <= _SMALL:
            small = np.abs(weights[exponents <= _SMALL])
            self._zeros += int(np.count_nonzero(small == 0))
            self._underflow += int(np.count_nonzero((small <= _UNDERFLOW) & (small > 0)))
        if largest >= _LARGE:
            large = np.abs(weights[exponents >= _LARGE])
            self._overflow += int(np.count_nonzero(~(large < _OVERFLOW)))  # also NaN

    def magnitudes(self) -> Magnitudes:
        """The powers of two from the first one on that there is, without zeros."""
        powers = self._exponents.copy()
        powers[0] -= self._zeros
        present = np.flatnonzero(powers)
        first, end = (present[0], present[-1] + 1) if present.size else (_BIAS, _BIAS)
        counts = tuple(powers[first:end].tolist())
        return Magnitudes(int(first) - _BIAS, counts, self._zeros, self._overflow, self._underflow)
