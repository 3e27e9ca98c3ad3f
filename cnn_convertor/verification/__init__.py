"""Compares a network on the emulated device with its framework: its outputs, its layers, and the causes of their errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.emulation.network import Network
from cnn_convertor.emulation.run import Maps, Outputs, as_maps
from cnn_convertor.errors import Origin, Problem, UsageError
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import DetectionOutput, Order, Shape
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
from cnn_convertor.verification.results import Accuracy, Attribution, Beside, Cause, LayerResult
from cnn_convertor.verification.unpooling import DeviceMaxima, unpoolings


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


def reference_of(model: Model, network: Network, given: Samples, device: Outputs) -> Reference:
    """The framework's results, or those given with the inputs if they cover every output.

    device: the network's results, by whose maxima the framework unpools.
    """
    graph = network.graph
    names = graph.output_names
    if not all(name in given.expected for name in names):
        return frameworks.run(model, graph, given.inputs, _choices(network, given.inputs, device))
    runner = frameworks.RUNNERS[model.frontend.runner]
    outputs = [(given.expected[name], graph.shape(output)) for name, output in zip(names, graph.outputs, strict=True)]
    wrong = [
        Problem(
            "DV707", f"expected_{name} {problem}", Origin(given.source), "see docs/verify.md for the shapes of results"
        )
        for name, (values, shape) in zip(names, outputs, strict=True)
        if (problem := _shape_problem(values, shape, runner.order))
    ]
    if wrong:
        raise UsageError(wrong)
    first = {name: values[:KEPT] for name, values in given.expected.items()}
    maps = tuple(runner.as_output(values, shape) for values, shape in outputs)
    layers = {n: m for n, values in first.items() if (m := runner.as_maps(values)) is not None}
    return Reference(framework="given results", outputs=maps, layers=layers, order=runner.order)


def _shape_problem(values: Maps, shape: Shape, order: Order) -> str:
    """Why an array does not hold the results of N samples in the framework's order; empty if it does."""
    height, width, channels = shape
    axes = (channels, height, width) if order is Order.CHW else (height, width, channels)
    if values[:1].size != shape.size:
        return f"holds {values[:1].size:,} numbers for each sample, not {shape.size:,}, as many as {shape}"
    given, wanted = ([size for size in sizes if size != 1] for sizes in (values.shape[1:], axes))
    if (
        given == wanted or values.ndim > 4
    ):  # axes of length 1 may be left out; more than 4 are as the framework has them
        return ""
    shown = ("x".join(map(str, sizes)) for sizes in (values.shape[1:], axes))
    return "has the shape N x {}, but the framework's order of axes is N x {}".format(*shown)


def _choices(network: Network, inputs: Mapping[str, Maps], device: Outputs) -> dict[str, DeviceMaxima]:
    """Unpooling -> the device's maxima, of all samples."""
    found = unpoolings(network.graph, network.program)
    if not found:
        return {}
    held = {unpooling.source: [device.layers[unpooling.source]] for unpooling in found}
    for start in range(KEPT, len(next(iter(inputs.values()))), KEPT):  # a few at a time: layers fill the memory
        part = network.run({name: values[start : start + KEPT] for name, values in inputs.items()}, layers=True)
        for source, parts in held.items():
            parts.append(part.layers[source])
    return {u.name: u.choice(network.program, np.concatenate(held[u.source])) for u in found}


def compare_outputs(network: Network, device: Outputs, reference: Reference) -> tuple[Comparison, ...]:
    """One comparison for each output of the network, and one for the input of each softmax among them.

    Where the values of an output prove nothing, the nearest map before it that proves something is compared as well.
    """
    graph, program = network.graph, network.program
    compared: list[Comparison] = []
    for position, (output, name) in enumerate(zip(graph.outputs, graph.output_names, strict=True)):
        probabilities = reference.outputs[position]
        if isinstance(graph[output].op, DetectionOutput):
            compared += _compare_detections(network, device, reference, position)
            continue
        result = compare(name, device.outputs[position], probabilities)
        index = program.outputs[position]
        layer = program.layers[index]
        if layer.is_softmax and layer.sources[0] is not None:
            memory = device.layers[layer.sources[0]]
            logits = as_maps(
                memory, program.layers[layer.sources[0]], layer.output.shape, transposed=program.transposed
            )
            known = probabilities[: len(logits)].reshape(logits.shape)
            before = before_softmax(f"{name} before softmax", logits, known)
            if before is None and not result.doubt:
                result = replace(result, doubt="the softmax is saturated on every sample")
            compared += [result, *([] if before is None else [replace(before, evidence_for=name)])]
        else:
            compared.append(result)
        if result.doubt and compared[-1].doubt:
            compared += _evidence(network, device, reference, index, name)
    compared += [compare(*maxima) for maxima in reference.maxima]
    return tuple(compared)


