"""The parameter structs of custom layers."""

from typing import NamedTuple

from cnn_convertor.codegen.cpp import literal
from cnn_convertor.codegen.description import map_view
from cnn_convertor.devices.program import CustomCall, Layer, Program, Tensor
from cnn_convertor.escaping import identifier, member, text
from cnn_convertor.ir.ops import Parameter

_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (bool, int),
    "float": (bool, int, float),
}  # narrowest first


class _Field(NamedTuple):
    """A member of a parameter struct that holds its value in every layer. length: None for a single value."""

    name: str
    kind: str
    length: int | None

    @property
    def declaration(self) -> str:
        return f"{self.kind} {self.name}" if self.length is None else f"{self.kind} {self.name}[{self.length}]"

    def initializer(self, value: Parameter) -> str:
        items = [literal(self.kind, item) for item in _items(value)]
        return items[0] if self.length is None else f"{{{', '.join(items)}}}"


def custom_types(program: Program) -> list[dict[str, object]]:
    """The custom types in the network, each with the members of its struct."""
    types = dict.fromkeys(layer.custom.type for layer in program.layers if layer.custom is not None)
    return [
        {
            "type": t,
            "identifier": identifier(t),
            "fields": list(_fields(program, t).values()),
            "inputs": _most_inputs(program, t),
        }
        for t in types
    ]


def parameters(program: Program, layer: Layer, custom: CustomCall) -> str:
    """The initializer of a layer's parameter struct. Parameters and inputs that the layer lacks are zero."""
    values = dict(custom.parameters)
    fields = _fields(program, custom.type)
    items = [field.initializer(values[name]) if name in values else "{}" for name, field in fields.items()]
    if layer.inputs:
        maps = zip(layer.inputs, layer.sources, strict=True)
        items.append(f"{{{', '.join(_map_literal(program, tensor, source) for tensor, source in maps)}}}")
    return ", ".join(items)


def _most_inputs(program: Program, custom_type: str) -> int:
    """The largest number of maps that a layer of a type reads."""
    layers = (layer for layer in program.layers if layer.custom is not None and layer.custom.type == custom_type)
    return max(len(layer.inputs) for layer in layers)


def _map_literal(program: Program, tensor: Tensor, source: int | None) -> str:
    """The initializer of a Map: an input of a layer, with the name of what wrote it."""
    if source is None:
        ((writer, _),) = program.inputs  # of several, each has a layer of its own
    else:
        writer = program.layers[source].name
    map = map_view(writer, tensor)
    return f"{{{text(map['name'])}, {map['numbers']}, {text(map['layout'])}}}"


def dims_of(tensor: Tensor) -> tuple[int, ...]:
    """W, H, C, as the SDK counts, or the length of a vector."""
    height, width, channels = tensor.shape
    return (channels,) if tensor.shape.is_vector else (width, height, channels)


def _fields(program: Program, custom_type: str) -> dict[str, _Field]:
    """Parameter name -> member, in the order in which the layers name them; lists are as long as the longest."""
    values: dict[str, list[Parameter]] = {}
    for layer in program.layers:
        if layer.custom is not None and layer.custom.type == custom_type:
            for name, value in layer.custom.parameters:
                values.setdefault(name, []).append(value)
    fields = {}
    for name, settings in values.items():
        items = [item for value in settings for item in _items(value)]
        kind = next(k for k, types in _KINDS.items() if all(isinstance(item, types) for item in items))
        is_list = any(isinstance(value, tuple) for value in settings)
        fields[name] = _Field(member(name), kind, max(1, *(len(_items(v)) for v in settings)) if is_list else None)
    return fields


def _items(value: Parameter) -> tuple[bool | int | float, ...]:
    return value if isinstance(value, tuple) else (value,)
