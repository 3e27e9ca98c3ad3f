"""Runs converted networks on the emulated device."""

import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.checking import on_disk
from cnn_convertor.devices.program import Program
from cnn_convertor.devices.target import Load, Quantized
from cnn_convertor.emulation.feature_maps import Maps, wrong_header
from cnn_convertor.emulation.network import EmulatedNetwork, files_of
from cnn_convertor.errors import ConvertorError, ConvertorWarning, Origin, Problem, warn
from cnn_convertor.files import codes
from cnn_convertor.files.replacing import Contents, replace_all
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import quantize, read_whole
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import Given, Preparation, samples_of

_NAMED: Final = 3  # files, in a warning
_ROUNDING: Final = 2.0**-22  # of FP32, four times
_SUBNORMAL: Final = 2.0**-148  # the same near 0


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
    return request.target.install(graph, program, _emitted(program, request), folder, sources=sources)


def _emitted(program: Program, request: Request) -> dict[str, Contents]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvertorWarning)  # about files that a conversion does not write
        return request.target.emit(program, replace(request.rendering, source=True))


def _from_disk(graph: Graph, program: Program, request: Request, sources: Sequence[Path]) -> EmulatedNetwork:
    needed = [f"{program.name}{end}" for end in ("_gen.cpp", "_gen.h", "_weights.bin")]
    missing = [file for file in needed if not (request.folder / file).is_file()]
    if missing:
        raise ConvertorError.of(
            "DV718", f"missing files: {', '.join(missing)}", Origin(str(request.folder)), codes.hint("DV718")
        )
    return request.target.installed(graph, program, request.folder, sources=sources)


class Compiled(NamedTuple):
    """network: the generated sources of a program, compiled. load: loads other programs of the graph as data.

    files: name -> the file, of all that a conversion emits.
    """

    network: EmulatedNetwork
    load: Load
    files: Mapping[str, Path]


@contextmanager
def compiled(
    graph: Graph, program: Program, request: Request, sources: Sequence[Path], *, disk: bool = False
) -> Iterator[Compiled]:
    """A program, compiled. disk: the sources of the output folder, in place of new ones. Raises ConvertorError if they are not there."""
    with temporary_folder() as root:
        fresh = root / "compiled"
        if disk:
            network = _from_disk(graph, program, request, sources)
            replace_all(fresh, _emitted(program, request))
        else:
            network = _install(graph, program, request, fresh, sources)

        def load(program: Program, residuals: Program | None = None) -> EmulatedNetwork:
            folder = Path(tempfile.mkdtemp(dir=root))
            return request.target.install_data(graph, program, folder, sources=sources, residuals=residuals)

        yield Compiled(network, load, files_of(fresh))


def require_preparation(network: EmulatedNetwork, preparation: Preparation) -> None:
    """Raises ConvertorError unless the header makes of each pixel what the preparation does, but for rounding to FP32."""
    step = -1 if preparation.swaps else 1
    expected_order, (order, prepared) = preparation.channel_order[::step], network.pixels()
    if order != expected_order:
        raise wrong_header(
            network.program, f"kChannelOrder is {order}, and the application's pixels are {expected_order}"
        )
    pixels = np.arange(256.0)[:, None]
    mean = np.array(preparation.mean)
    scale = np.atleast_1d(preparation.scale)
    mean, scale = mean[::step], scale[::step]
    expected, largest = (pixels - mean) * scale, pixels + np.abs(mean)
    rounding = largest * (np.abs(scale) * _ROUNDING + _SUBNORMAL)  # of both numbers, the difference and the product
    if prepared.shape != expected.shape:
        raise wrong_header(network.program, "kMean and kScale: they have other counts of numbers than mean and scale")
    wrong = (np.abs(prepared - expected) > rounding) & (largest * np.abs(scale) < np.finfo(np.float32).max)
    for pixel, channel in np.argwhere(wrong)[:1]:
        values = (
            f"{prepared[pixel, channel]:g} of the pixel {pixel} in channel {channel}, not {expected[pixel, channel]:g}"
        )
        raise wrong_header(network.program, f"kMean and kScale: they make {values}")


def warn_of_other_files(request: Request, quantized: Quantized, fresh: Mapping[str, Path]) -> None:
    """Warn, in one line, that the output folder has files of other settings or another version. fresh: as in `on_disk`."""
    names = [difference.file.name for difference in on_disk(request, quantized, fresh)]
    if names:
        shown = ", ".join(names[:_NAMED]) + f" and {len(names) - _NAMED} more" * (len(names) > _NAMED)
        problem = f"files there are not those of this conversion: {shown}"
        warn(Problem("DV736", problem, Origin(str(request.folder)), codes.hint("DV736")))


def run(
    config: Config,
    inputs: Given,
    *,
    sources: Sequence[Path] = (),
    overridden: bool = False,
    progress: Progress = silent,
) -> dict[str, Maps]:
    """Run the converted network on a file or arrays: framework layer -> (N, H, W, C), for each output.

    Warns if the output folder has files of other settings, unless these are overridden: by the caller, for this run alone.
    """
    progress("read", 0, 1)
    request = Request.of(config)
    graph = read_whole(request)
    quantized = quantize(graph, request, progress)
    samples = samples_of(inputs, graph, request.preparation)
    progress("compile", 0, 1)
    with compiled(graph, quantized.program, request, sources) as network:
        progress("run", 0, 1)
        require_preparation(network.network, request.preparation)
        results = network.network.run(samples.inputs).outputs
        if not overridden:
            warn_of_other_files(request, quantized, network.files)
    for output, name, values in zip(graph.outputs, graph.output_names, results, strict=True):
        if not np.isfinite(values).all():
            problem = f'the output "{name}" holds NaN or infinity'
            hint = "check mean and scale in the ini file; `verify --layers` shows the first layer affected"
            warn(Problem("DV719", problem, graph[output].where, hint))
    return dict(zip(graph.output_names, results, strict=True))
