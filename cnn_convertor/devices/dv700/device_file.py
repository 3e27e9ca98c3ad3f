"""Reads the profile of a device: one of the package, the user's .toml file, or the board.json of a probe."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from cnn_convertor.devices.dv700.board_file import BoardFileError, with_board
from cnn_convertor.devices.dv700.profile import FIGURES, Profile
from cnn_convertor.devices.figures import Figure
from cnn_convertor.errors import Origin, Problem, UsageError, did_you_mean
from cnn_convertor.files import json_files
from cnn_convertor.files.limited import TooLargeError, contents

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_DEVICE = "dv700"
NAMES = (DEFAULT_DEVICE, "zia-c2", "zia-c3", "dv740")
LARGEST_FILES = {".toml": 1 << 16, ".json": 10_000_000}  # bytes; reading TOML takes the square of a key's length
_DEEPEST = 20  # tables and lists in each other
_FOLDER = Path(__file__).parent / "boards"
_HINT = "docs/devices.md describes device files"
_READERS: Mapping[str, Callable[[str], Any]] = {
    ".toml": lambda text: _shallow(tomllib.loads(text)),
    ".json": lambda text: json_files.parse(text, objects=_without_repeats),
}


def read_profile(device: str, folder: Path) -> Profile:
    """The profile of that name, or of the file (.toml or .json) of that path in the folder. Raises UsageError."""
    if device.lower() in NAMES:
        return _built_in(device.lower())
    path = folder / device
    if path.suffix.lower() not in _READERS:
        problem = f'there is no device "{device}"{did_you_mean(device, NAMES)}'
        raise UsageError.of("DV150", problem, hint=f"{', '.join(NAMES)}, or the path of a .toml or .json file")
    values, wrong = _decoded(path), list[str]()
    if not isinstance(values, dict):
        wrong.append("expected an object")
    elif path.suffix.lower() == ".toml":
        profile = _of_user(path, values, wrong)
    else:
        try:
            profile = with_board(_built_in(DEFAULT_DEVICE), path.name, values)
        except BoardFileError as error:
            wrong += error.reasons
    if wrong:
        raise UsageError([Problem("DV150", text, Origin(str(path)), _HINT) for text in wrong])
    return profile


@cache
def _built_in(name: str) -> Profile:
    values = _decoded(_FOLDER / f"{name}.toml")
    figures: dict[str, Any] = {key: _figure(key, entry, name) for key, entry in values["device"].items()}
    return Profile(name=name, title=values["title"], **figures)


def _decoded(path: Path) -> Any:
    """The values in a file. Raises UsageError."""
    where = Origin(str(path))
    try:
        suffix = path.suffix.lower()
        return _READERS[suffix](contents(path, LARGEST_FILES[suffix]).decode())
    except OSError as error:
        problem = f"the device file cannot be read: {error.strerror}"
        hint = "paths are relative to the ini file; for --device, to the current folder"
        raise UsageError.of("DV150", problem, where, hint) from None
    except TooLargeError as error:
        raise UsageError.of("DV150", f"this is not a device file: {error}", where) from None
    except (ValueError, RecursionError) as error:
        raise UsageError.of("DV150", f"this is not {path.suffix[1:].upper()}: {error}", where, _HINT) from None


def _shallow(values: dict[str, Any]) -> dict[str, Any]:
    """The same. Raises ValueError where tables are in tables so often that no message could show one."""
    level: list[Any] = [values]
    for _ in range(_DEEPEST):
        tables = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [value for table in tables for value in table]
    if level:
        raise ValueError(f"it has more than {_DEEPEST} tables and lists in each other")
    return values


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError for a repeated key, of which the last would win."""
    names = [name for name, _ in pairs]
    if len(names) > len(set(names)):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the key "{repeated}" appears twice')
    return dict(pairs)


def _of_user(path: Path, values: Mapping[str, Any], wrong: list[str]) -> Profile:
    """The profile in a user's file. Appends what is wrong."""
    misplaced = FIGURES.keys() & values
    wrong += [f'the key "{name}" belongs to the table [device]' for name in sorted(misplaced)]
    wrong += _unknown([name for name in values if name not in misplaced], ("title", "base", "device"), "")
    texts = {key: values.get(key, default) for key, default in (("title", path.name), ("base", DEFAULT_DEVICE))}
    wrong += [f"{key}: expected a text, not {text!r}" for key, text in texts.items() if not isinstance(text, str)]
    base, device = texts["base"], values.get("device", {})
    if isinstance(base, str) and base not in NAMES:
        wrong.append(f'base: there is no device "{base}"; known: {", ".join(NAMES)}')
    if not isinstance(device, dict):
        wrong.append(f"device: expected a table, not {device!r}")
        device = {}
    wrong += _unknown(device, FIGURES, "device: ")
    entries = {name: entry for name, entry in device.items() if name in FIGURES}
    for name, entry in entries.items():
        wrong += _flaws(name, entry)
    figures = {} if wrong else {name: _figure(name, entry, path.name) for name, entry in entries.items()}
    profile = _built_in(base if base in NAMES else DEFAULT_DEVICE).with_figures(figures)
    return replace(profile, name=path.stem, title=texts["title"])


def _flaws(name: str, entry: object) -> Iterator[str]:
    """What is wrong with a figure as a file gives it."""
    kind = FIGURES[name]
    if isinstance(entry, dict):
        yield from _unknown(entry, ("value", "source", "assumed"), f"device.{name}: ")
        if not isinstance(entry.get("source", ""), str):
            yield f"device.{name}: source: expected a text, not {entry['source']!r}"
        if not isinstance(entry.get("assumed", False), bool):
            yield f"device.{name}: assumed: expected true or false, not {entry['assumed']!r}"
        if "value" not in entry:
            yield f"device.{name}: value is missing: expected {kind.expected}"
            return
        entry = entry["value"]
    if not kind.accepts(entry):
        value = str(entry) if isinstance(entry, date) else repr(entry)
        yield f"device.{name}: expected {kind.expected}, not {value}"


def _figure(name: str, entry: Any, source: str) -> Figure[Any]:
    """A figure as a file gives it: a value, or a table with its source."""
    values = entry if isinstance(entry, dict) else {"value": entry}
    return Figure(FIGURES[name].read(values["value"]), values.get("source", source), values.get("assumed", False))


def _unknown(values: Iterable[str], known: Iterable[str], place: str) -> list[str]:
    listed = f"; known: {', '.join(known)}"
    return [f'{place}there is no key "{key}"{did_you_mean(key, known) or listed}' for key in values if key not in known]
