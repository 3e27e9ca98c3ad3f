"""The scripts of CI fail when they find something, and when they find nothing to judge."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parents[2] / ".ci"
PROGRAMS = [
    ("return n;", 0, ""),
    ("return 2147483647 + n;", 1, "signed integer overflow"),
    ("return static_cast<volatile char *>(new char[1])[n];", 1, "heap-buffer-overflow"),
]


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(("body", "code", "said"), PROGRAMS)
def test_what_a_sanitizer_finds_counts_even_if_a_test_expects_an_error(
    body: str, code: int, said: str, tmp_path: Path
) -> None:
    """In place of Python and its tests, a script runs one program and ignores how that ends."""
    (tmp_path / "program.cpp").write_text(f"int main(int n, char **) {{ {body} }}\n")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh -e\ncd {tmp_path}\n$CXX program.cpp -o program\n./program 2>/dev/null || true\n")
    python.chmod(0o700)
    environment = os.environ | {"PYTHON": str(python)}
    done = subprocess.run([CI / "sanitize", "tests"], env=environment, capture_output=True, text=True, check=False)
    assert (tmp_path / "program").exists()
    assert done.returncode == code
    assert said in done.stderr


@pytest.mark.parametrize("options", [[], ["--quick"]])
def test_no_python_to_try_is_an_error(options: list[str]) -> None:
    done = subprocess.run([CI / "compat", *options, "no-python"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "no-python: not here\n", "no Python to try\n")
