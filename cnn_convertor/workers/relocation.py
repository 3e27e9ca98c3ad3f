"""Replaces the paths in a value, so that another computer finds the files."""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cnn_convertor.files.opening import bytes_of
from cnn_convertor.files.temporary import temporary_folder

T = TypeVar("T")


def mapped(value: T, leaf: Callable[[Any], Any]) -> T:
    """The value with leaf(x) in place of each path and string x in it; records and tuples are rebuilt."""
    result: Any = value
    match result:
        case str() | Path():
            result = leaf(result)
        case dict():
            result = {key: mapped(item, leaf) for key, item in result.items()}
        case tuple() if hasattr(result, "_fields"):
            result = type(result)(*(mapped(item, leaf) for item in result))
        case tuple():
            result = tuple(mapped(item, leaf) for item in result)
        case _ if dataclasses.is_dataclass(result) and not isinstance(result, type):
            values = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
            new = {name: mapped(item, leaf) for name, item in values.items()}
            changed = {name: item for name, item in new.items() if item is not values[name] and item != values[name]}
            result = dataclasses.replace(result, **changed) if changed else result
    return result  # type: ignore[no-any-return]


class Pickled(NamedTuple):
    """A pickled value. arrays: bytes of the arrays in it, which are sent without a copy."""

    content: bytes
    arrays: tuple[Any, ...]


def packed(value: object) -> tuple[Pickled, Callable[[Any], Any]]:
    """A value with absolute paths, and a leaf for `mapped` that restores the original paths, also inside strings."""
    import numpy as np  # here, as it takes long

    stream = io.BytesIO()
    buffers = list[pickle.PickleBuffer]()
    pickler = _Pickler(stream, buffers.append)
    pickler.dump(value)
    return Pickled(stream.getvalue(), tuple(np.asarray(each.raw()) for each in buffers)), _renamed(pickler.names)


def unpacked(value: Pickled, there: Callable[[Path], Path] = lambda path: path) -> Any:
    """The value of `packed`, with there(x) in place of each path x in it."""
    return _Unpickler(value, there).load()


class _Pickler(pickle.Pickler):
    """names: absolute path -> the original."""

    def __init__(self, stream: io.BytesIO, take: Callable[[pickle.PickleBuffer], Any]) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL, buffer_callback=take)
        self.names: dict[str, str] = {}

    def persistent_id(self, each: Any) -> str | None:
        if not isinstance(each, Path):
            return None
        path = str(each.absolute())
        if each.is_absolute():
            self.names.setdefault(path, path)  # it stays, also below a folder that has another name
        else:
            self.names[path] = str(each)
        return path


class _Unpickler(pickle.Unpickler):
    def __init__(self, value: Pickled, there: Callable[[Path], Path]) -> None:
        super().__init__(io.BytesIO(value.content), buffers=value.arrays)
        self._there = there

    def persistent_load(self, path: str) -> Path:
        return self._there(Path(path))


def _renamed(names: Mapping[str, str]) -> Callable[[Any], Any]:
    """A leaf that replaces paths, also as prefixes of longer paths. names: path -> its new name; the prefix "./" is left out."""
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, longest_first)) + r")(?![\w.-])(/(?=\w)|)")

    def new(match: re.Match[str]) -> str:
        name = names[match[1]]
        slash = match[2]
        return "" if name == "." and slash else name + slash

    def leaf(each: Any) -> Any:
        text = pattern.sub(new, str(each)) if names else str(each)
        return type(each)(text) if text != str(each) else each

    return leaf


def read_all(paths: Iterable[Path]) -> dict[str, bytes]:
    """The contents of files, and of all files in folders, by their absolute paths."""
    files = [file for path in paths for file in (path, *sorted(path.rglob("*"))) if file.is_file()]
    return {str(file.absolute()): bytes_of(file) for file in files}


@contextmanager
def placed(contents: Mapping[str, bytes]) -> Iterator[tuple[Callable[[Path], Path], Callable[[Any], Any]]]:
    """Write files to a temporary folder. Yields a function for `unpacked`, which moves paths there, and a leaf for `mapped`.

    contents: as in `read_all`. Raises ValueError for a path that leads out of the folder.
    """
    with temporary_folder() as folder:
        root = str(folder.resolve())
        for name, content in contents.items():
            path = Path(root + name)
            if not Path(os.path.normpath(path)).is_relative_to(root):
                raise ValueError(f"{name} leads out of the folder of the worker")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

        def there(path: Path) -> Path:
            moved = Path(f"{root}{path}")
            return moved if moved.exists() else path

        yield there, _renamed({root: ""})
