"""Writes files so that a folder never holds half of a conversion: all of them appear, or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
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
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder) as name:
            unfinished = Path(name)
            for file, contents in files.items():
                path = unfinished / file
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, contents)
            for file in files:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(unfinished / file, folder / file)
    except OSError as error:
        raise UsageError(
            Problem("DV110", f"cannot write the outputs: {error.strerror}", Origin(str(folder)), "check output_folder")
        ) from error
    return tuple(folder / file for file in files)


def _write(path: Path, contents: Contents) -> None:
    if isinstance(contents, str):
        path.write_text(contents, encoding="utf-8", newline="\n")
        return
    with path.open("wb") as stream:
        for piece in contents:
            stream.write(memoryview(piece))
