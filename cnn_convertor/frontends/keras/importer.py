"""Turns a Keras model (.h5 and .hdf5 of Keras 2 and 3, .keras, JSON with a file of weights) into a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cnn_convertor.errors import ModelError, Origin, UnsupportedError
from cnn_convertor.frontends.builder import Builder, PartialGraph
from cnn_convertor.frontends.frontend import ReadOptions
from cnn_convertor.frontends.keras import (
    activations,
    attention,
    convolutions,
    inputs,
    merge,
    normalizations,
    reshape,
    resize,
    wrappers,
)
from cnn_convertor.frontends.keras import operations as between_layers
from cnn_convertor.frontends.keras.axes import Axes, Value, map_axes
from cnn_convertor.frontends.keras.custom import CustomLayer, load_custom_layers, read_custom
from cnn_convertor.frontends.keras.inputs import AUGMENTATIONS, DROPOUTS
from cnn_convertor.frontends.keras.model import KerasNetwork, LayerCall, LayerOutput, flatten, parse
from cnn_convertor.frontends.keras.model_files import OpenedModel, open_model
from cnn_convertor.frontends.keras.operations import ARGUMENTS, operation_name
from cnn_convertor.frontends.keras.parameters import LayerArrays, has_weights, match_weights
from cnn_convertor.frontends.keras.reading import (
    HARMLESS,
    KerasReading,
    check_dtype,
    check_leftovers,
    keras,
    operations,
)
from cnn_convertor.frontends.keras.shape_hints import Sizes, known_shapes, wanted_channels
from cnn_convertor.frontends.keras.unsupported import LAMBDAS, unsupported
from cnn_convertor.frontends.keras.variables import ADDONS, BATCH_NORMALIZATIONS
from cnn_convertor.frontends.readers import Settings

__all__ = ["keras", "operations", "read", "read_axes"]  # the registries, with every reader

# Importing them enters their readers in the registries.
READERS = (
    between_layers,
    attention,
    convolutions,
    activations,
    inputs,
    merge,
    normalizations,
    reshape,
    resize,
    wrappers,
)

# Layers that packages other than Keras define.
FROM_ELSEWHERE = frozenset({"FixedDropout", "StochasticDepth", *ADDONS})
JOINING = (merge.concatenate, between_layers.shapes.concatenate)  # which take tensors without elements
OPERATIONS_HARMLESS = frozenset({"name", "trainable", "dtype", "function", "training", "mask"})


def read(definition: Path, data: Path | None, options: ReadOptions = ReadOptions()) -> PartialGraph:
    """The network of a definition and its weights, as far as it can be read.

    data: the file of the weights, which may be the definition; None for the weights in the definition's own file; of JSON, to
    inspect it without weights.
    Raises ModelError when a file is not what it should be, UsageError when the file of custom layers fails.
    """
    return _assembly(open_model(definition), data, options).read()


class _Assembly:
    """Reads one call after the other into a graph."""

    def __init__(
        self,
        opened: OpenedModel,
        network: KerasNetwork,
        weights: LayerArrays,
        size: tuple[int, int] | None,
        custom: Mapping[str, CustomLayer],
        shapes: Mapping[str, Sizes],
    ) -> None:
        self._opened = opened
        self._network = network
        self._weights = weights
        self._size = size
        self._custom = custom
        self._shapes = shapes
        self._builder = Builder()
        self._values: dict[int, Sequence[Value]] = {}

    def read(self) -> PartialGraph:
        for call in self._network.calls:
            self._values[call.number] = self._read(call)
        outputs = [self._value(output) for output in self._network.outputs]
        for output, value in zip(self._network.outputs, outputs, strict=True):
            if not value.node:
                where = self._origin(self._network.calls[output.call])
                self._builder.report(
                    UnsupportedError.of("DV302", "an output of the network has no elements", where, "leave it out")
                )
        return self._builder.finish([value.node for value in outputs if value.node])

    @property
    def axes(self) -> dict[str, Axes]:
        """Layer -> the axes of its first output, once it is read."""
        return {call.layer.name: self._values[call.number][0].axes for call in self._network.calls}

    def _origin(self, call: LayerCall) -> Origin:
        return Origin(str(self._opened.path), call.layer.name, call.layer.type)

    def _value(self, output: LayerOutput) -> Value:
        values = self._values[output.call]
        if output.output >= len(values) and not self._builder.is_placeholder(values[0].node):
            reason = f"the output {output.output} is used, but the layer has {len(values)}"
            where = self._origin(self._network.calls[output.call])
            raise ModelError.of("DV201", reason, where, "save the model again, with model.save('model.keras')")
        return values[min(output.output, len(values) - 1)]

    def _read(self, call: LayerCall) -> Sequence[Value]:
        """The call's values, or a placeholder's when the layer cannot be read."""
        inputs = [self._value(output) for output in call.inputs]
        values: Sequence[Value] = ()

        def read() -> Sequence[str]:
            nonlocal values
            result = self._read_layer(call, inputs)
            values = [result] if isinstance(result, Value) else result
            return [value.node for value in values]

        def channels() -> int | None:
            return wanted_channels(self._network, call.number, self._weights.arrays or {})

        axes = self._known_axes(call)
        shape = None if axes is None else axes.shape(self._shapes[call.layer.name])
        placeholder = (call.layer.name, self._origin(call))
        sources = [value.node for value in inputs if value.node]
        nodes = self._builder.read(sources, read, placeholder, shape, channels)
        if len(values) > 1:
            names = [(value.node, f"{call.layer.name}:{number}") for number, value in enumerate(values)]
            self._builder.name_outputs(self._origin(call), names)
        if values:
            return values
        if axes is not None:
            return [Value(nodes[0], axes)]
        like = next((value for value in inputs if value.node), None) or Value(
            "", map_axes(self._network, LayerOutput(call.number))
        )
        return [like.computed_by(nodes[0])]

    def _known_axes(self, call: LayerCall) -> Axes | None:
        """The axes of a call's output, where the file gives its shape."""
        sizes = self._shapes.get(call.layer.name)
        axes = None if sizes is None else map_axes(self._network, LayerOutput(call.number), len(sizes) + 1)
        return None if axes is Axes.MANY else axes

    def _read_layer(self, call: LayerCall, inputs: Sequence[Value]) -> Value | Sequence[Value]:
        """The call's values. Raises when the layer cannot be read."""
        layer = call.layer
        origin = self._origin(call)
        is_operation = layer.is_operation or layer.type in LAMBDAS
        _check_arguments(call, origin, self._opened.version)
        reader = operations.get(operation_name(layer.type, layer.config)) if is_operation else keras.get(layer.type)
        declared = {"dtype", *(ARGUMENTS if is_operation else ()), *(() if reader is None else reader.settings)}
        values = _all_settings(call) if is_operation else layer.config
        harmless = {*(OPERATIONS_HARMLESS if is_operation else HARMLESS), *(() if reader is None else reader.ignores)}
        reading = KerasReading(
            layer=layer,
            settings=Settings(values, declared, harmless),
            inputs=tuple(inputs),
            builder=self._builder,
            weights=self._weights,
            origin=origin,
            map_axes=lambda rank: map_axes(self._network, LayerOutput(call.number), rank),
            size=self._size,
            version=self._opened.version,
            writer=self._opened.writer,
            arguments=call.arguments,
        )
        if layer.type in self._custom and not layer.is_operation:
            return read_custom(reading, self._custom[layer.type])
        if reader is None or (layer.is_foreign and layer.type not in FROM_ELSEWHERE):
            raise UnsupportedError(unsupported(layer, origin))
        if not inputs and layer.type != "InputLayer":
            raise ModelError.of("DV201", "the layer has no input", origin, "save the model again")
        if not all(value.node for value in inputs) and reader.read not in JOINING:
            reading.refuse("an input of the layer has no elements", "leave the layer out")
        if not is_operation:  # operations check their dtype themselves
            check_dtype(reading)
        result = reader.read(reading)
        check_dtype(reading)
        check_leftovers(reading)
        return result


