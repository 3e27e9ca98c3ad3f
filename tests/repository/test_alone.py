"""Test files pass in a process of their own and in any order: a twentieth of the files, which each commit moves on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SHARE = 20


def commits() -> int:
    """How many commits lead to this one; 0 without git."""
    command = ["git", "rev-list", "--count", "HEAD"]
    try:
        counted = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(counted.stdout)


TURN = commits()
FILES = sorted(path for path in TESTS.rglob("test_*.py") if path != Path(__file__))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES[TURN % SHARE :: SHARE], ids=lambda path: str(path.relative_to(TESTS)))
def test_a_file_passes_alone(file: Path) -> None:
    """Of files whose tests are slow or compile, the collection passes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    options = ["-q", "-p", "no:cacheprovider", "--shuffled", str(TURN)]
    command = [sys.executable, "-m", "pytest", *options, str(file)]
    done = subprocess.run(command, check=False, cwd=TESTS.parent, env=environment, capture_output=True, text=True)
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), done.stdout + done.stderr
