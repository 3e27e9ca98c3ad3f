"""The examples of docs/api.md and the notebook do what they show."""

from __future__ import annotations

import ast
import doctest
import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    shutil.copytree(ROOT / "examples" / "digits_keras", tmp_path / "digits")
    shutil.copy(ROOT / "examples" / "digits_test.npz", tmp_path)
    monkeypatch.chdir(tmp_path / "digits")
    found = doctest.testfile(str(ROOT / "docs" / "api.md"), module_relative=False)
    assert found.failed == 0
    assert found.attempted > 30


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    shutil.copytree(ROOT / "examples" / "digits_keras", tmp_path / "digits")
    shutil.copy(ROOT / "examples" / "digits_test.npz", tmp_path)
    monkeypatch.chdir(tmp_path / "digits")
    notebook = json.loads((ROOT / "examples" / "digits.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names: dict[str, object] = {}
    results = [_ran("".join(cell["source"]), names) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shown = [result._repr_html_() for result in results if hasattr(result, "_repr_html_")]
    assert ["<iframe" in shown[0], "digits: pass" in shown[1], len(shown)] == [True, True, 2]
    accuracy, best = results[4], results[6]
    assert accuracy == 1.0
    assert best == [("quantization = 1, fusion = full", 16128)]


def _ran(source: str, names: dict[str, object]) -> object:
    """The value of a cell's last line, if it is an expression."""
    statements = ast.parse(source)
    *before, last = statements.body
    if isinstance(last, ast.Expr):
        exec(compile(ast.Module(before, []), "cell", "exec"), names)
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    exec(compile(statements, "cell", "exec"), names)
    return None


def test_the_notebook_is_without_outputs() -> None:
    notebook = json.loads((ROOT / "examples" / "digits.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
