"""Tries converted networks on the PC: runs them on the emulated device, or compares them with their framework."""

import io
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor import codegen
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.profiles import device_of
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.devices.dv700.weights.palettes import has_palettes, with_weights_of, without_palettes
from cnn_convertor.emulation.network import EmulatedNetwork, install
from cnn_convertor.emulation.run import Maps, Outputs
from cnn_convertor.emulation.variants import variants_of
from cnn_convertor.errors import Origin, Problem, UsageError, warn
from cnn_convertor.files import replacing
from cnn_convertor.files.limited import TooLargeError, contents
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import DeviceOptions, Quantized, build, load, plan, quantize, render_options
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import SAMPLES, Preparation, Samples, random_samples, read_samples, shapes_of
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.framework_maps import Reference
from cnn_convertor.verification.layers import alone, causes_of, compare_layers, held_layers
from cnn_convertor.verification.outputs import accuracies, beside, compare_outputs, unjudged_layers
from cnn_convertor.verification.reference import first_samples, run_both, run_device
from cnn_convertor.verification.results import (
    Beside,
    Cause,
    Comparison,
    LayerResult,
    Sensitivity,
    Unjudged,
    Verification,
)
from cnn_convertor.verification.sensitivity import sensitivities
from cnn_convertor.verification.unpooling import unpoolings
from cnn_convertor.workers.processes import HERE, Workers

MIN_SQNR = {False: 40.0, True: 20.0}  # palette? -> dB that every output must reach

_LARGEST_LABELS: Final = 1 << 24  # bytes
_CLASS: Final = re.compile(r"\s*[0-9]{1,18}\s*")  # a number that an index can hold

Install: TypeAlias = Callable[[Program], EmulatedNetwork]


def prepare(
    graph: Graph, config: Config, folder: Path, *, sources: Sequence[Path] = (), progress: Progress = silent
) -> EmulatedNetwork:
    """Convert a network into a folder and compile it. sources: C++ files with the callbacks of custom layers."""
    program = build(graph, config, progress)
    progress("compile", 0, 1)
    return _install(graph, program, config, folder, sources)


def _install(graph: Graph, program: Program, config: Config, folder: Path, sources: Sequence[Path]) -> EmulatedNetwork:
    emitted = codegen.emit(program, codegen.RenderOptions(config.definition.name))
    return install(graph, program, emitted, folder, sources=sources, device=device_of(config.profile))


@contextmanager
def _installing(graph: Graph, config: Config, sources: Sequence[Path]) -> Iterator[Install]:
    """A function that compiles a program of the graph, each in a temporary folder of its own."""
    with temporary_folder() as root:
        yield lambda program: _install(graph, program, config, Path(tempfile.mkdtemp(dir=root)), sources)


# --- run -----------------------------------------------------------------------------------------------------------------


def run(config: Config, given: Path, *, sources: Sequence[Path] = (), progress: Progress = silent) -> dict[str, Maps]:
    """Run the converted network on an image or an array: framework layer -> (N, H, W, C), for each output."""
    progress("read", 0, 1)
    graph = load(config)
    program = quantize(graph, config, progress).program
    samples = read_samples(given, shapes_of(graph), Preparation.of(config))
    with _installing(graph, config, sources) as installed:
        progress("compile", 0, 1)
        network = installed(program)
        progress("run", 0, 1)
        results = network.run(samples.inputs).outputs
    for output, name, values in zip(graph.outputs, graph.output_names, results, strict=True):
        if not np.isfinite(values).all():
            problem = f'the output "{name}" holds NaN or infinity'
            hint = "check mean and scale in the ini file; `verify --layers` shows the first layer concerned"
            warn(Problem("DV719", problem, graph[output].where, hint))
    return dict(zip(graph.output_names, results, strict=True))


def read_labels(path: Path) -> tuple[str, ...]:
    """Class names, one per line, without empty lines at the end. Raises UsageError if the file cannot be read as text."""
    try:
        return tuple(contents(path, _LARGEST_LABELS).decode().rstrip().splitlines())
    except TooLargeError as error:
        reason = f"the file of class names is too large: {error}"
    except OSError as error:
        reason = f"the class names cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "the class names are not UTF-8 text"
    raise UsageError.of("DV707", reason, Origin(str(path)), "write one name per line")


def check_labels(path: Path, names: Sequence[str], results: Mapping[str, Maps]) -> None:
    """Warn of outputs with another number of classes than there are names. results: as of `run`."""
    for output, values in results.items():
        classes = values.shape[-1]
        if values[0].size == classes != len(names):
            problem = f'the file has {len(names)} names, but the output "{output}" has {classes} classes'
            warn(Problem("DV720", problem, Origin(str(path)), "write one name per line, in the order of the classes"))


