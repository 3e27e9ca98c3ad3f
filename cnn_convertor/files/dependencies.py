"""Which files a conversion reads, as a dependency file for Make and Ninja."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any, Final

import cnn_convertor
from cnn_convertor.errors import Origin, UsageError

_VERSION: Final = str(cnn_convertor.__file__)  # it changes with the version
_PACKAGE: Final = Path(_VERSION).resolve().parent
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@contextmanager
def recorded(*others: Path | None) -> Iterator[set[Path]]:
    """The files that Python opens for reading inside the block: models, their external data, custom layers, profiles.

    Without those of this package and of the Python installation. A compiled module stands for its source.
    others: files, and folders of files, that libraries open by themselves, like images; None stands for nothing.
    """
    opened: set[str] = set()
    recordings = _recordings()
    recordings.append(opened)
    files: set[Path] = set()
    try:
        yield files
    finally:
        recordings[:] = [names for names in recordings if names is not opened]
        files.update(path for path in map(_source, opened) if _is_input(path))
        for other in filter(None, others):
            files.update(path for path in (other, *other.rglob("*")) if path.is_file())


@cache
def _recordings() -> list[set[str]]:
    """The sets that take the names of files which are opened for reading."""
    recordings: list[set[str]] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if recordings and event == "open" and isinstance(arguments[0], str | bytes) and not arguments[2] & _WRITES:
            for names in recordings:
                names.add(os.fsdecode(arguments[0]))

    sys.addaudithook(hook)  # audit hooks cannot be removed, so install only one
    return recordings


def _source(name: str) -> Path:
    """The file, or the source of a compiled module."""
    path = Path(name)
    if path.suffix == ".pyc" and path.parent.name == "__pycache__":
        with suppress(ValueError):
            return Path(source_from_cache(name))
    return path


def _is_input(path: Path) -> bool:
    target = path.resolve()
    installed = (
        _PACKAGE,
        _PACKAGE.parent / "templates",
        *(Path(prefix).resolve() for prefix in {sys.prefix, sys.base_prefix}),
    )
    return target.is_file() and not any(target.is_relative_to(root) for root in (*installed, Path("/proc")))


def depfile(target: Path, inputs: Iterable[Path], *folders: Path | None) -> str:
    """A rule in the syntax that Make and Ninja share. The inputs are sorted, and end with the convertor's version.

    Each input has an empty rule of its own, so that Make runs the convertor when an input no longer exists.
    folders: whose files are not inputs: the outputs, which a conversion reads to see what changes, and a cache.
    Raises UsageError for a path that Make or Ninja would read as something else.
    """
    own = [folder.resolve() for folder in folders if folder is not None]
    names = {str(path) for path in inputs if not any(path.resolve().is_relative_to(folder) for folder in own)}
    needed = [*sorted(names), _VERSION]
    paths = [_escape(path) for path in needed]
    rule = f"{_escape(str(target))}:" + "".join(f" \\\n  {path}" for path in paths) + "\n"
    return rule + "".join(f"\n{path}:\n" for path in paths)


# Operators, wildcards and functions of Make's rules, and what ends a path for Ninja. A semicolon would begin a command.
_OTHERWISE: Final = re.compile(r"[\x00-\x1f\x7f;=|*?\[\]\\:%<>^`'\"&]|^~|\)$")


def _escape(path: str) -> str:
    """As GCC writes paths: Make and Ninja take a backslash before a space and a hash, and two dollars for one."""
    if match := _OTHERWISE.search(path):
        problem = f"a dependency file cannot name this path, because Make or Ninja would misread {match.group()!r}"
        raise UsageError.of("DV119", problem, Origin(path), "rename the file or the folder")
    return path.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
