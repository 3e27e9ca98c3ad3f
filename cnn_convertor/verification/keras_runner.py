"""Runs samples through a Keras model, and keeps the output of every layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import ConvertorError, ModelError, Origin, Problem, UsageError
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.frontends.keras.importer import read_axes
from cnn_convertor.frontends.keras.model_files import OpenedModel
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Custom, Order
from cnn_convertor.samples import BATCH, integers_of
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.framework_maps import HINT, KEPT, Reference, as_maps, as_output, no_integers
from cnn_convertor.verification.keras_models import (
    CustomLayer,
    Tensor,
    behind_the_end,
    is_placeholder,
    load_model,
    reason_of,
)

KERAS_BATCH = 8  # samples that go through Keras at a time

# Inputs -> the model's outputs, and those of every layer: (name, values).
Evaluator: TypeAlias = Callable[[Sequence[Maps]], tuple[list[Maps], list[tuple[str, Maps]]]]


def opened(file: OpenedModel, model: Model, graph: Graph) -> Callable[[Model, Mapping[str, Maps], object], Reference]:
    """A function from samples, input name -> (N, H, W, C), to the model's results. Raises UsageError and ModelError.

    file: the model's definition.
    """
    custom = [
        CustomLayer(layer_of(graph, node.name).rpartition("/")[2], node.op.type, node.op.shape)
        for node in graph.nodes
        if isinstance(node.op, Custom)
    ]
    if model.outputs:
        custom += behind_the_end(file, {layer_of(graph, node.name).partition("/")[0] for node in graph.nodes})
    title, keras, loaded = load_model(file, model.data, model.options.size, custom)
    if model.inputs or model.outputs:
        loaded = _part(keras, loaded, model, graph)
    orders = {name: axes.order for name, axes in read_axes(file, model.data, model.options).items()}
    known = {layer_of(graph, node.name) for node in graph.nodes}
    lost = _lost(_calls(loaded), set()).layers if custom else {}
    unjudged = {layer: reason for layer, reason in lost.items() if layer in known}
    evaluators = cache(lambda with_layers: _evaluator(keras, loaded, with_layers=with_layers))
    shapes = [tensor.shape for tensor in loaded.inputs]
    return _OpenModel(title, graph, shapes, evaluators, orders, unjudged).run


class _OpenModel(NamedTuple):
    """A model that has been read. shapes: of its inputs. evaluators: with or without layers. orders: of layers' outputs."""

    title: str
    graph: Graph
    shapes: Sequence[Sequence[int | None]]
    evaluators: Callable[[bool], Evaluator]
    orders: Mapping[str, Order]
    unjudged: Mapping[str, str]

    def run(self, model: Model, inputs: Mapping[str, Maps], _: object) -> Reference:
        """The results for samples. Raises ModelError when Keras cannot compute them."""
        graph, orders = self.graph, self.orders
        for name, (low, high) in integers_of(graph).items():
            if not np.array_equal(inputs[name], np.rint(inputs[name]).clip(low, high)):
                raise no_integers(name, low, high)
        arrays = [
            _for_keras(inputs[node.name], shape, orders[layer_of(graph, node.name)])
            for node, shape in zip(graph.inputs, self.shapes, strict=True)
        ]
        outputs, layers = self._evaluate(arrays, model.definition)
        if (count := len(outputs[0])) != len(graph.outputs):
            problem = f"there are {len(graph.outputs)} outputs in the conversion, and {count} in {self.title}"
            where = Origin(str(model.definition))
            raise ConvertorError.of("DV734", problem, where, "please report it, with the model")
        maps = {
            name: as_maps(np.concatenate(batches), orders.get(name, Order.HWC))
            for name, batches in layers.items()
            if name not in self.unjudged
        }
        return Reference(
            framework=self.title,
            outputs={
                index: as_output(np.concatenate(batches), graph.shape(name), orders[layer_of(graph, name)])
                for index, (name, *batches) in enumerate(zip(graph.outputs, *outputs, strict=True))
                if layer_of(graph, name) not in self.unjudged
            },
            layers={name: values for name, values in maps.items() if values is not None},
            order=Order.CHW if Order.CHW in orders.values() else Order.HWC,
            unjudged=dict(self.unjudged),
        )

    def _evaluate(self, arrays: Sequence[Maps], path: Path) -> tuple[list[list[Maps]], dict[str, list[Maps]]]:
        """The outputs of each batch, and the batches of each layer for the first samples. path: to name in messages."""
        outputs: list[list[Maps]] = []
        layers: dict[str, list[Maps]] = {}
        only = next((shape[0] for shape in self.shapes if shape[0]), None)  # the batch that some models take
        for start, end in _keras_batches(len(arrays[0]), only or KERAS_BATCH):
            samples, count = [values[start:end] for values in arrays], end - start
            if only is not None:
                samples = [np.concatenate([values, *[values[-1:]] * (only - count)]) for values in samples]
            with _refusals(path):
                final, named = self.evaluators(start < KEPT)(samples)
            outputs.append([values[:count] for values in final])
            for name, values in named:
                layers.setdefault(name, []).append(values[: min(count, KEPT - start)])
        return outputs, layers


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Turn errors of Keras, whose types are any, into errors of the user's."""
    try:
        yield
    except (ConvertorError, MemoryError):
        raise
    except Exception as error:
        problem = f"Keras cannot run the model: {reason_of(error)}"
        raise ModelError(Problem("DV712", problem, Origin(str(path)), HINT)) from error


