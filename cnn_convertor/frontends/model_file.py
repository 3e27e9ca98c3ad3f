"""A model file, of which only what is needed is read, when it is needed."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.files.opening import Version, open_file

_BLOCK: Final = 1 << 16  # bytes that are read at least


class ModelFile:
    """The bytes of a file, by position, as in `bytes`. It is not mapped into memory, where a file that shrinks ends the process.

    Raises ModelError, at any read, when the file has been written since it was opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_file(path)
        weakref.finalize(self, self._file.close)
        self.version = self._version()
        self._size = self.version.size
        self._block = b""
        self._start = 0

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        if not self._start <= start <= stop <= self._start + len(self._block):
            if stop - start >= _BLOCK:
                return bytes(self._read(start, stop))
            self._block = bytes(self._read(start, min(start + _BLOCK, self._size)))
            self._start = start
        return self._block[start - self._start : stop - self._start]

    def numbers(self, dtype: np.dtype[Any], count: int, start: int) -> NDArray[Any]:
        """So many numbers from a byte on."""
        return np.frombuffer(self._read(start, start + count * dtype.itemsize), dtype)

    def _read(self, start: int, stop: int) -> bytearray:
        content = bytearray(stop - start)
        done = 0
        while done < len(content):
            self._file.seek(start + done)
            count = self._file.readinto(memoryview(content)[done:])
            if not count:
                raise changed(self._path)
            done += count
        if self._version() != self.version:
            raise changed(self._path)
        return content

    def _version(self) -> Version:
        return Version.of(os.fstat(self._file.fileno()))


def changed(path: Path) -> ModelError:
    """The error for a file of which one part is older than the other."""
    problem = "the file was written or replaced while it was read"
    return ModelError.of("DV201", problem, Origin(str(path)), "try again when nothing writes it")


def check_file(path: Path, what: str) -> None:
    """Raise ModelError when the file is missing, empty, or not a regular file."""
    origin = Origin(str(path))
    try:
        if path.is_dir():
            raise ModelError.of("DV201", f"the file of the {what} is a folder", origin, "name the file inside it")
        if path.exists() and not path.is_file():  # opening a pipe may wait forever
            raise ModelError.of("DV201", f"the file of the {what} is a device or a pipe", origin, "name a file")
        with open_file(path) as file:
            empty = not file.read(1) or not path.stat().st_size  # files under /proc report size 0 but have contents
    except OSError as error:
        reason = error.strerror or str(error)
        problem = f"the file of the {what} cannot be read: {reason}"
        raise ModelError.of("DV201", problem, origin, "check its name") from None
    except ValueError:
        raise ModelError.of("DV201", f"the name of the {what} is not a file name", origin) from None
    if empty:
        raise ModelError.of("DV201", f"the file of the {what} is empty", origin, "download it again")
