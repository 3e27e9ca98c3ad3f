"""Reads what a kit stored on the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnn_convertor.devices.program import ElementType, Program
from cnn_convertor.emulation.feature_maps import Maps, in_program_order
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.files import json_files
from cnn_convertor.files.opening import bytes_of
from cnn_convertor.verification.on_board import Measured

_FORMAT, _VERSION = "cnn-convertor results", 1
_ELEMENTS = {ElementType.BYTE: "u1", ElementType.HALF: "<f2", ElementType.FLOAT: "<f4"}
_AGAIN = "run the kit again, and name its folder of results"


@dataclass(frozen=True, slots=True, eq=False)
class BoardResults:
    """network, inputs: hashes of what ran. seed: of random inputs, or kit.GIVEN. device: figures, None where unknown.

    cpu_usec: of the layers on the CPU. between_usec: of the changes between it and the device. layers: of each layer, in
    the order of the generated network. memory: the outputs of all layers as they lie in memory, sample after sample. outputs: FP32, (N, size of all).
    """

    folder: Path
    network: str
    inputs: str
    samples: int
    seed: int
    device: Mapping[str, int | str | None]
    whole: Measured
    cpu_usec: int
    between_usec: int
    layers: tuple[Measured, ...]
    memory: bytes
    outputs: Maps

    def require_fit(self, program: Program) -> None:
        """Raises UsageError when the results do not have a map for each layer and output of a program."""
        size = sum(layer.output.nbytes for layer in program.layers)
        width = sum(program.layers[index].output.elements for index in program.outputs)
        if (len(self.layers), len(self.memory), self.outputs.shape[1]) != (
            len(program.layers),
            self.samples * size,
            width,
        ):
            raise _unreadable(self.folder, "its maps have other sizes than those of the network")

    def maps(self, program: Program) -> tuple[Maps, ...]:
        """The output of each layer of the program, (N, size)."""
        layers = [program.layers[index] for index in program.order]
        sizes = [layer.output.nbytes for layer in layers]
        flat = np.frombuffer(self.memory, np.uint8).reshape(self.samples, -1)
        outputs = np.split(flat, np.cumsum(sizes)[:-1], axis=1)
        maps = [
            np.ascontiguousarray(output).view(_ELEMENTS[layer.output.type]).astype(np.float32)
            for output, layer in zip(outputs, layers, strict=True)
        ]
        return in_program_order(program, maps)


def read_results(folder: Path) -> BoardResults:
    """Raises UsageError when the folder does not hold the results of a kit."""
    try:
        data = json_files.load(folder / "results.json")
        if (data["format"], data["version"]) != (_FORMAT, _VERSION):
            raise _unreadable(folder, f"results.json is not {_FORMAT}, version {_VERSION}")
        results = _parsed(folder, data)
        size = sum(layer["bytes"] for layer in data["layers"])
    except OSError as error:
        raise _unreadable(folder, f"{Path(str(error.filename)).name}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # of JSON that no kit wrote
        raise _unreadable(folder, "results.json is damaged") from error
    if results.samples < 1 or len(results.memory) != results.samples * size:
        raise _unreadable(folder, "layers.bin has another size than results.json says")
    return results


def _parsed(folder: Path, data: Mapping[str, Any]) -> BoardResults:
    samples = int(data["samples"])
    return BoardResults(
        folder=folder,
        network=str(data["network"]),
        inputs=str(data["inputs"]),
        samples=samples,
        seed=int(data["seed"]),
        device=_device(data["device"]),
        whole=_measured(data, int(data["conv_usec"]) + int(data["fc_usec"])),
        cpu_usec=int(data["cpu_usec"]),
        between_usec=int(data["between_usec"]),
        layers=tuple(_measured(layer, layer["usec"]) for layer in data["layers"]),
        memory=bytes_of(folder / "layers.bin"),
        outputs=np.frombuffer(bytes_of(folder / "outputs.bin"), "<f4").reshape(samples, -1),
    )


def _device(data: Mapping[str, Any]) -> dict[str, int | str | None]:
    """Raises TypeError for values that are not figures or texts."""
    if not all(value is None or type(value) in (int, str) for value in data.values()):
        raise TypeError
    return {"description": None, **data}


def _measured(data: Mapping[str, Any], usec: int | None) -> Measured:
    """Raises TypeError for values that are not numbers."""
    values = (usec, data["input_bytes"], data["output_bytes"], data["weights_bytes"])
    if not all(value is None or type(value) is int for value in values):
        raise TypeError
    return Measured(*values)


def _unreadable(folder: Path, reason: str) -> UsageError:
    return UsageError.of("DV731", f"the results of the board cannot be read: {reason}", Origin(str(folder)), _AGAIN)
