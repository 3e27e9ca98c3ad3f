"""Each framework declares itself in its folder; config, pipeline and verify ask that declaration alone."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from itertools import combinations
from pathlib import Path
from subprocess import run

import pytest

import cnn_convertor.frontends
from cnn_convertor.config import is_model
from cnn_convertor.frontends import FRONTENDS, recognize
from cnn_convertor.frontends.frontend import Frontend
from cnn_convertor.verification.frameworks import RUNNERS

PACKAGE = Path(cnn_convertor.frontends.__file__).parent
named = pytest.mark.parametrize("frontend", FRONTENDS, ids=lambda frontend: frontend.title)


def test_every_folder_is_a_framework() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert {frontend.importer.split(".")[-2] for frontend in FRONTENDS} == folders


def test_frameworks_are_told_apart() -> None:
    for one, other in combinations(FRONTENDS, 2):
        assert one.name != other.name
        assert not one.suffixes & other.suffixes
        assert not {*one.magic} & {*other.magic}


@named
def test_a_declaration_is_complete(frontend: Frontend) -> None:
    assert frontend.channel_order in {"RGB", "BGR"}
    assert frontend.runner in RUNNERS
    assert callable(import_module(frontend.importer).read)


@named
def test_a_model_is_recognized_by_name_or_content(frontend: Frontend, tmp_path: Path) -> None:
    for suffix in frontend.suffixes:
        assert recognize(tmp_path / f"net{suffix.upper()}") is frontend
    for start in frontend.magic:
        (tmp_path / "net").write_bytes(start + b"more")
        assert recognize(tmp_path / "net") is frontend and is_model(tmp_path / "net")


def test_other_files_are_not_models(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("something else")
    for path in (tmp_path / "text", tmp_path / "missing", tmp_path):
        assert recognize(path) is None and not is_model(path)


@pytest.mark.parametrize(("name", "missing"), [("net.prototxt", True), ("net.caffemodel", False), ("net.h5", False)])
def test_a_definition_may_be_without_weights(name: str, missing: bool) -> None:
    path = Path(name)
    frontend = recognize(path)
    assert frontend is not None and frontend.is_without_weights(path) is missing


def test_declarations_import_neither_numpy_nor_h5py() -> None:
    code = "import sys, cnn_convertor.config; print(*sys.modules)"
    loaded = run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "cnn_convertor.config" in loaded
    assert {"numpy", "h5py", "google"}.isdisjoint(loaded)


def test_no_module_but_its_own_names_a_framework() -> None:
    """Nothing branches on the framework: another one is a folder, and a line in the list."""
    for path in PACKAGE.parent.rglob("*.py"):
        if PACKAGE not in path.parents:
            names = {node.id for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name)}
            assert names.isdisjoint({"CAFFE", "KERAS", "ONNX"}), path
