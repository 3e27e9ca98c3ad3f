"""Hashes of input files, and versions of the software that affects outputs."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Collection, Iterator, Sequence
from errno import ENOENT
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

import cnn_convertor
from cnn_convertor import __version__
from cnn_convertor.files.opening import open_file
from cnn_convertor.files.package_files import folder_of

LIBRARIES: Final = ("fast-sugiyama", "h5py", "jinja2", "markupsafe", "numpy", "protobuf")  # that conversions use
PIECE: Final = 1 << 20  # bytes read at a time
_PACKAGE: Final = Path(cnn_convertor.__file__).parent
_BESIDE: Final = frozenset(
    {"cmake", "docs", "templates"}
)  # folders that a wheel has inside the package, a checkout beside it


class Content(NamedTuple):
    """A file. name: relative to a folder that the context knows."""

    name: str
    bytes: int
    sha256: str


def opened(path: Path) -> FileIO:
    """The opened file. Raises FileNotFoundError for anything else: reading a pipe might not end."""
    if not path.is_file():
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(path))
    return open_file(path)


def content_of(name: str, path: Path) -> Content:
    digest = hashlib.sha256()
    size = 0
    with opened(path) as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return Content(name, size, digest.hexdigest())


def sha256_of(path: Path, *, without: Collection[str] = ()) -> str:
    """Of a file, or of the names and contents of all files in a folder. without: folders in it that do not count.

    Raises OSError, also for a folder that cannot be listed.
    """
    if not path.is_dir():
        return content_of("", path).sha256
    files = sorted(_files_in(str(path), without))
    listing = "".join(f"{'/'.join(parts)}\0{content_of('', path.joinpath(*parts)).sha256}\n" for parts in files)
    return hashlib.sha256(listing.encode(errors="surrogateescape")).hexdigest()


def _files_in(folder: str, without: Collection[str], inside: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The parts of the files' names. without: folders at the top that do not count; __pycache__ never does."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__" and (inside or entry.name not in without):
                    yield from _files_in(entry.path, without, (*inside, entry.name))
            elif Path(entry.path).is_file():  # that of the entry raises OSError for a link that leads nowhere
                yield (*inside, entry.name)


@cache
def sources() -> str:
    """SHA-256 of the package and its templates. A wheel and the checkout that it is made of have the same."""
    parts = sha256_of(_PACKAGE, without=_BESIDE), sha256_of(folder_of("templates"))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def versions(libraries: Sequence[str] = ()) -> dict[str, str]:
    """Name -> version of the software that outputs depend on; empty if it is not installed. libraries: additional ones."""
    return {
        "cnn-convertor": f"{__version__} (sources {sources()[:12]})",
        "Python": ".".join(map(str, sys.version_info[:2])),
        "system": f"{sys.platform} {platform.machine()}",
        **{library: _version(library) for library in (*LIBRARIES, *libraries)},
    }


@cache
def _version(library: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # here, as it takes long

    try:
        return version(library)
    except PackageNotFoundError:
        return ""
