"""Frozen values as JSON and back, and the JSON schema of both: all three follow from the types of the fields."""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, TypeVar

from cnn_convertor.files import json_files

T = TypeVar("T")
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_DIGITS: Final = 9  # significant ones of a number
_PLAIN: Final = {str: "string", int: "integer", bool: "boolean", types.NoneType: "null"}
_INFINITE: Final = {"Infinity": math.inf, "-Infinity": -math.inf}


class FormError(ValueError):
    """JSON that does not have the form. The message begins with the place: steps[3].cost.bytes."""


def to_json(value: object) -> str:
    """The value as JSON: an entry for each field."""
    return as_text(to_values(value))


def as_text(values: Mapping[str, object]) -> str:
    """JSON with one line for each entry, and for each item of an entry."""
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {_lines(item)}" for name, item in values.items()) + "\n}\n"


def _lines(item: object) -> str:
    match item:
        case dict() if item:
            return (
                "{\n"
                + ",\n".join(f"    {json.dumps(name)}: {json.dumps(each)}" for name, each in item.items())
                + "\n  }"
            )
        case list() if item:
            return "[\n" + ",\n".join(f"    {json.dumps(each)}" for each in item) + "\n  ]"
        case _:
            return json.dumps(item)


def to_values(value: Any) -> Any:
    """Dataclasses and named tuples as dictionaries, other tuples as lists, infinite numbers and members of enumerations as texts."""
    kind: Any = type(value)
    if kind in _PLAIN:  # first, as most are
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(f"{value:.{_DIGITS}g}")
        return "Infinity" if value > 0 else "-Infinity"  # NaN: worse than any number
    if names := _names(kind):
        return {name: to_values(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [to_values(item) for item in value]
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, Mapping):
        return {name: to_values(item) for name, item in value.items()}
    raise TypeError(f"no JSON for a {kind.__name__}")


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass or of a named tuple; none of other types."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else getattr(kind, "_fields", ())


def from_json(kind: type[T], text: str) -> T:
    """The value of a record that `to_json` wrote. Unknown entries are left out. Raises FormError."""
    try:
        values = json_files.parse(text)
    except ValueError as error:
        raise FormError(f"no JSON: {error}") from None
    return from_values(kind, values)


def from_values(kind: type[T], values: object) -> T:
    """The value of a record from what `to_values` gave. Raises FormError."""
    return typing.cast(T, _read(kind, values, ""))


def _read(kind: Any, value: Any, place: str) -> Any:
    """The value as this type has it."""
    arguments = typing.get_args(kind)
    match typing.get_origin(kind):
        case types.UnionType | typing.Union:
            (inner,) = (argument for argument in arguments if argument is not types.NoneType)
            return None if value is None else _read(inner, value, place)
        case origin if origin is tuple:
            _require(isinstance(value, list), place, "a list", value)
            kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
            _require(len(kinds) == len(value), place, f"{len(kinds)} entries", value)
            return tuple(_read(k, v, f"{place}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))
        case origin if origin is Mapping:
            _require(isinstance(value, dict), place, "an object", value)
            return {name: _read(arguments[1], item, f"{place}.{name}") for name, item in value.items()}
    if _names(kind):
        _require(isinstance(value, dict), place, "an object", value)
        return _read_fields(kind, value, place)
    if inspect.isclass(kind) and issubclass(kind, Enum):
        names = {each.name.lower(): each for each in kind}
        _require(isinstance(value, str) and value in names, place, f"one of {', '.join(names)}", value)
        return names[value]
    if kind is float:
        value = _INFINITE.get(value, value) if isinstance(value, str) else value
        _require(type(value) in (int, float), place, "a number", value)
        return float(value)
    _require(type(value) is kind, place, f"a value of the type {_PLAIN[kind]}", value)
    return value


def _read_fields(kind: Any, values: Mapping[str, Any], place: str) -> Any:
    hints = _hints(kind)
    found = {}
    for name, default in _given(kind).items():
        where = f"{place}.{name}".lstrip(".")
        if name in values:
            found[name] = _read(hints[name], values[name], where)
        elif default is MISSING:
            raise FormError(f"{where} is missing")
    return kind(**found)


def _given(kind: Any) -> dict[str, Any]:
    """What makes a record: names and defaults, MISSING where there is none."""
    if is_dataclass(kind):
        return {field.name: field.default for field in fields(kind) if field.init}
    return {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}


def _require(holds: bool, place: str, expected: str, found: object) -> None:
    if not holds:
        raise FormError(f"{place or 'the file'}: expected {expected}, found {json.dumps(found)[:60]}")


def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


# --- the schema ----------------------------------------------------------------------------------------------------------


def json_schema(kind: type, title: str) -> str:
    """The JSON schema of what `to_json` writes. Descriptions are the docstrings of the classes."""
    definitions: dict[str, Any] = {}
    top = _schema_of(kind, definitions)
    values = {"$schema": DIALECT, "title": title, **top, "$defs": dict(sorted(definitions.items()))}
    return json.dumps(values, indent=2) + "\n"


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    arguments = typing.get_args(kind)
    match typing.get_origin(kind):
        case types.UnionType | typing.Union:
            return {"anyOf": [_schema_of(argument, definitions) for argument in arguments]}
        case origin if origin is tuple and arguments[1:] == (...,):
            return {"type": "array", "items": _schema_of(arguments[0], definitions)}
        case origin if origin is tuple:
            items = [_schema_of(argument, definitions) for argument in arguments]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        case origin if origin is Mapping:
            return {"type": "object", "additionalProperties": _schema_of(arguments[1], definitions)}
    if _names(kind):
        name = typing.cast(type, kind).__name__
        if name not in definitions:
            definitions[name] = {}  # a place, for a class that contains itself
            definitions[name] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return {"enum": [each.name.lower() for each in kind]}
    if kind is float:
        return {"anyOf": [{"type": "number"}, {"enum": list(_INFINITE)}]}
    return {"type": _PLAIN[kind]}


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = _hints(kind)
    return {
        "description": " ".join((inspect.getdoc(kind) or "").split()),
        "type": "object",
        "properties": {name: _schema_of(hints[name], definitions) for name in _names(kind)},
        "required": list(_names(kind)),
    }
