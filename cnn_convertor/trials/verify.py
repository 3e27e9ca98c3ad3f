"""Compares converted networks with their framework."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.checking import Difference, what_runs
from cnn_convertor.devices.half import nearest
from cnn_convertor.devices.program import ElementType, Program
from cnn_convertor.devices.target import Accelerator, Load, Quantized
from cnn_convertor.emulation.feature_maps import Maps, Outputs
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import ConvertorError, ConvertorWarning, Origin, Problem, warn
from cnn_convertor.files import codes
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import Plans, quantize, read_whole
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import SAMPLES, Given, Samples, samples_of
from cnn_convertor.trials.labels import read_classes
from cnn_convertor.trials.preparations import warn_of_preparation
from cnn_convertor.trials.run import compiled, require_preparation, warn_of_other_files
from cnn_convertor.verification.both_sides import BothSides
from cnn_convertor.verification.bounds import judge_maps, left_by_rounding, rounds_to_integers
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.framework_maps import GIVEN
from cnn_convertor.verification.inner_maps import alone, causes_of, compare_layers, held_layers
from cnn_convertor.verification.jumps import at_jumps
from cnn_convertor.verification.output_parts import probabilities
from cnn_convertor.verification.outputs import accuracies, beside, compare_outputs, sensitivities, unjudged_layers
from cnn_convertor.verification.reference import first_samples, run_both, run_device
from cnn_convertor.verification.results import (
    LEAST_FP16,
    Cause,
    Comparison,
    IfCalibrated,
    LayerResult,
    Sensitivity,
    StaleFile,
    Unjudged,
    Verification,
)
from cnn_convertor.verification.unpooling import unpoolings
from cnn_convertor.workers.processes import HERE, Workers

MIN_SQNR = {False: LEAST_FP16, True: 20.0}  # palette? -> dB that every output must reach
_OUTPUT_MARGIN: Final = 1.0  # dB by which an output may be worse than rounding makes it
_FEW: Final = 2 * SAMPLES  # random images that calibrate, to see what that brings
_LEAST_USEFUL: Final = 20.0  # dB of an output: what rounding alone brings below proves nothing
_ERROR_OF_PROBABILITIES: Final = 2.0**-8  # of numbers up to 1: near 0, that may be more than they are
_LEAST_OF_INTEGERS: Final = 10.0  # the same where the framework rounds to integers, and each map is judged by its steps


class _Trial(NamedTuple):
    """A network that has run.

    target: for which its program was planned. plans: its programs. loaded: loads other programs of the graph as data. on: where the samples run.
    """

    request: Request
    target: Accelerator
    plans: Plans
    samples: Samples
    sides: BothSides
    loaded: Load
    on: Workers

    @property
    def program(self) -> Program:
        return self.sides.program

    def run(self, network: EmulatedNetwork) -> BothSides:
        """The results of the same network with other weights. The framework's unpoolings follow the maxima of those."""
        if unpoolings(network.graph, network.program):
            return run_both(self.request.model, network, self.samples, self.on)
        return BothSides(network, run_device(network, self.samples.inputs, self.on), self.sides.reference)


