"""FP32 to FP16 at one speed for all values.

numpy's own conversion takes 25 times as long for each value that becomes subnormal (below 2**-14), which is every
value of a layer with small weights. Here the rounding is left to one FP32 addition instead, for normal and subnormal
values alike:

    a float of magnitude 2**e <= |x| < 2**(e+1) keeps, as FP16, the digits down to u = 2**(max(e, -14) - 10);
    |x| + 2**23 * u rounds |x| to a multiple of u, to nearest even, and leaves |x| / u in the low bits of the sum;
    exponent field * 1024 + |x| / u is the FP16 number, a carry into the next exponent included.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_SLICE = 1 << 15  # values at a time: the intermediate arrays stay in the second-level cache

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_EXPONENT = np.uint32(0x7F800000)
_SIGN = np.uint32(0x8000)
_LARGEST = np.uint32(0x477FEFFF)  # the largest FP32 magnitude that rounds to a finite FP16 number
_SMALLEST_NORMAL = np.uint32(0x38800000)  # 2**-14
# Raises the exponent of x to that of 2**23 * u. The 2048 end up in the low bits of the sum, where they make up for the
# difference between the rounder's exponent field, (e + 140) * 1024 after the shift, and (e + 14) * 1024, modulo 2**16.
_ROUNDER = np.uint32((13 << 23) + 2048)


def to_half(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """Round to the nearest FP16 number, ties to even; beyond the range gives infinity.

    Equal, bit by bit, to `values.astype(np.float16)`, which it outruns. values: any shape, which the result keeps.
    """
    flat = values.reshape(-1)
    half = np.empty(flat.size, np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, flat.size, _SLICE):
            part = slice(start, start + _SLICE)
            bits = flat[part].view(np.uint32)
            magnitude = bits & _MAGNITUDE
            rounder = np.maximum(magnitude & _EXPONENT, _SMALLEST_NORMAL) + _ROUNDER
            total = (magnitude.view(np.float32) + rounder.view(np.float32)).view(np.uint32)
            half[part] = total + (rounder >> np.uint32(13)) + (bits >> np.uint32(16) & _SIGN)
            if magnitude.max() > _LARGEST:
                special = start + np.flatnonzero(magnitude > _LARGEST)
                half[special] = flat[special].astype(np.float16).view(np.uint16)
    return half.view(np.float16).reshape(values.shape)


class Loss(NamedTuple):
    """What a conversion to FP16 could not keep."""

    overflowed: NDArray[np.intp]  # flat indices of the finite or infinite values that became infinite, and of NaNs
    flushed: int  # number of values that were not zero and became zero
    subnormal: int  # number of values that became a subnormal FP16 number, below 2**-14, which holds fewer digits


def loss(values: NDArray[np.float32], half: NDArray[np.float16]) -> Loss:
    """Compare values with half = to_half(values), of the same shape."""
    magnitude = half.view(np.uint16).reshape(-1) & np.uint16(0x7FFF)
    overflows = magnitude.max(initial=np.uint16(0)) >= np.uint16(0x7C00)
    kept = int(np.count_nonzero(magnitude))
    return Loss(
        overflowed=np.flatnonzero(magnitude >= np.uint16(0x7C00)) if overflows else np.empty(0, np.intp),
        flushed=int(np.count_nonzero(values)) - kept,
        subnormal=kept - int(np.count_nonzero(magnitude >= np.uint16(0x0400))),
    )
