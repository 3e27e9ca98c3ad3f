"""Numbers of random networks: mean and variance of maps, and weights drawn to fit them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float32]


BIAS: Final = 0.05  # standard deviation of biases, and of batch norm's shifts and means
GAMMA: Final = (0.5, 1.5)
VARIANCE_SPREAD: Final = (0.8, 1.25)  # of the variances that a batch norm holds, around the estimate
CENTERING: Final = 0.5  # share of a kernel's mean that is taken out
SLOPES: Final = (0.05, 0.35)  # of a PReLU
CONFIDENT: Final = 3.0  # how much larger a detector's scores are, so that some classes stand out
DAMPING: Final = 0.5  # of gamma in front of a residual sum, so that long chains of sums do not grow
LAYER_SCALE: Final = 0.3  # what ConvNeXt multiplies its residuals by, about
CAFFE_STATISTICS_FACTOR: Final = 999.0  # Caffe stores sums over its training, to be divided by this


class Moments(NamedTuple):
    """Of all elements of a map, as estimated."""

    mean: float
    variance: float

    @property
    def mean_square(self) -> float:
        return self.mean**2 + self.variance

    def after_relu(self, slope: float = 0.0) -> Moments:
        """Of a normal distribution, cut at zero, or flatter there."""
        deviation = math.sqrt(self.variance)
        below = self.mean / deviation
        share = (1 + math.erf(below / math.sqrt(2))) / 2
        density = math.exp(-(below**2) / 2) / math.sqrt(2 * math.pi)
        mean = self.mean * share + deviation * density
        mean_square = self.mean_square * share + self.mean * deviation * density
        if slope:
            mean_square += slope**2 * (self.mean_square - mean_square)
            mean = (1 - slope) * mean + slope * self.mean
        return Moments(mean, mean_square - mean**2)

    def divided(self, by: float) -> Moments:
        """Of weights that are drawn for it, outputs are `by` times as large."""
        return Moments(self.mean / by, self.variance / by**2)

    def after_max_pool(self) -> Moments:
        """Of the largest among a few neighbors that resemble each other."""
        return Moments(self.mean + math.sqrt(self.variance), self.variance)

    def after_average_pool(self) -> Moments:
        return Moments(self.mean, self.variance / 2)

    def among_zeros(self, share: float) -> Moments:
        """Of a map that has zeros beside a share of such elements."""
        return Moments(share * self.mean, share * self.mean_square - (share * self.mean) ** 2)


INPUT: Final = Moments(0.0, 1 / 3)  # uniform in -1..1; of a mean square, 0..1 has as much
PIXELS: Final = Moments(127.5, 127.5**2 / 3)  # for networks that prepare pixels of 0..255 themselves
NORMALIZED: Final = Moments(0.0, 1.0)


def behind_batch_norm(damping: float) -> Moments:
    return Moments(0.0, damping**2 * (1 + (GAMMA[1] - GAMMA[0]) ** 2 / 12))


def of_sum(parts: Sequence[Moments]) -> Moments:
    return Moments(sum(x.mean for x in parts), sum(x.variance for x in parts))


def of_concatenation(parts: Sequence[Moments], channels: Sequence[int]) -> Moments:
    mean = float(np.average([x.mean for x in parts], weights=channels))
    return Moments(mean, float(np.average([x.mean_square for x in parts], weights=channels)) - mean**2)


def generator(seed: int, name: str) -> np.random.Generator:
    """A generator for one tensor, so that no tensor depends on another."""
    return np.random.default_rng([seed, *name.encode()])


def normal(seed: int, name: str, shape: Sequence[int], deviation: float) -> Array:
    """Values of a normal distribution around 0, in one array and nothing beside it."""
    values = np.empty(shape, np.float32)
    generator(seed, name).standard_normal(dtype=np.float32, out=values)
    values *= np.float32(deviation)
    return values


def uniform(seed: int, name: str, shape: Sequence[int], limits: tuple[float, float]) -> Array:
    return generator(seed, name).uniform(*limits, size=shape).astype(np.float32)


def kernel(
    seed: int, name: str, shape: Sequence[int], inputs: tuple[int, ...], given: Moments, centering: float = CENTERING
) -> Array:
    """Kernels that give outputs of variance 1. inputs: the axes that one output is summed over.

    Behind a ReLU, most of what the elements of a kernel have in common is taken out (centering): else what all inputs have in
    common, their mean above all, would grow from layer to layer until every image gives the same output. Not all of it: the
    rounding of a large mean would be left over, with nothing of the mean.
    """
    fan_in = math.prod(shape[axis] for axis in inputs)
    kept = 1 - centering if given.mean > 0 else 1.0
    values = normal(seed, name, shape, 1 / math.sqrt(fan_in * (given.variance + (kept * given.mean) ** 2)))
    if kept < 1:
        values -= centering * values.mean(axis=inputs, keepdims=True)
    return values


class BatchNorm(NamedTuple):
    """Each (channels,)."""

    gamma: Array
    beta: Array
    moving_mean: Array
    moving_variance: Array


def batch_norm(seed: int, name: str, channels: int, given: Moments, damping: float) -> BatchNorm:
    return BatchNorm(
        uniform(seed, f"{name}/gamma", [channels], GAMMA) * np.float32(damping),
        normal(seed, f"{name}/beta", [channels], BIAS * damping),
        normal(seed, f"{name}/mean", [channels], BIAS * math.sqrt(given.variance)),
        uniform(seed, f"{name}/variance", [channels], VARIANCE_SPREAD) * np.float32(given.variance),
    )
