"""Compares the outputs of a network on both sides."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.emulation.run import Maps, Outputs, as_maps
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import DetectionOutput
from cnn_convertor.verification.compare import (
    Comparison,
    before_softmax,
    compare,
    layer_of,
    matched_detections,
)
from cnn_convertor.verification.detections import detect
from cnn_convertor.verification.framework_maps import GIVEN, Reference
from cnn_convertor.verification.layers import pairs
from cnn_convertor.verification.results import Accuracy, Beside


def compare_outputs(network: EmulatedNetwork, device: Outputs, reference: Reference) -> tuple[Comparison, ...]:
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


def _evidence(
    network: EmulatedNetwork, device: Outputs, reference: Reference, index: int, name: str
) -> Iterator[Comparison]:
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


def _compare_detections(
    network: EmulatedNetwork, device: Outputs, reference: Reference, position: int
) -> Iterator[Comparison]:
    """A DetectionOutput on the device's own inputs, and these inputs. With given results, its rows."""
    graph, program = network.graph, network.program
    node, layer = graph[graph.outputs[position]], program.layers[program.outputs[position]]
    name, rows = graph.output_names[position], device.outputs[position]
    if reference.framework == GIVEN or None in layer.sources:
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
    plain: EmulatedNetwork, fp16: Outputs, device: Outputs, outputs: Sequence[Comparison], reference: Reference
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
