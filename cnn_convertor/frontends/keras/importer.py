"""Reads Keras models: .h5 and .hdf5 of Keras 2 and 3, and .keras."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cnn_convertor.errors import ModelError, Origin, Problem, UnsupportedError
from cnn_convertor.frontends.builder import Builder, PartialGraph
from cnn_convertor.frontends.keras import convolutions, functions, joins, maps, normalizations
from cnn_convertor.frontends.keras import operations as between_layers
from cnn_convertor.frontends.keras.custom import CustomLayer, load_custom_layers, read_custom
from cnn_convertor.frontends.keras.files import ModelFile, definition_of, open_model
from cnn_convertor.frontends.keras.maps import AUGMENTATIONS, DROPOUTS
from cnn_convertor.frontends.keras.model import Call, Network, Tensor, flatten, parse
from cnn_convertor.frontends.keras.operations import operation_name
from cnn_convertor.frontends.keras.reading import HARMLESS, Reading, check_dtype, check_leftovers, keras, operations
from cnn_convertor.frontends.keras.shapes import Sizes, known_shapes, wanted_channels
from cnn_convertor.frontends.keras.tensors import Axes, Value, map_axes
from cnn_convertor.frontends.keras.unsupported import LAMBDAS, unsupported
from cnn_convertor.frontends.keras.variables import BATCH_NORMALIZATIONS
from cnn_convertor.frontends.keras.weights import Weights, match_weights
from cnn_convertor.frontends.readers import Settings
from cnn_convertor.ir.graph import Graph

# importing them enters their readers in the registries
READERS = (convolutions, functions, joins, maps, normalizations, between_layers)

# Layers that packages beside Keras made for what is done in training alone.
FROM_ELSEWHERE = frozenset({"FixedDropout", "StochasticDepth"})
OPERATIONS_HARMLESS = frozenset({"name", "trainable", "dtype", "function", "training", "mask"})


def layer_types() -> Iterator[str]:
    """The layer types that can be read, sorted."""
    return iter(keras)


def load(
    definition: Path,
    data: Path,
    *,
    size: tuple[int, int] | None = None,
    custom_layers: Path | None = None,
) -> Graph:
    """The network in `definition` with the weights in `data` (which may be the same file).

    size: (height, width) to convert for, instead of the input's own. custom_layers: a file with the user's layer types.
    Raises ModelError when a file is not what it should be, UnsupportedError naming every layer that cannot be converted.
    """
    return read(definition, data, size=size, custom_layers=custom_layers).require_complete()


def read(
    definition: Path,
    data: Path | None,
    *,
    size: tuple[int, int] | None = None,
    custom_layers: Path | None = None,
) -> PartialGraph:
    """Like load, with the problems of single layers beside the part of the network that can be read.

    data: None for the weights in the definition's own file.
    Raises ModelError when a file is not what it should be, UsageError when custom_layers fails.
    """
    custom = {} if custom_layers is None else load_custom_layers(custom_layers)
    opened = open_model(definition)
    same_file = data is None or data == definition
    told = definition_of(definition, opened)
    model = parse(told, str(definition))
    contents = opened.contents if data is None or same_file else open_model(data).contents
    weights = match_weights(model, contents, same_file=same_file)
    network = flatten(model, str(definition))
    shapes = known_shapes(told) if size is None else {}
    return _Assembly(str(definition), network, weights, size, custom, opened, shapes).read()


class _Assembly:
    """Reads call after call into a graph."""

    def __init__(
        self,
        file: str,
        network: Network,
        weights: Weights,
        size: tuple[int, int] | None,
        custom: Mapping[str, CustomLayer],
        opened: ModelFile,
        shapes: Mapping[str, Sizes],
    ) -> None:
        self._file, self._network, self._weights, self._size, self._custom = file, network, weights, size, custom
        self._version, self._writer, self._shapes = opened.version, opened.writer, shapes
        self._builder = Builder()
        self._values: dict[int, Sequence[Value]] = {}

    def read(self) -> PartialGraph:
        for call in self._network.calls:
            self._values[call.number] = self._read(call)
        return self._builder.finish([self._value(tensor).node for tensor in self._network.outputs])

    def _value(self, tensor: Tensor) -> Value:
        values = self._values[tensor.call]
        if tensor.output >= len(values) and not self._builder.is_placeholder(values[0].node):
            call = self._network.calls[tensor.call]
            reason = f"the output {tensor.output} is used, but the layer has {len(values)}"
            origin = Origin(self._file, call.layer.name, call.layer.type)
            raise ModelError(Problem("DV201", reason, origin, "save the model again, with model.save('model.keras')"))
        return values[min(tensor.output, len(values) - 1)]

    def _read(self, call: Call) -> Sequence[Value]:
        """The call's values, or that of a stand-in when the layer cannot be read."""
        inputs = [self._value(tensor) for tensor in call.inputs]
        origin = Origin(self._file, call.layer.name, call.layer.type)
        made: Sequence[Value] = ()

        def read() -> Sequence[str]:
            nonlocal made
            found = self._read_plainly(call, inputs, origin)
            made = [found] if isinstance(found, Value) else found
            return [value.node for value in made]

        axes = self._told(call)
        shape = None if axes is None else axes.shape(self._shapes[call.layer.name])
        placeholder = (call.layer.name, origin)
        nodes = self._builder.read(
            [value.node for value in inputs], read, placeholder, shape, lambda: self._wanted(call)
        )
        if made:
            return made
        if axes is not None:
            return [Value(nodes[0], axes)]
        like = inputs[0] if inputs else Value("", map_axes(self._network, Tensor(call.number)))
        return [like._replace(node=nodes[0], origin=None)]

    def _wanted(self, call: Call) -> int | None:
        """How many channels of a call's output the layers behind it have weights for."""
        return wanted_channels(self._network, call.number, self._weights.arrays)

    def _told(self, call: Call) -> Axes | None:
        """The axes of a call's output, where the file tells its shape."""
        sizes = self._shapes.get(call.layer.name)
        axes = None if sizes is None else map_axes(self._network, Tensor(call.number), len(sizes) + 1)
        return None if axes is Axes.MANY else axes

    def _read_plainly(self, call: Call, inputs: Sequence[Value], origin: Origin) -> Value | Sequence[Value]:
        """The call's values. Raises when the layer cannot be read."""
        layer = call.layer
        is_operation = layer.is_operation or layer.type in LAMBDAS
        settings = (
            Settings(_all_settings(call), OPERATIONS_HARMLESS) if is_operation else Settings(layer.config, HARMLESS)
        )
        reading = Reading(
            layer=layer,
            settings=settings,
            inputs=tuple(inputs),
            builder=self._builder,
            weights=self._weights,
            origin=origin,
            map_axes=lambda rank: map_axes(self._network, Tensor(call.number), rank),
            size=self._size,
            version=self._version,
            writer=self._writer,
        )
        _check_arguments(call, origin, self._version)
        if layer.type in self._custom and not layer.is_operation:
            return read_custom(reading, self._custom[layer.type])
        reader = operations.get(operation_name(layer.type, layer.config)) if is_operation else keras.get(layer.type)
        if reader is None or (layer.is_foreign and layer.type not in FROM_ELSEWHERE):
            raise UnsupportedError(unsupported(layer, origin))
        if not inputs and layer.type != "InputLayer":
            raise ModelError(Problem("DV201", "the layer has no input", origin, "save the model again"))
        if not is_operation:  # what they do with their dtype, operations say themselves
            check_dtype(reading)
        made = reader(reading)
        check_dtype(reading)
        check_leftovers(reading)
        return made


def _all_settings(call: Call) -> dict[str, object]:
    """All that a function is called with: its own settings, and arguments by name or by place."""
    positional = {f"argument {i}": value for i, value in enumerate(call.arguments.positional)}
    return {**call.layer.config, **call.arguments.keywords, **positional}


def _check_arguments(call: Call, origin: Origin, version: int) -> None:
    """Refuse arguments of the call itself: training=True and such."""
    random = AUGMENTATIONS if version < 3 else ()  # of which Keras 3 always writes training=True
    if call.layer.is_operation or keras.get(call.layer.type) is None:
        return

    def matters(name: str) -> bool:
        return name != "training" or call.layer.type in (*BATCH_NORMALIZATIONS, *DROPOUTS, *random)

    extras = call.arguments.extras.items()
    given = [f"{name}={value!r}" for name, value in extras if not _is_nothing(value) and matters(name)]
    if given:
        raise UnsupportedError(
            Problem("DV302", f"the layer is called with {', '.join(given)}", origin, "call it with tensors alone")
        )


def _is_nothing(value: object) -> bool:
    match value:
        case list():
            return all(map(_is_nothing, value))
        case dict():
            return all(map(_is_nothing, value.values()))
        case _:
            return value is None or value is False