def _evidence(network: Network, device: Outputs, reference: Reference, index: int, name: str) -> Iterator[Comparison]:
    """The nearest map before a layer of the program that exists on both sides and proves something. name: of the output."""
    program = network.program
    found = pairs(program, device.layers, reference.layers, reference.order)
    by_layer = {
        pair.layer: compare(f"{layer}, before {name}", pair.device, pair.reference) for layer, pair in found.items()
    }
    waiting, seen = deque(program.layers[index].sources), set[int]()
    while waiting:
        source = waiting.popleft()
        if source is None or source in seen:
            continue
        seen.add(source)
        if source in by_layer and not by_layer[source].doubt:
            yield replace(by_layer[source], evidence_for=name)
            return
        waiting.extend(program.layers[source].sources)


def _compare_detections(network: Network, device: Outputs, reference: Reference, position: int) -> Iterator[Comparison]:
    """A DetectionOutput on the device's own inputs, and these inputs. With given results, its rows."""
    graph, program = network.graph, network.program
    node, layer = graph[graph.outputs[position]], program.layers[program.outputs[position]]
    name, rows = graph.output_names[position], device.outputs[position]
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
            comparison = compare(f"{read}, read by {name}", maps, known.reshape(maps.shape))
            yield replace(comparison, evidence_for=f"{name} of these")
    assert isinstance(node.op, DetectionOutput)
    yield compare(f"{name} of these", *matched_detections(rows[: len(given[0])], detect(node.op, *given)))


def accuracies(graph: Graph, device: Outputs, reference: Reference, classes: NDArray[np.intp]) -> tuple[Accuracy, ...]:
    """How often each output that is a vector has its largest element at the right class, on both sides."""

    def share(maps: Maps) -> float:
        return float(np.mean(maps.reshape(len(maps), -1).argmax(axis=1) == classes))

    return tuple(
        Accuracy(name, share(mine), share(theirs))
        for name, mine, theirs in zip(graph.output_names, device.outputs, reference.outputs, strict=True)
        if mine[0].size == mine.shape[-1] > 1
    )


def beside(
    plain: Network, fp16: Outputs, device: Outputs, outputs: Sequence[Comparison], reference: Reference
) -> tuple[Beside, ...]:
    """The outputs with FP16 weights beside those with palettes. fp16, device: the results of the two networks."""
    each = compare_outputs(plain, fp16, reference)
    direct = {
        name: compare(name, mine, theirs)
        for name, mine, theirs in zip(plain.graph.output_names, device.outputs, fp16.outputs, strict=True)
    }
    return tuple(
        Beside(one, other, direct[one.name].agreement if one.name in direct else None)
        for one, other in zip(each, outputs, strict=True)
    )


def compare_layers(
    program: Program, device: Outputs, reference: Reference, *, palette: bool, unfused: bool = False
) -> tuple[tuple[LayerResult, ...], str | None]:
    """A comparison for every map that exists on both sides, and the first layer where the error jumps.

    unfused: whether the program is the one with a command for each layer.
    """
    found = pairs(program, device.layers, reference.layers, reference.order)
    shapes = {name: maps.shape for name, maps in reference.layers.items()}  # these distinguish vectors from maps
    compared = {
        pair.layer: compare(name, pair.device.reshape(shapes[name]), pair.reference.reshape(shapes[name]))
        for name, pair in found.items()
    }
    results = tuple(LayerResult(c, program.layers[index].origins[-1].type, unfused) for index, c in compared.items())
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
