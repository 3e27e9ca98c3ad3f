"""Limits the memory and the time that computing a model's constants may take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cnn_convertor.budget import SHARES, Budget
from cnn_convertor.frontends.onnx.stored import Stored

LARGEST: Final = 1 << 23  # elements of a computed array in any model, far more than shapes and masks have
ELEMENTS: Final = 32  # that a step of the budget computes
PRODUCTS: Final = 32  # products of a matrix multiplication that take as long as an element: floating-point ones only
# Functions whose elements take as long as so many of others, about 3 ns each.
DEAR: Final[Mapping[str, int]] = {"Erf": 16, "Gelu": 16, "Mish": 6, "Softplus": 4}


class TooMuchError(Exception):
    """Computing the constants takes more steps than the budget has."""


@dataclass
class ComputeBudget(Budget):
    """most: elements of a computed array."""

    most: int = LARGEST

    @staticmethod
    def for_arrays(stored: Iterable[Stored]) -> ComputeBudget:
        """stored: the arrays that the file holds; large models may compute large arrays from them."""
        most = max(LARGEST, sum(array.size for array in stored))
        return ComputeBudget(SHARES["constants"] * most / LARGEST, most)

    def check(self, dims: Sequence[int]) -> None:
        """Raises ValueError for the dims of an array that is too large to be computed."""
        if min(dims, default=0) < 0 or math.prod(max(n, 1) for n in dims) > self.most:
            raise ValueError(f"an array of {'x'.join(map(str, dims))} numbers")

    def spend(self, steps: float) -> None:
        """Raises TooMuchError."""
        super().spend(steps)
        if self.left < 0:
            raise TooMuchError

    def spend_elements(self, count: float) -> None:
        """Count elements that are computed."""
        self.spend(count / ELEMENTS)

    def spend_products(self, count: int, dtype: np.dtype[Any]) -> None:
        """Count multiplications and additions; those of integers take as long as elements."""
        self.spend_elements(count / (PRODUCTS if dtype in (np.float32, np.float64) else 1))
