"""Compares the outputs of a network on both sides, also with other palettes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.program import LayerType, Program
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.emulation.variants import Variants
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import ArgMax, DetectionOutput, Identity, Reshape, TransposeReshape
from cnn_convertor.progress import Progress, silent
from cnn_convertor.verification.both_sides import BothSides
from cnn_convertor.verification.compare import before_softmax, compare, layer_of, matched_detections
from cnn_convertor.verification.framework_maps import GIVEN, Reference
from cnn_convertor.verification.inner_maps import pairs
from cnn_convertor.verification.output_parts import before, moved, parts_of
from cnn_convertor.verification.results import Accuracy, Beside, Comparison, Sensitivity, Unjudged, least_sqnr


def compare_outputs(sides: BothSides) -> tuple[Comparison, ...]:
    """One comparison for each output of the network, for each part that is joined to it, and for the input of each softmax.

    Where the values of an output prove nothing, the nearest map before it that proves something is compared as well.
    """
    compared = [each for position in range(len(sides.graph.outputs)) for each in _compare_output(sides, position)]
    return (*compared, *(compare(*maxima) for maxima in sides.reference.maxima))


def _compare_output(sides: BothSides, position: int) -> Iterator[Comparison]:
    graph, program = sides.graph, sides.program
    output = graph.outputs[position]
    name = graph.output_names[position]
    index = program.outputs[position]
    if position not in sides.reference.outputs:
        yield from _maps_read_by(sides, index, name)
    elif isinstance(graph[output].op, DetectionOutput):
        yield from _compare_detections(sides, position)
    elif (largest := _compare_largest(sides, position)) is not None:
        yield from largest
    else:
        device = sides.device.outputs[position]
        reference = sides.reference.outputs[position]
        result = compare(name, device, reference)
        if program.layers[index].is_softmax and (source := program.layers[index].sources[0]) is not None:
            logits = sides.device_maps(source, program.layers[index].output.shape)
            before = before_softmax(f"{name} before softmax", logits, reference[: len(logits)].reshape(logits.shape))
            if before is None and not result.doubt:
                result = replace(result, doubt="the softmax is saturated on every sample")
            compared = [result] if before is None else [result, replace(before, evidence_for=name)]
        else:
            compared = [result]
        yield from compared
        if all(each.doubt for each in compared):
            yield from _evidence(sides, index, name)
        yield from _compare_parts(graph, output, name, device, reference)


def _compare_parts(graph: Graph, output: str, name: str, mine: Maps, theirs: Maps) -> Iterator[Comparison]:
    """The parts of an output that concatenations join, without constants. name: of the output."""
    for layer, mask in parts_of(graph, output).items():
        values = theirs[:, mask]
        if values.size and np.ptp(values) > 0:
            yield compare(f"{name}, part {layer}", mine[:, mask, np.newaxis], values[..., np.newaxis])


def _maps_before(sides: BothSides, name: str) -> dict[int, Comparison]:
    """Layer of the program -> its comparison, for all that exist on both sides and prove something. name: of an output."""
    matched = pairs(sides.program, sides.device.layers, sides.reference)
    compared = {
        pair.layer: compare(f"{layer}, before {name}", pair.device, pair.reference) for layer, pair in matched.items()
    }
    return {index: replace(result, evidence_for=name) for index, result in compared.items() if not result.doubt}


def _evidence(sides: BothSides, index: int, name: str) -> Iterator[Comparison]:
    """The nearest map before a layer of the program that exists on both sides and proves something. name: of the output."""
    program = sides.program
    by_layer = _maps_before(sides, name)
    waiting, visited = deque(program.layers[index].sources), set[int]()
    while waiting:
        source = waiting.popleft()
        if source is None or source in visited:
            continue
        visited.add(source)
        if source in by_layer:
            yield by_layer[source]
            return
        waiting.extend(program.layers[source].sources)


def _maps_read_by(sides: BothSides, index: int, name: str) -> Iterator[Comparison]:
    """The maps that a layer of the program reads, as far as they exist on both sides. name: of the output."""
    by_layer = _maps_before(sides, name)
    yield from (by_layer[source] for source in _computed_sources(sides.program, index) if source in by_layer)


def _computed_sources(program: Program, index: int) -> list[int]:
    """What a layer reads beside the network's inputs."""
    sources = (source for source in dict.fromkeys(program.layers[index].sources) if source is not None)
    return [source for source in sources if program.layers[source].type is not LayerType.INPUT]


def unjudged_layers(sides: BothSides, outputs: Sequence[Comparison]) -> tuple[Unjudged, ...]:
    """The layers without results of the framework. outputs: what is compared.

    An output of the application's own code is verified if all maps that it reads are.
    """
    graph = sides.graph
    program = sides.program
    reference = sides.reference
    unverified = set()
    outputs_of = zip(graph.outputs, graph.output_names, program.outputs, strict=True)
    for position, (output, name, index) in enumerate(outputs_of):
        shown = [each for each in outputs if each.evidence_for == name]
        is_verified = program.layers[index].custom is not None and len(shown) == len(_computed_sources(program, index))
        if position not in reference.outputs and not is_verified:
            unverified.add(layer_of(graph, output))
    return tuple(Unjudged(layer, why, layer not in unverified) for layer, why in reference.unjudged.items())


