"""Opens files for reading: regular files alone, since a pipe may wait for a writer and a device may have no end."""

from __future__ import annotations

import os
from errno import EINVAL, EISDIR
from io import FileIO
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final, NamedTuple

# Opening never waits, not even for a pipe that takes a file's place in this moment. Windows needs O_BINARY.
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class Version(NamedTuple):
    """What of a file changes when it is replaced or written. time: of the last write, in nanoseconds."""

    device: int
    file: int
    size: int
    time: int

    @classmethod
    def of(cls, status: os.stat_result) -> Version:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def open_file(path: Path) -> FileIO:
    """The opened file, without a buffer. Raises OSError, also for anything but a regular file, or ValueError for a name."""
    require_file(path)  # first: opening some devices already changes them
    file = os.fdopen(os.open(os.fspath(path), _FLAGS), "rb", buffering=0)
    try:
        _require_regular(os.fstat(file.fileno()), path)
    except OSError:
        file.close()
        raise
    return file


def require_file(path: Path) -> None:
    """Raises OSError unless a path is a regular file: before a library opens it by its name."""
    _require_regular(path.stat(), path)


def _require_regular(status: os.stat_result, path: Path) -> None:
    if S_ISDIR(status.st_mode):
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    if not S_ISREG(status.st_mode):
        raise OSError(EINVAL, "it is a pipe or a device, not a file", str(path))


def bytes_of(path: Path) -> bytes:
    """All bytes of a file. Raises OSError as `open_file` does."""
    with open_file(path) as file:
        return file.read()


def text_of(path: Path, errors: str = "strict") -> str:
    """The text of a file in UTF-8, whose lines end in \\n. Raises OSError as `open_file` does, or UnicodeDecodeError."""
    return bytes_of(path).decode(errors=errors).replace("\r\n", "\n").replace("\r", "\n")
