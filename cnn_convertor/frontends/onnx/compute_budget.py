"""Limits the memory and the time that computing a model's constants may take."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from cnn_convertor.frontends.onnx.stored import Stored

LARGEST: Final = 1 << 23  # elements of a computed array in any model, far more than shapes and masks have
TIMES: Final = 64  # all computed arrays together may have this many times the elements of the largest one


class TooMuchError(Exception):
    """Computing the constants takes more elements than the budget has."""


class ComputeBudget:
    """most: elements of a computed array."""

    def __init__(self, stored: Iterable[Stored]) -> None:
        """stored: the arrays that the file holds; large models may compute large arrays from them."""
        self.most = max(LARGEST, sum(array.size for array in stored))
        self._left = TIMES * self.most

    def check(self, dims: Sequence[int]) -> None:
        """Raises ValueError for the dims of an array that is too large to be computed."""
        if min(dims, default=0) < 0 or math.prod(max(n, 1) for n in dims) > self.most:
            raise ValueError(f"an array of {'x'.join(map(str, dims))} numbers")

    def spend(self, elements: int) -> None:
        """Count elements that are computed. Raises TooMuchError."""
        self._left -= elements
        if self._left < 0:
            raise TooMuchError
