"""What a framework declares about itself, so that its models can be recognized, read and verified."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cnn_convertor.frontends.builder import PartialGraph


@dataclass(frozen=True, slots=True)
class Frontend:
    """A framework whose models can be read. Its folder is imported when the first model is read, so that --help is fast.

    name: as the ini file's `origin` gives it. title: as text gives it.
    definitions, data: suffixes of files that hold a network, and of files that hold weights.
    magic: how its files begin; empty where a file's content does not tell.
    channel_order: "RGB" or "BGR", the order its networks are trained with, by custom.
    runner: who computes the reference results for `verify`.
    importer: the module with the function `read(definition, data, *, size, custom_layers)`.
    """

    name: str
    title: str
    definitions: tuple[str, ...]
    data: tuple[str, ...]
    magic: tuple[bytes, ...]
    channel_order: str
    runner: str
    importer: str

    @property
    def suffixes(self) -> frozenset[str]:
        return frozenset((*self.definitions, *self.data))

    def is_without_weights(self, definition: Path) -> bool:
        """Whether files of this kind hold a network and no weights."""
        return definition.suffix.lower() in set(self.definitions) - set(self.data)

    def read(
        self,
        definition: Path,
        data: Path | None,
        *,
        size: tuple[int, int] | None = None,
        custom_layers: Path | None = None,
    ) -> PartialGraph:
        """Read a network as far as possible; the problems of single layers come with it.

        data: the weights; may be the definition. None: the network is inspected without weights.
        size: (height, width) of every input map, in place of the model's own. custom_layers: a Python file.
        Raises ModelError when a file is not what it should be, UsageError when custom_layers fails.
        """
        importer: Any = import_module(self.importer)
        found: PartialGraph = importer.read(definition, data, size=size, custom_layers=custom_layers)
        return found
