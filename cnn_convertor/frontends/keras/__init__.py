"""Reads Keras models: .h5 and .hdf5 of Keras 2 and 3, and .keras."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cnn_convertor.errors import ModelError, Origin, Problem, UnsupportedError
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.frontends.keras import convolutions, functions, maps
from cnn_convertor.frontends.keras.custom import CustomLayer, load_custom_layers, read_custom
from cnn_convertor.frontends.keras.files import definition_of, open_model
from cnn_convertor.frontends.keras.maps import DROPOUTS
from cnn_convertor.frontends.keras.model import Call, Network, flatten, parse
from cnn_convertor.frontends.keras.reading import HARMLESS, Reading, check_leftovers, keras
from cnn_convertor.frontends.keras.tensors import Value, map_axes
from cnn_convertor.frontends.keras.variables import BATCH_NORMALIZATIONS
from cnn_convertor.frontends.keras.weights import Weights, match_weights
from cnn_convertor.frontends.registry import Settings
from cnn_convertor.ir.graph import Graph

__all__ = ["CustomLayer", "layer_types", "load", "load_custom_layers"]

READERS = (convolutions, functions, maps)  # importing them enters their readers in the registry


def layer_types() -> Iterator[str]:
    """The layer types that can be read, sorted."""
    return iter(keras)


def load(
    definition: Path,
    data: Path,
    *,
    size: tuple[int, int] | None = None,
    custom: Mapping[str, CustomLayer] = {},
) -> Graph:
    """The network in `definition` with the weights in `data` (which may be the same file).

    size: (height, width) to convert for, instead of the input's own. custom: layer types that the user defines.
    Raises ModelError when a file is not what it should be, UnsupportedError naming every layer that cannot be converted.
    """
    opened = open_model(definition)
    same_file = data == definition
    model = parse(definition_of(definition, opened), str(definition))
    contents = opened.contents if same_file else open_model(data).contents
    weights = match_weights(model, contents, same_file=same_file)
    network = flatten(model, str(definition))
    return _Assembly(str(definition), network, weights, size, custom).graph()


class _Assembly:
    """Reads call after call into a graph."""

    def __init__(
        self,
        file: str,
        network: Network,
        weights: Weights,
        size: tuple[int, int] | None,
        custom: Mapping[str, CustomLayer],
    ) -> None:
        self._file, self._network, self._weights, self._size, self._custom = file, network, weights, size, custom
        self._builder = Builder()
        self._values: dict[int, Value] = {}

    def graph(self) -> Graph:
        for call in self._network.calls:
            self._values[call.output] = self._read(call)
        return self._builder.finish([self._values[tensor].node for tensor in self._network.outputs])

    def _read(self, call: Call) -> Value:
        """The call's value, or that of a stand-in when the layer cannot be read."""
        inputs = [self._values[tensor] for tensor in call.inputs]
        origin = Origin(self._file, call.layer.name, call.layer.type)
        axes = inputs[0].axes if inputs else map_axes(self._network, call.output)

        def read() -> Sequence[str]:
            nonlocal axes
            value = self._read_plainly(call, inputs, origin)
            axes = value.axes
            return [value.node]

        (node,) = self._builder.read([value.node for value in inputs], read, (call.layer.name, origin))
        return Value(node, axes)

    def _read_plainly(self, call: Call, inputs: Sequence[Value], origin: Origin) -> Value:
        """The call's value. Raises when the layer cannot be read."""
        layer = call.layer
        settings = Settings(layer.config, HARMLESS)
        reading = Reading(
            layer=layer,
            settings=settings,
            inputs=tuple(inputs),
            builder=self._builder,
            weights=self._weights,
            origin=origin,
            map_axes=lambda: map_axes(self._network, call.output),
            size=self._size,
        )
        _check_arguments(call, origin)
        if layer.type in self._custom and not layer.is_operation:
            return read_custom(reading, self._custom[layer.type])
        reader = None if layer.is_operation else keras.get(layer.type)
        if reader is None:
            raise UnsupportedError(_unsupported(call, origin))
        if not inputs and layer.type != "InputLayer":
            raise ModelError(Problem("DV201", "the layer has no input", origin, "save the model again"))
        value = reader(reading)
        check_leftovers(reading)
        return value


def _check_arguments(call: Call, origin: Origin) -> None:
    """Refuse arguments of the call itself: training=True and such."""
    if call.layer.is_operation or keras.get(call.layer.type) is None:
        return

    def matters(name: str) -> bool:
        return name != "training" or call.layer.type in (*BATCH_NORMALIZATIONS, *DROPOUTS)

    given = [f"{name}={value!r}" for name, value in call.extras.items() if value not in (None, False) and matters(name)]
    if given:
        raise UnsupportedError(
            Problem("DV302", f"the layer is called with {', '.join(given)}", origin, "call it with tensors alone")
        )


def _unsupported(call: Call, origin: Origin) -> Problem:
    type = call.layer.type
    if call.layer.is_operation or type in {"TFOpLambda", "SlicingOpLambda", "TensorFlowOpLayer"}:
        what = call.layer.config.get("function", type)
        return Problem(
            "DV301",
            f"the operation {what} between layers is not supported",
            origin,
            "use a layer instead, such as keras.layers.Add",
        )
    return Problem(
        "DV301", f"layers of type {type} are not supported", origin, "define it as a custom layer, or replace it"
    )
