"""Reads the parts of an .onnx file: its nodes with their attributes, and where its arrays are."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.frontends import wire
from cnn_convertor.frontends.model_file import ModelFile, check_file
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.frontends.onnx.tensors import TensorFile, read_tensor
from cnn_convertor.frontends.wire import Field, WireError, WireType

DOMAINS = frozenset({"", "ai.onnx"})
OLDEST_OPSET = 7


DEEPEST = 16  # branches and loops inside each other

# An OnnxModel is the body of a loop or a branch.
Attribute: TypeAlias = (
    "float | int | bytes | Stored | OnnxModel | tuple[float, ...] | tuple[int, ...] | tuple[bytes, ...]"
)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNode:
    """A node. inputs: "" for one that is left out; behind its own are the values from outside that its bodies read.

    where: named after the first output, since nodes need no names.
    """

    type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    where: Origin


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """What the file says of an input or output. dims: 0 for a size that is left open; None: the number of axes is, too."""

    name: str
    type: int
    dims: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A file's network, or a body of one of its nodes. opset: the version of the standard operators."""

    path: Path
    opset: int
    nodes: tuple[OnnxNode, ...]
    initializers: Mapping[str, Stored]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    functions: frozenset[str]

    def held(self) -> Iterator[Stored]:
        """The large arrays that the file, or those beside it, really hold."""
        attributes = (value for node in self.nodes for value in node.attributes.values())
        for value in (*self.initializers.values(), *attributes):
            if isinstance(value, OnnxModel):
                yield from value.held()
            elif isinstance(value, Stored) and not value.is_small:
                with suppress(ModelError):  # reading it for a layer reports it
                    value.read(0, 1)
                    yield value

    def captured(self) -> tuple[str, ...]:
        """The values from outside that a body reads."""
        inside = set(self.initializers)
        inside.update(info.name for info in self.inputs)
        read: list[str] = []
        for node in self.nodes:
            inside.update(node.outputs)
            read += node.inputs
        read += [info.name for info in self.outputs]
        return tuple(name for name in dict.fromkeys(read) if name and name not in inside)


def read_model(path: Path) -> OnnxModel:
    """Raises ModelError when the file is not an ONNX model, or damaged."""
    check_file(path, "model")
    data = ModelFile(path)
    try:
        return _Reader(path, data).model()
    except WireError as error:
        problem = f"this is not an ONNX model, or a damaged one: {error}, at byte {error.offset:,}"
        raise ModelError.of("DV201", problem, Origin(str(path)), _what_it_is(data)) from None


def _what_it_is(data: wire.Data) -> str:
    head = data[:64]
    if head.startswith(b"version https://git-lfs"):
        return "this is only the pointer of a Git LFS file; fetch the file itself (git lfs pull)"
    return "the file is cut short or damaged; export or download it again"


def _sorted(nodes: Sequence[OnnxNode]) -> tuple[OnnxNode, ...]:
    """Each node behind those whose results it reads, else in the file's order. In a circle, one stays before another."""
    makers = {name: node for node in nodes for name in node.outputs if name}
    in_order: dict[int, OnnxNode] = {}
    entered: set[int] = set()
    for node in nodes:
        path = [node]
        while path:
            last = path[-1]
            if id(last) not in entered:
                entered.add(id(last))
                before = (makers[name] for name in reversed(last.inputs) if name in makers)
                path += [maker for maker in before if id(maker) not in entered]
            else:
                in_order.setdefault(id(last), last)
                path.pop()
    return tuple(in_order.values())


