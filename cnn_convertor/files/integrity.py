"""Compares a file with what a manifest says of it."""

from __future__ import annotations

from pathlib import Path

from cnn_convertor.files.hashing import content_of
from cnn_convertor.files.replacing import Digest


def digest_of(path: Path) -> Digest:
    """Raises OSError if it cannot be read."""
    contents = content_of(path.name, path)
    return Digest(contents.bytes, contents.sha256)


def damage(path: Path, expected: Digest) -> str:
    """What is wrong with a file; empty if it has the size and the SHA-256 of its manifest."""
    try:
        digest = digest_of(path)
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if digest.bytes != expected.bytes:
        return f"it has {digest.bytes:,} bytes, and its manifest says {expected.bytes:,}"
    return "" if digest.sha256 == expected.sha256 else "its SHA-256 is not that of its manifest"
