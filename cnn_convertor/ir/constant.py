"""Weights that stay in their file until they are read, a range of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Wide = NDArray[np.float64]
ALL = slice(None)
T = TypeVar("T")
PIECE: Final = 1 << 24  # bytes of weights that are in memory where single rows lie apart in their file
_BLOCK: Final = 1 << 20  # bytes that are read at a time
_ROWS_BYTES: Final = 4 << 20  # of FP32 weights that are computed with at a time
_LEAST_ROWS: Final = 8
_GAP: Final = 1 << 14  # bytes that take as long to read as to skip
_GOLDEN = (5**0.5 - 1) / 2  # the fractional parts of its multiples all differ
_ABSENT = count()  # numbers the absent constants


class LastResult(Generic[T]):
    """One result of a slow function, until another is asked for or its owner goes."""

    def __init__(self) -> None:
        self._results: WeakKeyDictionary[Any, tuple[object, T]] = WeakKeyDictionary()

    def get(self, owner: Any, key: object, function: Callable[[], T]) -> T:
        """What the function gives for the key of an owner, which can have weak references."""
        key_of_result, result = self._results.get(owner, (None, None))
        if result is None or key_of_result != key:
            self._results.clear()
            result = function()
            self._results.clear()  # the function may have kept another one here
            self._results[owner] = key, result
        return result


_PIECES: Final[LastResult[Array]] = LastResult()


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A tensor, read on demand: FP32 from a file, FP64 where factors are folded.

    shape: the first axis counts rows (output channels, for weights).
    read: (rows, a slice of step 1) -> array (number of rows, *shape[1:]). Called for each access, so that memory holds only
        one range of rows at a time.
    """

    shape: tuple[int, ...]
    read: Callable[[slice], Array | Wide]

    @staticmethod
    def of(values: object) -> Constant:
        """A constant of values in memory, in FP32."""
        array = np.asarray(values, dtype=np.float32)
        return Constant(array.shape, lambda rows: array[rows])

    @staticmethod
    def wide(values: Wide) -> Constant:
        """A constant of computed values in memory, in FP64."""
        return Constant(values.shape, lambda rows: values[rows])

    @staticmethod
    def in_order(shape: tuple[int, ...], numbers: Callable[[int, int], NDArray[Any]]) -> Constant:
        """A constant whose numbers lie one after the other. numbers: (start, stop) -> these."""
        return Constant(shape, _InOrder(shape[1:], numbers))

    @staticmethod
    def absent(shape: tuple[int, ...]) -> Constant:
        """A placeholder for missing weights, for inspecting a network without them.

        Reads as numbers between 1/2 and 1 that differ between rows and between constants, so that decisions that depend on
        values (equal slopes, negative slopes, identical layers) come out as for most trained networks. Never allocates an
        array of its full size.
        """
        apart = next(_ABSENT) * _GOLDEN % 1

        def read(rows: slice) -> Array:
            row = np.float32(1) - np.arange(rows.start, rows.stop, dtype=np.float32) / (2 * max(shape[0], 1))
            row -= np.float32(apart / (2 * max(shape[0], 1)))
            return np.broadcast_to(row.reshape(-1, *(1 for _ in shape[1:])), (len(row), *shape[1:]))

        return Constant(shape, read)

    def ranges(self) -> Iterator[slice]:
        """All rows, as many at a time as one reads at once."""
        rows = self.shape[0]
        step = max(_LEAST_ROWS, _ROWS_BYTES * rows // (4 * self.size))
        for start in range(0, rows, step):
            yield slice(start, min(start + step, rows))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def load(self, rows: slice = ALL) -> Array:
        """Read the given rows (default: all) in FP32. Their nearest FP16 numbers are those of the exact values."""
        values = self._load(rows)
        is_wide = values.dtype == np.float64
        return to_odd(values.astype(np.float64, copy=False)) if is_wide else values.astype(np.float32, copy=False)

    def load_wide(self, rows: slice = ALL) -> Wide:
        """Read the given rows (default: all) in FP64."""
        return self._load(rows).astype(np.float64, copy=False)

    def _load(self, rows: slice) -> Array | Wide:
        start, stop, _ = rows.indices(self.shape[0])
        values = self.read(slice(start, stop))
        assert values.shape == (stop - start, *self.shape[1:]), f"read {values.shape}, promised {self.shape}"
        return values

    def map_rows(self, function: Callable[[Array], Array], row_shape: tuple[int, ...] | None = None) -> Constant:
        """Apply a row-wise function in FP32: (n, *shape[1:]) -> (n, *row_shape)."""
        return self.map_rows_with(lambda values, _: function(values), row_shape)

    def map_rows_with(
        self, function: Callable[[Array, slice], Array], row_shape: tuple[int, ...] | None = None
    ) -> Constant:
        """Like map_rows, for a function (array, rows) -> array."""
        return Constant(
            (self.shape[0], *(self.shape[1:] if row_shape is None else row_shape)),
            lambda rows: function(self.load(rows), rows),
        )

    def in_pieces(self) -> Constant:
        """The same values, for which many rows are read at once: the rows lie apart in their file."""
        row_bytes = 4 * math.prod(self.shape[1:])
        return Constant(self.shape, _InPieces(self, max(1, PIECE // max(1, row_bytes))))

    def swap_axes(self, groups: int = 1) -> Constant:
        """The first two axes swapped within each group of rows: (groups * a, b, ...) becomes (groups * b, a, ...)."""
        rows, columns, *kernel = self.shape
        shape = (groups * columns, rows // groups, *kernel)
        return Constant(shape, lambda part: self._swapped(part, shape)).in_pieces()

    def _swapped(self, rows: slice, shape: tuple[int, ...]) -> Array:
        """The given rows of the constant of this shape whose first two axes are swapped."""
        per_group = shape[1]
        columns = self.shape[1]
        swapped = np.empty((rows.stop - rows.start, *shape[1:]), np.float32)
        for group in range(rows.start // columns, -(-rows.stop // columns)):
            first = max(rows.start, group * columns)
            last = min(rows.stop, (group + 1) * columns)
            part = slice(first - group * columns, last - group * columns)
            result = swapped[first - rows.start : last - rows.start]
            for at, values in self._columns(group * per_group, (group + 1) * per_group, part):
                result[:, at : at + len(values)] = values.swapaxes(0, 1)
        return swapped

    def _columns(self, start: int, stop: int, part: slice) -> Iterator[tuple[int, Array]]:
        """A part of the second axis of the rows from start to stop, some rows at a time: (their distance from start, values)."""
        inner = math.prod(self.shape[2:])
        width = self.shape[1] * inner
        if isinstance(self.read, _InOrder) and 4 * (width - (part.stop - part.start) * inner) > _GAP:
            for row in range(start, stop):
                numbers = self.read.numbers(row * width + part.start * inner, row * width + part.stop * inner)
                yield row - start, numbers.reshape(1, -1, *self.shape[2:])
            return
        at_a_time = max(1, _BLOCK // max(1, 4 * width))
        for first in range(start, stop, at_a_time):
            yield first - start, self.load(slice(first, min(first + at_a_time, stop)))[:, part]

    def take_rows(self, index: NDArray[np.intp]) -> Constant:
        """Select or reorder rows: row i of the result is row index[i]."""

        def read(rows: slice) -> Array | Wide:
            rows_of_file = index[rows]
            first = int(rows_of_file.min(initial=self.shape[0]))
            last = int(rows_of_file.max(initial=first))
            if last - first > 4 * len(rows_of_file):  # one by one, rather than all that lies between
                return np.concatenate([self._load(slice(row, row + 1)) for row in rows_of_file.tolist()])
            return self._load(slice(first, last + 1))[rows_of_file - first]

        return Constant((len(index), *self.shape[1:]), read)

    def take_columns(self, order: Callable[[], NDArray[np.intp]]) -> Constant:
        """Reorder the second axis: column i of the result is column order()[i]. order: called when rows are read."""
        return Constant(self.shape, _Reordered(self, order))

    @property
    def before_take_columns(self) -> tuple[Constant, NDArray[np.intp] | None]:
        """The constant whose columns this one takes, and their order; itself and None where it takes none."""
        if isinstance(self.read, _Reordered):
            return self.read.constant, self.read.order()
        return self, None

    def scale_rows(self, factors: Wide) -> Constant:
        """Multiply row i by factors[i], in FP64. Any number of such products are one constant, not one inside the other."""
        columns = factors.reshape(-1, *(1 for _ in self.shape[1:]))
        if isinstance(self.read, _Products):
            return Constant(self.shape, _Products(self.read.factor, (*self.read.columns, columns)))
        return Constant(self.shape, _Products(self, (columns,)))

    def __reduce__(self) -> tuple[Callable[[tuple[int, ...]], Constant], tuple[tuple[int, ...]]]:
        """Pickled, a constant keeps its shape alone: what other processes do with a network needs no weights from it."""
        return _left_behind, (self.shape,)

    def __repr__(self) -> str:
        return f"Constant({'x'.join(map(str, self.shape))})"


@dataclass(frozen=True, slots=True)
class _InOrder:
    """Reads rows of an array that lies in row-major order. numbers: (start, stop) -> these elements."""

    row: tuple[int, ...]
    numbers: Callable[[int, int], NDArray[Any]]

    def __call__(self, rows: slice) -> Array:
        size = math.prod(self.row)
        values = self.numbers(rows.start * size, rows.stop * size).astype(np.float32, copy=False)
        return values.reshape(rows.stop - rows.start, *self.row)


@dataclass(frozen=True, eq=False)
class _InPieces:
    """Reads so many rows of a constant at a time, and keeps the last ones that were read of any constant."""

    constant: Constant
    at_a_time: int

    def __call__(self, rows: slice) -> Array:
        step = self.at_a_time
        parts = []
        for start in range(rows.start - rows.start % step, max(rows.stop, rows.start + 1), step):
            piece = _PIECES.get(self, start, partial(self._piece, start))
            parts.append(piece[max(rows.start - start, 0) : max(rows.stop - start, 0)])
        return parts[0].copy() if len(parts) == 1 else np.concatenate(parts)

    def _piece(self, start: int) -> Array:
        return self.constant.load(slice(start, start + self.at_a_time))


@dataclass(frozen=True, slots=True)
class _Products:
    """Reads the rows of a constant, multiplied by one column after the other."""

    factor: Constant
    columns: tuple[Wide, ...]

    def __call__(self, rows: slice) -> Wide:
        values = self.factor.load_wide(rows)
        for column in self.columns:
            values = values * column[rows]
        return values


@dataclass(frozen=True, slots=True)
class _Reordered:
    """Reads the rows of a constant, their columns in another order."""

    constant: Constant
    order: Callable[[], NDArray[np.intp]]

    def __call__(self, rows: slice) -> Array:
        return self.constant.load(rows).take(self.order(), axis=1)


def _left_behind(shape: tuple[int, ...]) -> Constant:
    def read(_: slice) -> Array:
        raise AssertionError("the values of a constant stay in the process that has read them")

    return Constant(shape, read)


def to_odd(values: Wide) -> Array:
    """FP64 to FP32: what FP32 lacks becomes the neighbor with an odd last bit.

    Rounding that to FP16 gives the FP16 number nearest to the value (Boldo and Melquiond, 2008: FP32 has more than 11 + 2
    digits). Rounding to the nearest FP32 number first would not.
    """
    with np.errstate(over="ignore"):
        narrow = np.array(values, np.float32, ndmin=1)
    bits, back = narrow.view(np.uint32), narrow.astype(np.float64)
    bits -= np.abs(back) > np.abs(values)  # toward zero
    bits |= back != values
    return narrow.reshape(values.shape)
