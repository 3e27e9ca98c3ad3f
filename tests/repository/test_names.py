"""Names mean one thing: no two public classes of the package share one, and files only where they mirror each other."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "cnn_convertor"


def test_no_two_classes_share_a_name() -> None:
    files: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert len(files) > 100
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


# Folders whose files mirror each other: one for each framework, or for each family of operators; one for each target.
MIRRORS = (
    {"frontends/caffe", "frontends/keras", "frontends/onnx", "ir/ops", "verification/formulas"},
    {"export", "layouts"},
    {"devices/dv700", "devices/nvdla"},
)


def part_of(file: str) -> str:
    """The mirror in which a file is; otherwise its own name."""
    return next((mirror for mirrors in MIRRORS for mirror in mirrors if file.startswith(f"{mirror}/")), file)


def are_mirrored(files: list[str]) -> bool:
    parts = {part_of(file) for file in files}
    return len(parts) == len(files) and any(parts <= mirrors for mirrors in MIRRORS)


def test_files_share_a_name_only_where_they_mirror_each_other() -> None:
    files: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "__init__.py":
            files[path.name].append(path.relative_to(PACKAGE).as_posix())
    assert {name: found for name, found in files.items() if len(found) > 1 and not are_mirrored(found)} == {}


def test_a_shared_name_is_found() -> None:
    assert are_mirrored(["frontends/keras/resize.py", "frontends/onnx/operators/resize.py"])
    assert not are_mirrored(["frontends/keras/functions.py", "frontends/keras/operations/functions.py"])
    assert not are_mirrored(["audit/rules.py", "devices/dv700/rules.py"])
    assert not are_mirrored(["export/network.py", "emulation/network.py"])
