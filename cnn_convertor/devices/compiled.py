"""The port for networks that another program compiled for an accelerator: what a file of them is to the commands.

It stands apart from `Accelerator`, which is set up for one network of the user's, plans it and writes it: such a file has no
layers to plan, and its accelerator may convert none. A format says by the ends of names which files are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cnn_convertor.errors import Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FactTable(NamedTuple):
    """Rows of facts under a title; each row has a value for each column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int, ...], ...]


class CompiledMap(NamedTuple):
    """An input or an output. shape: (H, W, C). element: the type of its values, of numpy."""

    name: str
    shape: tuple[int, int, int]
    element: str


class CompiledNetwork(Protocol):
    """A file's network."""

    @property
    def inputs(self) -> tuple[CompiledMap, ...]: ...

    @property
    def outputs(self) -> tuple[CompiledMap, ...]: ...

    def tables(self) -> tuple[FactTable, ...]:
        """What the file has: operations, maps, memory, weights."""

    def findings(self, device: str) -> tuple[Problem, ...]:
        """What the device cannot do with it, in the order of its operations. Raises UsageError for another device."""

    def run(self, device: str, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[Any]]:
        """Name of an output -> (H, W, C). inputs: the same for each input.

        Raises ConvertorError for what the device refuses, UsageError for another device.
        """


class CompiledFormat(NamedTuple):
    """suffixes: of its files, the first of those that a conversion writes. devices: that run them. read: raises ModelError for anything else than such a file."""

    suffixes: tuple[str, ...]
    devices: tuple[str, ...]
    read: Callable[[Path], CompiledNetwork]