def _compare_detections(sides: BothSides, position: int) -> Iterator[Comparison]:
    """A DetectionOutput on the device's own inputs, these inputs, and its settings on the framework's. With given results, its rows."""
    from cnn_convertor.verification.detections import detect  # here, as most networks need no formulas

    graph, reference = sides.graph, sides.reference
    node = graph[graph.outputs[position]]
    layer = sides.program.layers[sides.program.outputs[position]]
    name = graph.output_names[position]
    rows = sides.device.outputs[position]
    if reference.framework == GIVEN or None in layer.sources:
        yield compare(name, *matched_detections(rows, reference.outputs[position]))
        return
    sources = [
        sides.device_maps(s, graph.shape(source))
        for s, source in zip(layer.sources, node.inputs, strict=False)
        if s is not None
    ]
    # Prior boxes that the conversion has computed are constants of the layer.
    sources += [np.stack([array.values.load()] * len(sources[0])) for array in layer.constants]
    known = []
    for maps, source in zip(sources, node.inputs, strict=True):
        read = layer_of(graph, source)
        if read in reference.layers:
            known.append(reference.layers[read].reshape(maps.shape))
            comparison = compare(f"{read}, read by {name}", maps, known[-1])
            yield replace(comparison, evidence_for=f"{name} of these")
    assert isinstance(node.op, DetectionOutput)
    if len(known) == len(sources):
        framework = reference.outputs[position][: len(sources[0])]
        settings = compare(f"settings of {name}", *matched_detections(detect(node.op, *known), framework))
        if not settings.doubt:  # something is detected
            yield settings
    yield compare(f"{name} of these", *matched_detections(rows[: len(sources[0])], detect(node.op, *sources)))


def _compare_largest(sides: BothSides, position: int) -> tuple[Comparison, Comparison] | None:
    """An ArgMax on the device's own input, and this input; None for others.

    Where two values are equal but for their rounding, either index is right.
    """
    graph, program = sides.graph, sides.program
    end, passed = before(graph, graph.outputs[position], Identity | Reshape | TransposeReshape)
    op = graph[end].op
    index = next((n for n, layer in enumerate(program.layers) if layer.name == end), None)
    if not isinstance(op, ArgMax) or index is None or op.axis is None or op.count > 1 or op.values or op.last_of_equals:
        return None
    (source,), (read,) = program.layers[index].sources, graph[end].inputs
    known = sides.reference.layers.get(layer_of(graph, read))
    shape = graph.shape(read)
    if source is None or known is None or known[0].size != shape.size:
        return None
    if not program.layers[source].output.reads_as(shape):
        return None
    name = graph.output_names[position]
    maps = sides.device_maps(source, shape)
    largest = [moved(each.argmax(axis=op.axis, keepdims=True), passed) for each in maps]
    mine = sides.device.outputs[position][: len(maps)]
    before_it = compare(f"{layer_of(graph, read)}, read by {name}", maps, known.reshape(maps.shape))
    return (
        replace(before_it, evidence_for=f"{name} of these"),
        compare(f"{name} of these", mine, np.stack(largest).astype(np.float32)),
    )


def accuracies(sides: BothSides, classes: NDArray[np.intp]) -> tuple[Accuracy, ...]:
    """How often each output that is a vector has its largest element at the right class, on both sides."""
    own = replace(sides.reference, outputs=dict(enumerate(sides.device.outputs)))
    mine = classes_of(sides.graph, own)
    theirs = classes_of(sides.graph, sides.reference)
    return tuple(
        Accuracy(name, float(np.mean(mine[name] == classes)), float(np.mean(theirs[name] == classes)))
        for name in theirs
    )


def classes_of(graph: Graph, reference: Reference) -> dict[str, NDArray[np.intp]]:
    """Output -> the index of its largest element in each sample, for all outputs that are vectors."""
    return {
        name: maps.reshape(len(maps), -1).argmax(axis=1)
        for index, name in enumerate(graph.output_names)
        if (maps := reference.outputs.get(index)) is not None and maps[0].size == maps.shape[-1] > 1
    }


def beside(
    palettes: BothSides, fp16: BothSides, outputs: Sequence[Comparison], fp16_outputs: Sequence[Comparison]
) -> tuple[Beside, ...]:
    """The outputs of a network with FP16 weights beside those with palettes."""
    names = palettes.graph.output_names
    direct = {
        name: compare(name, mine, theirs)
        for name, mine, theirs in zip(names, palettes.device.outputs, fp16.device.outputs, strict=True)
    }
    return tuple(
        Beside(one, other, direct[one.name].agreement if one.name in direct else None)
        for one, other in zip(fp16_outputs, outputs, strict=True)
    )


def sensitivities(
    variants: Variants, compared: Callable[[EmulatedNetwork], Sequence[Comparison]], progress: Progress = silent
) -> tuple[Sensitivity, ...]:
    """The outputs when one layer alone has FP16 weights, for each layer with a palette.

    First comes the layer whose bytes buy most: the noise of the worst output that they take away, before a softmax.
    compared: a network's outputs, compared with the framework's.
    """

    def outputs_with(palettes: Collection[str]) -> Sequence[Comparison]:
        with variants.with_palettes(palettes) as network:
            return compared(network)

    everywhere, measured = _noise(outputs_with(variants.layers.keys())), []
    for number, layer in enumerate(variants.layers):
        progress("sensitivity", number, len(variants.layers))
        outputs = outputs_with(variants.layers.keys() - {layer})
        more_bytes = variants.saved_bytes[layer]
        levels = {output.name: output.sqnr for output in outputs}
        bought = (everywhere - _noise(outputs)) / max(1, more_bytes)
        measured.append((bought, Sensitivity(layer, more_bytes, least_sqnr(outputs), levels)))
    return tuple(each for _, each in sorted(measured, key=lambda pair: -pair[0]))


def _noise(outputs: Sequence[Comparison]) -> float:
    """Of the worst output over its signal; the map before a softmax stands for the softmax."""
    before = {output.evidence_for for output in outputs if not output.doubt}
    return float(10 ** (-least_sqnr([output for output in outputs if output.name not in before]) / 10))
