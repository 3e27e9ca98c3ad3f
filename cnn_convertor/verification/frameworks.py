"""Finds what a network should give: the results of its framework for samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from cnn_convertor.emulation.run import Maps
from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import DetectionOutput, Order, Shape
from cnn_convertor.verification import formula_runner, keras_runner, onnx_runner, opencv_runner
from cnn_convertor.verification.compare import sqnr
from cnn_convertor.verification.framework_maps import Reference, as_maps, as_output, blobs_as_maps, blobs_as_output
from cnn_convertor.verification.unpooling import DeviceMaxima

AGREEMENT_DB = 60.0  # OpenCV's FP32 reaches more than 90 dB against the formulas; a difference of meaning far less


def run(model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima] = {}) -> Reference:
    """The framework's results for samples: input name -> (N, H, W, C).

    choices: unpooling -> the maxima that it uses; the framework's own where none are given.
    Raises UsageError when the framework is not installed, ConvertorError when it refuses the network.
    """
    return RUNNERS[model.frontend.runner].run(model, graph, inputs, choices)


def _run_caffe(
    model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima]
) -> Reference:
    """OpenCV's results where they agree with Caffe's formulas on the first sample, else those of the formulas.

    OpenCV differs from Caffe in many settings, lacks layers and crashes for some networks. Where the formulas cannot read
    the network, OpenCV judges alone.
    """
    one = {name: values[:1] for name, values in inputs.items()}
    try:
        exact = formula_runner.run(model, graph, one, choices)
    except ConvertorError:
        return opencv_runner.run(model, graph, inputs, choices)
    try:
        if _agree(opencv_runner.run(model, graph, one, choices), exact, graph):
            return opencv_runner.run(model, graph, inputs, choices)
    except ConvertorError:  # OpenCV is missing, or refuses the network
        pass
    return formula_runner.run(model, graph, inputs, choices)


def _agree(opencv: Reference, exact: Reference, graph: Graph) -> bool:
    """Whether all maps are the same. Rows of detections depend on the least difference of two scores, and are left out."""
    pairs = [(maps, exact.layers[name]) for name, maps in opencv.layers.items() if name in exact.layers]
    for place, maps in exact.outputs.items():
        if not isinstance(graph[graph.outputs[place]].op, DetectionOutput):
            pairs.append((opencv.outputs[place], maps))
    return all(mine.shape == theirs.shape and sqnr(mine, theirs) >= AGREEMENT_DB for mine, theirs in pairs)


# --- the runners ---------------------------------------------------------------------------------------------------------


class Runner(NamedTuple):
    """What computes the reference results of a framework's networks.

    run: as `run` above. order, as_output, as_maps: how the framework's arrays become maps, N samples at a time.
    """

    run: Callable[[Model, Graph, Mapping[str, Maps], Mapping[str, DeviceMaxima]], Reference]
    order: Order
    as_output: Callable[[Maps, Shape], Maps]
    as_maps: Callable[[Maps], Maps | None]


RUNNERS: Mapping[str, Runner] = {
    "onnxruntime": Runner(onnx_runner.run, Order.CHW, blobs_as_output, blobs_as_maps),
    "OpenCV": Runner(_run_caffe, Order.CHW, blobs_as_output, blobs_as_maps),
    "Keras": Runner(
        keras_runner.run, Order.HWC, partial(as_output, order=Order.HWC), partial(as_maps, order=Order.HWC)
    ),
}