def _keras_batches(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Where batches for Keras begin and end. None lies in two batches of samples, so that each of these alone gives the same results."""
    for begin in range(0, count, BATCH):
        end = min(begin + BATCH, count)
        yield from ((start, min(start + size, end)) for start in range(begin, end, size))


def _part(keras: ModuleType, loaded: Tensor, model: Model, graph: Graph) -> Tensor:
    """The part of a model between the layers that the ini file names."""
    calls = _calls(loaded)
    times = Counter(call.layer.name for call in calls)
    tensors = {call.layer.name: call.outputs for call in calls if times[call.layer.name] == 1}
    own = {f"{name}:{n}": [tensor] for name, each in tensors.items() for n, tensor in enumerate(each)}
    tensors = own | tensors
    if unknown := [name for name in (*model.inputs, *model.outputs) if name not in tensors]:
        problem = f'"{unknown[0]}" is part of a layer of Keras, whose output cannot be had alone'
        raise UsageError(Problem("DV713", problem, Origin(str(model.definition)), HINT))
    outputs = [tensor for name in model.outputs for tensor in tensors[name]] or list(loaded.outputs)
    inputs = list(loaded.inputs)
    if model.inputs:
        begins = dict.fromkeys(node.own_name or layer_of(graph, node.name) for node in graph.inputs)
        inputs = [tensor for name in begins for tensor in tensors[name]]
    elif len(inputs) != len(graph.inputs):
        needed = {layer_of(graph, node.name) for node in graph.inputs}
        inputs = [tensor for tensor in inputs if tensor.name in needed]
    try:
        return keras.Model(inputs, outputs)
    except ValueError as error:  # such as from one output of a layer, which is an input, to another
        problem = f"Keras cannot compute this part of the model: {reason_of(error)}"
        raise UsageError(Problem("DV713", problem, Origin(str(model.definition)), HINT)) from error


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


def _evaluator(keras: ModuleType, model: Tensor, *, with_layers: bool = True) -> Evaluator:
    """A function from inputs to the model's outputs, and those of every layer: (name, values)."""
    calls = _calls_made_once(model) if with_layers else []
    nested = [call for call in calls if hasattr(call.layer, "layers")]
    single = [call for call in calls if len(call.outputs) == 1]  # a name then says which tensor is meant
    tensors = [
        *model.outputs,
        *(call.outputs[0] for call in single),
        *(tensor for call in nested for tensor in call.inputs),
    ]
    whole = keras.Model(model.inputs, tensors)
    inner = [(call, _evaluator(keras, call.layer)) for call in nested]

    def evaluate(inputs: Sequence[Maps]) -> tuple[list[Maps], list[tuple[str, Maps]]]:
        results = _flatten(whole(list(inputs), training=False))  # one result comes without a list
        values = [np.asarray(v, np.float32) for v in results]
        count = len(model.outputs)
        named = [(call.layer.name, v) for call, v in zip(single, values[count:], strict=False)]
        rest = iter(values[count + len(single) :])
        for call, evaluate_inner in inner:
            _, layers = evaluate_inner([next(rest) for _ in call.inputs])
            named += [(f"{call.layer.name}/{name}", v) for name, v in layers]
        return values[:count], named

    return evaluate


def _calls_made_once(model: Tensor) -> list[Call]:
    """The model's calls of layers and operations that are called once and read something."""
    calls = _calls(model)
    times = Counter(id(call.layer) for call in calls)
    return [call for call in calls if call.inputs and times[id(call.layer)] == 1]


def _calls(model: Tensor) -> list[Call]:
    """All calls of a model's layers, each after those that it reads."""
    functional: Tensor = getattr(model, "_functional", model)  # a Sequential has a functional form
    by_depth = functional._nodes_by_depth  # noqa: SLF001  # Keras has no public form of this
    return [Call.of(node) for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]


class _Lost(NamedTuple):
    """Layers and tensors without a valid result in Keras. layers: each with the reason; tensors: the ids of those that custom layers affect."""

    layers: dict[str, str]
    tensors: set[int]


def _lost(calls: Sequence[Call], before: set[int], prefix: str = "") -> _Lost:
    """What custom layers affect, also in nested models. before: ids of tensors; prefix: of the names of layers."""
    layers, tensors = dict[str, str](), set(before)
    for call in calls:
        name = f"{prefix}{call.layer.name}"
        reason = "it reads the results of a custom layer"
        affected = call.outputs if any(id(tensor) in tensors for tensor in call.inputs) else []
        if is_placeholder(call.layer):
            reason = "Keras does not have the code of this custom layer"
            affected = call.outputs
        elif hasattr(call.layer, "layers"):
            arguments = zip(call.layer.inputs, call.inputs, strict=True)
            inside = _lost(_calls(call.layer), {id(own) for own, x in arguments if id(x) in tensors}, f"{name}/")
            layers |= inside.layers
            results = zip(call.outputs, call.layer.outputs, strict=True)
            affected = [outer for outer, inner in results if id(inner) in inside.tensors]
            reason = "a custom layer in it affects its results"
        if affected:
            layers[name] = reason
            tensors |= {id(tensor) for tensor in affected}
    return _Lost(layers, tensors)


def _flatten(values: Tensor) -> list[Tensor]:
    import tensorflow as tf

    return list(tf.nest.flatten(values))


def _for_keras(values: Maps, shape: Sequence[int | None], order: Order) -> Maps:
    """Maps (N, H, W, C) as the tensor of an input. shape: of the tensor, where None is any size."""
    if order is Order.CHW:
        values = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
    return values if len(shape) == 4 else values.reshape(len(values), *shape[1:])
