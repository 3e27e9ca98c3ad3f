"""A network on an emulated device, ready to run: compiled from its generated sources, or as data for the runner."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.program import Program
from cnn_convertor.emulation.feature_maps import (
    Maps,
    Outputs,
    Traffic,
    count_of,
    in_program_order,
    layers_of,
    outputs_of,
    packed_inputs,
    require_outputs,
    written_inputs,
    wrong_header,
)
from cnn_convertor.errors import ConvertorError, Origin
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Shape
from cnn_convertor.workers.pool import share
from cnn_convertor.workers.programs import run_all

_ERROR: Final = "error: "  # prefix of the runner's messages
_HEADER: Final = "header: "  # behind it, of those about the generated header
_BUILT: Final[dict[str, Path]] = {}  # the name of a network's executable -> the executable of this computer


class Flat(NamedTuple):
    """Results as they lie in memory. outputs: (N, size of all of them). layers: (N, size) for each layer, or none.

    described: the outputs as an application reads them by the header, in the order H, W, C; None where the runner has none.
    traffic: of one sample, for each layer, or none.
    """

    outputs: Maps
    described: Maps | None = None
    layers: tuple[Maps, ...] = ()
    traffic: tuple[Traffic, ...] = ()


class EmulatedDevice(Protocol):
    """What runs networks on this computer. It can be pickled."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that tell the executables what the device is."""

    def build(self, network: EmulatedNetwork) -> Path:
        """The executable of a network: compiled, or the runner. Raises ConvertorError as a compiler does."""


class EmulatedNetwork(NamedTuple):
    """graph: as its framework has it; program: as the device runs it.

    folder, sources: what the executable is built of. data: the file of the program, for the runner; None: it is compiled.
    residuals: a file like the weights with what rounding to FP16 took from them, times 2**12: such a network rounds nothing.
    It can be pickled; the graph and the program then lose their weights.
    """

    graph: Graph
    program: Program
    executable: Path
    weights: Path
    device: EmulatedDevice
    folder: Path
    sources: tuple[Path, ...] = ()
    data: Path | None = None
    residuals: Path | None = None

    @classmethod
    def of(
        cls,
        graph: Graph,
        program: Program,
        folder: Path,
        device: EmulatedDevice,
        *,
        sources: tuple[Path, ...] = (),
        data: Path | None = None,
        residuals: Path | None = None,
    ) -> EmulatedNetwork:
        """The network of the files in a folder, with its executable. Raises ConvertorError as a compiler does."""
        weights = folder / f"{program.name}_weights.bin"
        network = cls(graph, program, Path(), weights, device, folder, sources, data, residuals)
        executable = device.build(network)
        _BUILT[executable.name] = executable
        return network._replace(executable=executable)

    @property
    def files(self) -> tuple[Path, ...]:
        """What it needs to run elsewhere: files, and a folder."""
        return (self.folder, self.weights, *self.sources)

    def built(self) -> EmulatedNetwork:
        """The same with an executable of this computer. A process looks for it once: its name is a hash of its contents."""
        own = _BUILT.get(self.executable.name)
        if own is None or not own.exists():
            own = self.device.build(self)
            _BUILT[self.executable.name] = own
        return self._replace(executable=own)

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the outputs as the framework has them."""
        return [self.graph.shape(name) for name in self.graph.outputs]

    def run(
        self, inputs: Mapping[str, Maps], *, layers: bool = False, exact: bool = False, replaced: bytes | None = None
    ) -> Outputs:
        """Run it on samples: input name -> (N, H, W, C).

        layers: keep every layer's map, too. exact: keep maps in FP32 beside the FP16 memory. replaced: outputs of layers from
        elsewhere, as in `given_layers` or `given_memory`: each layer reads those of the layers before it.
        Raises UsageError for inputs that do not fit the network, ConvertorError as `execute` does.
        """
        written = written_inputs(self.program, inputs)
        memory = packed_inputs(self.program, written, unrounded=self.residuals is not None)
        maps = None
        if self.data is None and self.residuals is None:
            maps = np.concatenate([values.reshape(len(values), -1) for values in written], axis=1)
        flat = self.execute(memory, count_of(inputs), maps=maps, layers=layers, exact=exact, replaced=replaced)
        outputs = outputs_of(self.program, flat.outputs, self.shapes)
        if flat.described is not None:
            require_outputs(self.program, self.graph.output_names, outputs, flat.described)
        return Outputs(outputs, flat.layers, flat.traffic)

    def pixels(self) -> tuple[str, NDArray[np.float64]]:
        """The order of channels by the header of a compiled network, and what it makes of each byte: (256, channels or 1)."""
        (result,) = run_all([[str(self.executable), "--pixels"]])
        order, *numbers = result.stdout.split()
        return order, np.array(numbers, np.float64).reshape(256, -1)

    def execute(
        self,
        inputs: bytes,
        samples: int,
        *,
        maps: Maps | None = None,
        layers: bool = False,
        exact: bool = False,
        replaced: bytes | None = None,
    ) -> Flat:
        """Run it on inputs as they lie in memory: the FP16 of all samples, each with all its inputs.

        maps: the same (N, size of all of them) in the order H, W, C, for a compiled network, which also finds them by its header.
        Reading what nothing wrote is an error. Raises ConvertorError when the device refuses a command, or when the network
        relies on a fault of the SDK's runtime.
        """
        with temporary_folder() as folder:
            (folder / "input.bin").write_bytes(inputs)
            if maps is not None:
                (folder / "input.bin.maps").write_bytes(maps.astype("<f4").tobytes())
            command = [str(self.executable), str(self.weights), str(folder / "input.bin"), str(folder)]
            command += ["--layers"] * layers
            if replaced is not None:
                assert layers, "given outputs take the place of layers' outputs"
                (folder / "given.bin").write_bytes(replaced)
                command.append(str(folder / "given.bin"))
            (result,) = run_all([command], environment=self._environment(exact=exact))
            if result.returncode != 0:
                lines = result.stderr.splitlines()
                errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
                for error in errors:
                    if error.startswith(_HEADER):
                        raise wrong_header(self.program, error.removeprefix(_HEADER))
                said = "\n".join(errors) or f"it ended with status {result.returncode}"
                problem = f"the device refuses the network: {said}"
                hint = "unless its files were changed, this is an error of the convertor: please report it"
                raise ConvertorError.of("DV704", problem, Origin(self.program.name), hint)
            outputs = np.fromfile(folder / "outputs.bin", "<f4").reshape(samples, -1)
            described = np.fromfile(folder / "maps.bin", "<f4").reshape(samples, -1) if maps is not None else None
            if not layers:
                return Flat(outputs, described)
            index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
            sizes = [entry["count"] for entry in index["layers"]]
            maps_of_layers = layers_of(
                self.program, np.fromfile(folder / "layers.bin", "<f4").reshape(samples, -1), sizes
            )
            traffic = [Traffic(**entry) for entry in index["layer_traffic"]]
            return Flat(outputs, described, maps_of_layers, in_program_order(self.program, traffic))

    def _environment(self, *, exact: bool) -> dict[str, str]:
        """What the user sets wins over the threads."""
        environment = {"DMP_DV_THREADS": str(share())} | dict(os.environ)
        environment.pop("DMP_DV_EXACT", None)
        if exact:
            environment["DMP_DV_EXACT"] = "1"
        if self.data is not None:
            environment["DMP_DV_PROGRAM"] = str(self.data)
        if self.residuals is not None:
            environment["DMP_DV_RESIDUALS"] = str(self.residuals)
        return environment | dict(self.device.environment)


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a folder, by their path in it."""
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
