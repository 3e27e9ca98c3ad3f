"""Modules import only those above them in one order, and other packages only where they are allowed."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "cnn_convertor"

# Each line's rooms and loose modules import from the lines above, and from themselves. What stands apart in a room is named.
RANKS = (
    {"__init__"},
    {"budget", "errors", "escaping", "progress"},
    {"files", "ir"},
    {"workers"},
    {"audit", "memory", "quantize", "layouts", "frontends", "passes"},
    {"devices"},
    {"codegen"},
    {"emulation"},
    {"samples"},
    {"devices.target"},
    {"devices.dv700", "devices.nvdla"},
    {"devices.registry"},
    {"config", "verification"},
    {"pipeline"},
    {"report"},
    {"conversion"},
    {"trials"},
    {"board", "export"},
    {"api"},
    {"cli"},
    {"__main__"},
)
APART = [room for rooms in RANKS for room in rooms if "." in room]
ACCELERATORS = {"devices.dv700", "devices.nvdla"}
# Parts of a room that know nothing of each other.
STRANGERS = ({"frontends.caffe", "frontends.keras", "frontends.onnx"},)
# Foreign packages that belong to some rooms alone.
HOMES = {
    "click": {"cli"},
    "rich": {"cli"},
    "h5py": {"frontends", "verification"},
    "google": {"frontends", "verification"},
    "flatbuffers": {"devices.nvdla"},
    "jinja2": {"codegen", "files", "report"},
    "fast_sugiyama": {"report"},
    "tensorflow": {"verification"},
    "keras": {"verification"},
    "tf_keras": {"verification"},
    "cv2": {"samples"},
    "onnx": {"verification"},
    "onnxruntime": {"verification"},
    "dask": {"workers"},
    "distributed": {"workers"},
}
# Tables that imports fill: the module that defines it, the table, and the module whose import fills it.
FILLED = (
    ("frontends.caffe.reading", "caffe", "frontends.caffe.layers"),
    ("frontends.keras.reading", "keras", "frontends.keras.importer"),
    ("frontends.keras.reading", "operations", "frontends.keras.importer"),
    ("frontends.onnx.reading", "onnx", "frontends.onnx.operators"),
    ("frontends.onnx.folding", "fold", "frontends.onnx.folds"),
)
IMPORTED_AS = {"protobuf": "google"}
OPTIONAL = {"dask", "distributed", "fast_sugiyama", "tensorflow", "keras", "tf_keras", "cv2", "onnx", "onnxruntime"}


def module_of(path: Path) -> str:
    """A file's module without the package's name: frontends.caffe.text"""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts if len(parts) == 1 or parts[-1] != "__init__" else parts[:-1])


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Every module that the file names in an import, wherever in the file, and the line."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from ((name.name, node.lineno) for name in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((f"{module}.{name.name}", node.lineno) for name in names)
            case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(name)), *_]):
                yield name, node.lineno
            case ast.ImportFrom():
                raise AssertionError(f"{path}:{node.lineno}: a relative import")


def inner_imports(path: Path) -> Iterator[tuple[str, int]]:
    """Modules of this package that the file imports."""
    for name, line in imports(path):
        if name.partition(".")[0] == PACKAGE.name:
            inner = name.partition(".")[2]
            while inner and inner not in MODULES:  # a name inside a module
                inner = inner.rpartition(".")[0]
            yield inner or "__init__", line


def test_only_the_registry_imports_an_accelerator() -> None:
    """Also not in functions."""
    beside = [
        f"{path.relative_to(ROOT)}:{line} imports {other}"
        for module, path in MODULES.items()
        for other, line in inner_imports(path)
        if room_of(other) in ACCELERATORS and room_of(module) not in {room_of(other), "devices.registry"}
    ]
    assert not beside


def rank(room: str) -> int:
    (found,) = (number for number, rooms in enumerate(RANKS) if room in rooms)
    return found


def room_of(module: str) -> str:
    apart = [room for room in APART if f"{module}.".startswith(f"{room}.")]
    return apart[0] if apart else module.partition(".")[0]


def may_import(room: str, other: str) -> bool:
    return room == other or rank(other) < rank(room)


def test_every_room_has_a_rank() -> None:
    assert {room_of(module) for module in MODULES} == set().union(*RANKS)


def test_few_modules_are_loose() -> None:
    assert len([module for module, path in MODULES.items() if path.parent == PACKAGE]) <= 8


@pytest.mark.parametrize("module", [module for module in MODULES if module != "__init__"])
def test_rooms_import_only_what_stands_below_them(module: str) -> None:
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{line} imports {other}"
        for other, line in inner_imports(MODULES[module])
        if not may_import(room_of(module), room_of(other))
    ]
    assert not wrong


def test_modules_import_each_other_in_no_circle() -> None:
    """Also not in functions, and not for types alone."""
    above = {module: {other for other, _ in inner_imports(path)} for module, path in MODULES.items()}
    above["__init__"] = set()  # its imports are late
    while free := {module for module, others in above.items() if not others - {module}}:
        above = {module: others - free for module, others in above.items() if module not in free}
    assert not above


@pytest.mark.parametrize(("module", "name", "filling"), FILLED)
def test_a_table_that_imports_fill_is_read_through_what_fills_it(module: str, name: str, filling: str) -> None:
    """Else it would be empty, or not, by what else the process has imported. The frontend's own modules are its rows."""
    frontend = MODULES[module].parent
    others = (path for folder in ("cnn_convertor", "development", "tests") for path in (ROOT / folder).rglob("*.py"))
    early = [
        f"{path.relative_to(ROOT)}:{line} imports {name} from {module}, not from {filling}"
        for path in others
        if frontend not in path.parents
        for imported, line in imports(path)
        if imported == f"{PACKAGE.name}.{module}.{name}"
    ]
    assert not early


