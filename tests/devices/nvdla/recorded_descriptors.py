"""The recorded cases of NVDLA: descriptors as values, memory before and after, and what the firmware wrote."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import CONFIGURATIONS, Configuration
from cnn_convertor.devices.nvdla.firmware import descriptors
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareOperation, FirmwareTask
from cnn_convertor.devices.nvdla.firmware.register_settings import Places


class Case:
    """One case by its name."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    @cached_property
    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads((self.folder / f"{self.name}.json").read_text(encoding="utf-8"))
        return values

    def array(self, *names: str) -> NDArray[Any]:
        """The first of these arrays that the case has."""
        with np.load(self.folder / f"{self.name}.npz") as arrays:
            return np.asarray(arrays[next(name for name in names if name in arrays.files)])

    @property
    def configuration(self) -> Configuration:
        return CONFIGURATIONS[self.values["configuration"]]

    def before(self, buffer: str) -> NDArray[np.uint8]:
        return self.array(f"before_{buffer}")

    def after(self, buffer: str) -> NDArray[np.uint8]:
        """A buffer's memory after the run."""
        return self.array(f"after_{buffer}", f"before_{buffer}")

    @cached_property
    def writes(self) -> list[tuple[int, int]]:
        return [(int(address), int(value)) for address, value in self.array("register_writes")]

    @property
    def places(self) -> Places:
        addresses = {each["address_index"]: each["dma_address"] for each in self.values["buffers"].values()}
        return Places(self.configuration, lambda index, offset: addresses.get(index, 0) + offset)

    @cached_property
    def task(self) -> FirmwareTask:
        network = value_of(descriptors.NetworkDescriptor, self.values["network_desc"])
        tables = [value_of(descriptors.Lut, table) for table in self.values["luts"]]
        operations: list[FirmwareOperation] = []
        for given, common in zip(self.values["operations"], self.values["dependency_graph"], strict=True):
            engine = descriptors.Engine[given["op_type"]]
            op = value_of(descriptors.OPERATIONS[engine], given["op_desc"])
            surfaces = value_of(descriptors.SURFACES[engine], given["surface_desc"])
            number = given["op_desc"].get("lut_index", -1)
            lut = tables[number] if number >= 0 else None
            operations.append(
                FirmwareOperation(len(operations), value_of(descriptors.Common, common), op, surfaces, lut)
            )
        return FirmwareTask(network, tuple(operations))


def cases(shared: Path) -> Iterator[Case]:
    folder = shared / "vectors" / "nvdla_ops" / "cases"
    for path in sorted(folder.glob("*.json")):
        yield Case(folder, path.stem)


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def value_of(kind: Any, given: dict[str, Any]) -> Any:
    """A descriptor of its fields in JSON; a field that is not there is 0."""
    hints = hints_of(kind)
    arguments = {}
    for field in dataclasses.fields(kind):
        arguments[field.name] = _field(hints[field.name], given.get(field.name, 0))
    return kind(**arguments)


def _field(kind: Any, value: Any) -> Any:
    match value:
        case {"exp_offset": number} | {"frac_bits": number}:  # two names of one number
            return number
        case {"data_f": number}:  # a float in place of a scale
            return kind(number, 0)
        case {"data_i": inner}:
            return value_of(kind, inner)
        case dict():
            return value_of(kind, value)
        case list():
            (inner, _) = get_args(kind)
            return tuple(_field(inner, item) for item in value)
        case int() if value >= 1 << 63:  # written without its sign
            return value - (1 << 64)
        case _:
            return value
