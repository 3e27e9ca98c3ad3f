"""Names mean one thing: no two public classes of the package share one."""

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