def verify(
    config: Config,
    *,
    graph: Graph | None = None,
    quantized: Quantized | None = None,
    inputs: Given | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    labels: Path | None = None,
    layers: bool = False,
    attribute: bool = False,
    sensitivity: bool = False,
    min_sqnr: float | None = None,
    disk: bool = False,
    overridden: bool = False,
    sources: Sequence[Path] = (),
    progress: Progress = silent,
    on: Workers = HERE,
) -> Verification:
    """Compare the converted network with its framework.

    graph: converted in place of the configured model; quantized: its program, if it is known. inputs: images or arrays; None:
    random images. labels: a file with the right class of each input, one number per line; other preparations of images are
    then tried. layers: also compare every map that exists on both sides. attribute: also find the causes of each layer's error.
    sensitivity: also measure how much FP16 weights in each single layer improve the outputs, and, with random images, how much
    calibration does. min_sqnr: dB; None: 40, or 20 with a palette. sources: C++ files with the callbacks of custom layers.
    disk: run the files of the output folder; it does not pass if they are not what the conversion gives. Without it, such files
    are a warning, unless settings are overridden: by the caller, for this call alone. on: where the samples run; the results
    are the same.
    If an output is below the threshold, layers are always compared, to name the first one that is wrong.
    Raises ConvertorError with disk if there is no conversion.
    """
    progress("read", 0, 1)
    request = Request.of(config)
    graph = read_whole(request) if graph is None else graph
    plans = Plans(graph, request.name)
    quantized = quantize(graph, request, progress, plans=plans, on=on) if quantized is None else quantized
    test_samples = samples_of(inputs, graph, request.preparation, samples=samples, seed=seed)
    classes = None if labels is None else read_classes(labels, test_samples.count, graph)
    progress("compile", 0, 1)
    with compiled(graph, quantized.program, request, sources, disk=disk) as (network, load, files):
        stale = _stale_files(what_runs(request, quantized, files) if disk else ())
        if not (disk or overridden):
            warn_of_other_files(request, quantized, files)
        with _explained_by(stale):
            require_preparation(network, request.preparation)
            sides = run_both(request.model, network, test_samples, on, progress)
        trial = _Trial(request, quantized.target, plans, test_samples, sides, load, on)
        progress("compare", 0, 1)
        result = replace(
            _judged(trial, min_sqnr, progress),
            accuracies=() if classes is None else accuracies(sides, classes),
            stale_files=stale,
        )
        if classes is not None and inputs is not None and sides.reference.framework != GIVEN:
            progress("preparations", 0, 1)
            warn_of_preparation(request, graph, inputs, classes, sides.reference)
        if sensitivity or (attribute and result.palette):
            result = replace(result, sensitivity=_sensitivity(trial, progress))
        if sensitivity and inputs is None:
            result = replace(result, if_calibrated=_if_calibrated(trial, seed + 1, progress))
        if layers or attribute or result.failed or result.failed_fp16 or result.wrong_maps or result.different_layers:
            progress("compare layers", 0, 1)
            result = _with_layers(result, trial, unfused=layers or attribute, attribute=attribute)
        return result


def failure_problem(verdict: str, ini: Path | None) -> Problem:
    """A network that is not verified, with the verdict in words."""
    return Problem("DV728", verdict, None if ini is None else Origin(str(ini)), codes.hint("DV728"))


def _stale_files(differences: Sequence[Difference]) -> tuple[StaleFile, ...]:
    return tuple(StaleFile(each.file.name, each.lines) for each in differences)


@contextmanager
def _explained_by(stale: Sequence[StaleFile]) -> Iterator[None]:
    """Name the files that differ before an error that other files in the output folder cause."""
    try:
        yield
    except ConvertorError as error:
        raise type(error)([*map(stale_problem, stale), *error.problems], error.notes) from error


def stale_problem(file: StaleFile) -> Problem:
    """A file of the output folder that is not what the conversion gives."""
    shown = "".join(f"\n    {line}" for line in file.differences)
    return Problem(
        "DV718", f"the file is not what the conversion gives:{shown}", Origin(file.file), codes.hint("DV718")
    )


def _judged(trial: _Trial, min_sqnr: float | None, progress: Progress) -> Verification:
    """The outputs of a network, and its maps, which are judged with FP16 weights."""
    request = trial.request
    samples = trial.samples
    sides = trial.sides
    palette = trial.target.is_narrow(trial.program)
    outputs = compare_outputs(sides)
    progress("run the program in memory", 0, 1)
    stored = _in_memory(trial)
    fp16, fp16_outputs = sides._replace(network=stored), outputs
    if palette:
        progress("run with FP16 weights", 0, 1)
        fp16 = trial.run(trial.loaded(trial.target.widened(trial.program)))
        fp16_outputs = compare_outputs(fp16)
    progress("judge maps", 0, 1)
    exact = trial.target.unrounded(trial.loaded, trial.program)
    without_rounding = cache(lambda: exact.run(samples.inputs, layers=True))
    if palette:
        outputs = _right_at_jumps(sides, outputs, without_rounding)
    fp16_outputs = _with_allowances(fp16, fp16_outputs, without_rounding, samples.inputs)
    judgement = judge_maps(fp16, exact, samples.inputs)
    if not palette and min_sqnr is None:
        outputs = fp16_outputs
    return Verification(
        network=request.name,
        framework=sides.reference.framework,
        inputs=samples.source,
        samples=samples.count,
        palette=palette,
        transposed=request.target.transposed,
        min_sqnr=MIN_SQNR[palette] if min_sqnr is None else min_sqnr,
        outputs=outputs,
        beside=beside(sides, fp16, outputs, fp16_outputs) if palette else (),
        unjudged=unjudged_layers(sides, outputs),
        judged_maps=judgement.judged,
        wrong_maps=judgement.wrong,
        by_sqnr_alone=judgement.by_sqnr_alone,
        different_layers=_different_layers(trial, stored),
    )


