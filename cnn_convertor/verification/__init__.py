"""Runs the same inputs through the framework and through the emulated device, and compares what comes out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.emulation.build import build
from cnn_convertor.emulation.run import Maps, Outputs, as_maps, run
from cnn_convertor.errors import Origin as Place
from cnn_convertor.errors import Problem, UsageError
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import DetectionOutput, Softmax
from cnn_convertor.samples import Preparation, Samples, random_samples, read_samples, shapes_of
from cnn_convertor.verification import frameworks
from cnn_convertor.verification.compare import (
    Comparison,
    Pair,
    before_softmax,
    compare,
    first_jump,
    layer_of,
    matched_detections,
    pairs,
    sqnr,
)
from cnn_convertor.verification.detections import detect
from cnn_convertor.verification.frameworks import KEPT, Reference
from cnn_convertor.verification.report import Attribution, Beside, Cause, LayerResult, Verification
from cnn_convertor.verification.unpooling import Choice, unpoolings

__all__ = ["Comparison", "Network", "Verification", "prepare", "read_labels", "run_network", "save", "verify"]

MIN_SQNR = {False: 40.0, True: 20.0}  # palette? -> dB that every output must reach
SAMPLES = 4

Convert: TypeAlias = Callable[[Config, Path], tuple[Graph, Program]]
"""Converts a network and writes its sources and weights to a folder; gives the network before and after."""


class Network(NamedTuple):
    """A converted network, ready to run on the emulated device. graph: as its framework has it. ub_size: bytes."""

    graph: Graph
    program: Program
    executable: Path
    weights: Path
    ub_size: int

    def run(self, inputs: Mapping[str, Maps], *, layers: bool = False, exact: bool = False) -> Outputs:
        """Run it on samples: input name -> (N, H, W, C)."""
        return run(
            self.executable,
            self.weights,
            self.program,
            inputs,
            shapes=[self.graph.shape(name) for name in self.graph.outputs],
            layers=layers,
            exact=exact,
            ub_size=self.ub_size,
        )


def prepare(config: Config, convert: Convert, folder: Path, *, sources: Sequence[Path] = ()) -> Network:
    """Convert a network into a folder and compile it. sources: C++ files with the callbacks of custom layers."""
    graph, program = convert(config, folder)
    executable = build(folder, config.name, sources=sources)
    return Network(graph, program, executable, folder / f"{config.name}_weights.bin", config.ub_size)


def verify(
    config: Config,
    convert: Convert,
    *,
    inputs: Path | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    layers: bool = False,
    attribute: bool = False,
    min_sqnr: float | None = None,
    sources: Sequence[Path] = (),
) -> Verification:
    """Compare the converted network with its framework.

    inputs: images or arrays; None: random images. layers: compare every map that exists on both sides.
    attribute: find out what each layer's error comes from, too. min_sqnr: dB; None: 40, or 20 with a palette.
    Layers are compared in any case when an output is below the threshold, to name the first one that is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="cnn-convertor-") as name:
        folder = Path(name)
        network = prepare(config, convert, folder / "network", sources=sources)
        shapes, preparation = shapes_of(network.graph), Preparation.of(config)
        if inputs is None:
            given = random_samples(shapes, preparation, samples=samples, seed=seed)
        else:
            given = read_samples(inputs, shapes, preparation)
        device = _run_all(network, given.inputs)
        reference = reference_of(config, network, given, device)
        outputs = compare_outputs(network, device, reference)
        palette = has_palettes(network.program)
        plain = prepare(config.in_fp16, convert, folder / "fp16", sources=sources) if palette else network
        fp16 = _run_all(plain, given.inputs) if palette else device
        known = (
            reference_of(config, plain, given, fp16)
            if palette and unpoolings(plain.graph, plain.program)
            else reference
        )
        result = Verification(
            network=config.name,
            framework=reference.framework,
            inputs=given.source,
            samples=given.count,
            palette=palette,
            transposed=config.transpose_weight,
            min_sqnr=MIN_SQNR[palette] if min_sqnr is None else min_sqnr,
            outputs=outputs,
            beside=_beside(plain, fp16, device, outputs, known) if palette else (),
        )
        if layers or attribute or not result.passed:
            compared, jump = compare_layers(network.program, device, reference, palette=palette)
            result = replace(result, layers=compared, first_jump=jump)
        if attribute:
            causes = _causes(config, convert, folder, network, plain, given, reference, sources)
            attributed = tuple(replace(r, causes=causes.get(r.comparison.name, ())) for r in result.layers)
            result = replace(result, layers=attributed)
        return result


