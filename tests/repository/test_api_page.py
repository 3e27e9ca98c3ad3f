"""The examples of docs/api.md do what the page shows."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    shutil.copytree(ROOT / "examples" / "digits_keras", tmp_path / "digits")
    monkeypatch.chdir(tmp_path / "digits")
    found = doctest.testfile(str(ROOT / "docs" / "api.md"), module_relative=False)
    assert found.failed == 0
    assert found.attempted > 30
