"""Palettes: at most 255 values, and zero, that stand for all the weights of a layer.

A layer is seen as the count of each FP16 bit pattern, so its size does not matter once it is counted: there are at most
63,488 different finite values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FREE = 255  # entries that may be chosen: entry 0 is 0.0

Real = NDArray[np.float64]

_VALUES: Real = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)  # bit pattern -> value
_MAX_STEPS = 1000  # of Lloyd's iteration, which usually ends before, when nothing moves
_MAX_REFILLS = 8  # times that centres without a value of their own are put where the error is largest


@dataclass(frozen=True, slots=True, eq=False)
class Palette:
    """FP16 values, and which of them stands for each FP16 number.

    centres: (256,); entry 0 is 0.0, the used ones follow in ascending order, the unused ones are 0.0
    index:   (65536,) uint8: FP16 bit pattern -> entry; zeros of both signs and NaN give 0.
             `palette.index[half.view(np.uint16)]` encodes a layer.
    """

    centres: NDArray[np.float16]
    index: NDArray[np.uint8]

    def __post_init__(self) -> None:
        assert self.centres.shape == (FREE + 1,) and self.index.shape == (1 << 16,)
        assert self.centres[0] == 0 and self.index[0] == self.index[0x8000] == 0
        self.centres.setflags(write=False)
        self.index.setflags(write=False)


def histogram(half: NDArray[np.float16]) -> NDArray[np.int64]:
    """Count each FP16 bit pattern: (65536,). The counts of a layer's parts add up to the layer's."""
    return np.bincount(half.view(np.uint16).reshape(-1), minlength=1 << 16).astype(np.int64, copy=False)


def fit(counts: NDArray[np.int64]) -> Palette:
    """Choose a palette for the weights that `histogram` counted; they must be finite.

    Up to 255 different values, besides zero, are kept as they are. More are divided by k-means with one centre fixed at
    0.0, to make the sum of squared errors small. The same counts give the same palette.
    """
    values, weights = _distinct(counts)
    return _palette(values if values.size <= FREE else _means(values, weights))


def _distinct(counts: NDArray[np.int64]) -> tuple[Real, Real]:
    """The values other than zero that occur, ascending, and how often."""
    patterns = np.flatnonzero(counts)
    values = _VALUES[patterns]
    assert np.isfinite(values).all(), "weights that are not finite were to be refused before"
    patterns, values = patterns[values != 0], values[values != 0]
    order = np.argsort(values, kind="stable")
    return values[order], counts[patterns[order]].astype(np.float64)


def _palette(centres: Real) -> Palette:
    """The palette of centres, rounded to FP16: each number goes to the nearest, or the lower of two as near."""
    used = np.unique(centres.astype(np.float16))
    used = used[used != 0]
    entries = np.zeros(FREE + 1, np.float16)
    entries[1 : 1 + used.size] = used

    negative = int(np.count_nonzero(used < 0))
    ascending = np.insert(used, negative, 0).astype(np.float64)
    entry = np.insert(np.arange(1, 1 + used.size), negative, 0).astype(np.uint8)
    index = entry[np.searchsorted(_borders(ascending), _VALUES)]
    index[np.isnan(_VALUES)] = 0
    return Palette(entries, index)


def _borders(ascending: Real) -> Real:
    """The middles between neighbours."""
    middles: Real = (ascending[:-1] + ascending[1:]) / 2
    return middles


def _means(values: Real, weights: Real) -> Real:
    """At most 256 ascending centres, 0.0 among them, that stand for more than 255 ascending values other than zero."""
    centres = _lloyd(_start(values, weights), values, weights)
    for _ in range(_MAX_REFILLS):
        missing = FREE + 1 - centres.size
        if not missing:
            break
        worst = np.argsort(-_errors(centres, values, weights), kind="stable")[:missing]
        centres = _lloyd(np.union1d(centres, values[worst]), values, weights)
    return centres


def _start(values: Real, weights: Real) -> Real:
    """Zero and quantiles of the values, about as dense as the best centres are: as the cube root of the weights.

    Power 5/16 stands for 1/3, since square roots are the same on every machine and cube roots are not.
    """
    gaps = np.diff(values, prepend=values[0], append=values[-1])
    widths = gaps[:-1] + gaps[1:]
    fourth = np.sqrt(np.sqrt(weights / widths))
    cumulative = np.cumsum(fourth * np.sqrt(np.sqrt(fourth)) * widths)
    quantiles = (np.arange(FREE) + 0.5) / FREE * cumulative[-1]
    return np.union1d(values[np.searchsorted(cumulative, quantiles)], 0.0)


def _lloyd(centres: Real, values: Real, weights: Real) -> Real:
    """Move ascending centres, all but 0.0, to the means of what is nearest to them until none moves; drop idle ones."""
    zero = int(np.searchsorted(centres, 0.0))
    count = np.concatenate(([0.0], np.cumsum(weights)))
    total = np.concatenate(([0.0], np.cumsum(weights * values)))
    for _ in range(_MAX_STEPS):
        edges = np.concatenate(([0], np.searchsorted(values, _borders(centres), side="right"), [values.size]))
        n = np.diff(count[edges])
        busy = n > 0
        moved = np.divide(np.diff(total[edges]), n, out=centres.copy(), where=busy)
        moved[zero] = 0.0
        if np.array_equal(moved, centres):
            break
        centres = moved
    busy[zero] = True
    kept: Real = centres[busy]
    return kept


def _errors(centres: Real, values: Real, weights: Real) -> Real:
    """Squared error of each value, times its weight."""
    errors: Real = weights * (values - centres[np.searchsorted(_borders(centres), values)]) ** 2
    return errors