def _run_all(network: Network, inputs: Mapping[str, Maps]) -> Outputs:
    """The device's outputs for all samples, and its layers for the first ones."""
    first = network.run(_first(inputs), layers=True)
    rest = {name: values[KEPT:] for name, values in inputs.items()}
    if not all(map(len, rest.values())):
        return first
    outputs = zip(first.outputs, network.run(rest).outputs, strict=True)
    return Outputs(tuple(map(np.concatenate, outputs)), first.layers)


def _first(inputs: Mapping[str, Maps]) -> dict[str, Maps]:
    """The samples whose layers are kept."""
    return {name: values[:KEPT] for name, values in inputs.items()}


def run_network(config: Config, convert: Convert, given: Path, *, sources: Sequence[Path] = ()) -> dict[str, Maps]:
    """Run the converted network on an image or an array: framework layer -> (N, H, W, C), for each output."""
    with tempfile.TemporaryDirectory(prefix="cnn-convertor-") as name:
        network = prepare(config, convert, Path(name), sources=sources)
        samples = read_samples(given, shapes_of(network.graph), Preparation.of(config))
        results = network.run(samples.inputs).outputs
    named: dict[str, Maps] = {}
    for output, values in zip(network.graph.outputs, results, strict=True):
        name = layer_of(network.graph, output)
        named[name if name not in named else f"{name}#{len(named) + 1}"] = values  # a layer may give several outputs
    return named


def read_labels(path: Path) -> tuple[str, ...]:
    """Names of classes, one a line. Raises UsageError when the file is no text."""
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        reason = f"the names of the classes cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "the names of the classes are no text in UTF-8"
    raise UsageError(Problem("DV707", reason, Place(str(path)), "write one name a line"))


def save(path: Path, results: Mapping[str, Maps]) -> None:
    """Write outputs as a .npz file."""
    try:
        with path.open("wb") as stream:
            np.savez(stream, **results)  # type: ignore[arg-type]  # names of layers are no keywords of numpy's
    except OSError as error:
        problem = f"cannot write the outputs: {error.strerror}"
        raise UsageError(Problem("DV110", problem, Place(str(path)))) from error


def reference_of(config: Config, network: Network, given: Samples, device: Outputs) -> Reference:
    """The framework's results, or those that came with the inputs if there is one for every output.

    device: what the network gave, by whose maxima the framework unpools.
    """
    graph = network.graph
    names = [layer_of(graph, output) for output in graph.outputs]
    if not all(name in given.expected for name in names):
        return frameworks.run(config, graph, given.inputs, _choices(network, given.inputs, device))
    outputs = [(given.expected[name], graph.shape(output)) for name, output in zip(names, graph.outputs, strict=True)]
    for name, (values, shape) in zip(names, outputs, strict=True):
        if values.size != given.count * shape.size:
            reason = f"expected_{name} holds {values.size:,} numbers for {given.count} samples of {shape}"
            raise UsageError(Problem("DV707", reason, Place(given.source), "see docs/verify.md for what it may be"))
    first = {name: values[:KEPT] for name, values in given.expected.items()}
    runner = frameworks.RUNNERS[config.origin.runner]
    maps = tuple(runner.as_output(values, shape) for values, shape in outputs)
    layers = {n: m for n, values in first.items() if (m := runner.as_maps(values)) is not None}
    return Reference(framework="given results", outputs=maps, layers=layers, order=runner.order)


def _choices(network: Network, inputs: Mapping[str, Maps], device: Outputs) -> dict[str, Choice]:
    """Unpooling -> the maxima that it goes by, of all samples."""
    found = unpoolings(network.graph, network.program)
    if not found:
        return {}
    held = {unpooling.source: [device.layers[unpooling.source]] for unpooling in found}
    for start in range(KEPT, len(next(iter(inputs.values()))), KEPT):  # not many at once: layers fill the memory
        part = network.run({name: values[start : start + KEPT] for name, values in inputs.items()}, layers=True)
        for source, parts in held.items():
            parts.append(part.layers[source])
    return {u.name: u.choice(network.program, np.concatenate(held[u.source])) for u in found}


def compare_outputs(network: Network, device: Outputs, reference: Reference) -> tuple[Comparison, ...]:
    """One comparison for each output of the network, and one for what a softmax reads, if that is an output."""
    graph, program = network.graph, network.program
    compared: list[Comparison] = []
    for position, output in enumerate(graph.outputs):
        name, probabilities = layer_of(graph, output), reference.outputs[position]
        if isinstance(graph[output].op, DetectionOutput):
            compared += _compare_detections(network, device, reference, position)
            continue
        compared.append(compare(name, device.outputs[position], probabilities))
        layer = program.layers[program.outputs[position]]
        if isinstance(layer.cpu, Softmax) and layer.sources[0] is not None:
            memory = device.layers[layer.sources[0]]
            logits = as_maps(
                memory, program.layers[layer.sources[0]], layer.output.shape, transposed=program.transposed
            )
            known = probabilities[: len(logits)].reshape(logits.shape)
            before = before_softmax(f"{name} before softmax", logits, known)
            compared += [] if before is None else [before]
    compared += [compare(*maxima) for maxima in reference.maxima]
    return tuple(compared)


