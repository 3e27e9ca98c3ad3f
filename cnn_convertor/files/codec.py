"""Frozen values as JSON and back, and the JSON schema of both: all follow from the types of the fields."""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
Schema: TypeAlias = dict[str, Any]
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_DIGITS: Final = 9  # significant ones of a number
_PLAIN: Final = {str: "string", int: "integer", bool: "boolean", types.NoneType: "null"}
_INFINITE: Final = {"Infinity": math.inf, "-Infinity": -math.inf}


class FormError(ValueError):
    """JSON that does not have the form. The message begins with the path: steps[3].cost.bytes."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem, path)
        self.problem = problem
        self.path = path

    def __str__(self) -> str:
        return f"{self.path or 'the file'}{self.problem}"

    def inside(self, outer: str) -> FormError:
        """The error as the value around it sees it."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return FormError(self.problem, f"{outer}{dot}{self.path}")


# --- writing -------------------------------------------------------------------------------------------------------------


def to_json(value: object) -> str:
    """A record as JSON: an entry for each field."""
    return as_text(to_values(value))


def as_text(values: Mapping[str, object]) -> str:
    """JSON with one line for each entry, and for each item of an entry."""
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {_lines(item)}" for name, item in values.items()) + "\n}\n"


def _lines(item: object) -> str:
    match item:
        case dict() if item:
            entries = (f"    {json.dumps(name)}: {json.dumps(each)}" for name, each in item.items())
            return "{\n" + ",\n".join(entries) + "\n  }"
        case list() if item:
            return "[\n" + ",\n".join(f"    {json.dumps(each)}" for each in item) + "\n  ]"
        case _:
            return json.dumps(item)


def to_values(value: Any, *, exact: bool = False) -> Any:
    """What `json` can write; equal values give the same. exact: numbers keep all digits. Raises TypeError for other kinds.

    Records become dictionaries, tuples lists, sets sorted lists, members of enumerations their names, and infinite numbers and
    the rest texts.
    """
    kind: Any = type(value)
    if kind in _PLAIN:  # first, as most are
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value if exact else float(f"{value:.{_DIGITS}g}")
        return "Infinity" if value > 0 else "-Infinity"  # NaN: worse than any number
    if names := _names(kind):
        return {name: to_values(getattr(value, name), exact=exact) for name in names}
    match value:
        case tuple() | list():
            return [to_values(item, exact=exact) for item in value]
        case Enum():
            return value.name.lower()
        case Mapping():
            return {str(name): to_values(item, exact=exact) for name, item in value.items()}
        case Set():
            return sorted(to_values(item, exact=exact) for item in value)
        case Path():
            return str(value)
        case bytes():
            return value.hex()
        case date():
            return value.isoformat()
        case _:
            raise TypeError(f"no JSON for a {kind.__name__}")


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass or of a named tuple; none of other types."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else getattr(kind, "_fields", ())


# --- reading, and the schema ---------------------------------------------------------------------------------------------


def from_values(kind: type[T], values: object) -> T:
    """The value of a type from what `to_values` gave. Unknown entries are left out. Raises FormError."""
    return typing.cast(T, _form_of(typing.cast(Any, kind)).read(values))


def json_schema(kind: type, title: str) -> str:
    """The JSON schema of what `to_json` writes. Descriptions are the docstrings of the classes."""
    definitions: Schema = {}
    top = _form_of(kind).schema(definitions)
    values = {"$schema": DIALECT, "title": title, **top, "$defs": dict(sorted(definitions.items()))}
    return json.dumps(values, indent=2) + "\n"


class _Form(NamedTuple):
    """The JSON of a type. read: its value. schema: its part of a schema, whose definitions it adds to."""

    read: Callable[[Any], Any]
    schema: Callable[[Schema], Schema]


@cache
def _form_of(kind: Any) -> _Form:
    """The form of a type; a cache of conversions reads thousands of values of each."""
    arguments = typing.get_args(kind)
    match typing.get_origin(kind):
        case types.UnionType | typing.Union:
            return _union(arguments)
        case origin if origin is tuple and arguments[1:] == (...,):
            item = _form_of(arguments[0])
            return _Form(
                lambda value: _items(value, item=item),
                lambda definitions: {"type": "array", "items": item.schema(definitions)},
            )
        case origin if origin is tuple:
            return _fixed(tuple(map(_form_of, arguments)))
        case origin if origin is Mapping:
            item = _form_of(arguments[1])
            return _Form(
                lambda value: _entries(value, item),
                lambda definitions: {"type": "object", "additionalProperties": item.schema(definitions)},
            )
    return _record(kind) if _names(kind) else _scalar(kind)


