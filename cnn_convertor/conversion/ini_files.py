"""Finds the ini files that a command line names: files, folders and patterns."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path

from cnn_convertor.errors import Origin, UsageError


def ini_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The given files, and the ini files in the given folders, their subfolders and patterns, sorted by name.

    A file that is found again is left out. Raises UsageError for a folder or a pattern without ini files.
    """
    found: dict[Path, None] = {}
    files: list[Path] = []
    for path in paths:
        if path.is_dir() or (not path.exists() and glob.has_magic(str(path))):
            inside = [*_inside(path)]
            if not inside:
                kind = "the folder" if path.is_dir() else "the pattern"
                raise UsageError.of("DV124", f"{kind} has no .ini file", Origin(str(path)), "check the path")
            files += [file for file in inside if file.resolve() not in found]
            found |= dict.fromkeys(file.resolve() for file in inside)
        else:
            files.append(path)
            found[path.resolve()] = None
    return tuple(files)


def _inside(path: Path) -> Iterator[Path]:
    """Hidden files and folders are left out."""
    if not path.is_dir():
        yield from sorted(Path(name) for name in glob.glob(str(path), recursive=True) if name.endswith(".ini"))  # noqa: PTH207  # Path.glob takes no absolute pattern
        return
    for file in sorted(path.rglob("*.ini")):
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
            yield file