def test_the_package_itself_imports_its_public_names_late() -> None:
    """What `import cnn_convertor` does stays small: nothing of its own but for type checkers."""
    tree = ast.parse(MODULES["__init__"].read_text(encoding="utf-8"))
    early = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert all(PACKAGE.name not in ast.unparse(node) for node in early)


@pytest.mark.parametrize("strangers", STRANGERS)
def test_parts_that_know_nothing_of_each_other(strangers: set[str]) -> None:
    for module, path in MODULES.items():
        for part in strangers:
            if module == part or module.startswith(f"{part}."):
                named = {other for other, _ in inner_imports(path)}
                assert not [n for n in named for s in strangers - {part} if n == s or n.startswith(f"{s}.")]


@pytest.mark.parametrize("module", MODULES)
def test_foreign_packages_stay_where_they_belong(module: str) -> None:
    for name, line in imports(MODULES[module]):
        foreign = name.partition(".")[0]
        if foreign in HOMES:
            assert room_of(module) in HOMES[foreign], f"{MODULES[module].relative_to(ROOT)}:{line} imports {foreign}"


def test_everything_that_is_imported_is_a_dependency() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    declared = set(re.findall(r'"([\w-]+)[<>=]', listed[1]))
    used = {name.partition(".")[0] for path in MODULES.values() for name, _ in imports(path)}
    foreign = used - set(sys.stdlib_module_names) - {PACKAGE.name} - OPTIONAL
    assert foreign == {IMPORTED_AS.get(name, name) for name in declared}


def test_an_import_against_the_order_is_found() -> None:
    assert not may_import("frontends", "passes")
    assert not may_import("passes", "frontends")
    assert not may_import("ir", "memory")
    assert not may_import("frontends", "config")
    assert not may_import("emulation", "verification")
    assert not may_import("audit", "devices")
    assert not may_import("devices", "devices.target")
    assert not may_import("devices.target", "devices.dv700")
    assert may_import("devices", "ir")
    assert may_import("verification", "emulation")
