"""Computes the expected results of a network with its framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import ConvertorError, ModelError, Problem
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.frontends.keras.model_files import OpenedModel, open_model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import DetectionOutput, Order, Shape
from cnn_convertor.samples import axes_of
from cnn_convertor.verification.compare import sqnr
from cnn_convertor.verification.framework_maps import Reference, as_maps, as_output, blobs_as_maps, blobs_as_output
from cnn_convertor.verification.unpooling import DeviceMaxima

AGREEMENT_DB = 60.0  # OpenCV's FP32 reaches more than 90 dB against the formulas; a different definition gives far less
LIBRARIES: Final = (
    *("keras", "tensorflow", "tensorflow-cpu", "tf_keras", "onnx", "onnxruntime"),
    *("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"),
)  # whose versions can change results
_REFUSED: Final = "DV712"


Opened: TypeAlias = Callable[[Model, Mapping[str, Maps]], Reference]  # the files may lie elsewhere at each call
Run: TypeAlias = Callable[[Model, Graph, Mapping[str, Maps], Mapping[str, DeviceMaxima]], Reference]


def run(model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima] = {}) -> Reference:
    """The framework's results for samples: input name -> (N, H, W, C).

    choices: unpooling -> the maxima that it uses; the framework's own where none are given.
    Raises UsageError when the framework is not installed, ConvertorError when it refuses the network.
    """
    return first_reference(reference_runners(model, graph, inputs, choices), model, graph, inputs, choices)[1]


def reference_runners(
    model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima]
) -> tuple[Run, ...]:
    """The functions that can compute the results of a network, the best first. The first sample decides which."""
    return RUNNERS[model.frontend.runner].choose(model, graph, inputs, choices)


def first_reference(
    runners: Sequence[Run],
    model: Model,
    graph: Graph,
    inputs: Mapping[str, Maps],
    choices: Mapping[str, DeviceMaxima],
) -> tuple[int, Reference]:
    """The results of the first runner that accepts the network, and its index. Errors: as in `run`."""
    refusals: list[Problem] = []
    for number, runner in enumerate(runners):
        with _refusal_kept(refusals):
            return number, runner(model, graph, inputs, choices)
    raise ModelError(refusals)


@contextmanager
def _refusal_kept(refusals: list[Problem]) -> Iterator[None]:
    """Go on after a refusal of the network, but not after other errors, like the loss of a worker."""
    try:
        yield
    except ConvertorError as error:
        if any(problem.code != _REFUSED for problem in error.problems):
            raise
        refusals += error.problems


def _choose_for_caffe(
    model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima]
) -> tuple[Run, ...]:
    """OpenCV where it agrees with Caffe's formulas on the first sample, else the formulas.

    OpenCV differs from Caffe in many settings, lacks layers and crashes for some networks. Where the formulas cannot read
    the network, OpenCV alone computes the reference.
    """
    if model.inputs:  # OpenCV has no way to begin within a network
        return (_formulas,)
    one = {name: values[:1] for name, values in inputs.items()}
    try:
        exact = _formulas(model, graph, one, choices)
    except ConvertorError:
        return (_opencv,)
    with suppress(ConvertorError):  # OpenCV is missing, or refuses the network
        if _agree(_opencv(model, graph, one, choices), exact, graph):
            return _opencv, _formulas
    return (_formulas,)


def _agree(opencv: Reference, exact: Reference, graph: Graph) -> bool:
    """Whether all maps agree. Rows of detections are left out, since tiny differences between scores change them."""
    pairs = [(maps, exact.layers[name]) for name, maps in opencv.layers.items() if name in exact.layers]
    for index, maps in exact.outputs.items():
        if not isinstance(graph[graph.outputs[index]].op, DetectionOutput):
            pairs.append((opencv.outputs[index], maps))
    return all(mine.shape == theirs.shape and sqnr(mine, theirs) >= AGREEMENT_DB for mine, theirs in pairs)


# --- the reference runners, whose modules are imported when they run ------------------------------------------------------


class _Opening:
    """A reference runner of one run. It reads the model once for all batches of samples that a process gets."""

    def __init__(self, opened: Callable[[Model, Graph], Opened]) -> None:
        self._opened = opened
        self._run: Opened | None = None

    def __call__(self, model: Model, graph: Graph, inputs: Mapping[str, Maps], _: object) -> Reference:
        if self._run is None:
            self._run = self._opened(model, graph)
        return self._run(model, inputs)


def _keras(file: OpenedModel, model: Model, graph: Graph) -> Opened:
    from cnn_convertor.verification import keras_runner

    return keras_runner.opened(file, model, graph)


def _keras_formulas(file: OpenedModel, model: Model, graph: Graph) -> Opened:
    from cnn_convertor.verification import keras_runner

    return keras_runner.opened_as_formulas(file, model, graph)


def _onnx(model: Model, graph: Graph) -> Opened:
    from cnn_convertor.verification import onnx_runner

    return onnx_runner.opened(model, graph)


def _opencv(model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima]) -> Reference:
    from cnn_convertor.verification import opencv_runner

    return opencv_runner.run(model, graph, inputs, choices)


def _formulas(model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima]) -> Reference:
    from cnn_convertor.verification import formula_runner

    return formula_runner.run(model, graph, inputs, choices)


# --- the runners ---------------------------------------------------------------------------------------------------------


class Runner(NamedTuple):
    """What computes the reference results of a framework's networks.

    choose: its reference runners, best first; the next one runs if one refuses the network. order: in which the framework counts
    the elements of a network's maps. as_output, as_maps: how its arrays become maps, N samples at a time.
    """

    choose: Callable[[Model, Graph, Mapping[str, Maps], Mapping[str, DeviceMaxima]], tuple[Run, ...]]
    order: Callable[[Graph], Order]
    as_output: Callable[[Maps, Shape, Order], Maps]
    as_maps: Callable[[Maps, Order], Maps | None]


def _choose_for_onnx(*_: object) -> tuple[Run, ...]:
    return (_Opening(_onnx),)


def _choose_for_keras(model: Model, *_: object) -> tuple[Run, ...]:
    file = open_model(model.definition)
    ways = (_keras, _keras_formulas) if file.version < 3 else (_keras,)
    return tuple(_Opening(partial(way, file)) for way in ways)


def _of_blobs(choose: Callable[..., tuple[Run, ...]]) -> Runner:
    return Runner(
        choose,
        lambda _: Order.CHW,
        lambda values, shape, _: blobs_as_output(values, shape),
        lambda values, _: blobs_as_maps(values),
    )


def _order_of_keras(graph: Graph) -> Order:
    return Order.CHW if any(axes.startswith("C") for axes in axes_of(graph).values() if len(axes) > 1) else Order.HWC


RUNNERS: Mapping[str, Runner] = {
    "onnxruntime": _of_blobs(_choose_for_onnx),
    "OpenCV": _of_blobs(_choose_for_caffe),
    "Keras": Runner(_choose_for_keras, _order_of_keras, as_output, as_maps),
}
