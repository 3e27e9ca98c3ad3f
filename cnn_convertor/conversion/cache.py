"""Keeps the outputs of conversions: the same inputs, options and convertor give the same files without a conversion.

    FOLDER/CACHEDIR.TAG     marks the folder, so that backup programs skip it
    FOLDER/entries/KEY      the result of a conversion: the SHA-256 of its files, its report and its warnings
    FOLDER/files/SHA256     contents
    FOLDER/work/            conversions that run, or were killed

Files appear by renaming, and are checked when they are read. So processes can share a folder, and a network with a damaged file is
converted again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from stat import S_IWOTH
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.config import Config
from cnn_convertor.conversion import convert as single
from cnn_convertor.conversion.convert import ConvertedNetwork
from cnn_convertor.conversion.manifest import earlier_files
from cnn_convertor.errors import Origin, Problem, UsageError, captured_warnings, warn
from cnn_convertor.files import dependencies, json_files, owners, replacing
from cnn_convertor.files.codec import from_values, to_values
from cnn_convertor.files.hashing import PIECE, Content, content_of, opened, sha256_of, sources, versions
from cnn_convertor.files.replacing import Contents
from cnn_convertor.files.temporary import remove_abandoned, temporary_folder
from cnn_convertor.progress import Progress, silent
from cnn_convertor.report import Report
from cnn_convertor.workers.processes import HERE, Workers

FROM_CACHE: Final = "take from the cache"  # the step of `Progress` when nothing is converted
_SCHEMA: Final = 1
_DRAFT: Final = "cnn-convertor-draft-"  # begins the names of folders in which the tag is written
_TAG: Final = "CACHEDIR.TAG"
_TAG_TEXT: Final = "Signature: 8a477f597d28d172789f06886806bc55\n# Conversions of cnn-convertor.\n"
_WITHOUT_EFFECT: Final = {"output_folder", "verbose", "lines"}  # fields of Config that change no output
_NAMED: Final = ("definition", "data", "calibrate")  # fields of Config that name inputs
_CLOCKS: Final = 2.0  # seconds by which the time of a file and that of this process may differ


class HashedInput(NamedTuple):
    path: Path
    sha256: str


class CachedConversion(NamedTuple):
    """The result of a conversion. others: inputs that the configuration does not name, like external data."""

    others: tuple[HashedInput, ...]
    contents: tuple[Content, ...]
    report: Report
    warnings: tuple[Problem, ...]


class Statistics(NamedTuple):
    """The size of a cache. entries: conversions. bytes: of all contents."""

    entries: int
    bytes: int


class _DamagedError(Exception):
    """A file of the cache does not hold what its name says."""


def convert(
    config: Config, progress: Progress = silent, *, folder: Path | None, on: Workers = HERE
) -> ConvertedNetwork:
    """Convert a network, or take its files from the cache. folder: the cache, or None. on: where calibration runs.

    A network with a custom layer is always converted, since its Python code can read any file.
    Raises ConvertorError, also for a folder that is not a cache.
    """
    if folder is None or config.custom_layer is not None:
        return single.convert(config, progress, on)
    single.check_outputs(config)
    store = Cache(folder)
    store.prepare()
    if reason := store.doubt:
        hint = "name a folder of your own, which others cannot write, after --cache"
        problem = f"the cache is not used, since what it holds may be another user's: {reason}"
        warn(Problem("DV147", problem, Origin(str(folder)), hint))
        return single.convert(config, progress, on)
    key = _key(config)
    if (entry := store.find(key)) is not None:
        warn(*entry.warnings)
        try:
            installed = _taken(store, entry, config)
        except FileNotFoundError:  # removed by another process
            pass
        except _DamagedError as error:
            store.forget(key, str(error))
        else:
            progress(FROM_CACHE, 0, 1)
            return ConvertedNetwork(installed, entry.report)
    return _converted(store, key, config, progress, on)


def _taken(store: Cache, entry: CachedConversion, config: Config) -> tuple[Path, ...]:
    """Install the files of an entry, unless they are installed already. Raises FileNotFoundError and _DamagedError."""
    folder = config.folder
    replacing.recover(folder)
    with suppress(OSError), dependencies.unrecorded():
        if all(content_of(c.name, folder / c.name) == c for c in entry.contents):
            return tuple(folder / c.name for c in entry.contents)
    return install(config, {c.name: _pieces(store.file_of(c.sha256), c) for c in entry.contents})


def _converted(store: Cache, key: str, config: Config, progress: Progress, on: Workers) -> ConvertedNetwork:
    """Convert in a folder of the cache, and store the outputs unless an input changes during the conversion."""
    single.check_outputs(config)
    begin = time.time() - _CLOCKS
    with store.work_folder() as work:
        with dependencies.recorded() as read, captured_warnings() as warned:
            conversion = single.convert(replace(config, output_folder=work), progress, on)
        folder = work / config.name
        contents = tuple(content_of(path.relative_to(folder).as_posix(), path) for path in conversion.files)
        installed = install(config, {c.name: _pieces(folder / c.name, c) for c in contents})
        paths = _others(config, read, store.folder)
        others = tuple(HashedInput(path, sha256_of(path)) for path in paths)
        if _key(config) == key and all(path.stat().st_ctime < begin for path in paths):
            _stored(store, key, CachedConversion(others, contents, conversion.report, warned.problems), folder)
    return ConvertedNetwork(installed, conversion.report)


def _stored(store: Cache, key: str, entry: CachedConversion, folder: Path) -> None:
    """Store a conversion whose outputs are installed; a warning when the cache cannot take it."""
    try:
        store.add(key, entry, folder)
    except OSError as error:
        problem = f"the cache cannot store the conversion: {error.strerror}"
        origin = Origin(str(error.filename2 or error.filename or store.folder))
        warn(Problem("DV131", problem, origin, "remove what is there, or name a new folder with --cache"))


def install(config: Config, contents: Mapping[str, Contents]) -> tuple[Path, ...]:
    """Replace the files of the earlier conversion."""
    folder = config.folder
    return replacing.replace_all(folder, contents, obsolete=lambda: earlier_files(folder, config.name))


# --- what outputs depend on ----------------------------------------------------------------------------------------------


def _key(config: Config) -> str:
    """The key of a conversion: a hash of its inputs' contents, its options and the convertor.

    Paths of inputs are options, since warnings name them. Raises OSError for an input that cannot be read.
    """
    options = {
        f.name: to_values(getattr(config, f.name), exact=True) for f in fields(config) if f.name not in _WITHOUT_EFFECT
    }
    paths = {path for name in _NAMED if (path := getattr(config, name)) is not None}
    inputs = {str(path): sha256_of(path) for path in sorted(paths)}
    text = json.dumps([_SCHEMA, sources(), versions(), options, inputs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _others(config: Config, read: Iterable[Path], own: Path) -> list[Path]:
    """The inputs that the configuration does not name."""
    named = [path.resolve() for name in _NAMED if (path := getattr(config, name)) is not None]
    known = (*named, own.resolve())
    return sorted(path for path in read if not any(path.resolve().is_relative_to(folder) for folder in known))


def _pieces(path: Path, content: Content) -> Iterator[NDArray[np.uint8]]:
    """The contents of a file, which are checked at the end. Raises _DamagedError."""
    digest = hashlib.sha256()
    with opened(path) as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
            yield np.frombuffer(piece, np.uint8)
    if digest.hexdigest() != content.sha256:
        raise _DamagedError(str(path))


# --- the folder ----------------------------------------------------------------------------------------------------------


def _digest(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()


def _read(path: Path) -> CachedConversion:
    """Raises FileNotFoundError and _DamagedError."""
    try:
        with opened(path) as stream:
            digest, _, text = stream.read().decode().partition("\n")
        if _digest(path.name, text) != digest:
            raise _DamagedError(str(path))
        entry = from_values(CachedConversion, json.loads(text, parse_int=json_files.whole))
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise _DamagedError(str(path)) from error
    if not all(replacing.is_relative(content.name) for content in entry.contents):
        raise _DamagedError(str(path))
    return entry


class Cache(NamedTuple):
    """A folder with conversions."""

    folder: Path

    def prepare(self) -> None:
        """Make the folder. Raises UsageError if it is not a cache or cannot be written."""
        try:
            self.folder.mkdir(0o775, parents=True, exist_ok=True)
            if not self._is_marked and not self.doubt:
                others = [path for path in self.folder.iterdir() if not path.name.startswith(_DRAFT)]
                if others and not self._is_marked:  # another process may have made it meanwhile
                    raise self._refusal("the folder has other files")
                with temporary_folder(self.folder, prefix=_DRAFT) as folder:
                    _write(self.folder / _TAG, _TAG_TEXT, folder)
        except OSError as error:
            problem = f"the cache cannot be written, the system says: {error.strerror}"
            hint = "name a folder that can be written, after --cache"
            raise UsageError.of("DV126", problem, Origin(str(self.folder)), hint) from error

    @property
    def doubt(self) -> str:
        """Why the folder may hold what another user wrote; empty if it does not. Its group may write it."""
        return owners.doubt(self.folder.resolve(), S_IWOTH)

    @property
    def _is_marked(self) -> bool:
        return (self.folder / _TAG).is_file()

    def _refusal(self, reason: str) -> UsageError:
        problem = f"this is not a cache of conversions: {reason}"
        return UsageError.of(
            "DV126", problem, Origin(str(self.folder)), "name a new folder, or one of an earlier --cache"
        )

    def require(self) -> None:
        """Raises UsageError unless the folder is a cache."""
        if not self._is_marked:
            raise self._refusal("nothing was converted with it" if not self.folder.exists() else f"it has no {_TAG}")
        if reason := self.doubt:
            raise self._refusal(reason)

    def file_of(self, sha256: str) -> Path:
        return self.folder / "files" / sha256[:2] / sha256

    def _entry(self, key: str) -> Path:
        return self.folder / "entries" / key[:2] / key

    def find(self, key: str) -> CachedConversion | None:
        """The conversion with this key, if its other inputs are unchanged. Warns of a damaged entry."""
        path = self._entry(key)
        try:
            entry = _read(path)
        except FileNotFoundError:
            return None
        except _DamagedError:
            self.forget(key, str(path))
            return None
        if any(not other.path.is_file() or sha256_of(other.path) != other.sha256 for other in entry.others):
            return None
        with suppress(OSError):
            os.utime(path)  # `prune` removes what was used least recently
        return entry

    def forget(self, key: str, damaged: str) -> None:
        """Remove a damaged file and its entry, with a warning."""
        for path in (Path(damaged), self._entry(key)):
            path.unlink(missing_ok=True)
        problem = "a file of the cache is damaged, so the network is converted"
        warn(Problem("DV125", problem, Origin(damaged), "check the disk if this happens again"))

    def add(self, key: str, entry: CachedConversion, folder: Path) -> None:
        """Store a conversion. folder: its files, which move into the cache."""
        for content in entry.contents:
            path = self.file_of(content.sha256)
            path.parent.mkdir(parents=True, exist_ok=True)
            (folder / content.name).replace(path)
        text = json.dumps(to_values(entry, exact=True))
        self._entry(key).parent.mkdir(parents=True, exist_ok=True)
        with self.work_folder() as work:
            _write(self._entry(key), f"{_digest(key, text)}\n{text}", work)

    @contextmanager
    def work_folder(self) -> Iterator[Path]:
        (self.folder / "work").mkdir(exist_ok=True)  # it may have been cleared
        with temporary_folder(self.folder / "work") as folder:
            yield folder

    def statistics(self) -> Statistics:
        return Statistics(len(self._files("entries")), sum(status.st_size for _, status in self._stated("files")))

    def clear(self) -> Statistics:
        """Remove everything but running conversions; returns what was removed.

        Folders stay: another process may be about to put a file there.
        """
        statistics = self.statistics()
        for path in (*self._files("entries"), *self._files("files")):
            path.unlink(missing_ok=True)
        self._remove_abandoned()
        return statistics

    def prune(self, most: int) -> Statistics:
        """Remove the least recently used conversions until at most this many bytes are left; returns what was removed."""
        before = self.statistics()
        kept: set[str] = set()
        size = 0
        for path, _ in sorted(self._stated("entries"), key=lambda entry: entry[1].st_mtime, reverse=True):
            more: dict[str, int] = {}
            with suppress(FileNotFoundError, _DamagedError):
                more = {c.sha256: c.bytes for c in _read(path).contents}
            new = {name: size for name, size in more.items() if name not in kept}
            if not more or size + sum(new.values()) > most:
                path.unlink(missing_ok=True)
            else:
                size += sum(new.values())
                kept |= set(new)
        for path in self._files("files"):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        self._remove_abandoned()
        after = self.statistics()
        return Statistics(before.entries - after.entries, before.bytes - after.bytes)

    def _remove_abandoned(self) -> None:
        remove_abandoned(self.folder / "work")
        remove_abandoned(self.folder, prefix=_DRAFT)

    def _files(self, part: str) -> list[Path]:
        folder = self.folder / part
        return [] if folder.is_symlink() else [path for path in folder.rglob("*") if path.is_file()]

    def _stated(self, part: str) -> list[tuple[Path, os.stat_result]]:
        """The files with their status, without those that another process has just removed."""
        files = []
        for path in self._files(part):
            with suppress(FileNotFoundError):
                files.append((path, path.stat()))
        return files


def _write(path: Path, text: str, folder: Path) -> None:
    """Write a file that other processes see as a whole or not at all. folder: one of this process alone."""
    draft = folder / path.name
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
