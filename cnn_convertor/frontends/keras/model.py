"""The layers of a Keras model and their calls, as the configuration in its file gives them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import islice
from typing import Any, NamedTuple, NoReturn, TypeAlias

from cnn_convertor.budget import SHARES, Budget
from cnn_convertor.errors import ModelError, Origin

Json: TypeAlias = Any  # what json.loads gives; every use checks it
FUNCTIONAL = ("Functional", "Model")
SEQUENTIAL = "Sequential"
_CALL = 4_800  # steps of the budget for a call of a layer; nested models that are each called twice double their number
LOOKED_AT = 300  # calls behind one whose axes or channels they show
MAKE_FUNCTIONAL = (
    "make a functional model of it, with its weights loaded: x = keras.Input(shape=(height, width, channels)); "
    "keras.Model(x, model.call(x)).save('model.keras')"
)
KERAS_PACKAGES = frozenset({"keras", "keras_core", "tf_keras", "tensorflow"})  # whose classes are Keras's own

# Keras 3's functions on tensors that have an entry `dtype` of their own, as layers do.
OPERATIONS_WITH_DTYPE = frozenset(
    {"Arange", "Array", "Cast", "ConvertToTensor", "Cumprod", "Cumsum", "EmptyLike", "Full", "FullLike", "Geomspace", "Linspace",
     "Logspace", "MultiHot", "Nancumprod", "Nancumsum", "OneHot", "OnesLike", "Prod", "SaturateCast", "View", "ZerosLike"}
)  # fmt: skip


class TensorRef(NamedTuple):
    """An output, as a configuration refers to it: layer, number of its call, number of the output."""

    layer: str
    call: int
    output: int


class TensorIndex(NamedTuple):
    """A tensor among the arguments of a call, by the index of the call's input."""

    input: int


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a layer or function: JSON, where a TensorIndex stands for each tensor."""

    positional: tuple[Json, ...] = ()
    keywords: Mapping[str, Json] = field(default_factory=dict)

    @property
    def extras(self) -> dict[str, Json]:
        """The arguments that hold no tensors."""
        named = {f"argument {i}": value for i, value in enumerate(self.positional)} | dict(self.keywords)
        return {name: value for name, value in named.items() if not _holds_tensors(value)}


def _holds_tensors(value: Json) -> bool:
    match value:
        case TensorIndex():
            return True
        case list():
            return any(map(_holds_tensors, value))
        case dict():
            return any(map(_holds_tensors, value.values()))
        case _:
            return False


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One call of a layer in its configuration."""

    inputs: tuple[TensorRef, ...]
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class KerasLayer:
    """A layer, or a model used as one (with `layers`, and inputs and outputs if it is functional).

    name: after those of the models around it, with `/` between them. key: its positions in the lists of layers, from the top.
    is_foreign: whether its class is not Keras's own.
    """

    name: str
    own_name: str
    type: str
    config: Mapping[str, Json]
    key: tuple[int, ...] = ()
    is_operation: bool = False
    is_foreign: bool = False
    nodes: tuple[NodeConfig, ...] = ()
    by_keras_3: bool = False
    layers: tuple[KerasLayer, ...] = ()
    inputs: tuple[TensorRef, ...] = ()
    outputs: tuple[TensorRef, ...] = ()

    @property
    def is_model(self) -> bool:
        return (self.type in FUNCTIONAL or self.type == SEQUENTIAL) and not self.is_foreign


class LayerOutput(NamedTuple):
    """An output of a call, both by number."""

    call: int
    output: int = 0


