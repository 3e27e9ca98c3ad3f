"""Real numbers as the elements that a target stores: symmetric integers or FP16, and what that costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.encode.half import to_half

Real: TypeAlias = NDArray[np.float32]
Wide: TypeAlias = NDArray[np.float64]
Stored: TypeAlias = NDArray[Any]


class Symmetric(NamedTuple):
    """Integers that stand for integer * scale, without a zero point.

    axes: how many of the array's first axes tell its scales apart: 0 is one scale for all, 1 one for each kernel
    binary: scales are powers of two, for a device that shifts
    """

    axes: int
    binary: bool = False


ONE_SCALE = Symmetric(0)


def scales_of(values: Real, rule: Symmetric, limit: int) -> Real:
    """The scale of each part, (parts,), such that its largest magnitude becomes `limit`; 1 where all is zero."""
    parts = values.reshape(math.prod(values.shape[: rule.axes]), -1)
    largest = np.abs(parts).max(axis=1, initial=0).astype(np.float64)
    scales = largest / limit
    if rule.binary:
        mantissa, exponent = np.frexp(scales)
        scales = np.ldexp(1.0, exponent - (mantissa == 0.5))
    narrow: Real = scales.astype(np.float32)
    return np.where((narrow > 0) & (largest > 0), narrow, np.float32(1))


def to_integers(values: Real, scales: Real, element: np.dtype[Any]) -> Stored:
    """Divide each part by its scale and round to the nearest integer, ties to even; cut off at both ends alike."""
    limit = np.iinfo(element).max
    parts = values.reshape(len(scales), -1).astype(np.float64)
    integers = np.rint(parts / scales[:, None].astype(np.float64))
    return np.asarray(integers.clip(-limit, limit), element).reshape(values.shape)


def to_reals(stored: Stored, scales: Real) -> Wide:
    """What the integers stand for."""
    parts = stored.reshape(len(scales), -1).astype(np.float64)
    return (parts * scales[:, None].astype(np.float64)).reshape(stored.shape)


def narrowed(values: Real, element: np.dtype[Any]) -> Stored:
    """Floating-point numbers of another width, rounded to the nearest; too large ones become infinite."""
    return to_half(np.ascontiguousarray(values)) if element == np.float16 else values.astype(element)


@dataclass(slots=True)
class Error:
    """What was lost between the numbers of a network and those that are stored; grows as parts are added."""

    largest: float = 0.0
    _signal: float = field(default=0.0, repr=False)
    _noise: float = field(default=0.0, repr=False)
    _count: int = field(default=0, repr=False)

    def add(self, values: Real, stored: Wide) -> None:
        lost = values.astype(np.float64) - stored
        self.largest = max(self.largest, float(np.abs(lost).max(initial=0)))
        self._signal += _sum_of_squares(values.astype(np.float64))
        self._noise += _sum_of_squares(lost)
        self._count += values.size

    @property
    def rms(self) -> float:
        return math.sqrt(self._noise / self._count) if self._count else 0.0

    @property
    def sqnr(self) -> float:
        """Signal to noise in dB; infinite when nothing is lost."""
        if not self._noise:
            return math.inf
        return 10 * math.log10(self._signal / self._noise) if self._signal else -math.inf


def _sum_of_squares(values: Wide) -> float:
    # Added up in one order on every machine, so that the same network gives the same manifest.
    return float(np.cumsum(np.square(values.reshape(-1)))[-1]) if values.size else 0.0
