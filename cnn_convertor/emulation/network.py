"""A network on the emulated device, ready to run: compiled from its generated sources, or as data for the runner."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.codegen import RenderOptions, emit
from cnn_convertor.codegen.data import program_data, runner_kernels
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.devices.dv700.weights.encoding import encode_buffer
from cnn_convertor.emulation.build import build, runner
from cnn_convertor.emulation.execution import Maps, Outputs, run
from cnn_convertor.files.replacing import Contents, replace_all
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Shape

_LOG = logging.getLogger(__name__)  # the command line shows it
_BUILT: Final[dict[str, Path]] = {}  # the name of a network's executable -> the executable of this computer


class EmulatedNetwork(NamedTuple):
    """graph: as its framework has it; program: as the device runs it. device: that it was converted for.

    folder, sources: what the executable is built of. data: the file of the program, for the runner; None: it is compiled.
    It can be pickled; the graph and the program then lose their weights.
    """

    graph: Graph
    program: Program
    executable: Path
    weights: Path
    device: Device
    folder: Path
    sources: tuple[Path, ...] = ()
    data: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """What it needs to run elsewhere: files, and a folder."""
        return (self.folder, self.weights, *self.sources)

    @property
    def own_files(self) -> dict[str, Path]:
        """The files of its folder, by their path in it."""
        return {
            path.relative_to(self.folder).as_posix(): path for path in sorted(self.folder.rglob("*")) if path.is_file()
        }

    def built(self) -> EmulatedNetwork:
        """The same with an executable of this computer. A process looks for it once: its name is a hash of its contents."""
        own = _BUILT.get(self.executable.name)
        if own is None or not own.exists():
            own = (
                build(self.folder, self.program.name, sources=self.sources)
                if self.data is None
                else runner(runner_kernels())
            )
            _BUILT[self.executable.name] = own
        return self._replace(executable=own)

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the outputs as the framework has them."""
        return [self.graph.shape(name) for name in self.graph.outputs]

    def run(
        self, inputs: Mapping[str, Maps], *, layers: bool = False, exact: bool = False, replaced: bytes | None = None
    ) -> Outputs:
        """Run it on samples: input name -> (N, H, W, C). replaced: as in `execution.run`."""
        return run(
            self.executable,
            self.weights,
            self.program,
            inputs,
            shapes=self.shapes,
            layers=layers,
            exact=exact,
            replaced=replaced,
            device=self.device,
            data=self.data,
        )


def install(
    graph: Graph,
    program: Program,
    files: Mapping[str, Contents],
    folder: Path,
    *,
    sources: Sequence[Path] = (),
    device: Device,
) -> EmulatedNetwork:
    """Write the files that a program was emitted as to a folder, and compile them.

    sources: C++ files with the callbacks of custom layers. Raises ConvertorError as `build` does.
    """
    replace_all(folder, files)
    return installed(graph, program, folder, sources=sources, device=device)


def installed(
    graph: Graph, program: Program, folder: Path, *, sources: Sequence[Path] = (), device: Device
) -> EmulatedNetwork:
    """Compile the files that a folder has. They are not changed. Raises ConvertorError as `build` does."""
    executable = build(folder, program.name, sources=sources)
    _BUILT[executable.name] = executable
    return EmulatedNetwork(
        graph, program, executable, folder / f"{program.name}_weights.bin", device, folder, tuple(sources)
    )


def install_data(
    graph: Graph, program: Program, folder: Path, *, sources: Sequence[Path] = (), device: Device
) -> EmulatedNetwork:
    """Write a program as data to a folder. It gives the same bits as what `install` compiles, without a compilation.

    A program with custom layers is compiled, since their code is C++. sources: the callbacks. Raises as `install` does.
    """
    if any(layer.custom is not None for layer in program.layers):
        _LOG.info("%s has custom layers, whose code is C++, so it is compiled", program.name)
        files = emit(program, RenderOptions(program.name))
        return install(graph, program, files, folder, sources=sources, device=device)
    data, weights = f"{program.name}.program", f"{program.name}_weights.bin"
    contents = [np.frombuffer(program_data(program), np.uint8)]
    replace_all(folder, {data: contents, weights: encode_buffer(program)})
    executable = runner(runner_kernels())
    _BUILT[executable.name] = executable
    return EmulatedNetwork(graph, program, executable, folder / weights, device, folder, data=folder / data)
