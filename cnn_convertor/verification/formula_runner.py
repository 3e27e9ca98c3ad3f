"""Runs samples through a Caffe network by Caffe's own formulas, and keeps the output of every layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import ConvertorError, Origin, Problem
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import DetectionOutput, Order
from cnn_convertor.verification.caffe_network import Evaluation, Top, evaluate, input_dims, read_network
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.detections import as_rows
from cnn_convertor.verification.formulas import Blob, FormulaLayer
from cnn_convertor.verification.framework_maps import HINT, KEPT, Reference, blobs_as_maps, blobs_as_output
from cnn_convertor.verification.unpooling import DeviceMaxima, Indices, compared_maxima

FORMULAS = "Caffe's formulas"


def opened(model: Model, graph: Graph) -> Callable[[object, Mapping[str, Maps], Mapping[str, DeviceMaxima]], Reference]:
    """A function from samples, and the maxima that unpoolings use, to the results. Raises ConvertorError for a network that
    cannot be read."""
    layers = _begun(_read(model), model, graph)
    return lambda _, inputs, choices: _results(layers, graph, inputs, choices)


def _results(
    layers: Sequence[FormulaLayer], graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima]
) -> Reference:
    finals = outputs_of(graph, layers)
    ends: dict[str, list[Maps | None]] = {output: [] for output in finals}
    unjudged: dict[str, str] = {}
    converted = {layer_of(graph, node.name) for node in graph.nodes}
    rows: dict[str, list[Maps]] = {}
    masks: dict[str, list[Indices]] = {}
    for sample in range(len(next(iter(inputs.values())))):
        evaluation = evaluate(layers, _blobs(inputs, layers, sample), _indices(choices, sample))
        unjudged |= {name: why for name, why in evaluation.lacking.items() if name in converted}
        for output, top in finals.items():
            ends[output].append(_end(evaluation.tops.get(top), graph, output))
        if sample < KEPT:
            for name, blob in _single_maps(evaluation, layers):
                rows.setdefault(name, []).append(blob)
            for name, mask in evaluation.masks.items():
                masks.setdefault(name, []).append(mask.astype(np.intp).transpose(0, 2, 3, 1))
    maps = {name: blobs_as_maps(np.concatenate(blobs)) for name, blobs in rows.items()}
    pooled = {name: values[:KEPT] for name, values in inputs.items()} | maps
    known = {name: choice for name, choice in choices.items() if choice.pooled in pooled}
    joined = {name: np.concatenate(masks[name]) for name in known if name in masks}
    outputs = {}
    for index, output in enumerate(graph.outputs):
        results = [values for values in ends[output] if values is not None]
        if len(results) == len(ends[output]):
            outputs[index] = blobs_as_output(np.stack(results), graph.shape(output))
    return Reference(FORMULAS, outputs, maps, Order.CHW, tuple(compared_maxima(known, joined, pooled)), unjudged)


def _single_maps(evaluation: Evaluation, layers: Sequence[FormulaLayer]) -> Iterator[tuple[str, Maps]]:
    """The blob of each layer whose name identifies one, of one sample; for a pooling with a mask that is the maxima."""
    for layer in layers:
        blob = evaluation.tops.get((layer.name, 0))
        if blob is not None and blob.shape[:1] == (1,) and (len(layer.tops) == 1 or layer.type == "Pooling"):
            yield layer.name, blob.astype(np.float32)


def _read(model: Model) -> list[FormulaLayer]:
    weights = None if model.data == model.definition else model.data
    try:
        return read_network(model.definition, weights, model.options.stages, model.options.level)
    except ValueError as error:
        problem = f"Caffe's formulas cannot be applied to the network: {error}"
        raise ConvertorError(Problem("DV712", problem, Origin(str(model.definition)), HINT)) from error


def _begun(layers: Sequence[FormulaLayer], model: Model, graph: Graph) -> list[FormulaLayer]:
    """The layers, those behind which the network begins as inputs: in their place, or behind them if only some tops are."""
    begins: dict[str, set[str]] = {}
    for node in graph.inputs if model.inputs else ():
        begins.setdefault(layer_of(graph, node.name), set()).add(node.own_name)
    begun = []
    for layer in layers:
        own = begins.get(layer.name, set()) if layer.type != "Input" else set()
        tops = [top for top in layer.tops if top in own]
        if not own or tops:
            begun.append(layer)
        else:
            begun.append(replace(layer, type="Input", bottoms=()))
        begun += [replace(layer, name=f"the input {top}", type="Input", bottoms=(), tops=(top,)) for top in tops]
    return begun


def outputs_of(graph: Graph, layers: Sequence[FormulaLayer]) -> dict[str, Top]:
    """Output of the graph -> the top that it is."""
    by_name = {layer.name: layer for layer in layers}
    outputs = {}
    for output in graph.outputs:
        name = layer_of(graph, output)
        tops = by_name[name].tops if name in by_name else ()
        own = graph[output].own_name
        outputs[output] = name, (tops.index(own) if own in tops else 0)
    return outputs


def _blobs(inputs: Mapping[str, Maps], layers: Sequence[FormulaLayer], sample: int) -> dict[str, Blob]:
    """The inputs of one sample, with the axes of the definition."""
    blobs, dims = {}, input_dims(layers)
    for layer in (layer for layer in layers if layer.type == "Input"):
        for top in layer.tops:
            name = top if top in inputs or len(layer.tops) > 1 else layer.name
            if name in inputs:
                blob = inputs[name][sample].transpose(2, 0, 1).astype(np.float64)
                blobs[top] = blob.reshape(1, *blob.shape[: len(dims.get(top, (1, *blob.shape))) - 1])
    return blobs


def _indices(choices: Mapping[str, DeviceMaxima], sample: int) -> dict[str, Blob]:
    """Unpooling -> the indices of pixels that replace its mask: (1, C, h, w)."""
    one = slice(sample, sample + 1)
    return {name: choice.indices(one).transpose(0, 3, 1, 2).astype(np.float64) for name, choice in choices.items()}


def _end(values: Blob | None, graph: Graph, output: str) -> Maps | None:
    """Detections are padded to the largest number of rows."""
    if values is None:
        return None
    result = values.astype(np.float32)
    return as_rows(result, graph.shape(output).height) if isinstance(graph[output].op, DetectionOutput) else result
