"""Folders that last as long as a block, also when an interruption ends it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from cnn_convertor.files.interruption import uninterrupted

_ABANDONED: Final = 24 * 3600  # seconds after which a folder is one of a process that was killed


@contextmanager
def temporary_folder(parent: Path | None = None, *, prefix: str = "cnn-convertor-") -> Iterator[Path]:
    """A folder of this process alone. parent: where it is; None: where the system has such folders."""
    with (
        uninterrupted() as block,
        tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as name,
        block.interruptible(),
    ):
        yield Path(name)


def remove_abandoned(folders: Iterable[Path]) -> None:
    """Remove those that killed processes left behind."""
    for folder in folders:
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED:
                shutil.rmtree(folder)
