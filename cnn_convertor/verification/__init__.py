"""Compares a network on the emulated device with its framework: its outputs, its layers, and the causes of their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.emulation.network import Network
from cnn_convertor.emulation.run import Maps, Outputs, as_maps
from cnn_convertor.errors import Origin as Place
from cnn_convertor.errors import Problem, UsageError
from cnn_convertor.ir.ops import DetectionOutput
from cnn_convertor.samples import Samples
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
from cnn_convertor.verification.report import Attribution, Beside, Cause, LayerResult
from cnn_convertor.verification.unpooling import Choice, unpoolings


def run_all(network: Network, inputs: Mapping[str, Maps]) -> Outputs:
    """The device's outputs for all samples, and its layers for the first ones."""
    first = network.run(first_samples(inputs), layers=True)
    rest = {name: values[KEPT:] for name, values in inputs.items()}
    if not all(map(len, rest.values())):
        return first
    outputs = zip(first.outputs, network.run(rest).outputs, strict=True)
    return Outputs(tuple(map(np.concatenate, outputs)), first.layers)


def first_samples(inputs: Mapping[str, Maps]) -> dict[str, Maps]:
    """The samples whose layers are kept."""
    return {name: values[:KEPT] for name, values in inputs.items()}


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
        if layer.is_softmax and layer.sources[0] is not None:
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


def beside(
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


def causes_of(
    exact: Network,
    alone: Mapping[Cause, tuple[Network, bool]],
    inputs: Mapping[str, Maps],
    reference: Reference,
) -> dict[str, tuple[Attribution, ...]]:
    """Framework layer -> its error with each cause alone.

    exact: the network with FP16 weights. A run that keeps its maps in FP32 is the baseline, a network without any cause but
    one: its inputs and weights are FP16, which separates it from the framework. alone: for each other cause, the network
    that adds it, and whether its maps stay in FP32.
    """

    def found(network: Network, *, in_fp32: bool) -> dict[str, Pair]:
        layers = network.run(first_samples(inputs), layers=True, exact=in_fp32).layers
        return pairs(network.program, layers, reference.layers, reference.order)

    baseline = found(exact, in_fp32=True)
    others = {cause: found(network, in_fp32=in_fp32) for cause, (network, in_fp32) in alone.items()}

    def causes(name: str, clean: Pair) -> Iterator[Attribution]:
        for cause in Cause:
            if cause is Cause.INPUTS_AND_WEIGHTS:
                yield Attribution(cause, sqnr(clean.device, clean.reference))
            elif name in others.get(cause, {}):
                yield Attribution(cause, sqnr(others[cause][name].device, clean.device))

    return {name: tuple(causes(name, clean)) for name, clean in baseline.items()}
