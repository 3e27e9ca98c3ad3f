"""Which files a command reads: kept from being replaced by its outputs, and as a dependency file for Make and Ninja."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import source_from_cache
from itertools import chain
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
    files: set[Path] = set()
    opened: set[str] = set()
    try:
        with _recording(opened):
            yield files
    finally:
        files.update(path for path in map(_source, opened) if _is_input(path))
        for other in filter(None, others):
            files.update(path for path in (other, *other.rglob("*")) if path.is_file())


@contextmanager
def inputs_kept(*outputs: Path) -> Iterator[None]:
    """Let nothing that is written in the block replace a file that the block reads.

    outputs: files that the block writes at its end; what it writes earlier waits until none of them is an input.
    """
    with _recording(set()):
        _outputs().append(outputs)
        try:
            yield
        finally:
            _outputs().pop()


@contextmanager
def unrecorded() -> Iterator[None]:
    """What is read in the block may be replaced: it is an earlier output."""
    recordings = _recordings()
    paused = recordings[:]
    recordings.clear()
    try:
        yield
    finally:
        recordings[:] = paused


def require_kept(written: Iterable[Path], read: Iterable[Path] = ()) -> None:
    """Raises UsageError for a file that is to be written and that the command has read, by whatever name or link.

    read: files that libraries open by themselves, or that are read later.
    """
    inputs = _inputs(read)
    for path in chain(written, *_outputs()):
        name = inputs.get(identity_of(path))
        if name is not None:
            problem = f'this output would replace "{name}", which the command reads'
            hint = "name another file for the output; for files of a conversion, another name or output_folder"
            raise UsageError.of("DV100", problem, Origin(str(path)), hint)


def without_inputs(paths: Iterable[Path]) -> list[Path]:
    """The files that the command has not read."""
    inputs = _inputs()
    return [path for path in paths if identity_of(path) not in inputs]


def _inputs(others: Iterable[Path] = ()) -> dict[tuple[int, int] | None, str]:
    """The identity of each file that the command has read -> a name of it."""
    inputs: dict[tuple[int, int] | None, str] = {}
    for name in sorted({*map(str, others)}.union(*_recordings())):
        inputs.setdefault(identity_of(Path(name)), name)
    inputs.pop(None, None)
    return inputs


def identity_of(path: Path) -> tuple[int, int] | None:
    """The same for all names of a file, also hard links; None unless it is a regular file. A device keeps what it is."""
    with suppress(OSError, ValueError):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            return status.st_dev, status.st_ino
    return None


@contextmanager
def _recording(opened: set[str]) -> Iterator[None]:
    recordings = _recordings()
    recordings.append(opened)
    try:
        yield
    finally:
        recordings[:] = [names for names in recordings if names is not opened]


@cache
def _outputs() -> list[tuple[Path, ...]]:
    """The files that each block is to write at its end."""
    return []


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
    inside = [folder.resolve() for folder in folders if folder is not None]
    names = {str(path) for path in inputs if not any(path.resolve().is_relative_to(folder) for folder in inside)}
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
