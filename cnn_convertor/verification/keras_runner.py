"""Runs samples through a Keras model, and keeps the output of every layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from cnn_convertor.emulation.run import Maps
from cnn_convertor.errors import Origin, Problem, UsageError
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Order
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.framework_maps import HINT, KEPT, Reference, as_maps, as_output
from cnn_convertor.verification.keras_models import Tensor, all_layers, is_channels_first, load_model
from cnn_convertor.verification.unpooling import DeviceMaxima

BATCH = 8  # samples that go through Keras at a time


def run(model: Model, graph: Graph, inputs: Mapping[str, Maps], _: Mapping[str, DeviceMaxima]) -> Reference:
    if model.options.custom_layers is not None:
        problem = "Keras cannot run custom layers from their description"
        raise UsageError(Problem("DV713", problem, Origin(str(model.definition)), HINT))
    title, keras, loaded = load_model(model.definition, model.data, model.options.size)
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
        framework=title,
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
            raise UsageError(Problem("DV713", problem, Origin(str(model.definition)), HINT))
        outputs += _flatten(named[name].output)
    inputs = list(loaded.inputs)
    if len(inputs) != len(graph.inputs):
        needed = {layer_of(graph, node.name) for node in graph.inputs}
        inputs = [tensor for tensor in inputs if tensor.name in needed]
    return keras.Model(inputs, outputs)


def _order(model: Tensor, graph: Graph) -> Order:
    """The order of a map's elements in the model: as its layers say, or else as the graph's inputs were read."""
    if any(is_channels_first(layer) for layer in all_layers(model)):
        return Order.CHW
    maps = [
        (graph.shape(n.name), t.shape[1:]) for n, t in zip(graph.inputs, model.inputs, strict=True) if len(t.shape) == 4
    ]
    turned = [_is(given, (s.channels, s.height, s.width)) and not _is(given, s) for s, given in maps]
    return Order.CHW if any(turned) else Order.HWC


def _is(given: Sequence[int | None], sizes: Sequence[int]) -> bool:
    """Whether a tensor's sizes are these, as far as they are known."""
    return all(have in (None, size) for have, size in zip(given, sizes, strict=True))


class Call(NamedTuple):
    """A call of a layer in a model, by Keras 3 or Keras 2."""

    layer: Tensor
    inputs: list[Tensor]
    outputs: list[Tensor]

    @staticmethod
    def of(node: Tensor) -> Call:
        if hasattr(node, "operation"):
            return Call(node.operation, node.input_tensors, node.output_tensors)
        return Call(node.layer, _flatten(node.keras_inputs), _flatten(node.outputs))


def _all_outputs(
    keras: ModuleType, model: Tensor, inputs: Sequence[Maps], *, with_layers: bool = True
) -> tuple[list[Maps], list[tuple[str, Maps]]]:
    """The model's outputs, and those of every layer: (name, values)."""
    calls = list(_calls_made_once(model)) if with_layers else []
    nested = [call for call in calls if hasattr(call.layer, "layers")]
    tensors = [
        *model.outputs,
        *(call.outputs[0] for call in calls),
        *(tensor for call in nested for tensor in call.inputs),
    ]
    results = keras.Model(model.inputs, tensors)(list(inputs), training=False)
    values = [np.asarray(v, np.float32) for v in _flatten(results)]  # one result comes without a list
    count = len(model.outputs)
    found = [(call.layer.name, v) for call, v in zip(calls, values[count:], strict=False)]
    rest = iter(values[count + len(calls) :])
    for call in nested:
        _, layers = _all_outputs(keras, call.layer, [next(rest) for _ in call.inputs])
        found += [(f"{call.layer.name}/{name}", v) for name, v in layers]
    return values[:count], found


def _calls_made_once(model: Tensor) -> Iterator[Call]:
    """The model's calls of layers that are called once and have one output, so that a name says which tensor is meant."""
    functional: Tensor = getattr(model, "_functional", model)  # a Sequential has a functional form
    nodes = [node for depth in functional._nodes_by_depth.values() for node in depth]  # noqa: SLF001  # Keras has no public form of this
    calls = [Call.of(node) for node in nodes]
    times = Counter(id(call.layer) for call in calls)
    for layer in model.layers:
        for call in calls:
            if call.layer is layer and times[id(layer)] == 1 and len(call.outputs) == 1:
                yield call


def _flatten(values: Tensor) -> list[Tensor]:
    import tensorflow as tf

    return list(tf.nest.flatten(values))


def _for_keras(values: Maps, shape: Sequence[int | None], order: Order) -> Maps:
    if order is Order.CHW and len(shape) == 4:
        return np.ascontiguousarray(values.transpose(0, 3, 1, 2))
    wanted = [have if want is None else want for have, want in zip(values.shape[1:], shape[1:], strict=False)]
    return values.reshape(len(values), *(wanted if len(shape) == 4 else shape[1:]))
