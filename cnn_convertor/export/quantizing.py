"""Converts real numbers to stored elements (symmetric integers or FP16), and measures the error."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.half import to_half
from cnn_convertor.quantize import decibels

Real: TypeAlias = NDArray[np.float32]
Wide: TypeAlias = NDArray[np.float64]
Stored: TypeAlias = NDArray[Any]


class Symmetric(NamedTuple):
    """Symmetric quantization: value = integer * scale.

    axes: the number of leading axes with scales of their own: 0 is one scale for all, 1 one per kernel
    binary: scales are powers of two, for devices that shift
    """

    axes: int
    binary: bool = False


ONE_SCALE = Symmetric(0)


def scales_of(values: Real, rule: Symmetric, limit: int) -> Real:
    """The scale of each part, (parts,): maps its largest magnitude to `limit`; 1 if all values are zero."""
    parts = values.reshape(math.prod(values.shape[: rule.axes]), -1)
    largest = np.abs(parts).max(axis=1, initial=0).astype(np.float64)
    scales = largest / limit
    if rule.binary:
        mantissa, exponent = np.frexp(scales)
        scales = np.ldexp(1.0, exponent - (mantissa == 0.5))
    narrow: Real = scales.astype(np.float32)
    return np.where((narrow > 0) & (largest > 0), narrow, np.float32(1))


def to_integers(values: Real, scales: Real, element: np.dtype[Any]) -> Stored:
    """Quantize each part by its scale, rounded to nearest even, clipped symmetrically."""
    limit = np.iinfo(element).max
    parts = values.reshape(len(scales), -1).astype(np.float64)
    integers = np.rint(parts / scales[:, None].astype(np.float64))
    return np.asarray(integers.clip(-limit, limit), element).reshape(values.shape)


def to_reals(stored: Stored, scales: Real) -> Wide:
    """The real values of integers."""
    parts = stored.reshape(len(scales), -1).astype(np.float64)
    return (parts * scales[:, None].astype(np.float64)).reshape(stored.shape)


def narrowed(values: Real, element: np.dtype[Any]) -> Stored:
    """Floating-point numbers of another width, rounded to nearest; overflow gives infinity."""
    return to_half(np.ascontiguousarray(values)) if element == np.float16 else values.astype(element)


@dataclass(slots=True)
class StorageLoss:
    """Accumulated storage error."""

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
        return decibels(self._signal, self._noise)


def _sum_of_squares(values: Wide) -> float:
    # cumsum has the same accumulation order on every machine, so manifests are deterministic.
    return float(np.cumsum(np.square(values.reshape(-1)))[-1]) if values.size else 0.0
