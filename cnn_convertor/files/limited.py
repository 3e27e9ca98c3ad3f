"""Reads small files up to a limit: /dev/zero reports size 0 but never ends."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PIECE: Final = 1 << 16  # bytes read at a time: memory for the whole limit would be much for a small file


class TooLargeError(ValueError):
    """A file has more than it may have; the text says how much that is."""


def contents(path: Path, most: int) -> bytes:
    """The bytes of a file. Raises TooLargeError for more than `most`, or OSError."""
    pieces, size = [], 0
    with path.open("rb") as file:
        while size <= most and (piece := file.read(_PIECE)):
            pieces.append(piece)
            size += len(piece)
    if size > most:
        raise TooLargeError(f"it has more than {f'{most:,} bytes' if most % (1 << 20) else f'{most >> 20} MB'}")
    return b"".join(pieces)
