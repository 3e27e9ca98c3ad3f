"""What a framework declares about itself, so that its models can be recognized, read and verified."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cnn_convertor.errors import ConvertorError, ConvertorWarning, Origin
from cnn_convertor.files.dependencies import recorded

if TYPE_CHECKING:
    from cnn_convertor.frontends.builder import PartialGraph


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a network.

    size: (height, width) of every input map, in place of the model's own; of ONNX, where the file leaves them open.
    custom_layers: a Python file.
    stages, level: of Caffe's rules that include and exclude layers, added to those of the definition.
    """

    size: tuple[int, int] | None = None
    custom_layers: Path | None = None
    stages: tuple[str, ...] = ()
    level: int | None = None


@dataclass(frozen=True, slots=True)
class Frontend:
    """A framework whose models can be read. Its folder is imported when the first model is read, so that --help is fast.

    name: as the ini file's `origin` gives it. title: as text gives it.
    definitions, data: suffixes of files that hold a network, and of files that hold weights.
    magic: how its files begin; empty where a file's content does not tell. pattern: a regular expression for how its texts begin.
    channel_order: "RGB" or "BGR", the order its networks are trained with, by custom.
    finds_weights: whether the definition holds its weights, or names their files, so that no other can be given.
    runner: who computes the reference results for `verify`.
    options: fields of ReadOptions that it uses. importer: the module with the function `read(definition, data, options)`.
    """

    name: str
    title: str
    definitions: tuple[str, ...]
    data: tuple[str, ...]
    magic: tuple[bytes, ...]
    channel_order: str
    runner: str
    options: frozenset[str]
    importer: str
    finds_weights: bool = False
    pattern: bytes | None = None

    @property
    def suffixes(self) -> frozenset[str]:
        return frozenset(self.definitions + self.data)

    def is_without_weights(self, definition: Path) -> bool:
        """Whether files of this kind hold a network and no weights."""
        return definition.suffix.lower() in set(self.definitions) - set(self.data)

    def read(self, definition: Path, data: Path | None, options: ReadOptions = ReadOptions()) -> PartialGraph:
        """Read a network as far as possible; the problems of single layers come with it.

        data: the weights; may be the definition. None: the network is inspected without weights.
        Raises ModelError when a file is not what it should be, UsageError when custom_layers fails.
        """
        importer: Any = import_module(self.importer)
        partial: PartialGraph = importer.read(definition, data, options)
        return partial


class Model(NamedTuple):
    """The files of a network. data: its weights, which may be the definition.

    inputs: layers behind which the network begins; outputs: at which it ends; both empty for the model's own.
    lines: where the ini file names these.
    """

    frontend: Frontend
    definition: Path
    data: Path
    options: ReadOptions = ReadOptions()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    lines: Mapping[str, Origin] = {}

    @property
    def files(self) -> tuple[Path, ...]:
        """All that it is read from: files, and folders of files."""
        named = (self.definition, self.data, self.options.custom_layers)
        opened: set[Path] = set()
        if self.frontend.finds_weights and self.options.custom_layers is None:
            with suppress(ConvertorError, OSError), warnings.catch_warnings(), recorded() as opened:
                warnings.simplefilter("ignore", ConvertorWarning)  # the next reader of the files reports the problem
                self.read()
        return tuple(dict.fromkeys((*filter(None, named), *sorted(opened))))

    @property
    def may_lack_weights(self) -> bool:
        return self.frontend.is_without_weights(self.definition)

    def read(self, *, with_weights: bool = True) -> PartialGraph:
        """Read the network as `Frontend.read` does. with_weights: False where the file of the weights may be missing."""
        from cnn_convertor.frontends.subnetwork import part_of

        data = None if not with_weights and self.may_lack_weights else self.data
        partial = self.frontend.read(self.definition, data, self.options)
        return part_of(partial, self.inputs, self.outputs, Origin(str(self.definition)), self.lines, self.options.size)