@dataclass(frozen=True, slots=True)
class LayerCall:
    """One call of a layer that is not a model. number: counts the calls."""

    layer: KerasLayer
    inputs: tuple[LayerOutput, ...]
    number: int
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class KerasNetwork:
    """A model without nesting: calls in execution order; inputs come first. users: call -> those that read its outputs."""

    calls: tuple[LayerCall, ...]
    outputs: tuple[LayerOutput, ...]
    users: Mapping[int, Sequence[LayerCall]]

    @staticmethod
    def of(calls: Sequence[LayerCall], outputs: Sequence[LayerOutput]) -> KerasNetwork:
        users: dict[int, list[LayerCall]] = {}
        for call in calls:
            for number in dict.fromkeys(source.call for source in call.inputs):
                users.setdefault(number, []).append(call)
        return KerasNetwork(tuple(calls), tuple(outputs), users)

    def behind(self, number: int, passes: Callable[[LayerCall], bool]) -> Iterator[LayerCall]:
        """The calls that read a call, and those that read one that `passes`: the nearest, of which
        there are LOOKED_AT at most."""
        queue = deque([number])
        visited = {number}
        behind = _users_in_turn(self.users, queue)
        for call in islice(behind, LOOKED_AT):
            yield call
            if call.number not in visited and passes(call):
                visited.add(call.number)
                queue.append(call.number)


def _users_in_turn(users: Mapping[int, Sequence[LayerCall]], queue: deque[int]) -> Iterator[LayerCall]:
    while queue:
        yield from users.get(queue.popleft(), ())


