"""Runs converted networks on the emulated device."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from cnn_convertor import codegen
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.checking import on_disk
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork, install, install_data, installed
from cnn_convertor.errors import ConvertorError, Origin, Problem, warn
from cnn_convertor.files import codes
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import quantize, read_whole, render_options
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import Given, samples_of

Load: TypeAlias = Callable[[Program], EmulatedNetwork]


def prepare(
    graph: Graph, request: Request, folder: Path, *, sources: Sequence[Path] = (), progress: Progress = silent
) -> EmulatedNetwork:
    """Convert a network into a folder and compile it. sources: C++ files with the callbacks of custom layers."""
    program = quantize(graph, request, progress).program
    progress("compile", 0, 1)
    return _install(graph, program, request, folder, sources)


def _install(
    graph: Graph, program: Program, request: Request, folder: Path, sources: Sequence[Path]
) -> EmulatedNetwork:
    emitted = codegen.emit(program, replace(render_options(program, request), source=True))
    return install(graph, program, emitted, folder, sources=sources, device=request.options.device)


def _from_disk(graph: Graph, program: Program, request: Request, sources: Sequence[Path]) -> EmulatedNetwork:
    needed = [f"{program.name}{end}" for end in ("_gen.cpp", "_gen.h", "_weights.bin")]
    missing = [file for file in needed if not (request.folder / file).is_file()]
    if missing:
        raise ConvertorError.of(
            "DV718", f"missing files: {', '.join(missing)}", Origin(str(request.folder)), codes.hint("DV718")
        )
    return installed(graph, program, request.folder, sources=sources, device=request.options.device)


@contextmanager
def compiled(
    graph: Graph, program: Program, request: Request, sources: Sequence[Path], *, disk: bool = False
) -> Iterator[tuple[EmulatedNetwork, Load]]:
    """The generated sources of a program, compiled; and a function that loads other programs of the graph as data.

    disk: those of the output folder, in place of new ones. Raises ConvertorError if they are not there.
    """
    with temporary_folder() as root:
        if disk:
            network = _from_disk(graph, program, request, sources)
        else:
            network = _install(graph, program, request, root / "compiled", sources)

        def load(other: Program) -> EmulatedNetwork:
            return install_data(graph, other, Path(tempfile.mkdtemp(dir=root)), sources=sources, device=network.device)

        yield network, load


def stale_problem(file: str, what: str, lines: Sequence[str]) -> Problem:
    """A file of the output folder that is not what: the files that a conversion of the network gives now."""
    shown = "".join(f"\n    {line}" for line in lines)
    return Problem("DV718", f"the file is not {what}:{shown}", Origin(file), codes.hint("DV718"))


def run(config: Config, inputs: Given, *, sources: Sequence[Path] = (), progress: Progress = silent) -> dict[str, Maps]:
    """Run the converted network on a file or arrays: framework layer -> (N, H, W, C), for each output."""
    progress("read", 0, 1)
    request = Request.of(config)
    graph = read_whole(request)
    quantized = quantize(graph, request, progress)
    samples = samples_of(inputs, graph, request.preparation)
    progress("compile", 0, 1)
    with compiled(graph, quantized.program, request, sources) as (network, _):
        progress("run", 0, 1)
        results = network.run(samples.inputs).outputs
        stale = on_disk(request, quantized, network.own_files)
    for difference in stale:
        warn(stale_problem(difference.file.name, "what ran", difference.lines))
    for output, name, values in zip(graph.outputs, graph.output_names, results, strict=True):
        if not np.isfinite(values).all():
            problem = f'the output "{name}" holds NaN or infinity'
            hint = "check mean and scale in the ini file; `verify --layers` shows the first layer affected"
            warn(Problem("DV719", problem, graph[output].where, hint))
    return dict(zip(graph.output_names, results, strict=True))
