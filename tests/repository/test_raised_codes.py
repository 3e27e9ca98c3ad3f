"""A run with --every-code fails when it misses a code of docs/messages.md."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cnn_convertor.cli.console import Console
from cnn_convertor.errors import ModelError, Problem, UsageError
from cnn_convertor.files.isolation import IsolationError, isolated
from cnn_convertor.workers.compiler import find_compiler
from repository import raised_codes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CXX", "no-such-compiler")  # the package gives DV701
    monkeypatch.setattr(Problem, "__init__", Problem.__init__)  # and undo the next line
    raised_codes.start(tmp_path)
    return tmp_path


def test_a_code_counts_when_the_package_gives_it(recording: Path) -> None:
    with pytest.raises(UsageError):
        find_compiler()
    assert raised_codes.raised(recording) == {"DV701"}


def test_a_code_counts_in_a_forked_process(recording: Path) -> None:
    with pytest.raises(IsolationError):
        isolated(find_compiler, seconds=5, memory=1 << 30)
    assert raised_codes.raised(recording) == {"DV701"}


def test_a_code_that_a_test_gives_counts_for_nothing(recording: Path) -> None:
    Problem("DV701", "x")
    ModelError.of("DV701", "x")
    assert raised_codes.raised(recording) == set()


def test_a_code_that_a_test_gives_the_console_counts_for_nothing(recording: Path) -> None:
    Console(0).complain("warning", Problem("DV701", "x"))
    assert raised_codes.raised(recording) == set()


@pytest.mark.slow
def test_a_run_fails_that_misses_a_code() -> None:
    """A process of xdist runs one test, which raises DV701."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    options = ["-q", "-n", "1", "-p", "no:cacheprovider", "--every-code", "-k", "without_a_compiler"]
    command = [sys.executable, "-m", "pytest", *options, "tests/emulation/test_build.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no test raises DV000, DV100, " in done.stdout and " DV703, " in done.stdout and "DV701" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 passed")
