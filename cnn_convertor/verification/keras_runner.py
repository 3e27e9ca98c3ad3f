"""Runs samples through a Keras model, and keeps the output of every layer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from cnn_convertor.emulation.run import Maps
from cnn_convertor.errors import ModelError, Origin, Problem, UsageError
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.frontends.keras.files import open_model
from cnn_convertor.frontends.keras.versions import bilinear_sampling
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Order, Sampling
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.framework_maps import HINT, KEPT, Reference, as_maps, as_output, first_line, missing
from cnn_convertor.verification.unpooling import DeviceMaxima

Tensor: TypeAlias = Any  # of tensorflow, which is untyped
BATCH = 8  # samples that go through Keras at a time


def run(model: Model, graph: Graph, inputs: Mapping[str, Maps], _: Mapping[str, DeviceMaxima]) -> Reference:
    keras = import_keras()
    if model.options.custom_layers is not None:
        problem = "Keras cannot run custom layers from their description"
        hint = HINT
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
            hint = HINT
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
        raise missing("tensorflow") from error
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
        problem = f"Keras refuses the model: {first_line(error)}"
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
