"""Folders and locks that last as long as a block or an object, also when an interruption ends it.

The next run removes those of killed ones.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from cnn_convertor.files import locks
from cnn_convertor.files.interruption import uninterrupted
from cnn_convertor.files.owners import doubt

_PREFIX: Final = "cnn-convertor-"
_SUFFIX: Final = ".temporary"  # no folder of the user's is named so
_LOCK: Final = "lock"
_ABANDONED: Final = 24 * 3600  # seconds after which a folder is that of a killed process, where the system has no locks
_LONGEST: Final = 1800  # seconds that one process may keep others waiting: it compiles


@contextmanager
def temporary_folder(parent: Path | None = None, *, prefix: str = _PREFIX) -> Iterator[Path]:
    """A folder of this process alone. parent: where it is; None: where the system has such folders."""
    with uninterrupted() as block:
        locked = LockedFolder(parent, prefix=prefix)
        try:
            with block.interruptible():
                yield locked.path
        finally:
            locked.remove()


class LockedFolder:
    """A folder that is locked until it is removed, so that other processes know that it is in use.

    The lock is a file beside it, both in one more folder: those who write into a folder lock the one above it.
    """

    def __init__(self, parent: Path | None = None, *, prefix: str = _PREFIX) -> None:
        folder = Path(tempfile.gettempdir() if parent is None else parent)
        _clean_once(folder, prefix)
        while True:
            self._made = tempfile.TemporaryDirectory(
                prefix=prefix, suffix=_SUFFIX, dir=folder, ignore_cleanup_errors=True
            )
            self.path = Path(self._made.name) / "files"
            with suppress(FileNotFoundError, BlockingIOError):  # another process took it for abandoned meanwhile
                self._handle = _locked(self.path.with_name(_LOCK))
                self.path.mkdir()
                return
            self._made.cleanup()

    def remove(self) -> None:
        os.close(self._handle)  # first: Windows removes no open file
        self._made.cleanup()


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """A block that no other process enters for the same file, where the file system has locks. The file goes with it.

    Raises OSError for a link, and TimeoutError when another process does not end.
    """
    with uninterrupted() as block:
        handle = locks.open_lock(lock)
        try:
            locks.wait_for_lock(handle, lock, block, _LONGEST)
            with block.interruptible():
                yield
        finally:
            lock.unlink(missing_ok=True)
            os.close(handle)


def _locked(lock: Path) -> int:
    """The handle that locks a new file. Raises BlockingIOError or FileNotFoundError when another process removes it."""
    handle = locks.open_lock(lock)
    try:
        _is_locked(handle)
        lock.stat()
    except OSError:
        os.close(handle)
        raise
    return handle


def _is_locked(handle: int) -> bool:
    """Lock a file, where the system has locks. Raises BlockingIOError when another process has locked it."""
    try:
        locks.lock(handle)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


@cache
def _clean_once(parent: Path, prefix: str) -> None:
    remove_abandoned(parent, prefix=prefix)


def remove_abandoned(parent: Path, *, prefix: str = _PREFIX) -> None:
    """Remove the temporary folders that killed processes left in a folder."""
    with suppress(OSError):
        for folder in [path for path in parent.iterdir() if path.name.startswith(prefix) and path.suffix == _SUFFIX]:
            with suppress(OSError):
                _remove_unless_used(folder)


def _remove_unless_used(folder: Path) -> None:
    if doubt(folder):  # other users have such folders among the system's temporary ones
        return
    handle = locks.open_lock(folder / _LOCK)
    try:
        if _is_abandoned(handle):
            shutil.rmtree(folder)
    finally:
        os.close(handle)


def _is_abandoned(handle: int) -> bool:
    """Whether no process locks a folder; afterwards this one does."""
    try:
        return _is_locked(handle) or time.time() - os.fstat(handle).st_mtime > _ABANDONED
    except BlockingIOError:
        return False
