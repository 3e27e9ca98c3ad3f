"""What is in a folder."""

from __future__ import annotations

from pathlib import Path


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def everything(folder: Path) -> list[str]:
    """Files and folders, also hidden ones."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
