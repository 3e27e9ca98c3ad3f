"""A conversion on one screen: read, optimize, legalize, check, plan memory, lower, store weights, render."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.budget import Budget
from cnn_convertor.config import Config
from cnn_convertor.config.ini_file import outputs_line
from cnn_convertor.config.request import Request
from cnn_convertor.devices.program import Program
from cnn_convertor.devices.target import (
    Accelerator,
    Legalized,
    Observer,
    PlannedLayer,
    PlannedMemory,
    Quantized,
    Storage,
)
from cnn_convertor.errors import ConvertorWarning, Origin, Problem, UnsupportedError, UsageError
from cnn_convertor.files.replacing import Contents
from cnn_convertor.frontends.builder import PartialGraph, in_network_order
from cnn_convertor.frontends.subnetwork import layers_apart, part_of
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes import PASSES
from cnn_convertor.passes.contract import Pass, PassObserver, run_passes
from cnn_convertor.progress import Progress, counted, silent
from cnn_convertor.samples import SAMPLES, Samples, samples_of, shapes_of
from cnn_convertor.workers.processes import HERE, Workers

_ENDS = 5  # tries to end a network before what is refused; each may find more that is
_PACKED = 0.1  # steps of the budget for a byte of packed weights
_NAMED = 6  # layers behind the end in a message
_VALUES = 256  # of each output, over all random images, if 32 are enough for it


class Observers(NamedTuple):
    """Callbacks during a conversion: for each pass, with the graph before and after; for weights, as they are packed."""

    passes: PassObserver | None = None
    weights: Observer | None = None


NO_OBSERVERS = Observers()


@dataclass(frozen=True, slots=True, eq=False)
class Conversion:
    """A network on its whole way. contents: file name -> what it holds; weights are packed while these are read."""

    request: Request
    analysis: Analysis
    quantized: Quantized
    contents: Mapping[str, Contents]


def transform(
    request: Request, progress: Progress = silent, on: Workers = HERE, observers: Observers = NO_OBSERVERS
) -> Conversion:
    """Convert one network in memory. on: where calibration runs. Raises ConvertorError with every reason."""
    progress("read", 0, 1)
    analysis = analyze(request, observe=observers.passes)
    graph = analysis.require_complete()
    quantized = quantize(graph, request, progress, plans=analysis.plans(request.name), on=on)
    contents = render(graph, quantized.program, request, progress, observers.weights)
    weights = f"{request.name}_weights.bin"
    contents[weights] = counted_weights(contents[weights], quantized.program, progress)
    return Conversion(request, analysis, quantized, contents)


def load(config: Config) -> Graph:
    """The network as its framework has it.

    Raises ConvertorError when layers cannot be read, with every reason, including what the device refuses of the others.
    """
    return read_whole(Request.of(config))


def build(graph: Graph, config: Config, progress: Progress = silent) -> Program:
    """The program that computes the graph, its weights stored as configured."""
    return quantize(graph, Request.of(config), progress).program


# --- analysis ------------------------------------------------------------------------------------------------------------


def read(request: Request, *, with_weights: bool = True) -> PartialGraph:
    """The network as its framework has it, as far as it can be read.

    with_weights: False where the weights may be missing; files that always hold them are read with them.
    Raises ConvertorError when a file cannot be read at all, or when mean, scale or std fits no input.
    """
    model = request.model
    if (
        with_weights and request.preparation.counts and model.may_lack_weights
    ):  # what is wrong shows before the weights are read
        _check_preparation(request, model.read(with_weights=False).graph)
    partial = model.read(with_weights=with_weights)
    _check_preparation(request, partial.graph)
    return partial


def read_whole(request: Request) -> Graph:
    """The network, as `load` gives it."""
    partial = read(request)
    return analyze_graph(partial, request.target).require_complete() if partial.problems else partial.graph


def _check_preparation(request: Request, graph: Graph) -> None:
    """Raises UsageError for a mean, scale or std of several numbers, if no input has as many channels."""
    shapes = shapes_of(graph)
    inputs = ", ".join(f'"{name}" has {shape.channels}' for name, shape in shapes.items())
    problems = []
    for name, count in request.preparation.counts.items():
        if count not in {shape.channels for shape in shapes.values()}:
            key = "std" if name == "scale" and "std" in request.lines else name
            problem = f"[INPUT] {key}: expected one number, or one for each channel, not {count}; the input {inputs}"
            where = request.lines.get(key, Origin(str(request.model.definition)))
            is_doubled = count == 2 or any(count == 2 * shape.channels for shape in shapes.values())
            hint = "write decimals with a point, as in 127.5: a comma separates numbers" if is_doubled else ""
            problems.append(Problem("DV106", problem, where, hint))
    if problems:
        raise UsageError(problems)


def passes_of(target: Accelerator) -> tuple[Pass, ...]:
    """What rewrites a network, in order: for all devices, then for this one."""
    return (*PASSES, *target.passes)


def legalize_graph(graph: Graph, target: Accelerator, observe: PassObserver | None = None) -> Legalized:
    """Rewrite a graph for the device. observe: is given each pass with the graph before and after."""
    return target.partition(run_passes(passes_of(target), graph, observe))


class Analysis(NamedTuple):
    """A network on its way to a program, as far as it comes. schedule: None when problems prevent a conversion."""

    partial: PartialGraph
    target: Accelerator
    legalized: Legalized
    problems: tuple[Problem, ...]
    schedule: PlannedMemory | None

    @property
    def steps(self) -> tuple[PlannedLayer, ...]:
        return self.legalized.steps if self.schedule is None else self.schedule.steps

    def require_complete(self) -> Graph:
        """The network, if it can be converted. Raises ConvertorError with everything that prevents it, and a way out."""
        return self.partial.require_complete(self.problems, self.notes)

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Where the network can end so that it converts, if it does not as it is."""
        return end_of_convertible_part(self) if self.problems and not self.partial.damaged else ()

    def plans(self, name: str) -> Plans:
        """The programs of a network without problems: that of its own target is made of this analysis."""
        return Plans(self.partial.graph, name, (self.target, self.lowered(name)))

    def lowered(self, name: str) -> Program:
        """The program with FP16 weights, of a network without problems."""
        assert self.schedule is not None, "no problems, and no schedule"
        return self.target.lower(self.legalized, self.schedule, name=name, original=self.partial.graph)


