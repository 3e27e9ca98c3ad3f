"""Only an accelerator's own room, the registry, layouts and exports know its name; others speak of devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "cnn_convertor"
OWN = ("devices/nvdla/", "devices/registry.py", "layouts/", "export/")
# Texts that name files and formats for users: examples of commands, and what a file of that name is.
FOR_USERS = {
    "cli/examples.py",
    "cli/layouts.py",
    "cli/trials.py",
    "config/keys.py",
    "errors.py",
    "frontends/unsupported_formats.py",
}


def named(path: Path) -> Iterator[str]:
    """The lines of a file that name NVDLA in its code: names and imports, and texts if the file is not for users."""
    file = path.relative_to(PACKAGE).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        words: list[str | None] = []
        match node:
            case ast.Import(names=names):
                words = [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names):
                words = [module, *(alias.name for alias in names)]
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                words = [name]
            case ast.Constant(value=str(text)) if file not in FOR_USERS:
                words = [text]
        if any(word and "nvdla" in word.lower() and "layouts.nvdla" not in word for word in words):
            yield f"{file}:{getattr(node, 'lineno', 0)}"


def test_no_other_module_names_nvdla() -> None:
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if not is_own(path)]
    assert len(files) > 300
    assert [line for path in files for line in named(path)] == []


def is_own(path: Path) -> bool:
    return path.relative_to(PACKAGE).as_posix().startswith(OWN)


def test_names_are_found() -> None:
    own = PACKAGE / "devices" / "registry.py"
    assert list(named(own))
