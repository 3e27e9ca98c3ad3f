"""A loadable as the commands see it: read from its file, listed, checked and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.compiled import CompiledMap, FactTable
from cnn_convertor.devices.nvdla.configurations import CONFIGURATIONS, Configuration
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareTask
from cnn_convertor.devices.nvdla.loadable.auditing import audited
from cnn_convertor.devices.nvdla.loadable.container import ContainerError, TensorEntry, read_container
from cnn_convertor.devices.nvdla.loadable.contents import (
    ContentsError,
    LoadableContents,
    contents_of,
)
from cnn_convertor.devices.nvdla.loadable.loadable_tables import TABLES
from cnn_convertor.devices.nvdla.loadable.tensor_memory import TensorError, element_of, shape_of
from cnn_convertor.errors import ModelError, Origin, Problem, UnsupportedError, UsageError, did_you_mean
from cnn_convertor.files import limited

LARGEST_FILE: Final = 1 << 30  # bytes
_AGAIN: Final = "copy the file again, or compile the network again"
_DEVICES: Final = {configuration.device: configuration for configuration in CONFIGURATIONS.values()}


def read_loadable(path: Path) -> Loadable:
    """Raises ModelError for anything else than a loadable within the limits."""
    where = Origin(str(path))
    try:
        data = limited.contents(path, LARGEST_FILE)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError.of("DV910", f"cannot read the loadable: {reason}", where, "check the path") from None
    try:
        contents = contents_of(read_container(data))
        maps = tuple(_map_of(tensor) for tensor in (*contents.inputs, *contents.outputs))
    except ContainerError as error:
        raise ModelError.of(
            "DV911", f"this is not a loadable of NVDLA, or a damaged one: {error}", where, _AGAIN
        ) from None
    except (ContentsError, TensorError) as error:
        raise ModelError.of(
            "DV912", f"the lists of the loadable contradict each other: {error}", where, _AGAIN
        ) from None
    count = len(contents.inputs)
    return Loadable(str(path), contents, maps[:count], maps[count:])


def _map_of(tensor: TensorEntry) -> CompiledMap:
    return CompiledMap(tensor.name, shape_of(tensor), element_of(tensor))


@dataclass(frozen=True, slots=True)
class Loadable:
    """file: its path, for messages."""

    file: str
    contents: LoadableContents
    inputs: tuple[CompiledMap, ...]
    outputs: tuple[CompiledMap, ...]

    def tables(self) -> tuple[FactTable, ...]:
        return tuple(table(self.contents) for table in TABLES)

    def findings(self, device: str) -> tuple[Problem, ...]:
        configuration = self._configuration(device)
        problems = []
        for task in self.contents.tasks:
            if isinstance(task.contents, FirmwareTask):
                for finding in audited(task, task.contents.operations, configuration):
                    where = Origin(
                        self.file, f"task {task.entry.id}, operation {finding.operation}", finding.engine.name
                    )
                    problems.append(Problem(finding.code, finding.reason, where, _HINTS[finding.code]))
        return tuple(problems)

    def run(self, device: str, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[Any]]:
        from cnn_convertor.devices.nvdla.loadable.playback import PlaybackError, played  # here: the rest needs no twin

        configuration = self._configuration(device)
        try:
            return played(self.contents, configuration, inputs)
        except PlaybackError as error:
            hint = f"cnn-convertor audit {self.file} --device {device}"
            raise UnsupportedError.of("DV913", str(error), Origin(self.file), hint) from None

    def _configuration(self, device: str) -> Configuration:
        if device not in _DEVICES:
            problem = f'loadables run on no device "{device}"{did_you_mean(device, _DEVICES)}'
            raise UsageError.of("DV914", problem, Origin(self.file), f"--device {', '.join(_DEVICES)}")
        return _DEVICES[device]


_HINTS: Final = {
    "DV918": "use a configuration that has it, or compile the network for this one",
    "DV919": "compile the network again, with a compiler that keeps to the limits",
    "DV920": "compile the network for this configuration: atoms have other sizes in others",
    "DV921": "compile the network again: its memories are too small for its maps",
    "DV922": "compile the network for this configuration: sizes of its buffer differ in others",
    "DV923": "compile the network for this configuration, which then splits the layer",
}
