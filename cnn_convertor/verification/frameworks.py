"""Runs samples through the network's framework, and keeps the output of every layer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.emulation.run import Maps
from cnn_convertor.errors import ConvertorError, ModelError, Origin, Problem, UsageError
from cnn_convertor.frontends.caffe.blobs import shape_of
from cnn_convertor.frontends.caffe.definition import CaffeLayer, read_definition
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.frontends.keras.files import open_model
from cnn_convertor.frontends.keras.versions import bilinear_sampling
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import DetectionOutput, Order, Sampling, Shape
from cnn_convertor.samples import INSTALL
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.detections import as_rows
from cnn_convertor.verification.opencv_custom_layers import added, make_layers
from cnn_convertor.verification.opencv_known_issues import HINT, differences
from cnn_convertor.verification.unpooling import DeviceMaxima, Maxima, judged

Tensor: TypeAlias = Any  # of tensorflow, which is untyped
BATCH = 8  # samples that go through Keras at a time
KEPT = 8  # samples whose layers are kept; more would fill the memory and show little more


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The framework's results for N samples.

    outputs: (N, H, W, C) for each output of the network. layers: framework layer -> (N or KEPT, H, W, C) of the first samples,
    a vector being 1 x 1 x C.
    order: in which the framework counts the elements of a map. maxima: those of the device that its unpoolings used.
    """

    framework: str
    outputs: tuple[Maps, ...]
    layers: Mapping[str, Maps]
    order: Order
    maxima: tuple[Maxima, ...] = ()


def run(model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima] = {}) -> Reference:
    """The framework's results for samples: input name -> (N, H, W, C).

    choices: unpooling -> the maxima that it uses; the framework's own where none are given.
    Raises UsageError when the framework is not installed, ConvertorError when it refuses the network.
    """
    return RUNNERS[model.frontend.runner].run(model, graph, inputs, choices)


def as_output(values: Maps, shape: Shape, order: Order) -> Maps:
    """A Keras tensor of N samples as maps (N, *shape): 4 axes that are counted C, H, W are turned."""
    if order is Order.CHW and values.ndim == 4:
        values = values.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(values).reshape(len(values), *shape).astype(np.float32, copy=False)


def as_maps(values: Maps, order: Order) -> Maps | None:
    """A Keras tensor of N samples as (N, H, W, C); None unless it is a map, a row or a vector."""
    match values.shape[1:]:
        case (channels,):
            shape = Shape(1, 1, channels)
        case (width, channels):
            shape = Shape(1, width, channels)
        case (channels, height, width) if order is Order.CHW:
            shape = Shape(height, width, channels)
        case (height, width, channels):
            shape = Shape(height, width, channels)
        case _:
            return None
    return as_output(values, shape, order)


def blobs_as_output(values: Maps, shape: Shape) -> Maps:
    """A Caffe blob of N samples, of any axes, as maps (N, *shape)."""
    height, width, channels = shape
    maps = values.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(maps).astype(np.float32, copy=False)


def blobs_as_maps(values: Maps) -> Maps:
    """A Caffe blob of N samples as (N, H, W, C)."""
    return blobs_as_output(values, shape_of((1, *values.shape[1:])))


def _missing(module: str) -> UsageError:
    return UsageError(Problem("DV711", f"verifying needs {module}, which is not installed", hint=INSTALL))


# --- Keras ---------------------------------------------------------------------------------------------------------------


