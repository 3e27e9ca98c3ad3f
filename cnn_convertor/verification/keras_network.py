"""Reads a network of Keras 2 from its file, apart from the frontend that it checks, and evaluates it by formulas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import h5py
import numpy as np

from cnn_convertor.files.opening import text_of
from cnn_convertor.verification.keras_formulas import Blob, apply

Arrays: TypeAlias = list[tuple[str, Blob]]  # with their names
KerasValue: TypeAlias = tuple[str, int, int]  # a layer, which of its calls, and which of its outputs

_MODELS: Final = ("Functional", "Model", "Sequential")


@dataclass(frozen=True, slots=True)
class FileLayer:
    """A layer, or a network in another's place. calls: what each call reads. weights: in the order of the file."""

    name: str
    type: str
    config: Mapping[str, Any]
    calls: tuple[tuple[KerasValue, ...], ...]
    weights: tuple[Blob, ...] = ()
    network: FormulaNetwork | None = None


@dataclass(frozen=True, slots=True)
class FormulaNetwork:
    """The layers of a network, in any order, and where its inputs and outputs are.

    shapes: of the inputs, the batch included.
    """

    layers: tuple[FileLayer, ...]
    inputs: tuple[KerasValue, ...]
    outputs: tuple[KerasValue, ...]
    shapes: tuple[Sequence[int | None], ...]

    def _first_call(self, layer: FileLayer) -> int:
        """The number of the first call in this network: Keras 2 counts one before it for a Sequential model that it has built."""
        read = [*self.outputs, *(value for each in self.layers for call in each.calls for value in call)]
        last = max((number for name, number, _ in read if name == layer.name), default=0)
        return max(0, last + 1 - len(layer.calls))

    def evaluate(self, inputs: Sequence[Blob], prefix: str = "") -> tuple[list[Blob], list[tuple[str, Blob]]]:
        """The outputs, and the results of layers that are called once, by name. Raises ValueError without a formula."""
        values, named = dict(zip(self.inputs, inputs, strict=True)), list[tuple[str, Blob]]()
        waiting = [(layer, number) for layer in self.layers for number in range(len(layer.calls))]
        while waiting:
            ready = [(layer, number) for layer, number in waiting if values.keys() >= set(layer.calls[number])]
            if not ready:
                raise ValueError("the network has a cycle")
            for layer, number in ready:
                results, inner = _called(layer, [values[value] for value in layer.calls[number]], prefix)
                number += self._first_call(layer) if layer.network is not None else 0
                values |= {(layer.name, number, index): result for index, result in enumerate(results)}
                if len(layer.calls) == 1:
                    named += [(f"{prefix}{layer.name}", results[0])] if len(results) == 1 else []
                    named += inner
            waiting = [each for each in waiting if each not in ready]
        return [values[value] for value in self.outputs], named


def _called(layer: FileLayer, inputs: Sequence[Blob], prefix: str) -> tuple[list[Blob], list[tuple[str, Blob]]]:
    if layer.network is not None:
        return layer.network.evaluate(inputs, f"{prefix}{layer.name}/")
    try:
        return [apply(layer.type, layer.config, layer.weights, inputs)], []
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"the formula of {layer.type} layers cannot read the configuration of {layer.name}") from error


# --- files ---------------------------------------------------------------------------------------------------------------


def read_network(definition: Path, data: Path) -> FormulaNetwork:
    """Raises ValueError for a file that has another form."""
    try:
        with h5py.File(data) as weights:
            if h5py.is_hdf5(definition):
                with h5py.File(definition) as file:
                    config = json.loads("".join(_texts(file, "model_config")))
            else:
                config = json.loads(text_of(definition))
            root = weights.get("model_weights", weights)
            stored = {name: _named_arrays(root[name]) for name in _texts(root, "layer_names")}
            return _network(config["config"], config["class_name"], lambda name: stored.get(name, []))
    except (OSError, KeyError, TypeError, IndexError) as error:
        raise ValueError("the file does not have the form of Keras 2") from error


def _texts(group: Any, name: str) -> list[str]:
    """The texts of an attribute; long ones are split into name0, name1, ..."""
    parts = (f"{name}{number}" for number in range(len(group.attrs)))
    names = [name] if name in group.attrs else [part for part in parts if part in group.attrs]
    texts = (text for each in names for text in np.atleast_1d(group.attrs[each]))
    return [text.decode() if isinstance(text, bytes) else str(text) for text in texts]


def _named_arrays(group: Any) -> Arrays:
    return [(name, np.asarray(group[name], np.float64)) for name in _texts(group, "weight_names")]


def _network(config: Any, kind: str, arrays: Callable[[str], Arrays]) -> FormulaNetwork:
    """arrays: those of a layer of the network, with their own names."""
    rows = config if isinstance(config, list) else config["layers"]
    layers, before = list[FileLayer](), ""
    for row in rows:
        inner, type = row["config"], row["class_name"]
        name = inner["name"] if isinstance(inner, dict) else row["name"]
        if kind == "Sequential":
            calls: tuple[tuple[KerasValue, ...], ...] = () if type == "InputLayer" else (((before, 0, 0),),)
            before = name
        else:
            calls = tuple(map(_keras_values, row["inbound_nodes"]))
        own = arrays(name)
        network = _network(inner, type, partial(_of_inner_layer, own)) if type in _MODELS else None
        layers.append(FileLayer(name, type, inner, calls, tuple(array for _, array in own), network))
    if kind == "Sequential":
        inputs: tuple[KerasValue, ...] = ((layers[0].name if layers[0].type == "InputLayer" else "", 0, 0),)
        outputs: tuple[KerasValue, ...] = ((before, 0, 0),)
        read = layers[:1]
    else:
        inputs, outputs = _keras_values(config["input_layers"]), _keras_values(config["output_layers"])
        by_name = {layer.name: layer for layer in layers}
        read = [by_name[value[0]] for value in inputs]
    return FormulaNetwork(
        tuple(layers), inputs, outputs, tuple(shape for each in read for shape in _shapes_read_by(each))
    )


def _shapes_read_by(layer: FileLayer) -> Sequence[Sequence[int | None]]:
    return layer.network.shapes if layer.network is not None else [layer.config.get("batch_input_shape", [None])]


def _of_inner_layer(arrays: Arrays, layer: str) -> Arrays:
    """Those of a layer, among the arrays of the network that is in a layer's place; all of them for a network in its place."""
    own = [(name, array) for name, array in arrays if f"/{name}".rpartition("/")[0].endswith(f"/{layer}")]
    return own or arrays


def _keras_values(rows: Any) -> tuple[KerasValue, ...]:
    rows = [rows] if isinstance(rows[0], str) else rows
    if any(set(row[3]) - {"training"} for row in rows if len(row) > 3):
        raise ValueError("a layer is called with arguments")
    return tuple((row[0], row[1], row[2]) for row in rows)
