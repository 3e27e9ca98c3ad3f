"""Counts how large the weights of a program are, as they are read for packing."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.encode.registers import MAX_HALF
from cnn_convertor.devices.dv700.program import Program, Weights
from cnn_convertor.devices.dv700.weights.palettes import ranges
from cnn_convertor.report.values import Magnitudes

# Of FP32: the exponent's bias, and the digits of the fraction in the upper half.
_BIAS, _FRACTION = 127, 7
_OVERFLOW: Final = MAX_HALF + 16  # from there on, FP16 has infinity: half of its last step
_UNDERFLOW: Final = 2.0**-25  # and below, FP16 has 0: half of its smallest number
_LARGE, _SMALL = (int(np.float32(limit).view(np.uint32)) >> 16 for limit in (_OVERFLOW, _UNDERFLOW))


class MagnitudeCounter:
    """Counts the weights of each convolution, which come in pieces, before they are rounded to FP16."""

    def __init__(self) -> None:
        self._counts: dict[int, _Counts] = {}  # by offsets in the weight buffer

    def __call__(self, weights: Weights, piece: NDArray[np.float32]) -> None:
        self._counts.setdefault(weights.offset, _Counts()).add(piece)

    def of(self, weights: Weights) -> Magnitudes:
        return self._counts[weights.offset].magnitudes()


def counted(program: Program) -> MagnitudeCounter:
    """All weights of a program, which are read for this."""
    counter = MagnitudeCounter()
    for weights in program.weights:
        for rows in ranges(weights.kernels):
            counter(weights, weights.kernels.load(rows))
    return counter


class _Counts:
    """Counts by the upper halves of the FP32 numbers, which is fast; where a half does not decide, by the numbers."""

    def __init__(self) -> None:
        self._halves = np.zeros(1 << 15, np.int64)
        self._zeros = self._overflow = self._underflow = 0

    def add(self, piece: NDArray[np.float32]) -> None:
        weights = np.ascontiguousarray(piece, "<f4").reshape(-1)
        both = np.bincount(weights.view("<u2")[1::2], minlength=1 << 16)
        found = both[: 1 << 15] + both[1 << 15 :]  # of either sign
        self._halves += found
        self._zeros += weights.size - int(np.count_nonzero(weights)) if found[0] else 0
        self._overflow += int(found[_LARGE + 1 :].sum())
        if found[_LARGE]:
            sizes = np.abs(weights)
            self._overflow += int(np.count_nonzero((sizes >= _OVERFLOW) & (sizes < 2**16)))
        self._underflow += int(found[:_SMALL].sum())
        if found[_SMALL]:
            self._underflow += int(np.count_nonzero(np.abs(weights) == _UNDERFLOW))

    def magnitudes(self) -> Magnitudes:
        first, counts = self._by_power()
        return Magnitudes(first, counts, self._zeros, self._overflow, self._underflow - self._zeros)

    def _by_power(self) -> tuple[int, tuple[int, ...]]:
        """The first power of two, and the numbers of weights from there on, without zeros."""
        powers = self._halves.reshape(-1, 1 << _FRACTION).sum(axis=1)
        powers[0] -= self._zeros
        present = np.flatnonzero(powers)
        if not present.size:
            return 0, ()
        return int(present[0]) - _BIAS, tuple(powers[present[0] : present[-1] + 1].tolist())
