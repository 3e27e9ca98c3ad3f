"""Replaces the paths in a value, so that another computer finds the files."""

from __future__ import annotations

import dataclasses
import io
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cnn_convertor.temporary import temporary_folder

T = TypeVar("T")


def mapped(value: T, leaf: Callable[[Any], Any]) -> T:
    """The value with leaf(x) in place of each path and string x in it; records and tuples are rebuilt."""
    found: Any = value
    match found:
        case str() | Path():
            found = leaf(found)
        case dict():
            found = {key: mapped(item, leaf) for key, item in found.items()}
        case tuple() if hasattr(found, "_fields"):
            found = type(found)(*(mapped(item, leaf) for item in found))
        case tuple():
            found = tuple(mapped(item, leaf) for item in found)
        case _ if dataclasses.is_dataclass(found) and not isinstance(found, type):
            own = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
            new = {name: mapped(item, leaf) for name, item in own.items()}
            changed = {name: item for name, item in new.items() if item is not own[name] and item != own[name]}
            found = dataclasses.replace(found, **changed) if changed else found
    return found  # type: ignore[no-any-return]


def packed(value: T) -> tuple[bytes, Callable[[Any], Any]]:
    """The pickled value with absolute paths, and a leaf for `mapped` that restores the original paths, also inside strings."""
    stream = io.BytesIO()
    pickler = _Pickler(stream, pickle.HIGHEST_PROTOCOL)
    pickler.dump(value)
    return stream.getvalue(), _renamed(pickler.names)


def unpacked(content: bytes, there: Callable[[Path], Path] = lambda path: path) -> Any:
    """The value of `packed`, with there(x) in place of each path x in it."""
    return _Unpickler(io.BytesIO(content), there).load()


class _Pickler(pickle.Pickler):
    """names: absolute path -> the original."""

    def __init__(self, stream: io.BytesIO, protocol: int) -> None:
        super().__init__(stream, protocol)
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
    def __init__(self, stream: io.BytesIO, there: Callable[[Path], Path]) -> None:
        super().__init__(stream)
        self._there = there

    def persistent_load(self, path: str) -> Path:
        return self._there(Path(path))


def _renamed(names: Mapping[str, str]) -> Callable[[Any], Any]:
    """A leaf that replaces paths, also as prefixes of longer paths. names: path -> its new name; the prefix "./" is left out."""
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, longest_first)) + r")(?![\w.-])(/(?=\w)|)")

    def new(found: re.Match[str]) -> str:
        name, slash = names[found[1]], found[2]
        return "" if name == "." and slash else name + slash

    def leaf(each: Any) -> Any:
        text = pattern.sub(new, str(each)) if names else str(each)
        return type(each)(text) if text != str(each) else each

    return leaf


class Parcel(NamedTuple):
    """Files to send. contents: by absolute path."""

    contents: Mapping[str, bytes]

    @staticmethod
    def of(paths: Iterable[Path]) -> Parcel:
        """A parcel of files, and of all files in folders."""
        files = [file for path in paths for file in (path, *sorted(path.rglob("*"))) if file.is_file()]
        return Parcel({str(file.absolute()): file.read_bytes() for file in files})

    @contextmanager
    def unpacked(self) -> Iterator[tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
        """Write the files to a temporary folder. Yields a function for `unpacked`, which moves paths there, and a leaf for `mapped`."""
        with temporary_folder() as folder:
            root = str(folder.resolve())
            for name, content in self.contents.items():
                place = Path(root + name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)

            def there(path: Path) -> Path:
                moved = Path(f"{root}{path}")
                return moved if moved.exists() else path

            yield there, _renamed({root: ""})