def analyze(request: Request, *, with_weights: bool = True, observe: PassObserver | None = None) -> Analysis:
    """Read a network, legalize it, and schedule it if nothing prevents a conversion. observe: of passes."""
    return analyze_graph(read(request, with_weights=with_weights), request.target, observe)


def analyze_graph(partial: PartialGraph, target: Accelerator, observe: PassObserver | None = None) -> Analysis:
    """The same for a network that is known."""
    legalized = legalize_graph(partial.graph, target, observe)
    violations = find_violations(partial, legalized, target)
    problems = in_network_order(partial.graph, (*partial.problems, *violations))
    schedule = None if problems else target.schedule(legalized)
    return Analysis(partial, target, legalized, problems, schedule)


def find_violations(partial: PartialGraph, legalized: Legalized, target: Accelerator) -> tuple[Problem, ...]:
    """The rules of the device that a network breaks, as far as it is known."""
    guessed = {origin for name in partial.guessed for origin in partial.graph[name].origins}
    return target.broken_rules(legalized, guessed)


def end_of_convertible_part(analysis: Analysis) -> tuple[Problem, ...]:
    """A note that names the layers at which the network can end, if it converts with them and computes something.

    Each end is tried as far as the packed weights, while the budget lasts.
    """
    partial = analysis.partial
    problems = analysis.problems
    budget = Budget.of("ends")
    refused = set[str]()
    for _ in range(_ENDS):
        if not all(problem.where and problem.where.layer for problem in problems):
            return ()
        where = Origin(problems[0].where.file if problems[0].where else "")
        refused |= {problem.where.layer for problem in problems if problem.where}
        ends, rest = layers_apart(partial, refused)
        line = outputs_line(ends)
        if line is None:
            return ()
        part = part_of(partial, (), ends, where)
        problems = _problems_of_part(part, analysis.target, budget)
        if budget.is_spent:
            return ()
        if not problems:
            return (_end(line, len(ends), rest, where, _multiplications(part.graph), _multiplications(partial.graph)),)
    return ()


def _problems_of_part(part: PartialGraph, target: Accelerator, budget: Budget) -> tuple[Problem, ...]:
    """What prevents a conversion of the part, its weights included. None are packed once the budget is spent."""
    analysis = analyze_graph(part, target)
    if analysis.problems:
        return analysis.problems
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvertorWarning)  # of a network that the user may not choose
            for piece in target.pack(analysis.lowered("part")):
                budget.spend(piece.size * _PACKED)
                if budget.is_spent:
                    break
    except UnsupportedError as error:
        return error.problems
    return ()