def save(path: Path, results: Mapping[str, Maps]) -> None:
    """Write outputs as a .npz file."""
    stream = io.BytesIO()
    _write_arrays(stream, results)
    replacing.write(path, [np.frombuffer(stream.getbuffer(), np.uint8)])


def _write_arrays(stream: BinaryIO, arrays: Mapping[str, Maps]) -> None:
    """Like numpy.savez, which refuses an array with the name "file". A zero byte would end a name, so it is escaped."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, values in arrays.items():
            member = zipfile.ZipInfo("{}.npy".format(name.replace("\0", "\\0")))
            with archive.open(member, "w", force_zip64=True) as opened:
                np.lib.format.write_array(opened, np.asarray(values), allow_pickle=False)


# --- verify --------------------------------------------------------------------------------------------------------------


class _Trial(NamedTuple):
    """A network that has run: what it was given, and what both sides computed.

    target: how its program was planned. installed: compiles other programs of the graph. on: where the samples run.
    """

    config: Config
    target: DeviceOptions
    network: EmulatedNetwork
    given: Samples
    device: Outputs
    reference: Reference
    installed: Install
    on: Workers

    @property
    def program(self) -> Program:
        return self.network.program

    def plan(self, target: DeviceOptions) -> Program:
        return plan(self.network.graph, self.config.name, target)


def verify(
    config: Config,
    *,
    graph: Graph | None = None,
    made: Quantized | None = None,
    inputs: Path | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    labels: Path | None = None,
    layers: bool = False,
    attribute: bool = False,
    sensitivity: bool = False,
    min_sqnr: float | None = None,
    sources: Sequence[Path] = (),
    progress: Progress = silent,
    on: Workers = HERE,
) -> Verification:
    """Compare the converted network with its framework.

    graph: converted in place of the configured model; made: its program, if it is known. inputs: images or arrays; None:
    random images. labels: a file with the right class of each input, one number per line. layers: also compare every map
    that exists on both sides. attribute: also find the causes of each layer's error. sensitivity: also measure how much
    FP16 weights in each single layer improve the outputs. min_sqnr: dB; None: 40, or 20 with a palette. sources: C++ files
    with the callbacks of custom layers. on: where the samples run; the results are the same.
    If an output is below the threshold, layers are always compared, to name the first one that is wrong.
    Warns of files in the output folder that differ from what is verified.
    """
    progress("read", 0, 1)
    graph = load(config) if graph is None else graph
    made = quantize(graph, config, progress, on=on) if made is None else made
    program = made.program
    shapes, preparation = shapes_of(graph), Preparation.of(config)
    if inputs is None:
        given = random_samples(shapes, preparation, samples=samples, seed=seed)
    else:
        given = read_samples(inputs, shapes, preparation)
    classes = None if labels is None else read_classes(labels, given.count, graph)
    palette = has_palettes(program)
    with _installing(graph, config, sources) as installed:
        progress("compile", 0, 1)
        network = installed(program)
        device, reference = run_both(config.model, network, given, on, progress)
        trial = _Trial(config, made.target, network, given, device, reference, installed, on)
        progress("compare", 0, 1)
        outputs = compare_outputs(network, device, reference)
        result = Verification(
            network=config.name,
            framework=reference.framework,
            inputs=given.source,
            samples=given.count,
            palette=palette,
            transposed=config.transpose_weight,
            min_sqnr=MIN_SQNR[palette] if min_sqnr is None else min_sqnr,
            outputs=outputs,
            beside=_beside(trial, outputs) if palette else (),
            accuracies=() if classes is None else accuracies(graph, device, reference, classes),
            unjudged=unjudged_layers(network, reference, outputs),
            stale_files=_stale_files(program, config),
        )
        if sensitivity or (attribute and palette):
            progress("sensitivity", 0, 1)
            result = replace(result, sensitivity=_sensitivity(trial))
        if layers or attribute or result.failed:
            progress("compare layers", 0, 1)
            result = _with_layers(result, trial, unfused=layers or attribute, attribute=attribute)
        return result


def _beside(trial: _Trial, outputs: tuple[Comparison, ...]) -> tuple[Beside, ...]:
    """The outputs of the same commands with FP16 weights beside those with palettes."""
    plain = trial.installed(without_palettes(trial.program))
    device, reference = _run_beside(trial, plain)
    return beside(plain, device, trial.device, outputs, reference)


def _run_beside(trial: _Trial, network: EmulatedNetwork) -> tuple[Outputs, Reference]:
    """The results of other weights. The framework's unpoolings follow the maxima of the network that is compared."""
    if unpoolings(network.graph, network.program):
        return run_both(trial.config.model, network, trial.given, trial.on)
    return run_device(network, trial.given.inputs, trial.on), trial.reference


