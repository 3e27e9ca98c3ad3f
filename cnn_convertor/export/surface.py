"""A piece of memory that a target reads: an array of the network, its layout, and the bytes, made a range of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import Origin, Problem, UnsupportedError
from cnn_convertor.export.parts import Role
from cnn_convertor.export.quantizing import (
    ONE_SCALE,
    Error,
    Real,
    Symmetric,
    narrowed,
    scales_of,
    to_integers,
    to_reals,
)
from cnn_convertor.ir.constant import Constant
from cnn_convertor.layouts.layout import DType, Layout, nbytes
from cnn_convertor.layouts.nvdla import weights
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import Bytes, pack

_PIECE_BYTES = 4 << 20  # of FP32 numbers that are packed at a time, where the layout lets rows be packed apart


class Written(NamedTuple):
    """What is known once a surface's bytes have been made. scales: (parts,), None where numbers stand for themselves."""

    scales: Real | None
    error: Error | None


class Sparse(NamedTuple):
    """What compression makes of weights. stored: bytes of those that are left, with what fills them up.

    mask: a bit for each weight, (bytes,). group_sizes: bytes of those that are left of each group, (groups,)
    """

    stored: int
    mask: Bytes
    group_sizes: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Of all three surfaces."""
        mask, sizes = nbytes(weights.MASK, self.mask.shape), nbytes(weights.GROUP_SIZES, self.group_sizes.shape)
        return self.stored + mask + sizes


@dataclass(frozen=True, slots=True)
class Surface:
    """An array in memory.

    values: of `shape`, whose axes are those of the layout; None: what will lie there is not known, only how
    symmetric: how integers are made of the numbers
    notes: what else the manifest tells of it
    may_be_sparse: NVDLA's weights, to be compressed where that takes fewer bytes
    """

    node: str
    layer: str
    type: str
    operator: str
    role: Role
    layout: Layout
    shape: tuple[int, ...]
    values: Constant | None
    where: Origin | None = None
    symmetric: Symmetric = ONE_SCALE
    notes: Mapping[str, Any] = field(default_factory=dict)
    may_be_sparse: bool = False

    @property
    def element(self) -> DType:
        assert self.layout.element is not None
        return self.layout.element

    @property
    def nbytes(self) -> int:
        return nbytes(self.layout, self.shape)

    def sparse(self) -> Sparse | None:
        """How the weights are compressed; None where that takes no fewer bytes. Raises as `pieces` does."""
        masks, sizes, stored = [], [], 0
        for piece in self._compressed(self._packed([])):
            masks.append(piece.mask)
            sizes.append(piece.group_sizes.view("<u4"))
            stored += piece.weights.size
        made = Sparse(_filled(stored), np.concatenate(masks), np.concatenate(sizes))
        return made if made.nbytes < self.nbytes else None

    def _compressed(self, packed: Iterator[tuple[int, Bytes]]) -> Iterator[weights.Compressed]:
        for rows, piece in packed:
            yield weights.compress_groups(piece, rows, Precision(self.element.name))

    def pieces(self, written: list[Written], *, compressed: bool = False) -> Iterator[Bytes]:
        """The bytes, piece by piece; what else is known by then is appended to `written`.

        compressed: without the weights that are zero
        Raises UnsupportedError for numbers that the element type cannot stand for.
        """
        size, packed = 0, self._packed(written)
        parts = (made.weights for made in self._compressed(packed)) if compressed else (piece for _, piece in packed)
        for part in parts:
            size += part.size
            yield part
        yield np.zeros((_filled(size) if compressed else self.nbytes) - size, np.uint8)

    def _packed(self, written: list[Written]) -> Iterator[tuple[int, Bytes]]:
        """Some rows at a time: their number, and their bytes, which nothing fills up."""
        assert self.values is not None
        error, all_scales = Error(), []
        bare = replace(self.layout, total_align=1)
        step = self._rows_at_a_time()
        for start in range(0, self.shape[0], step):
            values = self.values.load(slice(start, min(start + step, self.shape[0])))
            self._check(values, values)
            stored, scales = self._stored(values)
            error.add(values, stored.astype(np.float64) if scales is None else to_reals(stored, scales))
            if scales is not None:
                all_scales.append(scales)
            yield len(values), pack(stored, bare)
        exact = self.element.kind == "f" and not error.largest
        written.append(Written(np.concatenate(all_scales) if all_scales else None, None if exact else error))

    def _rows_at_a_time(self) -> int:
        """How many rows of the first axis are packed at a time: all, unless slices of that axis lie one after the other."""
        first, rows = self.layout.terms[0], self.shape[0]
        apart = first.axis == self.layout.axes[0] and first.mod is None and not first.flip and first.extent_align == 1
        if not apart or (self.element.kind == "i" and self.symmetric.axes == 0):
            return rows
        row_bytes = 4 * math.prod(self.shape[1:])
        return max(1, _PIECE_BYTES // (row_bytes * first.div)) * first.div

    def _stored(self, values: Real) -> tuple[NDArray[Any], Real | None]:
        """Numbers as elements, and their scales if they are integers."""
        if self.element.kind == "f":
            stored = narrowed(values, self.element)
            self._check(values, stored)
            return stored, None
        scales = scales_of(values, self.symmetric, int(np.iinfo(self.element).max))
        return to_integers(values, scales, self.element), scales

    def _check(self, values: Real, stored: NDArray[Any]) -> None:
        """Refuse what is no number, or became none."""
        wrong = ~np.isfinite(stored)
        if wrong.any():
            value = values[wrong][0]
            flaw = f"does not fit {self.element}" if np.isfinite(value) else "is no number"
            hint = (
                "a target with a wider type"
                if np.isfinite(value)
                else "look for batch norm variances that are negative"
            )
            message = (
                f"a value of {value:g} among the {self.role.value} {flaw} after folding; {int(wrong.sum())} such values"
            )
            raise UnsupportedError(Problem("DV853", message, self.where, hint))


def _filled(size: int) -> int:
    """The bytes of compressed weights, with what fills them up."""
    return -(-size // weights.SIZE_ALIGN) * weights.SIZE_ALIGN
