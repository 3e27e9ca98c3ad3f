"""Weights that stay in their file until somebody reads them, a range of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
ALL = slice(None)
_GOLDEN = (5**0.5 - 1) / 2  # its multiples, without their whole parts, all differ
_ABSENT = count()  # the constants that nobody has, in the order in which they are made


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A tensor of FP32 numbers that is read on demand.

    shape: the first axis counts the rows (output channels for weights).
    read:  (rows) -> array of shape (number of rows, *shape[1:]); called anew each time, so that memory holds one range of
           rows at a time, whatever the size of the network. Its steps must be 1.
    """

    shape: tuple[int, ...]
    read: Callable[[slice], Array]

    @staticmethod
    def of(values: object) -> Constant:
        """A constant over values that are in memory already."""
        array = np.asarray(values, dtype=np.float32)
        return Constant(array.shape, lambda rows: array[rows])

    @staticmethod
    def absent(shape: tuple[int, ...]) -> Constant:
        """What stands for numbers that nobody has, where a network is only looked at.

        It reads as numbers between 1/2 and 1, another one in each row and others for each constant, so that what depends
        on numbers (are all slopes the same? is none below 0? do two layers do the same?) is answered as for most trained
        networks. No array of its size is ever made.
        """
        apart = next(_ABSENT) * _GOLDEN % 1

        def read(rows: slice) -> Array:
            row = np.float32(1) - np.arange(rows.start, rows.stop, dtype=np.float32) / (2 * max(shape[0], 1))
            row -= np.float32(apart / (2 * max(shape[0], 1)))
            return np.broadcast_to(row.reshape(-1, *(1 for _ in shape[1:])), (len(row), *shape[1:]))

        return Constant(shape, read)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def load(self, rows: slice = ALL) -> Array:
        """Read the given rows (all of them by default), checked against the shape."""
        start, stop, _ = rows.indices(self.shape[0])
        values = self.read(slice(start, stop))
        assert values.shape == (stop - start, *self.shape[1:]), f"read {values.shape}, promised {self.shape}"
        return values

    def map_rows(self, function: Callable[[Array], Array], row_shape: tuple[int, ...] | None = None) -> Constant:
        """Maps a function that treats every row alike: (n, *shape[1:]) -> (n, *row_shape)."""
        return self.map_rows_with(lambda values, _: function(values), row_shape)

    def map_rows_with(
        self, function: Callable[[Array, slice], Array], row_shape: tuple[int, ...] | None = None
    ) -> Constant:
        """Like map_rows, for a function that must know which rows it has: (array, rows) -> array."""
        return Constant(
            (self.shape[0], *(self.shape[1:] if row_shape is None else row_shape)),
            lambda rows: function(self.load(rows), rows),
        )

    def take_rows(self, index: NDArray[np.intp]) -> Constant:
        """The rows in another order, or some of them: row i is row index[i] of this one."""

        def read(rows: slice) -> Array:
            wanted = index[rows]
            first = int(wanted.min(initial=self.shape[0]))
            return self.load(slice(first, int(wanted.max(initial=first)) + 1))[wanted - first]

        return Constant((len(index), *self.shape[1:]), read)

    def scale_rows(self, factors: NDArray[np.float64]) -> Constant:
        """Multiply row i by factors[i]."""
        narrow = factors.astype(np.float32).reshape(-1, *(1 for _ in self.shape[1:]))
        return self.map_rows_with(lambda values, rows: values * narrow[rows])

    def __repr__(self) -> str:
        return f"Constant({'x'.join(map(str, self.shape))})"
