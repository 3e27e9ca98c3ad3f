"""Values as JSON, and back by their types: tuples, records, enumerations, paths and plain values."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Set
from datetime import date
from enum import Enum
from functools import cache
from functools import partial as bind
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_plain(value: object) -> Any:
    """What `json` can write; equal values give the same. Raises TypeError for values of other kinds."""
    match value:
        case Enum():
            return value.name
        case None | bool() | int() | float() | str():
            return value
        case Path():
            return str(value)
        case bytes():
            return value.hex()
        case date():
            return value.isoformat()
        case Mapping():
            return {str(key): to_plain(item) for key, item in value.items()}
        case Set():
            return sorted(map(to_plain, value))
        case tuple() | list():
            return [to_plain(item) for item in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return [to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
        case _:
            raise TypeError(f"no JSON for a {type(value).__name__}")


def from_plain(kind: type[T], plain: Any) -> T:
    """The value of a type that `to_plain` gave. Raises TypeError, ValueError or LookupError for any other value."""
    value: T = _reader(kind)(plain)  # type: ignore[arg-type]  # types are hashable
    return value


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """The function that reads the values of a type; a cache reads thousands of each."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (_reader(argument) for argument in arguments if argument is not type(None))
        return lambda plain: None if plain is None else inner(plain)
    if origin is tuple:
        if arguments[1:] == (...,):
            item = _reader(arguments[0])
            return lambda plain: tuple(map(item, plain))
        return bind(_items, tuple(map(_reader, arguments)), lambda *items: items)
    if issubclass(kind, Enum):
        return lambda plain: kind[plain]
    if issubclass(kind, Path):
        return Path
    if fields := _fields(kind):
        record = bind(_items, tuple(map(_reader, fields)), kind)
        return bind(_plain_record, fields, kind, record) if {int, float, str}.issuperset(fields) else record
    return bind(_scalar, kind)


def _items(readers: tuple[Callable[[Any], Any], ...], kind: Callable[..., Any], plain: Any) -> Any:
    return kind(*(reader(item) for reader, item in zip(readers, plain, strict=True)))


def _plain_record(kinds: tuple[Any, ...], kind: Callable[..., Any], other: Callable[[Any], Any], plain: Any) -> Any:
    """A record of numbers and texts, as most records are. other: reads it if a value has another type."""
    return kind(*plain) if tuple(map(type, plain)) == kinds else other(plain)


def _scalar(kind: Any, plain: Any) -> Any:
    if not isinstance(plain, (int, float) if kind is float else kind):
        raise TypeError(f"expected {kind.__name__}, not {plain!r}")
    return kind(plain)


def _fields(kind: type) -> tuple[Any, ...]:
    """The types of a record's fields; none for other types."""
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        names = list(getattr(kind, "_fields", ()))
    hints = get_type_hints(kind) if names else {}
    return tuple(hints[name] for name in names)