def _run_keras(model: Model, graph: Graph, inputs: Mapping[str, Maps], _: Mapping[str, DeviceMaxima]) -> Reference:
    keras = import_keras()
    if model.options.custom_layers is not None:
        problem = "Keras cannot run custom layers from their description"
        hint = "give the expected outputs together with the inputs (see docs/verify.md)"
        raise UsageError(Problem("DV713", problem, Origin(str(model.definition)), hint))
    loaded = load_keras(model.definition, model.data, model.options.size)
    if model.outputs:
        loaded = _ending_at(keras, loaded, model, graph)
    order = _order(loaded, graph)
    given = [
        _for_keras(inputs[node.name], tensor.shape, order)
        for node, tensor in zip(graph.inputs, loaded.inputs, strict=True)
    ]
    results: dict[str, list[Maps]] = {}
    outputs: list[list[Maps]] = []
    only = next(
        (tensor.shape[0] for tensor in loaded.inputs if tensor.shape[0]), None
    )  # the batch that some models take
    batch = only or BATCH
    for start in range(0, len(given[0]), batch):
        part = [values[start : start + batch] for values in given]
        count = len(part[0])
        if only is not None:
            part = [np.concatenate([values, *[values[-1:]] * (only - count)]) for values in part]
        final, layers = _all_outputs(keras, loaded, part, with_layers=start < KEPT)
        outputs.append([values[:count] for values in final])
        for name, values in layers:
            results.setdefault(name, []).append(values[: min(count, KEPT - start)])
    shapes = [graph.shape(name) for name in graph.outputs]
    return Reference(
        framework="Keras",
        outputs=tuple(
            as_output(np.concatenate(parts), shape, order)
            for parts, shape in zip(zip(*outputs, strict=True), shapes, strict=True)
        ),
        layers={n: m for n, parts in results.items() if (m := as_maps(np.concatenate(parts), order)) is not None},
        order=order,
    )


def _ending_at(keras: ModuleType, loaded: Tensor, model: Model, graph: Graph) -> Tensor:
    """The part of a model that gives the outputs of the layers which the ini file names."""
    named = {layer.name: layer for layer in loaded.layers}
    outputs: list[Tensor] = []
    for name in model.outputs:
        if name not in named:
            problem = f'"{name}" is part of a layer of Keras, whose output cannot be had alone'
            hint = "give the expected outputs together with the inputs (see docs/verify.md)"
            raise UsageError(Problem("DV713", problem, Origin(str(model.definition)), hint))
        outputs += keras.tree.flatten(named[name].output)
    inputs = list(loaded.inputs)
    if len(inputs) != len(graph.inputs):
        needed = {layer_of(graph, node.name) for node in graph.inputs}
        inputs = [tensor for tensor in inputs if tensor.name in needed]
    return keras.Model(inputs, outputs)


def _order(model: Tensor, graph: Graph) -> Order:
    """The order of a map's elements in the model: as its layers say, or else as the graph's inputs were read."""
    if any(_is_channels_first(layer) for layer in _all_layers(model)):
        return Order.CHW
    maps = [
        (graph.shape(n.name), t.shape[1:]) for n, t in zip(graph.inputs, model.inputs, strict=True) if len(t.shape) == 4
    ]
    turned = [_is(given, (s.channels, s.height, s.width)) and not _is(given, s) for s, given in maps]
    return Order.CHW if any(turned) else Order.HWC


def _is(given: Sequence[int | None], sizes: Sequence[int]) -> bool:
    """Whether a tensor's sizes are these, as far as they are known."""
    return all(have in (None, size) for have, size in zip(given, sizes, strict=True))


def import_keras() -> ModuleType:
    """Keras, running on tensorflow. Raises UsageError when it is not installed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same accumulation order on every machine
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    try:
        import keras
        import tensorflow as tf  # noqa: F401  # keras imports without it and fails later
    except ImportError as error:
        raise _missing("tensorflow") from error
    return keras  # type: ignore[no-any-return]  # keras has no types


def load_keras(definition: Path, data: Path, size: tuple[int, int] | None) -> Tensor:
    """The model, with its weights. size: (height, width) of the input, when that is not the model's own."""
    keras = import_keras()
    try:
        model = keras.models.load_model(definition, custom_objects=_tolerant_layers(keras), compile=False)
        if data != definition:
            model.load_weights(data)
        if size is not None:
            model = _resized(keras, model, size)
        opened = open_model(definition)
        if opened.version < 3:
            _as_keras_2(keras, model, opened.writer)
    except Exception as error:  # Keras raises exceptions of any type
        problem = f"Keras refuses the model: {_first_line(error)}"
        hint = "save it again with the version of Keras that made it, or give the expected outputs with the inputs"
        raise ModelError(Problem("DV712", problem, Origin(str(definition)), hint)) from error
    return model


