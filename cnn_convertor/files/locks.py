"""Locks files and folders against other processes."""

from __future__ import annotations

import logging
import os
import time
from errno import ENOSYS, ETIMEDOUT
from pathlib import Path
from typing import Final

from cnn_convertor.files.interruption import uninterrupted

_LOG = logging.getLogger(__name__)  # the command line shows it
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FOLDER_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
)
_PAUSE: Final = 0.02  # seconds between two tries
_SILENT: Final = 2.0  # seconds before it says what it waits for


def open_lock(path: Path) -> int:
    """The handle of a file that only this user can open, which is made if it is missing. Raises OSError for a link."""
    return os.open(path, _FLAGS, 0o600)


def open_folder(folder: Path) -> int:
    """The handle of a folder. Raises OSError for a link and for anything else."""
    return os.open(folder, _FOLDER_FLAGS)


def lock(handle: int) -> None:
    """Lock a file or folder until its handle is closed.

    Raises BlockingIOError when another process has locked it, OSError where the system has no locks.
    """
    try:
        import fcntl  # which Windows does not have
    except ImportError as error:
        raise OSError(ENOSYS, os.strerror(ENOSYS)) from error
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def wait_for_lock(handle: int, path: Path, block: uninterrupted, seconds: float) -> None:
    """Like `lock`, after other processes, where the system has locks. path: what is locked. block: an interruption ends the wait.

    Raises TimeoutError when it is still locked after so many seconds: any user who can read a folder can lock it for ever.
    """
    begin = time.monotonic()
    is_silent = True
    while True:
        try:
            lock(handle)
            return
        except BlockingIOError:
            waited = time.monotonic() - begin
        except OSError:
            return
        if waited > seconds:
            raise TimeoutError(ETIMEDOUT, f"another process has locked {path} for {seconds:.0f} seconds", str(path))
        if is_silent and waited > _SILENT:
            _LOG.info("waiting for another process, which has locked %s", path)
            is_silent = False
        with block.interruptible():
            time.sleep(_PAUSE)
