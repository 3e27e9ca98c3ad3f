"""Reads small files whose names users give: a device has no size, but may have no end."""

from __future__ import annotations

from pathlib import Path


class TooLargeError(ValueError):
    """A file has more than it may have; the text says how much that is."""


def contents(path: Path, most: int) -> bytes:
    """The bytes of a file. Raises TooLargeError for more than `most`, or OSError."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLargeError(f"it has more than {f'{most:,} bytes' if most % (1 << 20) else f'{most >> 20} MB'}")
    return data