def read_axes(opened: OpenedModel, data: Path, options: ReadOptions) -> dict[str, Axes]:
    """What the axes of each layer's output mean, as `read` has it."""
    assembly = _assembly(opened, data, options)
    assembly.read()
    return assembly.axes


def _assembly(opened: OpenedModel, data: Path | None, options: ReadOptions) -> _Assembly:
    custom = {} if options.custom_layers is None else load_custom_layers(options.custom_layers)
    definition = opened.path
    config = opened.definition()
    model = parse(config, str(definition))
    same_file = data is None or data == definition
    if opened.is_json and data is None:
        weights = LayerArrays(str(definition), "", None)
    else:
        if opened.is_json and same_file and has_weights(model):
            problem = "the file holds the network, not its weights"
            hint = "name the file of the weights: data = FILE.h5"
            raise ModelError.of("DV204", problem, Origin(str(definition)), hint)
        contents = opened.contents if data is None or same_file else open_model(data).contents
        weights = match_weights(model, contents, same_file=same_file)
        weights = replace(weights, backend=weights.backend or opened.contents.text("", "backend") or "")
    network = flatten(model, str(definition))
    shapes = known_shapes(config) if options.size is None else {}
    return _Assembly(opened, network, weights, options.size, custom, shapes)


def _all_settings(call: LayerCall) -> dict[str, object]:
    """A function's own settings, and its arguments by name or by position."""
    positional = {f"argument {i}": value for i, value in enumerate(call.arguments.positional)}
    return {**call.layer.config, **call.arguments.keywords, **positional}


def _check_arguments(call: LayerCall, origin: Origin, version: int) -> None:
    """Refuse arguments of the call itself, such as training=True."""
    random = AUGMENTATIONS if version < 3 else ()  # of which Keras 3 always writes training=True
    if call.layer.is_operation or keras.get(call.layer.type) is None:
        return

    def matters(name: str) -> bool:
        return name != "training" or call.layer.type in (*BATCH_NORMALIZATIONS, *DROPOUTS, *random)

    extras = call.arguments.extras.items()
    arguments = [f"{name}={value!r}" for name, value in extras if not _is_nothing(value) and matters(name)]
    if arguments:
        problem = f"the layer is called with {', '.join(arguments)}"
        raise UnsupportedError.of("DV302", problem, origin, "call it with tensors only")


def _is_nothing(value: object) -> bool:
    match value:
        case list():
            return all(map(_is_nothing, value))
        case dict():
            return all(map(_is_nothing, value.values()))
        case _:
            return value is None or value is False
