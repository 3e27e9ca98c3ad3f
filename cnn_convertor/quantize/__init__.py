"""Palettes: zero and at most 255 other values that represent all weights of a layer.

A layer is represented by its histogram of FP16 bit patterns, so fitting does not depend on the number of weights: there are at
most 63,488 different finite values.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.quantize.clustering import divide

FREE = 255  # entries besides entry 0, which is 0.0
_LEAST_POINTS = 100_000  # per process: about a second of work
_LARGEST_FREED = 16 << 20  # bytes; glibc adapts up to 32 MiB

Real = NDArray[np.float64]
Counts = NDArray[np.int64] | NDArray[np.float64]

_VALUES: Real = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)  # bit pattern -> value


@dataclass(frozen=True, slots=True, eq=False)
class Palette:
    """The entries of a palette: (256,). Entry 0 is 0.0, used entries follow in ascending order, unused entries are 0.0."""

    centers: NDArray[np.float16]

    def __post_init__(self) -> None:
        assert self.centers.shape == (FREE + 1,) and self.centers[0] == 0
        self.centers.setflags(write=False)

    @property
    def index(self) -> NDArray[np.uint8]:
        """The entry of each FP16 bit pattern, (65536,); 0 for both zeros and NaN.

        `palette.index[half.view(np.uint16)]` encodes a layer. Each number has the nearest center; ties go to the lower one.
        """
        return _index_of(self.centers.tobytes())

    def __repr__(self) -> str:
        return f"Palette({np.count_nonzero(self.centers)} values)"


class Line(NamedTuple):
    """Non-zero values, ascending, and their weights."""

    values: Real
    weights: Real


Apply: TypeAlias = Callable[[Callable[[Line], Real], Iterable[Line]], Iterator[Real]]


class Counted(NamedTuple):
    """A histogram over FP16 bit patterns; both (65536,).

    counts: the number or total weight of values per pattern. means: of the values that round to each pattern; None: the
    values are FP16.
    """

    counts: Counts
    means: Real | None = None


def decibels(signal: float, noise: float) -> float:
    """The ratio of two powers in dB: infinite without noise, minus infinite without a signal."""
    if noise == 0:
        return math.inf
    ratio = signal / noise
    return 10 * math.log10(ratio) if ratio else -math.inf


class Quality(NamedTuple):
    """The quality of a palette. signal, noise: sums of squares of weights and of errors."""

    weights: int
    zeros: int
    distinct: int
    signal: float
    noise: float

    @property
    def sqnr(self) -> float:
        """Signal-to-quantization-noise ratio in dB; infinite for a lossless palette."""
        return decibels(self.signal, self.noise)


def histogram(half: NDArray[np.float16]) -> NDArray[np.int64]:
    """The histogram of FP16 bit patterns: (65536,). Histograms of parts add up."""
    return np.bincount(half.view(np.uint16).reshape(-1), minlength=1 << 16).astype(np.int64, copy=False)


def fit(counts: Counts, means: Real | None = None) -> Palette:
    """The best palette for a histogram of finite weights. counts, means: as in `Counted`; counts need not be integers.

    Up to 255 different values besides zero are exact. For more values, the sum of squared errors is the minimum over all
    palettes of 0.0 and 255 FP16 numbers. Deterministic on all machines.
    """
    return palette_of(_divide(_distinct(Counted(counts, means))))


def fit_all(layers: Iterable[Counted], apply: Apply = map) -> Iterator[Palette]:
    """`fit` for each layer, in order; keeps only a few histograms at a time. apply: as `map`, perhaps in several processes."""
    yield from map(palette_of, apply(_divide, map(_distinct, layers)))


def processes_to_fit(sizes: Iterable[int]) -> int:
    """The number of processes worth starting to fit layers of these sizes."""
    return max(1, sum(min(size, _VALUES.size) for size in sizes if size > FREE) // _LEAST_POINTS)


def _divide(line: Line) -> Real:
    """The centers; few values are centers of their own."""
    if line.values.size <= FREE:
        return line.values
    np.empty(_LARGEST_FREED, np.uint8)  # glibc then keeps freed arrays, which halves the time
    return divide(*line, FREE + 1)


def measure(palette: Palette, counts: NDArray[np.int64]) -> Quality:
    """The palette's quality for the weights of a histogram."""
    patterns = np.flatnonzero(counts)
    values = _VALUES[patterns]
    weights = counts[patterns].astype(np.float64)
    errors = values - palette.centers.astype(np.float64)[palette.index[patterns]]
    return Quality(
        weights=int(counts.sum()),
        zeros=int(counts[0] + counts[0x8000]),
        distinct=np.unique(values).size,
        signal=float(np.cumsum(weights * values**2)[-1]),
        noise=float(np.cumsum(weights * errors**2)[-1]),
    )


def _distinct(counted: Counted) -> Line:
    """The non-zero values, ascending, with their counts."""
    patterns = np.flatnonzero(counted.counts)
    assert np.isfinite(_VALUES[patterns]).all(), "non-finite weights must be rejected earlier"
    patterns = patterns[_VALUES[patterns] != 0]
    values = (_VALUES if counted.means is None else counted.means)[patterns]
    order = np.argsort(values, kind="stable")
    return Line(values[order], counted.counts[patterns[order]].astype(np.float64))


def palette_of(centers: Real) -> Palette:
    """The palette of centers, rounded to FP16."""
    used = np.unique(centers.astype(np.float16).astype(np.float64))  # some numpy releases sort FP16 wrongly
    used = used[used != 0]
    entries = np.zeros(FREE + 1, np.float16)
    entries[1 : 1 + used.size] = used
    return Palette(entries)


@lru_cache(maxsize=4)  # those of layers in work: all of a network's would take 64 KB a layer
def _index_of(centers: bytes) -> NDArray[np.uint8]:
    """Palette.index of centers."""
    entries = np.frombuffer(centers, np.float16).astype(np.float64)
    used = entries[entries != 0]
    negative = int(np.count_nonzero(used < 0))
    ascending = np.insert(used, negative, 0)
    entry = np.insert(np.arange(1, 1 + used.size), negative, 0).astype(np.uint8)
    index = entry[np.searchsorted((ascending[:-1] + ascending[1:]) / 2, _VALUES)]
    index[np.isnan(_VALUES)] = 0
    index.setflags(write=False)
    return index