def _as_keras_2(keras: ModuleType, model: Tensor, writer: str) -> None:
    """Give the layers of a Keras 2 file the functions that have changed since. writer: its version."""

    def hard_sigmoid(x: Tensor) -> Tensor:
        return keras.ops.clip(0.2 * x + 0.5, 0.0, 1.0)

    old = bilinear_sampling(writer) is Sampling.ASYMMETRIC
    for layer in _all_layers(model):
        if getattr(layer, "activation", None) is keras.activations.hard_sigmoid:
            layer.activation = hard_sigmoid
        if old and isinstance(layer, keras.layers.UpSampling2D) and layer.interpolation == "bilinear":
            layer.call = _enlarging(layer.size)


def _enlarging(factor: tuple[int, int]) -> Callable[[Tensor], Tensor]:
    """TensorFlow 1's bilinear resize, of maps whose channels are last."""
    import tensorflow as tf

    def call(maps: Tensor) -> Tensor:
        height, width = (size * by for size, by in zip(maps.shape[1:3], factor, strict=True))
        return tf.compat.v1.image.resize_bilinear(maps, (height, width))

    return call


def _resized(keras: ModuleType, model: Tensor, size: tuple[int, int]) -> Tensor:
    """The same model for inputs of another height and width, as far as they are maps."""
    first = any(_is_channels_first(layer) for layer in _all_layers(model))

    def resized(given: Tensor) -> Tensor:
        _, *dims = given.shape
        if len(dims) == 3:
            dims = [dims[0], *size] if first else [*size, dims[2]]
        return keras.Input(dims)

    other = keras.models.clone_model(model, input_tensors=keras.tree.map_structure(resized, model.input))
    other.set_weights(model.get_weights())
    return other


def _tolerant_layers(keras: ModuleType) -> dict[str, Tensor]:
    """Layers that take the settings of Keras 2 that Keras 3 has dropped."""

    def tolerant(layer: Tensor) -> Tensor:
        def from_config(config: dict[str, Any]) -> Tensor:
            return layer.from_config({name: value for name, value in config.items() if name != "groups"})

        return type(layer.__name__, (layer,), {"from_config": staticmethod(from_config)})

    known = {layer.__name__: tolerant(layer) for layer in (keras.layers.DepthwiseConv2D, keras.layers.Conv2DTranspose)}
    return known | _layers_of_applications()


def _layers_of_applications() -> dict[str, Tensor]:
    """Layers that keras.applications defines, whose module a .h5 file does not name."""
    found = {}
    for module, layer in (
        ("convnext", "LayerScale"),
        ("convnext", "StochasticDepth"),
        ("inception_resnet_v2", "CustomScaleLayer"),
    ):
        with suppress(ImportError, AttributeError):
            found[layer] = getattr(import_module(f"keras.src.applications.{module}"), layer)
    return found


def _all_outputs(
    keras: ModuleType, model: Tensor, inputs: Sequence[Maps], *, with_layers: bool = True
) -> tuple[list[Maps], list[tuple[str, Maps]]]:
    """The model's outputs, and those of every layer: (name, values)."""
    calls = list(_calls_made_once(model)) if with_layers else []
    nested = [call for call in calls if hasattr(call.operation, "layers")]
    tensors = [
        *model.outputs,
        *(call.output_tensors[0] for call in calls),
        *(t for c in nested for t in c.input_tensors),
    ]
    results = keras.Model(model.inputs, tensors)(list(inputs), training=False)
    values = [np.asarray(v, np.float32) for v in keras.tree.flatten(results)]  # one result comes without a list
    count = len(model.outputs)
    found = [(call.operation.name, v) for call, v in zip(calls, values[count:], strict=False)]
    rest = iter(values[count + len(calls) :])
    for call in nested:
        _, layers = _all_outputs(keras, call.operation, [next(rest) for _ in call.input_tensors])
        found += [(f"{call.operation.name}/{name}", v) for name, v in layers]
    return values[:count], found


