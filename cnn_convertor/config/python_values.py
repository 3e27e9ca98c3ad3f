"""The values of fields as Python code gives them: what an ini file would hold as text, numbers, flags, sequences, paths."""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import Enum
from numbers import Integral, Real
from pathlib import Path
from typing import Final

from cnn_convertor.config.ini_file import respelling
from cnn_convertor.config.keys import Key
from cnn_convertor.config.kinds import FILE, FOLDER, LAYER_NAMES, MODEL, STAGES
from cnn_convertor.devices.registry import is_hardware
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.frontends.frontend import Frontend

_PATHS: Final = (FILE, FOLDER, MODEL)
_NAMES: Final = (LAYER_NAMES, STAGES)


def field_value(key: Key, value: object, where: Origin) -> object:
    """The value of a key's field. where: to name in messages.

    Raises UsageError for a value that the key cannot have, TypeError for one of a type that no key has.
    """
    if value is None or isinstance(value, Frontend | Enum) or is_hardware(value):
        return value  # not given, or what parsing gives
    if key.kind in _PATHS and isinstance(value, str | os.PathLike):
        if os.fspath(value).startswith("~"):
            problem = f'{key.name}: "{value}" begins with ~, which no shell replaces here'
            raise UsageError.of("DV107", problem, where, "write the whole path, or Path(...).expanduser()")
        return Path(value)
    if key.kind in _PATHS:
        raise _wrong_type(key, value)
    if key.kind in _NAMES and not isinstance(value, str) and isinstance(value, Iterable):
        return _names(key, value)
    text = _text(key, value)
    try:
        return key.kind.parse(text, Path())
    except ValueError:
        problem = f'{key.name}: expected {key.kind.expected}, not "{text}"'
        raise UsageError.of("DV106", problem, where, respelling(key, text)) from None


def _names(key: Key, value: Iterable[object]) -> tuple[str, ...]:
    names = tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise _wrong_type(key, value)
    return tuple(map(str, names))


def _text(key: Key, value: object) -> str:
    """What the ini file would have."""
    match value:
        case str() | os.PathLike():
            return os.fspath(value)
        case bool():
            return str(int(value))
        case Real():
            return _number(value)
        case Iterable() if numbers := tuple(value):
            if all(isinstance(number, Real) for number in numbers):
                return ", ".join(map(_number, numbers))
        case Iterable():
            return ""
    raise _wrong_type(key, value)


def _number(value: Real) -> str:
    return str(int(value) if isinstance(value, Integral) else float(value))


def _wrong_type(key: Key, value: object) -> TypeError:
    return TypeError(f"{key.name}: expected {key.kind.expected}, not a value of type {type(value).__qualname__}")
