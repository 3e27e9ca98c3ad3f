"""Encodes the weights of a program as the bytes of its weight buffer, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.dv700.half import loss, to_half
from cnn_convertor.dv700.packing import BLOCK, CodeReader, pack, palette_codes
from cnn_convertor.dv700.program import Program, Weights
from cnn_convertor.errors import Problem, UnsupportedError, warn
from cnn_convertor.ir.constant import Constant
from cnn_convertor.quantize import fit, histogram

Half = NDArray[np.float16]
_COUNTED_ROWS_BYTES = 16 << 20  # of FP32 weights that are counted at a time


def encode_all(program: Program) -> Iterator[NDArray[np.uint8]]:
    """The weight buffer, in order. Warns of weights that are too small for FP16.

    Raises UnsupportedError at the first layer whose weights are too large for it.
    """
    written = 0
    for weights in program.weights:
        assert written == weights.offset
        for piece in encode(weights, transposed=program.transposed):
            written += piece.size
            yield piece
    assert written == program.weight_bytes


def encode(weights: Weights, *, transposed: bool) -> Iterator[NDArray[np.uint8]]:
    """The stream of one convolution."""
    check = _Check(weights)
    bias = check.halve(weights.bias.load(), "bias") if weights.bias else np.zeros(weights.packed.kernels, np.float16)
    slopes = check.halve(weights.slopes.load(), "PReLU slope") if weights.slopes else None

    def checked(rows: slice) -> Half:
        return check.halve(weights.kernels.load(rows), "weight")

    def unchecked(rows: slice) -> Half:
        return to_half(weights.kernels.load(rows))

    palette, read = None, checked
    if weights.packed.palette or weights.packed.dilated:  # these are read more than once, and checked the first time
        counts, read = _count(weights.kernels, checked), unchecked
        palette = fit(counts) if weights.packed.palette else None
    yield from pack(
        weights.packed,
        read if palette is None else palette_codes(weights.kernels.load, palette),
        bias=bias,
        prelu=slopes,
        palette=None if palette is None else palette.centres,
        transposed=transposed,
    )
    check.report()


def _count(kernels: Constant, read: CodeReader) -> NDArray[np.int64]:
    """How often each FP16 bit pattern occurs in the kernels, which are read a range of rows at a time."""
    row_bytes = 4 * kernels.size // kernels.shape[0]
    step = max(BLOCK, _COUNTED_ROWS_BYTES // row_bytes)
    counts = np.zeros(1 << 16, np.int64)
    for start in range(0, kernels.shape[0], step):
        counts += histogram(read(slice(start, min(start + step, kernels.shape[0]))))
    return counts


class _Check:
    """Looks at all numbers of one layer as they become FP16."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._flushed = 0

    def halve(self, values: NDArray[np.float32], what: str) -> Half:
        """The values as FP16. Raises UnsupportedError when one of them is too large, or no number."""
        half = to_half(values)
        lost = loss(values, half)
        if lost.overflowed.size:
            value = values.reshape(-1)[lost.overflowed[0]]
            raise UnsupportedError(
                Problem(
                    "DV501",
                    f"a {what} of {value:g} does not fit FP16 (65504 at most) after folding; {lost.overflowed.size} such values",
                    self._weights.origins[0],
                    "train again with a bound on the weights, and look for batch norm variances close to zero",
                )
            )
        self._flushed += lost.flushed
        return half

    def report(self) -> None:
        """Warn of what was rounded to zero."""
        if self._flushed:
            warn(
                Problem(
                    "DV502",
                    f"{self._flushed} of {self._weights.kernels.size} weights are too small for FP16 and became 0",
                    self._weights.origins[0],
                    "nothing, if the results are good: such weights seldom matter",
                )
            )