def _compare_detections(network: Network, device: Outputs, reference: Reference, position: int) -> Iterator[Comparison]:
    """A DetectionOutput, given what the device has; and what it reads. Where only results are known, they must do."""
    graph, program = network.graph, network.program
    node, layer = graph[graph.outputs[position]], program.layers[program.outputs[position]]
    name, rows = layer_of(graph, node.name), device.outputs[position]
    if reference.framework != "OpenCV" or None in layer.sources:
        yield compare(name, *matched_detections(rows, reference.outputs[position]))
        return
    given = [
        as_maps(device.layers[s], program.layers[s], graph.shape(source), transposed=program.transposed)
        for s, source in zip(layer.sources, node.inputs, strict=True)
        if s is not None
    ]
    for maps, source in zip(given, node.inputs, strict=True):
        read = layer_of(graph, source)
        if read in reference.layers:
            known = reference.layers[read]
            yield compare(f"{read}, read by {name}", maps, known.reshape(maps.shape))
    assert isinstance(node.op, DetectionOutput)
    yield compare(f"{name} of these", *matched_detections(rows[: len(given[0])], detect(node.op, *given)))


def has_palettes(program: Program) -> bool:
    return any(weights.packed.palette for weights in program.weights)


def _beside(
    plain: Network, fp16: Outputs, device: Outputs, outputs: Sequence[Comparison], reference: Reference
) -> tuple[Beside, ...]:
    """The outputs with FP16 weights beside those with palettes. fp16, device: what the two networks gave."""
    each = compare_outputs(plain, fp16, reference)
    direct = {
        layer_of(plain.graph, name): compare(name, mine, theirs)
        for name, mine, theirs in zip(plain.graph.outputs, device.outputs, fp16.outputs, strict=True)
    }
    return tuple(
        Beside(one, other, direct[one.name].top1 if one.name in direct else None)
        for one, other in zip(each, outputs, strict=True)
    )


def compare_layers(
    program: Program, device: Outputs, reference: Reference, *, palette: bool
) -> tuple[tuple[LayerResult, ...], str | None]:
    """A comparison for every map that exists on both sides, and the first layer where the error jumps."""
    found = pairs(program, device.layers, reference.layers, reference.order)
    shapes = {name: maps.shape for name, maps in reference.layers.items()}  # they tell vectors from maps
    compared = {
        pair.layer: compare(name, pair.device.reshape(shapes[name]), pair.reference.reshape(shapes[name]))
        for name, pair in found.items()
    }
    results = tuple(LayerResult(c, program.layers[index].origins[-1].type) for index, c in compared.items())
    return results, first_jump(program, compared, palette=palette)


def _causes(
    config: Config,
    convert: Convert,
    folder: Path,
    network: Network,
    plain: Network,
    given: Samples,
    reference: Reference,
    sources: Sequence[Path],
) -> dict[str, tuple[Attribution, ...]]:
    """Framework layer -> its error with each cause alone.

    The maps of a run that keeps everything but the weights in FP32 stand for the network without any cause: against them,
    the FP16 maps, the palette and the order of arithmetic (a run in the other memory order) are switched on one by one.
    The FP16 of inputs and weights is what separates that run from the framework. plain: the network with FP16 weights.
    """
    mirrored = replace(config.in_fp16, transpose_weight=not config.transpose_weight)
    other = prepare(mirrored, convert, folder / "mirrored", sources=sources)

    def found(which: Network, *, exact: bool) -> dict[str, Pair]:
        layers = which.run(_first(given.inputs), layers=True, exact=exact).layers
        return pairs(which.program, layers, reference.layers, reference.order)

    exact = found(plain, exact=True)
    alone = {Cause.MAPS: found(plain, exact=False), Cause.ARITHMETIC: found(other, exact=True)}
    if network is not plain:
        alone[Cause.PALETTE] = found(network, exact=True)

    def causes(name: str, clean: Pair) -> Iterator[Attribution]:
        for cause in Cause:
            if cause is Cause.INPUTS_AND_WEIGHTS:
                yield Attribution(cause, sqnr(clean.device, clean.reference))
            elif cause in alone and name in alone[cause]:
                yield Attribution(cause, sqnr(alone[cause][name].device, clean.device))

    return {name: tuple(causes(name, clean)) for name, clean in exact.items()}
