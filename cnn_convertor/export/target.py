"""What every target of an export does with the arrays of a network."""

from __future__ import annotations

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
        """The surfaces in the order of the parts. Raises ConvertorError for what the target cannot take, all of it."""


def collected(parts: Iterable[Part], each: Callable[[Part], Iterator[Surface]]) -> Iterator[Surface]:
    """The surfaces of every part, and in the end all that is wrong with any of them."""
    problems: list[Problem] = []
    for part in parts:
        with gathered(problems):
            yield from each(part)
    if problems:
        raise UnsupportedError(problems)


def surface(
    part: Part, layout: Layout, values: Constant | None, shape: tuple[int, ...], *, axes: int = 0, **notes: Any
) -> Surface:
    """axes: how many of the first axes have scales of their own."""
    symmetric = Symmetric(axes, binary=part.role is Role.SLOPES)
    more = {name: value for name, value in notes.items() if value is not None}
    return Surface(
        part.node, part.layer, part.type, part.operator, part.role, layout, shape, values, part.where, symmetric, more
    )


def element_for(part: Part, element: DType) -> DType:
    """What an array is made of: integers are for weights and maps; a bias in 8 bits would lose more than all of these."""
    is_small = part.role is not Role.WEIGHTS and not part.role.is_map
    return np.dtype(np.float32) if element.kind == "i" and is_small else element
