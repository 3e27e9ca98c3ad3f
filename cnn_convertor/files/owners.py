"""Tells what this user made from what another user of the computer may have placed under the same name."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_ISDIR, S_ISVTX, S_IWGRP, S_IWOTH

from cnn_convertor.errors import Origin, Problem, warn

_ROOT = 0  # who can change everything anyway


def doubt(folder: Path, writers: int = S_IWGRP | S_IWOTH) -> str:
    """Why a folder may hold what another user wrote; empty if it does not. Raises OSError if there is none.

    writers: the bits of the mode that nobody else may have. Who can replace the folder itself can write it as well, as on file
    systems without modes: then they do not count. Where a system has no owners, every folder is this user's.
    """
    status = folder.lstat()
    if not S_ISDIR(status.st_mode):
        return "it is no folder"
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid not in (os.geteuid(), _ROOT):
        return "it belongs to another user"
    above = folder.absolute().parent.stat().st_mode
    replaces = 0 if above & S_ISVTX else above
    return "other users can write to it" if status.st_mode & writers & ~replaces else ""


def warn_of(path: Path, reason: str) -> None:
    """Say that something is left alone."""
    problem = f"this has the name of a folder that the convertor makes, and is left alone: {reason}"
    warn(Problem("DV146", problem, Origin(str(path)), "let its owner remove it, or write to another folder"))


def is_planted(path: Path) -> bool:
    """Whether a path is a link that another user made in a folder where everyone may, such as /tmp.

    Linux follows none of these where fs.protected_symlinks is set, as it should be.
    """
    if not hasattr(os, "geteuid") or not path.is_symlink():
        return False
    folder = path.absolute().parent.stat()
    is_everyones = bool(folder.st_mode & S_ISVTX and folder.st_mode & S_IWOTH)
    return is_everyones and path.lstat().st_uid not in (os.geteuid(), folder.st_uid)
