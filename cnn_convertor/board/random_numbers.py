"""Generates the same pseudo-random numbers in Python and in programs for the board."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MULTIPLIER, INCREMENT = 1664525, 1013904223  # of a linear congruential generator modulo 2**32
LEVELS = 16
INTEGERS = (-3, -2, -2, -1, -1, -1, 0, 0, 0, 1, 1, 1, 2, 2, 3, 0)
FRACTIONS = tuple(float(np.float16((i - 7.3) * 0.21)) for i in range(LEVELS))
SIGNS = (-1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1)


def states(count: int, seed: int) -> NDArray[np.uint32]:
    """The first numbers of the generator behind a seed."""
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(count, MULTIPLIER, np.uint32), dtype=np.uint32)
        sums = np.cumsum(np.concatenate([np.ones(1, np.uint32), powers[:-1]]), dtype=np.uint32)
        drawn: NDArray[np.uint32] = powers * np.uint32(seed) + sums * np.uint32(INCREMENT)
    return drawn


def draw(count: int, seed: int, levels: tuple[float, ...]) -> NDArray[np.float64]:
    """Values among the levels."""
    drawn: NDArray[np.float64] = np.array(levels, np.float64)[states(count, seed) >> np.uint32(28)]
    return drawn


def draw_bytes(count: int, seed: int) -> NDArray[np.uint8]:
    return (states(count, seed) >> np.uint32(24)).astype(np.uint8)