def _multiplications(graph: Graph) -> int:
    return sum(map(graph.multiplications, graph.nodes))


def _end(line: str, ends: int, rest: tuple[Origin, ...], where: Origin, kept: int, all_: int) -> Problem:
    """The note DV163. kept: multiplications before the end, of those in all layers that can be read."""
    names = [f'"{origin.layer}" ({origin.type})' for origin in rest]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    others = ", ".join(names[:_NAMED]) + more
    if all_ and not kept:
        problem = f"no useful part of the network converts: no multiplication lies before {others}"
        return Problem("DV163", problem, where, "change these layers in the model")
    share = f", with {kept / all_:.1%} of the multiplications of the layers that are read" if all_ else ""
    message = f"the network converts up to {ends} of its maps{share}; left to the application: {others}"
    return Problem("DV163", message, where, "write this line into the section [OUTPUT]", line)


# --- program -------------------------------------------------------------------------------------------------------------


def plan(graph: Graph, name: str, target: Accelerator) -> Program:
    """The program that computes the graph, with FP16 weights. Raises UnsupportedError with every rule that it breaks."""
    legalized = legalize_graph(graph, target)
    if problems := target.broken_rules(legalized):
        raise UnsupportedError(problems)
    return target.lower(legalized, target.schedule(legalized), name=name, original=graph)


class Plans:
    """The programs of a network, with FP16 weights: the network is planned once for each target."""

    def __init__(self, graph: Graph, name: str, *programs: tuple[Accelerator, Program]) -> None:
        self._graph, self._name, self._programs = graph, name, [*programs]

    def __call__(self, target: Accelerator) -> Program:
        """Raises UnsupportedError with every rule that the network breaks."""
        for other, program in self._programs:
            if other == target:
                return program
        program = plan(self._graph, self._name, target)
        self._programs.append((target, program))
        return program


def quantize(
    graph: Graph,
    request: Request,
    progress: Progress = silent,
    *,
    plans: Plans | None = None,
    calibrating: Samples | None = None,
    on: Workers = HERE,
) -> Quantized:
    """Store the weights as configured.

    plans: of the graph, where some are known. calibrating: samples in place of the configured ones.
    on: where calibration runs.
    """
    preparation = request.preparation
    storage = Storage(
        weights=request.weights,
        output_sqnr=request.output_sqnr,
        calibrates=request.calibrate is not None or calibrating is not None,
        samples=lambda: calibrating or calibration_samples(graph, request),
        byte_values=preparation.of_every_byte() if preparation.is_whole else None,
        swaps_bytes=preparation.swaps,
    )
    return request.target.quantize(graph, storage, plan=plans or Plans(graph, request.name), progress=progress, on=on)


def calibration_samples(graph: Graph, request: Request) -> Samples:
    """The configured sample inputs, or random images, of which the first are those of `verify`.

    8 to 32 images: more where an output has few values, since palettes would be chosen that are good for these values alone.
    """
    values = min(graph.shape(name).size for name in graph.outputs)
    count = min(max(-(-_VALUES // values), 2 * SAMPLES), 8 * SAMPLES)
    return samples_of(request.calibrate, graph, request.preparation, samples=count)


# --- contents ------------------------------------------------------------------------------------------------------------


def render(
    graph: Graph, program: Program, request: Request, progress: Progress = silent, observe: Observer | None = None
) -> dict[str, Contents]:
    """File name -> contents, for every file that the request asks for. observe: is given weights as they are packed."""
    emitted = request.target.emit(program, request.rendering, observe)
    if not request.selftest:
        return emitted
    progress("self-test", 0, 1)
    return {**emitted, **_selftest(graph, program, request)}


def _selftest(graph: Graph, program: Program, request: Request) -> Mapping[str, Contents]:
    """A test of the network for the board, which expects the outputs of the emulated device."""
    model = request.rendering.model
    low, high = request.preparation.range
    return request.target.selftest(graph, program, model=model, low=low, high=high)


def counted_weights(pieces: Contents, program: Program, progress: Progress) -> Iterator[NDArray[np.uint8]]:
    """The same pieces of a program's weights, with progress."""
    assert not isinstance(pieces, str)
    layers = sorted((weights.offset, weights.layer) for weights in program.weights)
    return counted(pieces, progress, total=program.weight_bytes, layers=layers)