# --- reading the configuration -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parser:
    file: str

    def fail(self, reason: str) -> NoReturn:
        hint = "save the model again, with model.save('model.keras')"
        raise ModelError.of("DV201", f"the model's configuration is invalid: {reason}", Origin(self.file), hint)

    def field(self, values: Json, name: str, kind: type, default: Json = None) -> Any:
        value = values.get(name, default) if isinstance(values, dict) else None
        if not isinstance(value, kind):
            self.fail(f"{name!r} is {_short(value)}, not a {kind.__name__}")
        return value

    def layer(self, data: Json, prefix: str, key: tuple[int, ...]) -> KerasLayer:
        type = self.field(data, "class_name", str)
        registered = str(data.get("registered_name"))
        if registered.startswith("Addons>"):
            type = registered
        config = data.get("config")
        if type == SEQUENTIAL and isinstance(config, list):  # Keras before 2.2.3
            config = {"layers": config}
        if not isinstance(config, dict):
            self.fail(f"the configuration of a {type} is {_short(config)}")
        own_name = str(data.get("name") or config.get("name") or type.lower())
        name = prefix + own_name
        raw_nodes = self.field(data, "inbound_nodes", list, [])
        shell = KerasLayer(
            name=name if key else "",
            own_name=own_name,
            type=type,
            config=config,
            key=key,
            is_operation=_is_operation(data, config, raw_nodes),
            is_foreign=is_foreign(data),
            nodes=tuple(map(self.node, raw_nodes)),
            by_keras_3=any(isinstance(node, dict) for node in raw_nodes),
        )
        return self._with_layers(shell) if shell.is_model and not shell.is_operation else shell

    def _with_layers(self, model: KerasLayer) -> KerasLayer:
        prefix = f"{model.name}/" if model.key else ""
        raw = self.field(model.config, "layers", list)
        layers = tuple(self.layer(data, prefix, (*model.key, i)) for i, data in enumerate(raw))
        inputs: tuple[TensorRef, ...] = ()
        outputs: tuple[TensorRef, ...] = ()
        if model.type in FUNCTIONAL:
            inputs = tuple(self.refs(model.config.get("input_layers")))
            outputs = tuple(self.refs(model.config.get("output_layers")))
            if not outputs:
                self.fail(f"the model {model.own_name!r} has no outputs")
        elif not layers:
            self.fail(f"the model {model.own_name!r} has no layers")
        layers, outputs = _count_from_zero(layers, outputs)
        return replace(model, layers=layers, inputs=inputs, outputs=outputs)

    def refs(self, data: Json) -> Iterator[TensorRef]:
        """The tensors in a (nested) list or dictionary of [layer, call, output]."""
        match data:
            case [str(name), int(node), int(tensor), *_]:
                yield TensorRef(name, node, tensor)
            case list():
                for item in data:
                    yield from self.refs(item)
            case dict():
                yield from self.refs([data[key] for key in sorted(data)])  # in Keras's order
            case _:
                self.fail(f"{_short(data)} names no tensor")

    def node(self, data: Json) -> NodeConfig:
        """A call: Keras 3 has {"args": ..., "kwargs": ...}, Keras 2 a list of [layer, call, output, arguments]."""
        inputs: list[TensorRef] = []
        match data:
            case {"args": list(args), "kwargs": dict(kwargs)}:
                positional = tuple(self.argument(value, inputs) for value in args)
                arguments = Arguments(
                    positional, {name: self.argument(kwargs[name], inputs) for name in sorted(kwargs)}
                )
            case list():
                entries = [data] if data and isinstance(data[0], str) else data
                first = [self.entry(entry, inputs) for entry in entries]
                keywords: dict[str, Json] = {}
                for entry in entries:
                    keywords |= next((rest for rest in entry[3:4] if isinstance(rest, dict)), {})
                arguments = Arguments((first[0] if len(first) == 1 else first,), self.old_argument(keywords, inputs))
            case _:
                self.fail(f"{_short(data)} is not a call of a layer")
        return NodeConfig(tuple(inputs), arguments)

    def argument(self, data: Json, inputs: list[TensorRef]) -> Json:
        """An argument as Keras 3 writes it; its tensors are appended to the inputs."""
        match data:
            case {"class_name": "__keras_tensor__", "config": {"keras_history": history}}:
                inputs += self.refs(history)
                return TensorIndex(len(inputs) - 1)
            case list():
                return [self.argument(item, inputs) for item in data]
            case dict():
                return {name: self.argument(data[name], inputs) for name in sorted(data)}  # in Keras's order
            case _:
                return data

    def entry(self, data: Json, inputs: list[TensorRef]) -> Json:
        """One tensor, or constant, of the first argument as Keras 2 writes it."""
        match data:
            case ["_CONSTANT_VALUE", -1, value, *_]:
                return value
            case [str(), int(), int(), *_]:
                inputs += self.refs(data)
                return TensorIndex(len(inputs) - 1)
            case _:
                self.fail(f"{_short(data)} is not a call of a layer")

    def old_argument(self, data: Json, inputs: list[TensorRef]) -> Json:
        """Another argument as Keras 2 writes it."""
        match data:
            case ["_CONSTANT_VALUE", -1, value]:
                return value
            case [str(), int(), int()]:
                inputs += self.refs(data)
                return TensorIndex(len(inputs) - 1)
            case list():
                return [self.old_argument(item, inputs) for item in data]
            case dict():
                return {name: self.old_argument(item, inputs) for name, item in data.items()}
            case _:
                return data


def _count_from_zero(
    layers: tuple[KerasLayer, ...], outputs: tuple[TensorRef, ...]
) -> tuple[tuple[KerasLayer, ...], tuple[TensorRef, ...]]:
    """Make all references to a model's calls count from 0.

    Keras counts the calls of an inner model from 1, since call 0 is on the model's own inputs: Keras 2 does so
    everywhere, Keras 3 only in the list of outputs.
    """
    inner = {layer.own_name: layer for layer in layers if layer.is_model}
    if not inner:
        return layers, outputs
    inside = [ref for layer in layers for node in layer.nodes for ref in node.inputs]
    first = {name: _first_call(layer, inside, in_outputs=False) for name, layer in inner.items()}
    first_in_outputs = {name: _first_call(layer, outputs, in_outputs=True) for name, layer in inner.items()}

    def shifted(ref: TensorRef, first: Mapping[str, int]) -> TensorRef:
        return ref._replace(call=ref.call - first.get(ref.layer, 0))

    def recounted(layer: KerasLayer) -> KerasLayer:
        nodes = (replace(node, inputs=tuple(shifted(ref, first) for ref in node.inputs)) for node in layer.nodes)
        return replace(layer, nodes=tuple(nodes))

    return tuple(map(recounted, layers)), tuple(shifted(ref, first_in_outputs) for ref in outputs)