def _calls_made_once(model: Tensor) -> Iterator[Tensor]:
    """The model's calls of layers that are called once and have one output, so that a name says which tensor is meant."""
    functional: Tensor = getattr(model, "_functional", model)  # a Sequential has a functional form
    nodes = [node for depth in functional._nodes_by_depth.values() for node in depth]  # noqa: SLF001  # Keras has no public form of this
    calls = Counter(id(node.operation) for node in nodes)
    for layer in model.layers:
        for node in nodes:
            if node.operation is layer and calls[id(layer)] == 1 and len(node.output_tensors) == 1:
                yield node


def _all_layers(model: Tensor) -> Iterator[Tensor]:
    for layer in model.layers:
        yield layer
        if hasattr(layer, "layers"):
            yield from _all_layers(layer)


def _is_channels_first(layer: Tensor) -> bool:
    return getattr(layer, "data_format", None) == "channels_first"


def _for_keras(values: Maps, shape: Sequence[int | None], order: Order) -> Maps:
    if order is Order.CHW and len(shape) == 4:
        return np.ascontiguousarray(values.transpose(0, 3, 1, 2))
    wanted = [have if want is None else want for have, want in zip(values.shape[1:], shape[1:], strict=False)]
    return values.reshape(len(values), *(wanted if len(shape) == 4 else shape[1:]))


# --- Caffe ---------------------------------------------------------------------------------------------------------------


def _run_caffe(
    model: Model, graph: Graph, inputs: Mapping[str, Maps], choices: Mapping[str, DeviceMaxima]
) -> Reference:
    try:
        import cv2
    except ImportError as error:
        raise _missing("OpenCV") from error
    layers = read_definition(model.definition, model.options.stages, model.options.level)
    files = (model.definition, model.data)[: 1 if model.data == model.definition else 2]
    if problems := list(differences(layers, files[1] if len(files) == 2 else None)):
        raise ConvertorError(problems)
    finals = [layer_of(graph, output) for output in graph.outputs]
    try:
        with added(cv2, kept=KEPT) as running:
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
        problem = f"OpenCV refuses the network: {_first_line(error)}"
        raise ConvertorError(Problem("DV712", problem, Origin(str(model.definition)), HINT)) from error
    values = {name: np.concatenate([row[name] for row in rows]) for name in kept}
    maps = {name: blobs_as_maps(v) for name, v in values.items() if len(v) == len(rows)}
    first = {name: given[:KEPT] for name, given in inputs.items()}
    return Reference(
        framework="OpenCV",
        outputs=tuple(
            blobs_as_output(np.concatenate(_detections(parts, graph, output)), graph.shape(output))
            for parts, output in zip(zip(*ends, strict=True), graph.outputs, strict=True)
        ),
        layers=maps,
        order=Order.CHW,
        maxima=tuple(judged(running.choices, running.masks, first | maps)),
    )


def _samples_set(net: Tensor, graph: Graph, layers: Sequence[CaffeLayer], inputs: Mapping[str, Maps]) -> Iterator[int]:
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


def _detections(parts: Sequence[Maps], graph: Graph, output: str) -> Sequence[Maps]:
    """Detections padded to the largest number of rows; other outputs unchanged."""
    if not isinstance(graph[output].op, DetectionOutput):
        return parts
    return [as_rows(part, graph.shape(output).height)[None] for part in parts]


def _for_caffe(blob: Maps, name: str, layers: Sequence[Any]) -> Maps:
    """The blob with two axes if the definition declares a vector."""
    for layer in layers:
        if layer.name == name and layer.type == "Input":
            shapes = layer.message.input_param.shape
            if shapes and len(shapes[0].dim) == 2:
                return blob.reshape(1, -1)
    return blob


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


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
    "OpenCV": Runner(_run_caffe, Order.CHW, blobs_as_output, blobs_as_maps),
    "Keras": Runner(_run_keras, Order.HWC, partial(as_output, order=Order.HWC), partial(as_maps, order=Order.HWC)),
}
