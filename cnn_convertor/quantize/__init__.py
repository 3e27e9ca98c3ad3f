"""Palettes: at most 255 values, and zero, that stand for all the weights of a layer.

A layer is seen as the count of each FP16 bit pattern, so its size does not matter once it is counted: there are at most
63,488 different finite values.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.quantize.clustering import divide
from cnn_convertor.quantize.workers import Line, divide_all, processes_for

FREE = 255  # entries that may be chosen: entry 0 is 0.0

Real = NDArray[np.float64]
Counts = NDArray[np.int64] | NDArray[np.float64]

_VALUES: Real = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)  # bit pattern -> value


@dataclass(frozen=True, slots=True, eq=False)
class Palette:
    """FP16 values, and which of them stands for each FP16 number.

    centers: (256,); entry 0 is 0.0, the used ones follow in ascending order, the unused ones are 0.0
    index:   (65536,) uint8: FP16 bit pattern -> entry; zeros of both signs and NaN give 0.
             `palette.index[half.view(np.uint16)]` encodes a layer.
    """

    centers: NDArray[np.float16]
    index: NDArray[np.uint8]

    def __post_init__(self) -> None:
        assert self.centers.shape == (FREE + 1,) and self.index.shape == (1 << 16,)
        assert self.centers[0] == 0 and self.index[0] == self.index[0x8000] == 0
        self.centers.setflags(write=False)
        self.index.setflags(write=False)

    def __repr__(self) -> str:
        return f"Palette({np.count_nonzero(self.centers)} values)"


class Counted(NamedTuple):
    """Numbers by their FP16 bit patterns: (65536,) both.

    counts: how many there are, or what they count together. means: of those that round to each pattern, where they were more
    exact than FP16; None: they are FP16 numbers themselves.
    """

    counts: Counts
    means: Real | None = None


class Quality(NamedTuple):
    """What a palette does to the weights that were counted. signal, noise: sums of squares of weights and of errors."""

    weights: int
    zeros: int
    distinct: int
    signal: float
    noise: float

    @property
    def sqnr(self) -> float:
        """Signal to noise in dB; infinite when nothing is lost."""
        return 10 * math.log10(self.signal / self.noise) if self.noise else math.inf


def histogram(half: NDArray[np.float16]) -> NDArray[np.int64]:
    """Count each FP16 bit pattern: (65536,). The counts of a layer's parts add up to the layer's."""
    return np.bincount(half.view(np.uint16).reshape(-1), minlength=1 << 16).astype(np.int64, copy=False)


def fit(counts: Counts, means: Real | None = None) -> Palette:
    """Choose the palette for the weights that `histogram` counted; they must be finite. counts, means: as in `Counted`.

    Up to 255 different values, besides zero, are kept as they are. For more the sum of squared errors is the least that any
    255 FP16 numbers and 0.0 can give. The same counts give the same palette, on every machine. Counts need not be whole
    numbers: what counts more is kept more exactly.
    """
    line = _distinct(Counted(counts, means))
    return _palette(line.values if line.values.size <= FREE else divide(*line, FREE + 1))


def fit_all(layers: Iterable[Counted], *, processes: int = 1) -> Iterator[Palette]:
    """`fit` for each of them, in the same order, in several processes; only a few of the counts are kept at a time."""
    few: deque[Real | None] = deque()  # the values of each layer that needs no division, None for the others

    def many() -> Iterator[Line]:
        for counted in layers:
            line = _distinct(counted)
            few.append(line.values if line.values.size <= FREE else None)
            if few[-1] is None:
                yield line

    for centers in divide_all(many(), FREE + 1, processes=processes):
        while (values := few.popleft()) is not None:
            yield _palette(values)
        yield _palette(centers)
    yield from (_palette(values) for values in few if values is not None)


def processes_to_fit(sizes: Iterable[int]) -> int:
    """How many processes are worth starting to fit layers of so many weights."""
    return processes_for(sum(min(size, _VALUES.size) for size in sizes if size > FREE))


def measure(palette: Palette, counts: NDArray[np.int64]) -> Quality:
    """How well the palette stands for the weights that `histogram` counted."""
    patterns = np.flatnonzero(counts)
    values, weights = _VALUES[patterns], counts[patterns].astype(np.float64)
    errors = values - palette.centers.astype(np.float64)[palette.index[patterns]]
    return Quality(
        weights=int(counts.sum()),
        zeros=int(counts[0] + counts[0x8000]),
        distinct=np.unique(values).size,
        signal=float(np.cumsum(weights * values**2)[-1]),
        noise=float(np.cumsum(weights * errors**2)[-1]),
    )


def _distinct(counted: Counted) -> Line:
    """The values other than zero that occur, ascending, and how often."""
    patterns = np.flatnonzero(counted.counts)
    assert np.isfinite(_VALUES[patterns]).all(), "weights that are not finite were to be refused before"
    patterns = patterns[_VALUES[patterns] != 0]
    values = (_VALUES if counted.means is None else counted.means)[patterns]
    order = np.argsort(values, kind="stable")
    return Line(values[order], counted.counts[patterns[order]].astype(np.float64))


def _palette(centers: Real) -> Palette:
    """The palette of centers, rounded to FP16: each number goes to the nearest, or the lower of two as near."""
    used = np.unique(centers.astype(np.float16).astype(np.float64))  # some releases of numpy sort FP16 wrongly
    used = used[used != 0]
    entries = np.zeros(FREE + 1, np.float16)
    entries[1 : 1 + used.size] = used

    negative = int(np.count_nonzero(used < 0))
    ascending = np.insert(used, negative, 0)
    entry = np.insert(np.arange(1, 1 + used.size), negative, 0).astype(np.uint8)
    index = entry[np.searchsorted((ascending[:-1] + ascending[1:]) / 2, _VALUES)]
    index[np.isnan(_VALUES)] = 0
    return Palette(entries, index)