def _first_call(model: KerasLayer, refs: Sequence[TensorRef], *, in_outputs: bool) -> int:
    """The number of an inner model's first call: as the references show it, or else as this version of Keras counts."""
    calls = {ref.call for ref in refs if ref.layer == model.own_name}
    if not calls or 0 in calls:
        return 0
    if max(calls) >= len(model.nodes):
        return 1
    if model.by_keras_3:
        return 1 if in_outputs and model.type in FUNCTIONAL else 0
    return 1 if model.type in FUNCTIONAL or _first_shape(model) else 0


def is_foreign(data: Mapping[str, Json]) -> bool:
    """Whether a class is the user's own. Only .keras files give the package of each class."""
    return "registered_name" in data and str(data.get("module")).partition(".")[0] not in KERAS_PACKAGES


def _is_operation(data: Json, config: Json, nodes: Sequence[Json]) -> bool:
    """Whether it is a function on tensors (x + y, keras.ops.relu), which Keras 3 keeps among the layers.

    Whole-model .h5 files do not give the module; but every layer has an entry `trainable` or `dtype`, and few operations
    do.
    """
    if ".ops" in str(data.get("module")):
        return True
    keras3 = any(isinstance(node, dict) for node in nodes)
    may_have_dtype = data.get("class_name") in OPERATIONS_WITH_DTYPE
    return keras3 and not {"trainable", "layers"} & set(config) and (may_have_dtype or "dtype" not in config)


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse(data: Json, file: str) -> KerasLayer:
    """The model, as the layer that holds all others. Raises ModelError when it is neither Sequential nor functional."""
    parser = _Parser(file)
    model = parser.layer(data, "", ())
    if not model.is_model:
        what = f"{'class of your own, a ' * model.is_foreign}{model.type}"
        reason = f"the model is a {what}, whose layers are connected by Python code that the file does not hold"
        raise ModelError.of("DV201", reason, Origin(file), MAKE_FUNCTIONAL)
    return model


# --- flattening ----------------------------------------------------------------------------------------------------------


