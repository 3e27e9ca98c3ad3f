"""A surface: an array of the network, its layout, and its bytes, packed a range of rows at a time."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import Origin, Problem, UnsupportedError
from cnn_convertor.export.parts import Part, Role, gathered
from cnn_convertor.export.quantizing import (
    ONE_SCALE,
    Real,
    StorageLoss,
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

_PIECE_BYTES = 4 << 20  # FP32 bytes packed at a time, if the layout allows packing rows separately


class Packed(NamedTuple):
    """Results of packing a surface. scales: (parts,), None for unscaled values."""

    scales: Real | None
    error: StorageLoss | None


class Sparse(NamedTuple):
    """Compressed weights. stored: bytes of the non-zero weights, padded.

    mask: one bit per weight, (bytes,). group_sizes: non-zero bytes per group, (groups,)
    """

    stored: int
    mask: Bytes
    group_sizes: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        mask = nbytes(weights.MASK, self.mask.shape)
        sizes = nbytes(weights.GROUP_SIZES, self.group_sizes.shape)
        return self.stored + mask + sizes


@dataclass(frozen=True, slots=True)
class Surface:
    """An array in memory.

    values: of `shape`, with the layout's axes; None: only described
    symmetric: the quantization of integers
    notes: additional manifest entries
    may_be_sparse: compress, if that is smaller (NVDLA's weights)
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
        """The compressed weights; None if they are not smaller. Raises as `pieces` does."""
        masks = []
        sizes = []
        stored = 0
        for piece in self._compressed(self._packed([])):
            masks.append(piece.mask)
            sizes.append(piece.group_sizes.view("<u4"))
            stored += piece.weights.size
        result = Sparse(_filled(stored), np.concatenate(masks), np.concatenate(sizes))
        return result if result.nbytes < self.nbytes else None

    def _compressed(self, packed: Iterator[tuple[int, Bytes]]) -> Iterator[weights.Compressed]:
        for rows, piece in packed:
            yield weights.compress_groups(piece, rows, Precision(self.element.name))

    def pieces(self, written: list[Packed], *, compressed: bool = False) -> Iterator[Bytes]:
        """The bytes, piece by piece; then appends the results to `written`. compressed: without zero weights.

        Raises UnsupportedError for values the element type cannot represent.
        """
        size = 0
        packed = self._packed(written)
        contents = (
            (compact.weights for compact in self._compressed(packed)) if compressed else (piece for _, piece in packed)
        )
        for content in contents:
            size += content.size
            yield content
        yield np.zeros((_filled(size) if compressed else self.nbytes) - size, np.uint8)

    def _packed(self, written: list[Packed]) -> Iterator[tuple[int, Bytes]]:
        """Some rows at a time: their number, and their unpadded bytes."""
        assert self.values is not None
        error = StorageLoss()
        all_scales = []
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
        written.append(Packed(np.concatenate(all_scales) if all_scales else None, None if exact else error))

    def _rows_at_a_time(self) -> int:
        """The number of rows packed at a time: all, unless slices of the first axis are consecutive."""
        first = self.layout.terms[0]
        rows = self.shape[0]
        apart = first.axis == self.layout.axes[0] and first.mod is None and not first.flip and first.extent_align == 1
        if not apart or (self.element.kind == "i" and self.symmetric.axes == 0):
            return rows
        row_bytes = 4 * math.prod(self.shape[1:])
        return max(1, _PIECE_BYTES // (row_bytes * first.div)) * first.div

    def _stored(self, values: Real) -> tuple[NDArray[Any], Real | None]:
        """Values as elements, and the scales of integers."""
        if self.element.kind == "f":
            stored = narrowed(values, self.element)
            self._check(values, stored)
            return stored, None
        scales = scales_of(values, self.symmetric, int(np.iinfo(self.element).max))
        return to_integers(values, scales, self.element), scales

    def _check(self, values: Real, stored: NDArray[Any]) -> None:
        """Raise UnsupportedError for NaN, infinity and overflow."""
        wrong = ~np.isfinite(stored)
        if wrong.any():
            value = values[wrong][0]
            flaw = "is not finite"
            hint = "check for negative batch norm variances"
            if np.isfinite(value):
                flaw = f"does not fit {self.element}"
                hint = "use a target with a wider type"
            message = f"after folding, {value:g} in the {self.role.value} {flaw}; {int(wrong.sum())} such values"
            raise UnsupportedError.of("DV853", message, self.where, hint)


def _filled(size: int) -> int:
    """The padded size of compressed weights."""
    return -(-size // weights.SIZE_ALIGN) * weights.SIZE_ALIGN


# --- targets --------------------------------------------------------------------------------------------------------------


class Target(ABC):
    """Lays out the arrays of an optimized network."""

    name: str

    @abstractmethod
    def surfaces_of(self, part: Part) -> Iterator[Surface]:
        """The surfaces of one part. Raises UnsupportedError."""

    def surfaces(self, parts: Iterable[Part]) -> Iterator[Surface]:
        """The surfaces in the order of the parts. Raises UnsupportedError at the end, with all problems."""
        problems: list[Problem] = []
        for part in parts:
            with gathered(problems):
                yield from self.surfaces_of(part)
        if problems:
            raise UnsupportedError(problems)


def surface(
    part: Part, layout: Layout, values: Constant | None, shape: tuple[int, ...], *, axes: int = 0, **notes: Any
) -> Surface:
    """The surface of a part. axes: the number of leading axes with scales of their own."""
    symmetric = Symmetric(axes, binary=part.role is Role.SLOPES)
    more = {name: value for name, value in notes.items() if value is not None}
    return Surface(
        part.node, part.layer, part.type, part.operator, part.role, layout, shape, values, part.where, symmetric, more
    )


def element_for(part: Part, element: DType) -> DType:
    """The element type of an array: only weights and maps become integers; an 8-bit bias would lose too much."""
    is_small = part.role is not Role.WEIGHTS and not part.role.is_map
    return np.dtype(np.float32) if element.kind == "i" and is_small else element
