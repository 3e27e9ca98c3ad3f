"""Writes files so that a folder never holds half of a conversion: all of them appear, or none."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EEXIST, EISDIR, ENOTDIR
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import Origin, Problem, UsageError

Contents: TypeAlias = str | Iterable[NDArray[np.uint8]]


def replace_all(folder: Path, files: Mapping[str, Contents]) -> tuple[Path, ...]:
    """Write every file beside its place first, and move them all there when the last one is complete.

    files: path relative to the folder -> text, or pieces of bytes that are written as they come.
    Raises UsageError when the folder cannot be written; whatever is raised, earlier files stay as they were.
    """
    created: list[Path] = []
    try:
        with _writing(folder):
            created += [place for place in (folder, *folder.parents) if not place.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
        try:
            for file, contents in files.items():
                _write(folder, unfinished / file, contents)
            _move(folder, unfinished, files)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except BaseException:
        for place in created:  # the innermost first; one that holds anything stays
            with suppress(OSError):
                place.rmdir()
        raise
    return tuple(folder / file for file in files)


def _write(folder: Path, path: Path, contents: Contents) -> None:
    with _writing(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("wb", 0)  # without a buffer, so that closing it has nothing left to fail with
    with stream:
        # What the pieces raise while they are made is not about the folder, and passes.
        for piece in (contents.encode(),) if isinstance(contents, str) else contents:
            left = memoryview(piece) if isinstance(piece, bytes) else piece.data
            with _writing(folder):
                while left:
                    left = left[stream.write(left) :]


def _move(folder: Path, unfinished: Path, files: Iterable[str]) -> None:
    with _writing(folder):
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            if (folder / file).is_dir():  # before anything is moved
                raise IsADirectoryError(EISDIR, f"{file} is a folder")
        moves = [(unfinished / file, folder / file) for file in files]
        try:
            _replace(moves)
        except KeyboardInterrupt:  # the files belong together: what has begun is ended
            _replace(moves)
            raise


def _replace(moves: list[tuple[Path, Path]]) -> None:
    """Move files, and strike from the list those that are moved."""
    while moves:
        source, target = moves[-1]
        if source.exists():
            source.replace(target)
        moves.pop()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What the operating system refuses is the user's to know."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (EEXIST, ENOTDIR):
            reason = "there is a file where a folder is to go"
        raise UsageError(
            Problem("DV110", f"cannot write the outputs: {reason}", Origin(str(folder)), "check output_folder")
        ) from error