class _Flattener:
    def __init__(self, file: str) -> None:
        self._fail = _Parser(file).fail
        self.calls: list[LayerCall] = []
        self._budget = Budget.of("layers")

    def call(self, layer: KerasLayer, inputs: Sequence[LayerOutput], arguments: Arguments) -> Sequence[LayerOutput]:
        """The outputs of a call of a layer or nested model, whose layers inherit the arguments that are not tensors.

        The number of a layer's outputs is not known here: the first stands for all.
        """
        if layer.is_model and not layer.is_operation:
            call = self._sequential if layer.type == SEQUENTIAL else self._functional
            return call(layer, inputs, arguments)
        self._budget.spend(_CALL)
        if self._budget.left < 0:
            self._fail(f"its layers are called more than {SHARES['layers'] // _CALL:,} times")
        self.calls.append(LayerCall(layer, tuple(inputs), len(self.calls), arguments))
        return [LayerOutput(len(self.calls) - 1)]

    def _sequential(
        self, model: KerasLayer, tensors: Sequence[LayerOutput], arguments: Arguments
    ) -> Sequence[LayerOutput]:
        for layer in model.layers:
            if layer.type != "InputLayer":
                tensors = self.call(layer, tensors, arguments)
        return tensors

    def _functional(
        self, model: KerasLayer, tensors: Sequence[LayerOutput], arguments: Arguments
    ) -> Sequence[LayerOutput]:
        if len(tensors) != len(model.inputs):
            self._fail(f"the model {model.name!r} takes {len(model.inputs)} inputs and is given {len(tensors)}")
        outputs: dict[tuple[str, int], Sequence[LayerOutput]] = {
            (ref.layer, ref.call): [tensor] for ref, tensor in zip(model.inputs, tensors, strict=True)
        }
        waiting = [
            (layer, i, node)
            for layer in model.layers
            for i, node in enumerate(layer.nodes)
            if (layer.own_name, i) not in outputs
        ]
        missing = [{ref[:2] for ref in node.inputs} - outputs.keys() for _, _, node in waiting]
        readers: dict[tuple[str, int], list[int]] = {}
        for position, needs in enumerate(missing):
            for key in needs:
                readers.setdefault(key, []).append(position)
        # The order is that of reading the list again and again: (how often it was read before, position).
        ready = [(0, position) for position, needs in enumerate(missing) if not needs]
        while ready:
            times, position = heappop(ready)
            layer, i, node = waiting[position]
            inputs = [self._take(outputs, ref) for ref in node.inputs]
            called_with = node.arguments
            inherited = Arguments(called_with.positional, {**arguments.extras, **called_with.keywords})
            outputs[layer.own_name, i] = self.call(layer, inputs, inherited)
            for reader in readers.pop((layer.own_name, i), ()):
                missing[reader].discard((layer.own_name, i))
                if not missing[reader]:
                    heappush(ready, (times + (reader < position), reader))
        if absent := sorted({name for needs in missing for name, _ in needs}):
            self._fail(f"nothing computes the outputs of {', '.join(map(repr, absent))}")
        for ref in model.outputs:
            if ref[:2] not in outputs:
                self._fail(f"the output {ref.layer!r} is not a layer of the model {model.own_name!r}")
        return [self._take(outputs, ref) for ref in model.outputs]

    def _take(self, known: Mapping[tuple[str, int], Sequence[LayerOutput]], ref: TensorRef) -> LayerOutput:
        outputs = known[ref[:2]]
        if len(outputs) == 1 and ref.output >= 0:
            return outputs[0] if outputs[0].output else outputs[0]._replace(output=ref.output)
        if not 0 <= ref.output < len(outputs):
            self._fail(f"the model {ref.layer!r} has no output {ref.output}")
        return outputs[ref.output]


def flatten(model: KerasLayer, file: str) -> KerasNetwork:
    """All calls of the model and of the models in it, inputs first."""
    flattener = _Flattener(file)
    inputs: list[LayerOutput] = []
    for layer in _input_layers(model, file):
        inputs += flattener.call(layer, (), Arguments())
    outputs = tuple(flattener.call(model, inputs, Arguments()))  # before the calls are counted
    return KerasNetwork.of(flattener.calls, outputs)


def _input_layers(model: KerasLayer, file: str) -> list[KerasLayer]:
    """The input layers of the whole model."""
    if model.type != SEQUENTIAL:
        by_name = {layer.own_name: layer for layer in model.layers}
        layers = [by_name.get(ref.layer) for ref in model.inputs]
        inputs = [layer for layer in layers if layer is not None and layer.type == "InputLayer"]
        if not inputs or len(inputs) < len(layers):
            _Parser(file).fail("an input of the model is not one of its InputLayers")
        return inputs
    first = model.layers[0]
    if first.type == "InputLayer":
        return [first]
    shape = _first_shape(first) or model.config.get("build_input_shape")
    name = f"{first.own_name}_input"
    return [KerasLayer(name, name, "InputLayer", {"batch_shape": shape}, key=(-1,))]


def _first_shape(layer: KerasLayer) -> Json:
    """The input shape that a layer, or the first layer of a model, gives."""
    shape = layer.config.get("batch_input_shape") or layer.config.get("batch_shape")
    if shape or not layer.is_model or layer.is_operation:
        return shape
    if layer.type == SEQUENTIAL:
        return _first_shape(layer.layers[0]) or layer.config.get("build_input_shape")
    by_name = {inner.own_name: inner for inner in layer.layers}
    first = by_name.get(layer.inputs[0].layer) if layer.inputs else None
    return None if first is None else _first_shape(first)
