"""Generates the same pseudo-random numbers in Python and in programs for the board."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.emulation.generator import states

LEVELS = 16
INTEGERS = (-3, -2, -2, -1, -1, -1, 0, 0, 0, 1, 1, 1, 2, 2, 3, 0)
FRACTIONS = tuple(float(np.float16((i - 7.3) * 0.21)) for i in range(LEVELS))
SIGNS = (-1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1)


def draw(count: int, seed: int, levels: tuple[float, ...]) -> NDArray[np.float64]:
    """Values among the levels."""
    drawn: NDArray[np.float64] = np.array(levels, np.float64)[states(count, seed) >> np.uint32(28)]
    return drawn