def _with_allowances(
    sides: BothSides, outputs: Sequence[Comparison], without_rounding: Callable[[], Outputs], inputs: Mapping[str, Maps]
) -> tuple[Comparison, ...]:
    """Outputs with FP16 weights; those below the usual threshold have what rounding leaves."""
    if all(output.reaches(LEAST_FP16) for output in outputs):
        return tuple(outputs)
    if rounds_to_integers(sides.graph):
        left = min(_LEAST_USEFUL, max(_LEAST_OF_INTEGERS, left_by_rounding(sides.reference.layers.values())))
        return tuple(replace(each, allowed=left) for each in outputs)
    outputs = _right_at_jumps(sides, outputs, without_rounding)
    expected = replace(sides.reference, outputs=dict(enumerate(without_rounding().outputs)), layers={}, maxima=())
    rounded = sides._replace(device=sides.network.run(inputs, layers=True), reference=expected)
    limits = {each.name: each.sqnr - _OUTPUT_MARGIN for each in compare_outputs(rounded)}
    near_zero = probabilities(sides.graph)
    judged = list[Comparison]()
    for each in outputs:
        allowed = limits.get(each.name)
        is_near_zero = each.name.rpartition(", part ")[2] in near_zero and each.max_error <= _ERROR_OF_PROBABILITIES
        if allowed is not None and not is_near_zero:
            allowed = max(_LEAST_USEFUL, allowed)
        judged.append(replace(each, allowed=allowed))
    return tuple(judged)


def _right_at_jumps(
    sides: BothSides, outputs: Sequence[Comparison], without_rounding: Callable[[], Outputs]
) -> tuple[Comparison, ...]:
    """The outputs, with values that count as right where rounding decides on which side of a jump they are."""
    if all(output.reaches(LEAST_FP16) for output in outputs):
        return tuple(outputs)
    reference = sides.reference
    marks = {index: at_jumps(sides, without_rounding(), index) for index in reference.outputs}
    if not any(mask.any() for mask in marks.values()):
        return tuple(outputs)
    right = {
        index: np.where(marks[index], sides.device.outputs[index], maps) for index, maps in reference.outputs.items()
    }
    return compare_outputs(sides._replace(reference=replace(reference, outputs=right)))


