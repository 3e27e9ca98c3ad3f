"""Runs samples through a Caffe network with OpenCV's dnn, and keeps the output of every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from cnn_convertor.emulation.execution import Maps
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
    try:
        import cv2
    except ImportError as error:
        raise missing("OpenCV") from error
    layers = read_definition(model.definition, model.options.stages, model.options.level)
    files = (model.definition, model.data)[: 1 if model.data == model.definition else 2]
    held = WeightsFile.open(model.data) if len(files) == 2 else WeightsFile.none(model.definition)
    if problems := [
        Problem("DV712", "OpenCV cannot run the layer, whose weights are not in the file", layer.origin, HINT)
        for layer in layers
        if layer.type in WEIGHTED and not held.blobs(layer.name)
    ]:
        raise ConvertorError(problems)
    finals = [layer_of(graph, output) for output in graph.outputs]
    try:
        with one_thread(cv2), added(cv2, kept=KEPT) as running:
            net = cv2.dnn.readNetFromCaffe(*map(str, files))
            net.enableFusion(False)  # so that every layer has an output
            make_layers(net, layers, running)
            known = set(net.getLayerNames())
            kept = [layer.name for layer in layers if layer.name in known and _has_one_map(layer)]
            running.choices = {name: choice for name, choice in choices.items() if choice.pooled in {*kept, *inputs}}
            wanted = [*kept, *(name for name in finals if name not in kept)]
            rows, ends = [], []
            for sample in _samples_set(net, graph, layers, inputs):
                running.sample = sample
                names = wanted if sample < KEPT else finals
                row = {n: np.array(blob, np.float32) for n, blob in zip(names, net.forward(names), strict=True)}
                rows += [row] if sample < KEPT else []
                ends.append([row[name] for name in finals])
    except cv2.error as error:
        problem = f"OpenCV refuses the network: {first_line(error)}"
        raise ConvertorError(Problem("DV712", problem, Origin(str(model.definition)), HINT)) from error
    _check_sizes(ends[0], graph, model)
    values = {name: np.concatenate([row[name] for row in rows]) for name in kept}
    maps = {name: blobs_as_maps(v) for name, v in values.items() if len(v) == len(rows)}
    first = {name: values[:KEPT] for name, values in inputs.items()}
    return Reference(
        framework="OpenCV",
        outputs={
            index: blobs_as_output(np.concatenate(_detections(samples, graph, output)), graph.shape(output))
            for index, (output, *samples) in enumerate(zip(graph.outputs, *ends, strict=True))
        },
        layers=maps,
        order=Order.CHW,
        maxima=tuple(compared_maxima(running.choices, running.masks, first | maps)),
    )


@contextmanager
def one_thread(cv2: Any) -> Iterator[None]:
    """Let OpenCV use one: its last digits depend on the number, which is that of the processors."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


def _check_sizes(ends: Sequence[Maps], graph: Graph, model: Model) -> None:
    for output, values in zip(graph.outputs, ends, strict=True):
        if values.size != graph.shape(output).size and not isinstance(graph[output].op, DetectionOutput):
            problem = f"OpenCV gives {values.size:,} numbers for {output}, not {graph.shape(output).size:,}"
            raise ConvertorError(Problem("DV712", problem, Origin(str(model.definition)), HINT))


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
