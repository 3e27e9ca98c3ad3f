"""Runs samples through a Caffe network with OpenCV's dnn, and keeps the output of every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import ConvertorError, Origin, Problem
from cnn_convertor.frontends.caffe.definition import CaffeLayer, read_definition
from cnn_convertor.frontends.caffe.parameters import WeightsFile
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import DetectionOutput, Order
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.detections import as_rows
from cnn_convertor.verification.framework_maps import (
    HINT,
    KEPT,
    Reference,
    blobs_as_maps,
    blobs_as_output,
    first_line,
    missing,
)
from cnn_convertor.verification.opencv_custom_layers import added, make_layers
from cnn_convertor.verification.unpooling import DeviceMaxima, compared_maxima

Net: TypeAlias = Any  # of OpenCV, which is untyped
WEIGHTED = {"Convolution", "Deconvolution", "InnerProduct"}  # OpenCV crashes without weights


def run(model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima]) -> Reference:
    """The results of OpenCV. Raises ConvertorError when it cannot run the network."""
    try:
        import cv2
    except ImportError as error:
        raise missing("OpenCV") from error
    layers = read_definition(model.definition, model.options.stages, model.options.level)
    _check_weights(model, layers)
    finals = [layer_of(graph, output) for output in graph.outputs]
    try:
        with one_thread(cv2), added(cv2, kept=KEPT) as running:
            net = _network(cv2, model)
            make_layers(net, layers, running)
            known = set(net.getLayerNames())
            kept = [layer.name for layer in layers if layer.name in known and _has_one_map(layer)]
            running.choices = {name: choice for name, choice in choices.items() if choice.pooled in {*kept, *inputs}}
            rows = []  # of each sample: layer -> its output
            for sample in _samples_set(net, graph, layers, inputs):
                running.sample = sample
                names = list(dict.fromkeys([*kept, *finals])) if sample < KEPT else finals
                blobs = net.forward(names)
                rows.append({name: np.array(blob, np.float32) for name, blob in zip(names, blobs, strict=True)})
    except cv2.error as error:
        raise _refused(model, f"OpenCV refuses the network: {first_line(error)}") from error
    ends = [[row[name] for row in rows] for name in finals]
    outputs = {}
    for index, (output, samples) in enumerate(zip(graph.outputs, ends, strict=True)):
        _check_size(samples[0], graph, output, model)
        outputs[index] = blobs_as_output(np.concatenate(_detections(samples, graph, output)), graph.shape(output))
    values = {name: np.concatenate([row[name] for row in rows[:KEPT]]) for name in kept}
    maps = {name: blobs_as_maps(v) for name, v in values.items() if len(v) == len(rows[:KEPT])}
    first = {name: values[:KEPT] for name, values in inputs.items()}
    maxima = tuple(compared_maxima(running.choices, running.masks, first | maps))
    return Reference("OpenCV", outputs, maps, Order.CHW, maxima)


def _check_weights(model: Model, layers: Sequence[CaffeLayer]) -> None:
    """Raise ConvertorError if a layer lacks the weights without which OpenCV crashes."""
    file = WeightsFile.none(model.definition) if model.data == model.definition else WeightsFile.open(model.data)
    message = "OpenCV cannot run the layer, whose weights are not in the file"
    without = [layer for layer in layers if layer.type in WEIGHTED and not file.blobs(layer.name)]
    if without:
        raise ConvertorError(Problem("DV712", message, layer.origin, HINT) for layer in without)


def _network(cv2: Any, model: Model) -> Net:
    net = cv2.dnn.readNetFromCaffe(*dict.fromkeys(map(str, (model.definition, model.data))))
    net.enableFusion(False)  # so that every layer has an output
    return net


def _refused(model: Model, problem: str) -> ConvertorError:
    return ConvertorError(Problem("DV712", problem, Origin(str(model.definition)), HINT))


@contextmanager
def one_thread(cv2: Any) -> Iterator[None]:
    """Let OpenCV use one: its last digits depend on the number, which is that of the processors."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


def _check_size(values: Maps, graph: Graph, output: str, model: Model) -> None:
    size = graph.shape(output).size
    if values.size != size and not isinstance(graph[output].op, DetectionOutput):
        raise _refused(model, f"OpenCV gives {values.size:,} numbers for {output}, not {size:,}")


def _samples_set(net: Net, graph: Graph, layers: Sequence[CaffeLayer], inputs: Mapping[str, Maps]) -> Iterator[int]:
    """Give the network one sample after the other."""
    tops = {layer.name: layer.tops[0] for layer in layers if layer.tops}
    for sample in range(len(next(iter(inputs.values())))):
        for node in graph.inputs:
            blob = np.ascontiguousarray(inputs[node.name][sample : sample + 1].transpose(0, 3, 1, 2))
            net.setInput(_for_caffe(blob, node.name, layers), tops.get(node.name, node.name))
        yield sample


def _has_one_map(layer: CaffeLayer) -> bool:
    """Whether OpenCV's name of a layer identifies one map; for a pooling with a mask that is the maxima."""
    return (len(layer.tops) == 1 or layer.type == "Pooling") and layer.type != "DetectionOutput"


def _detections(samples: Sequence[Maps], graph: Graph, output: str) -> Sequence[Maps]:
    """Detections padded to the largest number of rows; other outputs unchanged."""
    if not isinstance(graph[output].op, DetectionOutput):
        return samples
    return [as_rows(rows, graph.shape(output).height)[None] for rows in samples]


def _for_caffe(blob: Maps, name: str, layers: Sequence[Any]) -> Maps:
    """The blob with two axes if the definition declares a vector."""
    for layer in layers:
        if layer.name == name and layer.type == "Input":
            shapes = layer.message.input_param.shape
            if shapes and len(shapes[0].dim) == 2:
                return blob.reshape(1, -1)
    return blob
