"""Reads files that anyone may have written: small ones up to a limit, since /dev/zero never ends, and zip archives."""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EBUSY
from pathlib import Path
from typing import Final

from cnn_convertor.files.opening import Version, open_file

_PIECE: Final = 1 << 16  # bytes read at a time: memory for the whole limit would be much for a small file


class TooLargeError(ValueError):
    """A file has more than it may have; the text says how much that is."""


def contents(path: Path, most: int) -> bytes:
    """The bytes of a file. Raises TooLargeError for more than `most`, or OSError, also if it is written meanwhile."""
    pieces = []
    size = 0
    with open_file(path) as file:
        version = Version.of(os.fstat(file.fileno()))
        while size <= most and (piece := file.read(_PIECE)):
            pieces.append(piece)
            size += len(piece)
        if version != Version.of(os.fstat(file.fileno())):
            raise OSError(EBUSY, "another program writes it", str(path))
    if size > most:
        raise TooLargeError(f"it has more than {f'{most:,} bytes' if most % (1 << 20) else f'{most >> 20} MB'}")
    return b"".join(pieces)


# What a damaged archive raises, depending on where the damage is and on how it is packed.
DAMAGES: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive of stored and deflated members. Other methods let the file choose how
    much memory unpacking takes; no framework writes them.

    Raises one of DAMAGES, or OSError.
    """
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        if any(member.compress_type not in _COMPRESSIONS for member in archive.infolist()):
            raise NotImplementedError("a member is neither stored nor deflated")
        yield archive