def _union(kinds: tuple[Any, ...]) -> _Form:
    """One of several types: None, a tuple for a list, and the first other one for the rest."""
    types_but_none = [each for each in kinds if each is not types.NoneType]
    plain = _form_of(types_but_none[0])
    several = next((_form_of(each) for each in types_but_none if typing.get_origin(each) is tuple), plain)
    has_none = len(types_but_none) < len(kinds)
    cases = [_form_of(each) for each in kinds]
    by_type = {each: _form_of(each) for each in types_but_none if each in _PLAIN}

    def read(value: Any) -> Any:
        if value is None and has_none:
            return None
        return (several if isinstance(value, list) else by_type.get(type(value), plain)).read(value)

    return _Form(read, lambda definitions: {"anyOf": [case.schema(definitions) for case in cases]})


def _scalar(kind: Any) -> _Form:
    """A type without parts."""
    if issubclass(kind, Enum):
        members = {each.name.lower(): each for each in kind}
        return _Form(lambda value: _member(members, value), lambda _: {"enum": list(members)})
    if kind is float:
        return _Form(_number, lambda _: {"anyOf": [{"type": "number"}, {"enum": list(_INFINITE)}]})
    if kind is Path:
        text = _scalar(str)
        return text._replace(read=lambda value: Path(text.read(value)))

    def read(value: object) -> object:
        return value if type(value) is kind else _refuse(f"a value of the type {_PLAIN[kind]}", value)

    return _Form(read, lambda _: {"type": _PLAIN[kind]})


def _fixed(forms: tuple[_Form, ...]) -> _Form:
    """A tuple with a type for each item."""

    def read(value: Any) -> tuple[Any, ...]:
        if isinstance(value, list) and len(value) != len(forms):
            _refuse(f"{len(forms)} entries", value)
        return _items(value, *forms)

    def schema(definitions: Schema) -> Schema:
        items = [form.schema(definitions) for form in forms]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    return _Form(read, schema)


def _record(kind: Any) -> _Form:
    """A dataclass or a named tuple. Its fields are looked up late, as it may contain itself."""

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            _refuse("an object", value)
        values = {}
        for name, (form, default) in _fields(kind).items():
            if name in value:
                values[name] = _inner(form, value[name], name)
            elif default is MISSING:
                raise FormError(" is missing", name)
        return kind(**values)

    def schema(definitions: Schema) -> Schema:
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # a place, for a class that contains itself
            hints = typing.get_type_hints(kind)
            definitions[kind.__name__] = {
                "description": " ".join((inspect.getdoc(kind) or "").split()),
                "type": "object",
                "properties": {name: _form_of(hints[name]).schema(definitions) for name in _names(kind)},
                "required": list(_names(kind)),
            }
        return {"$ref": f"#/$defs/{kind.__name__}"}

    return _Form(read, schema)


@cache
def _fields(kind: Any) -> dict[str, tuple[_Form, Any]]:
    """What makes a record: forms and defaults, MISSING where there is none."""
    hints = typing.get_type_hints(kind)
    if is_dataclass(kind):
        return {each.name: (_form_of(hints[each.name]), each.default) for each in fields(kind) if each.init}
    return {name: (_form_of(hints[name]), kind._field_defaults.get(name, MISSING)) for name in kind._fields}


def _items(value: Any, *forms: _Form, item: _Form | None = None) -> tuple[Any, ...]:
    """The items of a list. item: the form of all, in place of one for each."""
    if not isinstance(value, list):
        _refuse("a list", value)
    forms = forms if item is None else (item,) * len(value)
    return tuple(_inner(form, each, i) for i, (form, each) in enumerate(zip(forms, value, strict=True)))


def _entries(value: Any, item: _Form) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse("an object", value)
    return {name: _inner(item, each, name) for name, each in value.items()}


def _inner(form: _Form, value: Any, path: str | int) -> Any:
    """A part of a value: an entry's name, or an item's number."""
    try:
        return form.read(value)
    except FormError as error:
        raise error.inside(path if isinstance(path, str) else f"[{path}]") from None


def _member(members: Mapping[str, Enum], value: object) -> Enum:
    if not isinstance(value, str) or value not in members:
        _refuse(f"one of {', '.join(members)}", value)
    return members[value]


def _number(value: Any) -> float:
    number = _INFINITE.get(value, value) if isinstance(value, str) else value
    if type(number) not in (int, float):
        _refuse("a number", value)
    return float(number)


def _refuse(expected: str, value: object) -> typing.NoReturn:
    raise FormError(f": expected {expected}, found {_shown(value)}")


def _shown(value: object) -> str:
    """The value, but not what is inside: that may be nested without end."""
    match value:
        case [_, *_]:
            return "a list"
        case dict() if value:
            return "an object"
        case _:
            return json.dumps(value)[:60]
