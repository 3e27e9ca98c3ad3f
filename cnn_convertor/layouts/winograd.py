"""Winograd's kernel transform F(2, 3): three weights become four numbers."""

import numpy as np
import numpy.typing as npt


def transformed(kernels: npt.NDArray[np.float32], axis: int) -> npt.NDArray[np.float32]:
    """Three weights a, b, c along an axis as a, (a + b + c) / 2, (a - b + c) / 2, c.

    In FP32 and this accumulation order, so that results are bit-exact on all machines.
    """
    first, second, third = np.moveaxis(kernels, axis, 0)
    four = (first, (first + second + third) * np.float32(0.5), (first - second + third) * np.float32(0.5), third)
    return np.stack(four, axis=axis)
