"""Runs samples through a Caffe network by Caffe's own formulas, and keeps the output of every layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cnn_convertor.emulation.execution import Maps
from cnn_convertor.errors import ConvertorError, Origin, Problem
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import DetectionOutput, Order
from cnn_convertor.verification.caffe_network import Top, evaluate, input_dims, read_network
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.detections import as_rows
from cnn_convertor.verification.formulas import Blob, FormulaLayer
from cnn_convertor.verification.framework_maps import HINT, KEPT, Reference, blobs_as_maps, blobs_as_output
from cnn_convertor.verification.unpooling import DeviceMaxima, Places, judged

FORMULAS = "Caffe's formulas"


def run(model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima] = {}) -> Reference:
    """The results of the formulas. Raises ConvertorError when they cannot read the network."""
    layers = _read(model)
    finals = outputs_of(graph, layers)
    single = [layer.name for layer in layers if len(layer.tops) == 1 or layer.type == "Pooling"]
    ends: list[list[Maps | None]] = []
    unjudged: dict[str, str] = {}
    converted = {layer_of(graph, node.name) for node in graph.nodes}
    rows: dict[str, list[Maps]] = {}
    masks: dict[str, list[Places]] = {}
    for sample in range(len(next(iter(inputs.values())))):
        found = evaluate(layers, _blobs(inputs, layers, sample), _places(choices, sample))
        unjudged |= {name: why for name, why in found.lacking.items() if name in converted}
        ends.append([_end(found.tops.get(top), graph, output) for output, top in finals.items()])
        if sample < KEPT:
            for name in single:
                if found.tops.get((name, 0), np.empty(0)).shape[:1] == (1,):
                    rows.setdefault(name, []).append(found.tops[name, 0].astype(np.float32))
            for name, mask in found.masks.items():
                masks.setdefault(name, []).append(mask.astype(np.intp).transpose(0, 2, 3, 1))
    maps = {name: blobs_as_maps(np.concatenate(found)) for name, found in rows.items()}
    first = {name: given[:KEPT] for name, given in inputs.items()}
    known = {name: choice for name, choice in choices.items() if choice.pooled in first | maps}
    return Reference(
        framework=FORMULAS,
        outputs={
            place: blobs_as_output(np.stack(results), graph.shape(output))
            for place, (output, *parts) in enumerate(zip(graph.outputs, *ends, strict=True))
            if len(results := [part for part in parts if part is not None]) == len(parts)
        },
        layers=maps,
        order=Order.CHW,
        maxima=tuple(
            judged(known, {name: np.concatenate(masks[name]) for name in known if name in masks}, first | maps)
        ),
        unjudged=unjudged,
    )


def _read(model: Model) -> list[FormulaLayer]:
    weights = None if model.data == model.definition else model.data
    try:
        return read_network(model.definition, weights, model.options.stages, model.options.level)
    except ValueError as error:
        problem = f"Caffe's formulas cannot be applied to the network: {error}"
        raise ConvertorError(Problem("DV712", problem, Origin(str(model.definition)), HINT)) from error


def outputs_of(graph: Graph, layers: Sequence[FormulaLayer]) -> dict[str, Top]:
    """Output of the graph -> the top that it is. Of several tops of one layer, each has its own name in the graph."""
    by_name = {layer.name: layer for layer in layers}
    found = {}
    for output in graph.outputs:
        name = layer_of(graph, output)
        tops = by_name[name].tops if name in by_name else ()
        found[output] = name, (tops.index(output) if output in tops and len(tops) > 1 else 0)
    return found


def _blobs(inputs: Mapping[str, Maps], layers: Sequence[FormulaLayer], sample: int) -> dict[str, Blob]:
    """The inputs of one sample, with the axes of the definition."""
    found = {}
    for name, dims in input_dims(layers).items():
        if name in inputs:
            blob = inputs[name][sample].transpose(2, 0, 1).astype(np.float64)
            found[name] = blob.reshape(1, *blob.shape[: len(dims) - 1])
    return found


def _places(choices: Mapping[str, DeviceMaxima], sample: int) -> dict[str, Blob]:
    """Unpooling -> the places that it uses in place of its mask: (1, C, h, w)."""
    part = slice(sample, sample + 1)
    return {name: choice.places(part).transpose(0, 3, 1, 2).astype(np.float64) for name, choice in choices.items()}


def _end(values: Blob | None, graph: Graph, output: str) -> Maps | None:
    """Detections are padded to the largest number of rows."""
    if values is None:
        return None
    found = values.astype(np.float32)
    return as_rows(found, graph.shape(output).height) if isinstance(graph[output].op, DetectionOutput) else found