class _Reader:
    """Reads messages. The numbers are those of the fields in onnx.proto."""

    def __init__(self, path: Path, data: ModelFile) -> None:
        self._path = path
        self._data = data
        self._file = TensorFile(path, data)
        self._opset = 1
        self._functions = frozenset[str]()
        self._depth = 0  # of the body that is being read

    def model(self) -> OnnxModel:
        opsets: dict[str, int] = {}
        functions: set[str] = set()
        graph: Field | None = None
        for field in self._fields(Field(0, WireType.BYTES, 0, len(self._data))):
            match field.number, field.type:
                case 7, WireType.BYTES:
                    graph = field
                case 8, WireType.BYTES:
                    fields = self._first(field)
                    domain = self._text(fields[1]) if 1 in fields else ""
                    opsets[domain] = fields[2].value if 2 in fields else 0
                case 25, WireType.BYTES:
                    fields = self._first(field)
                    functions.add(self._text(fields[1]) if 1 in fields else "")
        if graph is None:
            raise WireError("it holds no graph", 0)
        self._opset = max((version for domain, version in opsets.items() if domain in DOMAINS), default=1)
        self._functions = frozenset(functions)
        return self._graph(graph)

    def _graph(self, graph: Field) -> OnnxModel:
        nodes: list[OnnxNode] = []
        initializers: dict[str, Stored] = {}
        infos: dict[int, list[ValueInfo]] = {11: [], 12: []}
        for field in self._fields(graph):
            if field.type != WireType.BYTES:
                continue
            match field.number:
                case 1:
                    nodes.append(self._node(field))
                case 5:
                    name, stored = read_tensor(self._file, field)
                    initializers[name] = stored
                case 11 | 12:
                    infos[field.number].append(self._info(field))
                case 15:
                    problem = "sparse arrays of weights cannot be read"
                    raise ModelError.of(
                        "DV201", problem, Origin(str(self._path)), "export the model with dense weights"
                    )
        inputs, outputs = map(tuple, infos.values())
        return OnnxModel(self._path, self._opset, _sorted(nodes), initializers, inputs, outputs, self._functions)

    def _body(self, graph: Field) -> OnnxModel:
        if self._depth == DEEPEST:
            raise WireError(f"there are more than {DEEPEST} graphs inside each other", graph.start)
        self._depth += 1
        body = self._graph(graph)
        self._depth -= 1
        return body

    def _node(self, message: Field) -> OnnxNode:
        texts: dict[int, list[str]] = {number: [] for number in (1, 2, 3, 4, 7)}
        attributes: dict[str, Attribute] = {}
        for field in self._fields(message):
            if field.type != WireType.BYTES:
                continue
            if field.number in texts:
                texts[field.number].append(self._text(field))
            elif field.number == 5:
                attributes.update(self._attribute(field))
        inputs, outputs, names, types, domains = texts.values()
        type, domain = "".join(types[-1:]), "".join(domains[-1:])
        layer = next((name for name in (*outputs, *names) if name), "")
        captured: dict[str, None] = {}  # as an ordered set
        for value in attributes.values():
            if isinstance(value, OnnxModel):
                captured.update(dict.fromkeys(value.captured()))
        where = Origin(str(self._path), layer, type)
        return OnnxNode(type, domain, (*inputs, *captured), tuple(outputs), attributes, where)

    def _attribute(self, message: Field) -> Iterator[tuple[str, Attribute]]:
        """The name and the value of an attribute. A value that the file leaves out is zero, as in protobuf."""
        fields: dict[int, list[Field]] = {}
        for field in self._fields(message):
            fields.setdefault(field.number, []).append(field)
        if 21 in fields:
            raise WireError("an attribute outside of a function refers to an attribute of the function", message.start)
        if 1 not in fields:
            raise WireError("an attribute has no name", message.start)
        name = self._text(fields[1][-1])
        kind = fields[20][-1].value if 20 in fields else next((n for n in KINDS if n in fields), 0)
        number = KINDS_OF_TYPES.get(kind, kind) if 20 in fields else kind
        values = fields.get(number, [])
        match number:
            case 2:
                yield name, self._floats(values)[-1] if values else 0.0
            case 3:
                yield name, self._integers(values)[-1] if values else 0
            case 4:
                yield name, self._bytes(values[-1]) if values else b""
            case 5 if values:
                yield name, read_tensor(self._file, values[-1])[1]
            case 6 if values:
                yield name, self._body(values[-1])
            case 7:
                yield name, self._floats(values)
            case 8:
                yield name, self._integers(values)
            case 9:
                yield name, tuple(map(self._bytes, values))
            case _:
                yield name, _NOTHING

    def _info(self, message: Field) -> ValueInfo:
        fields = self._first(message)
        name = self._text(fields[1]) if 1 in fields else ""
        tensor = self._first(fields[2]).get(1) if 2 in fields else None
        inner = {} if tensor is None else self._first(tensor)
        dims: tuple[int, ...] | None = None
        if 2 in inner:
            dims = ()
            for field in self._fields(inner[2]):
                if field.number == 1:
                    size = self._first(field).get(1)
                    numbers = [] if size is None else wire.varints(self._data, size)
                    dims += (max(numbers[0], 0) if numbers else 0,)
        return ValueInfo(name, inner[1].value if 1 in inner else 0, dims)

    # --- fields

    def _fields(self, message: Field) -> Iterator[Field]:
        return wire.fields(self._data, message.start, message.stop)

    def _first(self, message: Field) -> dict[int, Field]:
        """The fields of a message whose fields do not repeat."""
        if message.type != WireType.BYTES:
            raise WireError(f"field {message.number} is not a message", message.start)
        return {field.number: field for field in self._fields(message)}

    def _bytes(self, field: Field) -> bytes:
        if field.type != WireType.BYTES:
            raise WireError(f"field {field.number} is not a text", field.start)
        return self._data[field.start : field.stop]

    def _text(self, field: Field) -> str:
        return self._bytes(field).decode("utf-8", errors="replace")

    def _integers(self, fields: list[Field]) -> tuple[int, ...]:
        return tuple(number for field in fields for number in wire.varints(self._data, field))

    def _floats(self, fields: list[Field]) -> tuple[float, ...]:
        numbers: list[float] = []
        for field in fields:
            content = self._data[field.start : field.stop]
            if field.type not in (WireType.FIXED32, WireType.BYTES) or len(content) % 4:
                raise WireError(f"field {field.number} does not hold numbers", field.start)
            numbers += struct.unpack(f"<{len(content) // 4}f", content)
        return tuple(numbers)


# What stands for values of no known type, and of types that no known attribute has.
_NOTHING = OnnxModel(Path(), 1, (), {}, (), (), frozenset())
KINDS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11)  # fields of an attribute that hold its value
# The attribute's type -> that field.
KINDS_OF_TYPES = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10, 10: 11}
