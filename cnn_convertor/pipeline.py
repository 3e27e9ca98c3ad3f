"""A conversion on one screen: load, optimize, legalize, check, plan memory, lower, store weights, render, write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from functools import partial as bind
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor import codegen
from cnn_convertor.codegen import RenderOptions
from cnn_convertor.config import Config
from cnn_convertor.conversion.manifest import earlier_files, manifest
from cnn_convertor.devices.dv700.byte_input import with_byte_input, with_swapped_bytes
from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.frame_input import frame_input
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.legalize import legalize
from cnn_convertor.devices.dv700.legalize.split_slopes import NO_WISHES, Wishes
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.memory.placement import MemorySchedule, schedule_and_allocate
from cnn_convertor.devices.dv700.profiles import device_of
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.devices.dv700.rules import broken_rules, check
from cnn_convertor.devices.dv700.weights import palettes
from cnn_convertor.devices.dv700.weights.encoding import Observer
from cnn_convertor.devices.dv700.weights.options import Quantization
from cnn_convertor.errors import Origin, Problem, UsageError, overheard
from cnn_convertor.files import replacing
from cnn_convertor.files.replacing import Contents, Digest
from cnn_convertor.frontends.builder import PartialGraph, in_network_order
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes import PassObserver, optimize
from cnn_convertor.passes.normalization import input_normalizations
from cnn_convertor.progress import Progress, counted, silent
from cnn_convertor.report import Report
from cnn_convertor.report.collecting import message_of, report_of
from cnn_convertor.report.form import to_json
from cnn_convertor.report.magnitudes import MagnitudeCounter
from cnn_convertor.report.rows import boundaries_of, extent_of, rows, work_of
from cnn_convertor.report.whole import PassRecorder, with_boundaries, with_magnitudes
from cnn_convertor.samples import SAMPLES, Preparation, Samples, random_samples, read_samples, shapes_of
from cnn_convertor.workers.processes import HERE, Workers

if TYPE_CHECKING:
    from cnn_convertor.palettes.calibration import Calibration
    from cnn_convertor.palettes.output_budget import Kept

_VALUES = 256  # of each output, over all random images, if 32 are enough for it


class ConvertedNetwork(NamedTuple):
    """files: what was written. report: what it contains."""

    files: tuple[Path, ...]
    report: Report


def convert(config: Config, progress: Progress = silent, on: Workers = HERE) -> ConvertedNetwork:
    """Convert one network and write its files. on: where calibration runs.

    Raises ConvertorError (one of its kinds, with every reason); earlier outputs then stay as they are.
    """
    folder = config.output_folder / config.name
    replacing.check_writable(folder)
    with overheard() as warned:
        progress("read", 0, 1)
        watched = Watched.new() if config.report else None
        seen = look(config, observe=watched and watched.passes)
        planned, graph = seen.lowered(config), seen.partial.graph
        made = quantize(graph, config, progress, planned=planned, on=on)
        program, name = made.program, config.name
        contents = render(graph, program, config, progress, watched and watched.magnitudes)
        contents[f"{name}_weights.bin"] = counted_weights(contents[f"{name}_weights.bin"], program, progress)
        report = report_of(program, config, calibration=made.calibration, kept=made.kept)

        @cache
        def finished() -> Report:
            """What is known when the weights are packed."""
            known = replace(report, warnings=tuple(map(message_of, warned.problems)))
            return known if watched is None else whole_report(known, seen, made, config, watched)

        def pages(_: Mapping[str, Digest]) -> Mapping[str, str]:
            if not config.report:
                return {}
            progress("report", 0, 1)
            return _pages(finished())

        written = replacing.replace_all(
            folder,
            contents,
            later=(pages, lambda digests: {f"{name}.json": manifest(report, digests)}),
            obsolete=lambda: earlier_files(folder, name),
        )
    return ConvertedNetwork(written, finished())


class Watched(NamedTuple):
    """What is noted for a report while a network is converted."""

    passes: PassRecorder
    magnitudes: MagnitudeCounter

    @staticmethod
    def new() -> Watched:
        return Watched(PassRecorder(), MagnitudeCounter())


def whole_report(report: Report, seen: Look, made: Quantized, config: Config, watched: Watched) -> Report:
    """The report of a program with all that takes time: where layers run, what the passes do, how large weights are."""
    if made.target != DeviceOptions.of(config):
        seen = _look(seen.partial, made.target)
    sized = with_magnitudes(with_look(report, seen, config), made.program, watched.magnitudes)
    return replace(sized, passes=watched.passes.passes(seen.legalized.graph))


def with_look(report: Report, seen: Look, config: Config) -> Report:
    """The report with what a look shows: layers, where each runs, and why commands end."""
    work = work_of(seen.partial, seen.steps)
    report = replace(
        report,
        layers=tuple(rows(seen.partial, work, seen.problems)),
        work=extent_of(work),
        normalizations=() if seen.partial.problems else input_normalizations(seen.partial.graph),
    )
    return report if seen.problems else with_boundaries(report, boundaries_of(*seen.legalized, Fusion(config.fusion)))


def _pages(report: Report) -> dict[str, str]:
    from cnn_convertor.report.page import html_page  # here, as most conversions do without

    data = to_json(report)
    return {f"{report.network}.html": html_page(report, data=data), f"{report.network}_report.json": data}


def load(config: Config) -> Graph:
    """The network as its framework has it.

    Raises ConvertorError when layers cannot be read, with every reason, including what the device refuses of the others.
    """
    partial = read(config)
    if not partial.problems:
        return partial.require_complete()
    return partial.require_complete(find_violations(partial, legalize_graph(partial.graph, DeviceOptions.of(config))))


def inputs_of(config: Config) -> tuple[Path, ...]:
    """The files that a conversion reads, and folders of files."""
    return config.model.files if config.calibrate is None else (*config.model.files, config.calibrate)


def _check_means(config: Config, graph: Graph) -> None:
    """Raises UsageError when the configuration has several means, and no input has as many channels."""
    channels = {shape.channels for shape in shapes_of(graph).values()}
    if len(config.mean) > 1 and len(config.mean) not in channels:
        inputs = ", ".join(f'"{name}" has {shape.channels}' for name, shape in shapes_of(graph).items())
        problem = (
            f"[INPUT] mean: expected one number, or one for each channel, not {len(config.mean)}; the input {inputs}"
        )
        raise UsageError.of("DV106", problem, config.mean_at or Origin(str(config.definition)))


def read(config: Config, *, with_weights: bool = True) -> PartialGraph:
    """The network as its framework has it, as far as it can be read.

    with_weights: False where the weights may be missing; files that always hold them are read with them.
    Raises ConvertorError when a file cannot be read at all, or when the configured means fit no input.
    """
    model = config.model
    if (
        with_weights and len(config.mean) > 1 and model.may_lack_weights
    ):  # what is wrong shows before the weights are read
        _check_means(config, model.read(with_weights=False).graph)
    partial = model.read(with_weights=with_weights)
    _check_means(config, partial.graph)
    return partial


class DeviceOptions(NamedTuple):
    """The device, and how a network is to run on it."""

    device: Device
    fusion: Fusion
    transposed: bool
    uses_sdk_softmax: bool = False
    palettes: Wishes = NO_WISHES

    @staticmethod
    def of(config: Config) -> DeviceOptions:
        everywhere = config.quantization in (Quantization.PALETTE, Quantization.AUTO)
        exceptions = frozenset(override.layer for override in config.overrides if override.palette != everywhere)
        return DeviceOptions(
            device_of(config.profile),
            Fusion(config.fusion),
            config.transpose_weight,
            config.softmax == "sdk",
            Wishes(everywhere, exceptions),
        )


class Legalized(NamedTuple):
    """A graph as the device would run it, and the layers of its program; no rule is checked yet."""

    graph: Graph
    steps: tuple[Command, ...]
    device: Device


def legalize_graph(graph: Graph, target: DeviceOptions, observe: PassObserver | None = None) -> Legalized:
    """Rewrite a graph for the device. observe: is given each pass with the graph before and after."""
    device, fusion, transposed, uses_sdk_softmax, wishes = target
    graph = legalize(
        optimize(graph, observe),
        device,
        transposed=transposed,
        fusion=fusion,
        uses_sdk_softmax=uses_sdk_softmax,
        palettes=wishes,
    )
    graph, steps = partition(graph, device, transposed=transposed, fusion=fusion)
    return Legalized(graph, steps, device)


class Look(NamedTuple):
    """A network on its way to a program, as far as it comes. schedule: None when problems prevent a conversion."""

    partial: PartialGraph
    legalized: Legalized
    problems: tuple[Problem, ...]
    schedule: MemorySchedule | None

    @property
    def steps(self) -> tuple[Command, ...]:
        return self.legalized.steps if self.schedule is None else self.schedule.steps

    def lowered(self, config: Config) -> Program:
        """The program with FP16 weights. Raises ConvertorError with everything that prevents it."""
        graph = self.partial.require_complete(self.problems)
        assert self.schedule is not None, "no problems, and no schedule"
        return _lowered(graph, config.name, self.legalized, self.schedule, DeviceOptions.of(config))


def look(config: Config, *, with_weights: bool = True, observe: PassObserver | None = None) -> Look:
    """Read a network, legalize it, and schedule it if nothing prevents a conversion. observe: of passes."""
    return _look(read(config, with_weights=with_weights), DeviceOptions.of(config), observe)


def _look(partial: PartialGraph, target: DeviceOptions, observe: PassObserver | None = None) -> Look:
    legalized = legalize_graph(partial.graph, target, observe)
    violations = find_violations(partial, legalized)
    problems = in_network_order(partial.graph, (*partial.problems, *violations))
    schedule = None if problems else schedule_and_allocate(legalized.graph, legalized.steps)
    return Look(partial, legalized, problems, schedule)


def find_violations(partial: PartialGraph, legalized: Legalized) -> tuple[Problem, ...]:
    """The rules of the device that a network breaks, as far as it is known."""
    guessed = {origin for name in partial.guessed for origin in partial.graph[name].origins}
    return broken_rules(legalized.graph, legalized.steps, legalized.device, guessed)


def plan(graph: Graph, name: str, target: DeviceOptions) -> Program:
    """The program that computes the graph, with FP16 weights. Raises UnsupportedError with every rule that it breaks."""
    legalized = legalize_graph(graph, target)
    check(legalized.graph, legalized.steps, legalized.device)
    return _lowered(graph, name, legalized, schedule_and_allocate(legalized.graph, legalized.steps), target)


def _lowered(graph: Graph, name: str, legalized: Legalized, schedule: MemorySchedule, target: DeviceOptions) -> Program:
    """The program of a legal graph whose steps are in order and whose maps have places. graph: as the framework has it."""
    return lower(
        legalized.graph,
        schedule.steps,
        name=name,
        transposed=target.transposed,
        placement=schedule.placement,
        original=graph,
    )


def build(graph: Graph, config: Config, progress: Progress = silent) -> Program:
    """The program that computes the graph, its weights stored as configured."""
    return quantize(graph, config, progress).program


class Quantized(NamedTuple):
    """A program with its weights stored as configured.

    target: as the program was planned, see `quantize`.
    calibration: the effect of sample inputs on the palettes; kept: what the outputs keep, where they decided.
    """

    program: Program
    target: DeviceOptions
    calibration: Calibration | None = None
    kept: Kept | None = None


def quantize(
    graph: Graph,
    config: Config,
    progress: Progress = silent,
    *,
    planned: Program | None = None,
    on: Workers = HERE,
) -> Quantized:
    """Store the weights as configured: fit palettes, calibrate them, and give up those that the outputs cannot afford.

    planned: the program with FP16 weights, where it is known. on: where calibration runs.
    With `quantization = auto` a layer may give up the palette for which its PReLU was split off. The network is then planned
    again, with the PReLU inside that layer.
    """
    target = DeviceOptions.of(config)
    made = _quantize(graph, config, target, planned or plan(graph, config.name, target), progress, on)
    split = palettes.split_layers(made.program)
    if config.quantization is not Quantization.AUTO or all(split.values()):
        return made
    target = target._replace(palettes=Wishes(False, frozenset(layer for layer, palette in split.items() if palette)))
    again = _quantize(graph, config, target, plan(graph, config.name, target), progress, on)
    if made.kept is None or again.kept is None:
        return again
    return again._replace(kept=again.kept._replace(with_all=made.kept.with_all))


def _quantize(
    graph: Graph, config: Config, target: DeviceOptions, planned: Program, progress: Progress, on: Workers
) -> Quantized:
    """Store the weights of a planned program."""
    wanted = config.output_sqnr
    options = palettes.QuantizationOptions(
        Quantization(config.quantization),
        config.quantization_threshold if wanted is None else None,
        config.overrides,
    )
    program = palettes.choose(planned, options, bind(progress, "palettes"))
    program = with_input(program, config)
    finish = with_swapped_bytes if Preparation.of(config).swaps else lambda program: program
    if config.calibrate is None and wanted is None:
        return Quantized(finish(program), target)
    samples, calibration, kept = samples_of(graph, config), None, None
    if config.calibrate is not None:
        from cnn_convertor.palettes.calibration import calibrate  # here, as most conversions do without

        progress("calibrate", 0, 1)
        unfused = plan(graph, config.name, target._replace(fusion=Fusion.NONE))
        device = device_of(config.profile)
        if calibrated := calibrate(graph, program, samples, unfused=unfused, device=device, progress=progress, on=on):
            program, calibration = calibrated
    if wanted is not None:
        progress("measure outputs", 0, 1)
        from cnn_convertor.palettes.output_budget import keep_outputs  # here, as most conversions do without

        program, kept = keep_outputs(graph, program, samples, sqnr=wanted, device=device_of(config.profile))
    return Quantized(finish(program), target, calibration, kept)


def with_input(program: Program, config: Config) -> Program:
    """The program with its input as configured. Raises UnsupportedError when the device cannot convert that."""
    preparation = Preparation.of(config)
    return with_byte_input(program, preparation.of_every_byte()) if preparation.is_whole else program


def samples_of(graph: Graph, config: Config) -> Samples:
    """The configured sample inputs, or random images, of which the first are those of `verify`.

    8 to 32 images: more where an output has few values, since palettes would be chosen that are good for these values alone.
    """
    if config.calibrate is None:
        values = min(graph.shape(name).size for name in graph.outputs)
        count = min(max(-(-_VALUES // values), 2 * SAMPLES), 8 * SAMPLES)
        return random_samples(shapes_of(graph), Preparation.of(config), samples=count, seed=0)
    return read_samples(config.calibrate, shapes_of(graph), Preparation.of(config))


def render(
    graph: Graph, program: Program, config: Config, progress: Progress = silent, observe: Observer | None = None
) -> dict[str, Contents]:
    """File name -> contents, for every file that the configuration asks for. observe: is given weights as they are packed."""
    emitted = codegen.emit(program, render_options(program, config), observe)
    if not config.selftest:
        return emitted
    progress("self-test", 0, 1)
    return {**emitted, **_selftest(graph, program, config)}


def render_options(program: Program, config: Config) -> RenderOptions:
    preparation = Preparation.of(config).as_written
    frame = frame_input(program, device_of(config.profile), preparation.of_every_byte) if preparation.is_given else None
    return RenderOptions(
        model=config.definition.name,
        source=config.generate_source,
        doxygen=config.generate_doxy,
        dot=config.generate_dot,
        python_module=config.python_module,
        graphviz_path=config.graphviz_path,
        mean=preparation.mean,
        scale=preparation.scale,
        channel_order=preparation.channel_order,
        frame=frame,
    )


def _selftest(graph: Graph, program: Program, config: Config) -> Mapping[str, Contents]:
    """A test of the network for the board, which expects the outputs of the emulated device."""
    from cnn_convertor.emulation import selftest  # here, as most conversions do without

    model = config.definition.name
    low, high = Preparation.of(config).range
    emitted = codegen.emit(program, RenderOptions(model))
    test = selftest.record(graph, program, emitted, low=low, high=high, device=device_of(config.profile))
    generator = (selftest.MULTIPLIER, selftest.INCREMENT)
    return codegen.render_selftest(program, model=model, levels=test.levels, generator=generator, outputs=test.outputs)


def counted_weights(pieces: Contents, program: Program, progress: Progress) -> Iterator[NDArray[np.uint8]]:
    """The same pieces of a program's weights, with progress."""
    assert not isinstance(pieces, str)
    layers = sorted((weights.offset, weights.layer) for weights in program.weights)
    return counted(pieces, progress, total=program.weight_bytes, layers=layers)
