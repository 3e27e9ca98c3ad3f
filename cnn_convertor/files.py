"""Writes the files of a conversion into a folder: all of them or none."""

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

from cnn_convertor.errors import Origin, UsageError

Contents: TypeAlias = str | Iterable[NDArray[np.uint8]]


def replace_all(folder: Path, files: Mapping[str, Contents]) -> tuple[Path, ...]:
    """Write every file beside its place first, and move all of them when the last one is complete.

    files: path relative to the folder -> text, or pieces of bytes that are written as they come.
    Raises UsageError when the folder cannot be written; on any error earlier files stay as they are.
    """
    with _unfinished(folder) as unfinished:
        for file, contents in files.items():
            _write(folder, unfinished / file, contents)
        _move(folder, unfinished, files)
    return tuple(folder / file for file in files)


def check_writable(folder: Path) -> None:
    """Raises UsageError when files cannot be written to a folder, as `replace_all` would after the work."""
    with _unfinished(folder):
        pass


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A temporary folder inside the folder, which is made; folders that stay empty are removed again."""
    created: list[Path] = []
    try:
        with _writing(folder):
            created += [place for place in (folder, *folder.parents) if not place.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
        try:
            yield unfinished
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    finally:
        for place in created:  # the innermost first; one that holds anything stays
            with suppress(OSError):
                place.rmdir()


def differing(folder: Path, files: Mapping[str, Contents]) -> tuple[str, ...]:
    """The files whose contents in the folder are others, or that it lacks; none where it holds none of them."""
    if not any((folder / file).is_file() for file in files):
        return ()
    return tuple(file for file, contents in files.items() if not _holds(folder / file, contents))


def _holds(path: Path, contents: Contents) -> bool:
    """Whether a file has these contents, as far as it can be read."""
    try:
        with path.open("rb") as stream:
            same = all(stream.read(piece.nbytes) == piece for piece in _pieces(contents))
            return same and not stream.read(1)
    except OSError:
        return False


def _pieces(contents: Contents) -> Iterator[memoryview]:
    """The bytes of a file, as they come."""
    for piece in (contents.encode(),) if isinstance(contents, str) else contents:
        yield memoryview(piece) if isinstance(piece, bytes) else piece.data


def _write(folder: Path, path: Path, contents: Contents) -> None:
    with _writing(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("wb", 0)  # without a buffer, so that closing it has nothing left to fail with
    with stream:
        # Errors of the pieces themselves are not about the folder, and pass.
        for left in _pieces(contents):
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
        except KeyboardInterrupt:  # the files belong together: finish the moves
            _replace(moves)
            raise


def _replace(moves: list[tuple[Path, Path]]) -> None:
    """Move files, and remove those that are moved from the list."""
    while moves:
        source, target = moves[-1]
        if source.exists():
            source.replace(target)
        moves.pop()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn errors of the operating system into errors of the user's."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (EEXIST, ENOTDIR):
            reason = "there is a file in place of a folder"
        raise UsageError.of(
            "DV110", f"cannot write the outputs: {reason}", Origin(str(folder)), "check output_folder"
        ) from error