def _in_memory(trial: _Trial) -> EmulatedNetwork:
    """The program as data, without the sources and bytes that the device has.

    Palettes are FP16 weights with their values. Numpy rounds the weights, not the code that packs them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvertorWarning)  # of small weights, which the network itself has given
        return trial.loaded(trial.target.rounded_by_numpy(trial.program))


def _different_layers(trial: _Trial, stored: EmulatedNetwork) -> tuple[str, ...]:
    """The layers whose maps on the device are not, bit for bit, those of the program in memory."""
    inputs = dict(first_samples(trial.samples.inputs))
    for name, tensor in trial.program.inputs:
        if tensor.type is ElementType.HALF:
            inputs[name] = nearest(inputs[name])
    expected = stored.run(inputs, layers=True).layers
    layers = zip(trial.program.layers, trial.sides.device.layers, expected, strict=True)
    return tuple(layer.name for layer, mine, theirs in layers if not np.array_equal(mine, theirs, equal_nan=True))


def _sensitivity(trial: _Trial, progress: Progress) -> tuple[Sensitivity, ...]:
    """What FP16 weights in each layer alone do for the outputs; nothing, after a warning, where no layer has a palette."""
    if not trial.target.is_narrow(trial.program):
        problem = "there are no palettes whose effect could be shown: all weights are FP16"
        warn(Problem("DV721", problem, Origin(trial.request.name), "quantization = 1 or auto in the ini file"))
        return ()

    def compared(network: EmulatedNetwork) -> tuple[Comparison, ...]:
        return compare_outputs(trial.run(network))

    widened = trial.loaded(trial.target.widened(trial.program))
    return sensitivities(trial.target.variants(widened, trial.program), compared, progress)


def _if_calibrated(trial: _Trial, seed: int, progress: Progress) -> IfCalibrated | None:
    """What a few random images bring; None where palettes lose nothing, are calibrated already or cannot be."""
    request, program = trial.request, trial.program
    is_calibrated = request.calibrate is not None or request.output_sqnr is not None
    is_custom = any(layer.custom is not None for layer in program.layers)
    if is_calibrated or is_custom or not any(weights.choice and weights.choice.loses for weights in program.weights):
        return None
    graph = trial.sides.graph
    few = samples_of(None, graph, request.preparation, samples=_FEW, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvertorWarning)  # of what the user did not ask for
        calibrated = trial.loaded(
            quantize(graph, request, progress, plans=trial.plans, calibrating=few, on=trial.on).program
        )
    compared = compare_outputs(trial.run(calibrated))
    return IfCalibrated(few.count, {output.name: output.sqnr for output in compared})


def _with_layers(result: Verification, trial: _Trial, *, unfused: bool, attribute: bool) -> Verification:
    """The verification with its layers. unfused: also those that fusion keeps out of memory."""
    compared, jump = compare_layers(trial.sides, palette=result.palette)
    target, sides = trial.target, trial.sides
    if unfused:
        unfused_target = target.unfused
        program = target.with_weights_of(trial.plans(unfused_target), trial.program)
        if len(program.layers) > len(trial.program.layers):
            target, network = unfused_target, trial.loaded(program)
            device = network.run(first_samples(trial.samples.inputs), layers=True)
            sides = BothSides(network, device, sides.reference)
            more, its_jump = compare_layers(sides, palette=result.palette, unfused=True)
            own = {row.comparison.name: row for row in compared}
            compared = tuple(own.pop(row.comparison.name, row) for row in more) + tuple(own.values())
            jump = jump or its_jump
        ratios = alone(sides, trial.samples.inputs)
        compared = tuple(replace(row, alone=ratios.get(row.comparison.name)) for row in compared)
        result = replace(result, unjudged=(*result.unjudged, *_layers_without_a_map(sides.network, result, compared)))
    if attribute:
        fp16 = trial.loaded(target.widened(sides.program)) if result.palette else sides.network
        mirrored = trial.loaded(trial.plans(target.mirrored))
        causing = {Cause.MAPS: (fp16, False), Cause.ARITHMETIC: (mirrored, True)}
        palettes = {each.layer: each.sqnr for each in result.sensitivity}
        causes = causes_of(fp16, causing, trial.samples.inputs, sides.reference, palettes)
        compared = tuple(replace(row, causes=causes.get(row.comparison.name, ())) for row in compared)
    # An output behind a jump has the same judgement in both tables.
    judged = {output.name: output for output in result.outputs if output.name in result.by_sqnr_alone}
    compared = tuple(replace(row, comparison=judged.get(row.comparison.name, row.comparison)) for row in compared)
    if jump in judged and judged[jump].reaches(result.min_sqnr):
        jump = None
    return replace(result, layers=compared, first_jump=jump)


def _layers_without_a_map(
    network: EmulatedNetwork, result: Verification, compared: Sequence[LayerResult]
) -> Iterator[Unjudged]:
    """Layers whose maps are in the device's memory but are not compared."""
    named = {row.comparison.name for row in compared} | {layer.layer for layer in result.unjudged}
    ends = (*network.graph.outputs, *(node.name for node in network.graph.inputs))  # an input may be an output
    named |= {layer_of(network.graph, name) for name in ends}
    for layer in held_layers(network.program).values():
        if layer not in named:
            reason = f"{result.framework} has no single map of this layer, which has several outputs or calls"
            yield Unjudged(layer, reason, is_verified=True)
