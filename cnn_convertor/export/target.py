"""The base of all export targets."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cnn_convertor.errors import Problem, UnsupportedError
from cnn_convertor.export.parts import Part, Role, gathered
from cnn_convertor.export.quantizing import Symmetric
from cnn_convertor.export.surface import Surface
from cnn_convertor.ir.constant import Constant
from cnn_convertor.layouts.layout import DType, Layout


class Target(ABC):
    """Lays out the arrays of an optimized network."""

    name: str

    @abstractmethod
    def surfaces(self, parts: Sequence[Part]) -> Iterator[Surface]:
        """The surfaces in the order of the parts. Raises ConvertorError that lists all unsupported parts."""


def collected(parts: Iterable[Part], each: Callable[[Part], Iterator[Surface]]) -> Iterator[Surface]:
    """The surfaces of all parts. Raises UnsupportedError at the end, with all problems."""
    problems: list[Problem] = []
    for part in parts:
        with gathered(problems):
            yield from each(part)
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
