"""What every formula works on: a layer of the definition, its blobs, and the table of formulas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Blob: TypeAlias = NDArray[np.float64]
Tops: TypeAlias = Blob | Sequence[Blob]
Pair: TypeAlias = tuple[int, int]  # height, width

LOWEST = -float(np.finfo(np.float32).max)  # Caffe's -FLT_MAX


@dataclass(frozen=True, slots=True)
class FormulaLayer:
    """A layer of the definition. message: its LayerParameter. weights: its blobs. batch: that of the definition."""

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Any
    weights: tuple[Blob, ...] = ()
    batch: int = 1


Formula: TypeAlias = Callable[..., Tops]
FORMULAS: dict[str, Formula] = {}


def computes(*types: str) -> Callable[[Formula], Formula]:
    """Enter a function as the formula of these types."""

    def register(formula: Formula) -> Formula:
        FORMULAS.update(dict.fromkeys(types, formula))
        return formula

    return register
