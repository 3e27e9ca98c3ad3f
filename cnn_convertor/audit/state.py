"""What the statements of a source have said so far: values of fields, and the line of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from cnn_convertor.audit.structs import BOOL, LAYER, POINTER, U64, Array, Opaque, Scalar, Type

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Something that can be assigned to. The path leads from the network, or from a local variable, to it."""

    path: Path
    type: Type

    def __str__(self) -> str:
        text = ""
        for step in self.path[1:] if self.path[0] == "member" else self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text


@dataclass(frozen=True, slots=True)
class Pointer:
    to: Place


@dataclass(frozen=True, slots=True)
class Text:
    """A literal, or what a std::string holds. is_temporary: an assignment moves it."""

    text: str
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name, or something else, whose value nobody needs to know."""

    name: str


Value: TypeAlias = int | Place | Pointer | Text | Symbol

LAYERS = Place(("layers_",), Array(LAYER, None))
OUTPUTS = Place(("output_layers_",), Array(POINTER, None))
MEMBERS: dict[str, Place] = {
    "layers_": LAYERS,
    "output_layers_": OUTPUTS,
    "is_weight_transposed": Place(("is_weight_transposed",), BOOL),
}
HANDLES = {"io_mem_", "weights_mem_", "io_ptr_"}
# What the arguments of the base class's methods say; places that no source can name.
WEIGHT_BYTES = Place(("ReserveMemory", "weights"), U64)
IO_BYTES = Place(("ReserveMemory", "io"), U64)
LAYER_COUNT = Place(("set_num_layers",), U64)
OUTPUT_COUNT = Place(("set_num_output_layers",), U64)


class NotUnderstoodError(Exception):
    """A construct that the reader does not know; the text says which."""


@dataclass(slots=True)
class State:
    """The values of all places, as they are assigned."""

    values: dict[Path, Value] = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)

    def load(self, value: Value) -> Value:
        """What is in a place; other values are what they are. Numbers that nobody assigned are 0."""
        if not isinstance(value, Place) or isinstance(value.type, Array):
            return value
        found = self.values.get(value.path)
        if found is not None:
            return found
        match value.type:
            case Scalar() | Opaque(name="pointer" | "dmp_dv_mem" | "function"):
                return 0
            case Opaque(name="std::string"):
                return Text("")
            case Opaque():  # a member that the header declares: an array, or a function
                return Pointer(value)
        return value

    def clear(self, place: Place) -> None:
        """Make everything inside the place 0."""
        depth = len(place.path)
        for path in [path for path in self.values if path[:depth] == place.path]:
            del self.values[path]
            self.lines.pop(path, None)

    def copy(self, source: Place, target: Place, line: int) -> None:
        """Assign one structure to another."""
        depth = len(source.path)
        found = {path: value for path, value in self.values.items() if path[:depth] == source.path}
        self.clear(target)
        for path, value in found.items():
            self.values[target.path + path[depth:]] = value
            self.lines[target.path + path[depth:]] = line

    def store(self, place: Place, value: Value, line: int) -> str:
        """Assign a value. What it says is wrong with the value; empty when nothing is."""
        value, wrong = _fitted(place, value)
        self.values[place.path] = value
        self.lines[place.path] = line
        return wrong


def _fitted(place: Place, value: Value) -> tuple[Value, str]:
    """The value as the place's type keeps it, and what is lost. Raises NotUnderstoodError for one of another nature."""
    match place.type, value:
        case Scalar(name="bool"), int():
            return int(value != 0), "" if value in {0, 1} else f"{place} = {value}: true or false is expected"
        case Scalar() as type, int():
            if type.least <= value <= type.most:
                return value, ""
            kept = wrap(value, type)
            return kept, f"{place} = {value} does not fit {type}: {kept} would remain"
        case Opaque(name="std::string"), Text(text=text):
            return Text(text), ""
        case Opaque(name="dmp_dv_mem"), Symbol() | 0:
            return value, ""
        case Opaque(name="pointer" | "function"), Pointer() | Symbol() | 0:
            return value, ""
        case Opaque(name="pointer"), Place(type=Array()):
            return Pointer(value), ""
        case Opaque(name="unknown type"), _:
            return value, ""
    raise NotUnderstoodError(f"{place} is {place.type}, but {describe(value)} is not")


def wrap(value: int, type: Scalar) -> int:
    """What remains of a number in an integer type."""
    if type is BOOL:
        return int(value != 0)
    bits = 8 * type.size
    value &= (1 << bits) - 1
    return value - (1 << bits) if value > type.most else value


def number(value: Value) -> int:
    """The value as a number. Raises NotUnderstoodError when it is none."""
    if isinstance(value, int):
        return int(value)
    raise NotUnderstoodError(f"{describe(value)} is not a number that can be told")


def describe(value: Value) -> str:
    match value:
        case Text(text=text):
            return f'"{text}"'
        case Symbol(name=name):
            return name
        case Pointer(to=to):
            return str(to) if to.path[0] == "member" else f"a pointer to {to}"
    return str(value)
