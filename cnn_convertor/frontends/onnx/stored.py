"""Arrays of a model that stay in their file, or uncomputed, until their elements are needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.ir.constant import Constant, LastResult

Numbers: TypeAlias = NDArray[Any]

_COMPUTED: LastResult[Numbers] = LastResult()
SMALL = 1 << 14  # elements of arrays that stay in memory, far less than the weights of a layer


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """An array of numbers that do not depend on the network's input.

    dtype: bfloat16 is read as float32. read: (start, stop) -> these elements, in row-major order.
    cost: steps of the budget for each use.
    """

    dims: Dims
    dtype: np.dtype[Any]
    read: Callable[[int, int], Numbers]
    cost: float = 0

    @staticmethod
    def of(values: Numbers) -> Stored:
        """An array in memory."""
        flat = np.ascontiguousarray(values).reshape(-1)
        return Stored(values.shape, values.dtype, lambda start, stop: flat[start:stop])

    @staticmethod
    def computed(function: Callable[[], Numbers], values: Numbers | None = None, cost: float = 0) -> Stored:
        """What the function gives. Memory holds one large result at a time: another is computed again when it is used.

        values: the result, where it is known. cost: steps of the budget that it takes.
        """
        values = function() if values is None else values
        if values.size <= SMALL:
            return Stored.of(values)
        first = values.flat[:1]  # whoever asks for it wants to know whether the array can be read

        def in_order() -> Numbers:
            return np.ascontiguousarray(function()).reshape(-1)

        def read(start: int, stop: int) -> Numbers:
            return first[start:stop] if stop <= 1 else _COMPUTED.get(in_order, None, in_order)[start:stop]

        return Stored(values.shape, values.dtype, read, cost)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @property
    def is_small(self) -> bool:
        return self.size <= SMALL

    def load(self) -> Numbers:
        """The whole array."""
        return self.read(0, self.size).reshape(self.dims)

    def as_constant(self, shape: Dims) -> Constant:
        """The same elements as an FP32 constant of another shape. One axis at least."""
        assert math.prod(shape) == self.size
        return Constant.in_order(shape, self.read)
