"""Finds the files that belong to a source in its folder, and compares them with the manifest there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files import json_files
from cnn_convertor.files.codes import hint
from cnn_convertor.files.integrity import damage
from cnn_convertor.files.replacing import Digest, is_inside

_SOURCE = "_gen.cpp"


def weights_beside(source: Path) -> Path | None:
    """The weights that lie beside NAME_gen.cpp under their own name."""
    path = source.with_name(f"{source.name.removesuffix(_SOURCE)}_weights.bin")
    return path if source.name.endswith(_SOURCE) and path.is_file() else None


def check_manifest(source: Path) -> Iterator[Problem]:
    """Files that are missing or are not what NAME.json beside NAME_gen.cpp lists; nothing without such a manifest."""
    path = source.with_name(source.name.removesuffix(_SOURCE) + ".json")
    if not source.name.endswith(_SOURCE) or not path.exists():
        return
    try:
        values = json_files.load(path)
    except (OSError, ValueError) as error:
        yield Problem(
            "DV690", f"the manifest beside the source cannot be read: {error}", Origin(path.name), hint("DV690")
        )
        return
    files = values.get("files") if isinstance(values, dict) else None
    for file, entry in (files if isinstance(files, dict) else {}).items():
        expected = _digest(entry)
        if not is_inside(source.parent, file) or expected is None:
            yield Problem(
                "DV690", f"the manifest's entry for it is malformed: {file}", Origin(path.name), hint("DV690")
            )
        elif reason := damage(source.parent / file, expected):
            yield Problem("DV690", reason, Origin(file), hint("DV690"))


def _digest(entry: Any) -> Digest | None:
    match entry:
        case {"bytes": int(size), "sha256": str(sha256)}:
            return Digest(size, sha256)
        case _:
            return None
