"""A generator of random numbers that programs for the board repeat in C++."""

import numpy as np
from numpy.typing import NDArray

MULTIPLIER, INCREMENT = 1664525, 1013904223  # modulo 2**32; board.h and selftest.cpp.j2 have the same


def states(count: int, seed: int) -> NDArray[np.uint32]:
    """The first numbers of the generator behind a seed."""
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(count, MULTIPLIER, np.uint32), dtype=np.uint32)
        sums = np.cumsum(np.concatenate([np.ones(1, np.uint32), powers[:-1]]), dtype=np.uint32)
        drawn: NDArray[np.uint32] = powers * np.uint32(seed) + sums * np.uint32(INCREMENT)
    return drawn


def draw_bytes(count: int, seed: int) -> NDArray[np.uint8]:
    return (states(count, seed) >> np.uint32(24)).astype(np.uint8)
