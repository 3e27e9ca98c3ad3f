"""Computes the expected results of a network with its framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.frontends.keras.model_files import open_model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Order, Shape
from cnn_convertor.samples import axes_of
from cnn_convertor.verification.framework_maps import Reference, as_maps, as_output, blobs_as_maps, blobs_as_output
from cnn_convertor.verification.unpooling import DeviceMaxima

# Their versions can change results.
LIBRARIES: Final = ("keras", "tensorflow", "tensorflow-cpu", "tf_keras", "onnx", "onnxruntime")

# Model, inputs and maxima -> results. The model's files may lie elsewhere at each call.
Run: TypeAlias = Callable[[Model, Mapping[str, Maps], Mapping[str, DeviceMaxima]], Reference]


def run(model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima] = {}) -> Reference:
    """The framework's results for samples: input name -> (N, H, W, C).

    choices: unpooling -> the maxima that it uses; the framework's own where none are given.
    Raises UsageError when the framework is not installed, ConvertorError when it refuses the network.
    """
    return opened(model, graph)(model, inputs, choices)


def opened(model: Model, graph: Graph) -> Run:
    """A reference runner, which has read the model. Errors: as in `run`."""
    return RUNNERS[model.frontend.runner].opened(model, graph)


class Runner(NamedTuple):
    """What computes the reference results of a framework's networks.

    opened: reads a model. order: in which the framework counts the elements of a network's maps. as_output, as_maps: how its
    arrays become maps, N samples at a time.
    """

    opened: Callable[[Model, Graph], Run]
    order: Callable[[Graph], Order]
    as_output: Callable[[Maps, Shape, Order], Maps]
    as_maps: Callable[[Maps, Order], Maps | None]


# --- the runners, whose modules are imported when they run ---------------------------------------------------------------


def _opened_by_keras(model: Model, graph: Graph) -> Run:
    from cnn_convertor.verification import keras_runner

    return keras_runner.opened(open_model(model.definition), model, graph)


def _opened_by_onnxruntime(model: Model, graph: Graph) -> Run:
    from cnn_convertor.verification import onnx_runner

    return onnx_runner.opened(model, graph)


def _opened_by_formulas(model: Model, graph: Graph) -> Run:
    from cnn_convertor.verification import formula_runner

    return formula_runner.opened(model, graph)


def _of_blobs(opened: Callable[[Model, Graph], Run]) -> Runner:
    return Runner(
        opened,
        lambda _: Order.CHW,
        lambda values, shape, _: blobs_as_output(values, shape),
        lambda values, _: blobs_as_maps(values),
    )


def _order_of_keras(graph: Graph) -> Order:
    return Order.CHW if any(axes.startswith("C") for axes in axes_of(graph).values() if len(axes) > 1) else Order.HWC


RUNNERS: Mapping[str, Runner] = {
    "onnxruntime": _of_blobs(_opened_by_onnxruntime),
    "Caffe's formulas": _of_blobs(_opened_by_formulas),
    "Keras": Runner(_opened_by_keras, _order_of_keras, as_output, as_maps),
}