def _sensitivity(trial: _Trial) -> tuple[Sensitivity, ...]:
    """What FP16 weights in each layer alone do for the outputs; nothing, after a warning, where no layer has a palette."""
    if not has_palettes(trial.program):
        problem = "there are no palettes whose effect could be shown: all weights are FP16"
        warn(Problem("DV721", problem, Origin(trial.config.name), "quantization = 1 or auto in the ini file"))
        return ()

    def compared(network: EmulatedNetwork) -> tuple[Comparison, ...]:
        return compare_outputs(network, *_run_beside(trial, network))

    return sensitivities(variants_of(trial.installed(without_palettes(trial.program)), trial.program), compared)


def _with_layers(result: Verification, trial: _Trial, *, unfused: bool, attribute: bool) -> Verification:
    """The verification with its layers. unfused: also those that fusion keeps out of memory."""
    compared, jump = compare_layers(trial.program, trial.device, trial.reference, palette=result.palette)
    target, network = trial.target, trial.network
    if unfused:
        device = trial.device
        target_without = target._replace(fusion=Fusion.NONE)
        program = with_weights_of(trial.plan(target_without), trial.program)
        if len(program.layers) > len(trial.program.layers):
            target, network = target_without, trial.installed(program)
            device = network.run(first_samples(trial.given.inputs), layers=True)
            more, its_jump = compare_layers(program, device, trial.reference, palette=result.palette, unfused=True)
            own = {row.comparison.name: row for row in compared}
            compared = tuple(own.pop(row.comparison.name, row) for row in more) + tuple(own.values())
            jump = jump or its_jump
        ratios = alone(network, trial.given.inputs, device, trial.reference)
        compared = tuple(replace(row, alone=ratios.get(row.comparison.name)) for row in compared)
        result = replace(result, unjudged=(*result.unjudged, *_layers_without_a_map(network, result, compared)))
    if attribute:
        fp16 = trial.installed(without_palettes(network.program)) if result.palette else network
        mirrored = trial.installed(trial.plan(target._replace(transposed=not target.transposed)))
        causing = {Cause.MAPS: (fp16, False), Cause.ARITHMETIC: (mirrored, True)}
        palettes = {each.layer: each.sqnr for each in result.sensitivity}
        causes = causes_of(fp16, causing, trial.given.inputs, trial.reference, palettes)
        compared = tuple(replace(row, causes=causes.get(row.comparison.name, ())) for row in compared)
    return replace(result, layers=compared, first_jump=jump)


def _layers_without_a_map(
    network: EmulatedNetwork, result: Verification, compared: Sequence[LayerResult]
) -> Iterator[Unjudged]:
    """Layers whose maps are in the device's memory but are not compared."""
    named = {row.comparison.name for row in compared} | {layer.layer for layer in result.unjudged}
    named |= {layer_of(network.graph, output) for output in network.graph.outputs}
    for layer in held_layers(network.program).values():
        if layer not in named:
            reason = f"{result.framework} has no single map of this layer, which has several outputs or calls"
            yield Unjudged(layer, reason, is_verified=True)


def _stale_files(program: Program, config: Config) -> tuple[str, ...]:
    """Files in the output folder that differ from what was verified, after a warning; none if the folder has no conversion."""
    folder = config.output_folder / config.name
    found = replacing.differing(folder, codegen.emit(program, render_options(program, config)))
    if found:
        problem = f"the files of the last conversion are not what was verified: {', '.join(found)}"
        warn(Problem("DV718", problem, Origin(str(folder)), "convert the network again"))
    return found


def read_classes(path: Path, count: int, graph: Graph) -> NDArray[np.intp]:
    """The right class of each sample.

    Raises UsageError unless the file has a line for each sample, and each line the number of a class that the network has.
    """
    lines, where = read_labels(path), Origin(str(path))
    hint = "count classes from 0, in the order of the samples"
    if len(lines) != count:
        reason = f"expected {count} lines, a class number for each sample, and found {len(lines)} lines"
        raise UsageError.of("DV707", reason, where, hint)
    for number, line in enumerate(lines, start=1):
        if not _CLASS.fullmatch(line):
            raise UsageError.of("DV707", f'line {number} is not a class number: "{line[:20]}"', where, hint)
    found = np.array([int(line.strip()) for line in lines], np.intp)  # int() keeps some blanks
    known = max((shape.size for shape in map(graph.shape, graph.outputs) if shape.is_vector), default=0)
    if not known:
        reason = "accuracy is computed for outputs that are vectors, and the network has none"
        raise UsageError.of("DV707", reason, where, "leave out --labels")
    if found.max() >= known:
        reason = f"line {found.argmax() + 1} has the class {found.max()}, but the network's classes end at {known - 1}"
        raise UsageError.of("DV707", reason, where, hint)
    return found
