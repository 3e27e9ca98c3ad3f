"""Holds what the statements of a source have assigned: values, and the line of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cnn_convertor.audit.sdk import BOOL, HANDLE, POINTER, TEXT, UNKNOWN, Array, Scalar, Struct, Type


class NotUnderstoodError(Exception):
    """A construct that the reader does not know; the text names it."""


class Cell:
    """A variable, field or element: a value, or parts, which are made when they are first named."""

    __slots__ = ("key", "line", "owner", "parts", "type", "value")

    def __init__(self, type: Type, key: str | int, owner: Cell | None = None) -> None:
        """key: the name of a variable; the field or index of a part."""
        self.type, self.key, self.owner = type, key, owner
        self.value: Value | None = None  # None: not assigned
        self.line = 0
        self.parts: dict[str | int, Cell] = {}

    @property
    def name(self) -> str:
        """As C++ writes it: layers_[0].input_dim[2]."""
        words, cell = list[str](), self
        while cell.owner is not None:
            words.append(f"[{cell.key}]" if isinstance(cell.key, int) else f".{cell.key}")
            cell = cell.owner
        return f"{cell.key}{''.join(reversed(words))}"

    @property
    def root(self) -> Cell:
        """The variable that it is a part of."""
        cell = self
        while cell.owner is not None:
            cell = cell.owner
        return cell

    def field(self, name: str) -> Cell:
        match self.type:
            case Struct(members=members) if name in members:
                return self._part(name, members[name])
            case Struct():
                raise NotUnderstoodError(f"{self.type.name} has no field {name}")
        if self.type is UNKNOWN:
            return self._part(name, UNKNOWN)  # a custom layer's parameter
        raise NotUnderstoodError(f"{self.name} has no known field {name}")

    def element(self, index: int) -> Cell:
        match self.type:
            case Array(element=element, length=length) if index >= 0 and (length is None or index < length):
                return self._part(index, element)
            case Array(length=length):
                raise NotUnderstoodError(f"{self.name} has {length} elements, there is no element {index}")
        if self.type is UNKNOWN:
            return self._part(index, UNKNOWN)
        if index == 0:
            return self
        if self.owner is not None and isinstance(self.key, int):
            return self.owner.element(self.key + index)
        raise NotUnderstoodError(f"an element of {self.name}")

    def _part(self, key: str | int, type: Type) -> Cell:
        if key not in self.parts:
            self.parts[key] = Cell(type, key, self)
        return self.parts[key]

    def at(self, *path: str | int) -> Value:
        """The value of a part; 0 where nothing was assigned."""
        cell: Cell | None = self
        for key in path:
            cell = cell.parts.get(key) if cell is not None else None
        return 0 if cell is None or cell.value is None else cell.value

    def assigned(self) -> Iterator[Cell]:
        """The cell and its parts, as far as they hold values."""
        if self.value is not None:
            yield self
        for part in self.parts.values():
            yield from part.assigned()

    def clear(self) -> None:
        """Make everything 0. The cells stay: references may point to them."""
        self.value = None
        for part in self.parts.values():
            part.clear()

    def copy(self, source: Cell, line: int) -> None:
        self.clear()
        self.value, self.line = source.value, line
        for key, part in source.parts.items():
            self._part(key, part.type).copy(part, line)

    def store(self, value: Value, line: int) -> str:
        """Assign a value. Gives what is wrong with it. Raises NotUnderstoodError for a value of another nature."""
        self.value, wrong = self._kept(value)
        self.line = line
        return wrong

    def _kept(self, value: Value) -> tuple[Value, str]:
        """The value as the type keeps it, and what is lost."""
        match self.type, value:
            case Scalar() as type, int():
                kept = wrap(value, type)
                if type is BOOL and value != kept:
                    return kept, f"{self.name} = {value}: true or false is expected"
                return (
                    kept,
                    "" if kept == value else f"{self.name} = {value} does not fit {type.name}: {kept} would remain",
                )
            case _, Text(text=text) if self.type in (TEXT, UNKNOWN):
                return Text(text), ""
            case _, Symbol() | 0 if self.type in (HANDLE, POINTER):
                return value, ""
            case _, Pointer() if self.type is POINTER:
                return value, ""
            case _, Cell(type=Array()) if self.type is POINTER:
                return Pointer(value), ""
        if self.type is UNKNOWN:
            return value, ""
        raise NotUnderstoodError(f"{self.name} is {self.type.name}, but {describe(value)} is not")


@dataclass(frozen=True, slots=True)
class Pointer:
    to: Cell


@dataclass(frozen=True, slots=True)
class Text:
    """A literal, or what a std::string holds. is_temporary: an assignment moves it."""

    text: str
    is_temporary: bool = False

    @property
    def is_short_temporary(self) -> bool:
        """Whether its characters lie in the std::string itself; longer ones lie on the heap."""
        return self.is_temporary and len(self.text.encode("utf-8", "replace")) < 16


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name, or something else, whose value does not matter."""

    name: str


Value: TypeAlias = int | Cell | Pointer | Text | Symbol


def load(value: Value) -> Value:
    """What a cell holds; other values are what they are. Numbers that were not assigned are 0."""
    if not isinstance(value, Cell) or isinstance(value.type, Array):
        return value
    if value.value is not None:
        return value.value
    if isinstance(value.type, Scalar) or value.type in (HANDLE, POINTER):
        return 0
    if value.type is TEXT:
        return Text("")
    return Pointer(value) if value.type is UNKNOWN else value  # unknown: an array or a function of the header


def pointed(value: Value) -> Cell:
    """The cell that a pointer or an array points to."""
    match load(value):
        case Pointer(to=Cell(type=Array()) as array) | (Cell(type=Array()) as array):
            return array.element(0)
        case Pointer(to=to):
            return to
    raise NotUnderstoodError(f"{describe(value)} does not point to anything known")


def number(value: Value) -> int:
    value = load(value)
    if isinstance(value, int):
        return int(value)
    raise NotUnderstoodError(f"{describe(value)} is not a known number")


def wrap(value: int, type: Scalar) -> int:
    """What remains of a number in an integer type."""
    if type is BOOL:
        return int(value != 0)
    return (value - type.least) % (1 << 8 * type.size) + type.least


def describe(value: Value) -> str:
    match value:
        case Text(text=text):
            return f'"{text}"'
        case Symbol() | Cell():
            return value.name
        case Pointer(to=to):
            return to.name if to.type is UNKNOWN else f"a pointer to {to.name}"
    return str(value)
