"""The commands that need no C++ compiler work, and write the same bytes, on systems that lack what Linux has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ("digits_keras", "digits_caffe", "digits_pytorch")
# Windows has none of these.
LACKING = """
import os, signal, sys
for module in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[module] = None
for module, names in ((os, ("fork", "killpg", "sched_getaffinity")), (signal, ("pthread_sigmask", "SIGKILL", "SIGXCPU", "SIGBUS"))):
    for name in names:
        delattr(module, name)
from cnn_convertor.cli import main
sys.exit(main(sys.argv[1:]))
"""


def elsewhere(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", LACKING, *arguments],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("example", EXAMPLES)
def test_conversions_give_the_same_bytes(example: str, tmp_path: Path) -> None:
    source = ROOT / "examples" / example
    shutil.copytree(source, tmp_path / example, ignore=shutil.ignore_patterns("output", "*.npy"))
    ran = elsewhere(tmp_path / example, "net.ini", "--jobs", "2")
    assert ran.returncode == 0, ran.stderr
    committed = {
        path.relative_to(source): path.read_bytes() for path in (source / "output").rglob("*") if path.is_file()
    }
    made = tmp_path / example
    assert {file: (made / file).read_bytes() for file in committed} == committed
    assert elsewhere(made, "check", "net.ini").returncode == 0


@pytest.mark.slow
def test_networks_are_inspected_and_reported(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "digits_keras", tmp_path / "digits")
    ran = elsewhere(tmp_path / "digits", "inspect", "net.ini")
    assert ran.returncode == 0
    assert ran.stderr.count("warning DV138: this system has no processes with limits") == 1
    assert elsewhere(tmp_path / "digits", "report", "net.ini", "--html", "net.html").returncode == 0
    assert elsewhere(tmp_path / "digits", "init", "digits.keras", "-o", "first.ini").returncode == 0


def test_several_networks_are_converted_in_one_process(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(ROOT / "examples" / "digits_pytorch", tmp_path / name, ignore=shutil.ignore_patterns("output"))
    ran = elsewhere(tmp_path, "one/net.ini", "two/net.ini", "--jobs", "2")
    assert ran.returncode == 0, ran.stderr
    assert "DV140: this system cannot start processes as Linux does" in ran.stderr


def test_layouts_are_converted(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(16, dtype=np.float16).reshape(1, 4, 2, 2))
    assert elsewhere(tmp_path, "layouts", "pack", "--to", "NHWC", "x.npy", "x.bin").returncode == 0
    assert (tmp_path / "x.bin").stat().st_size == 32


def test_a_damaged_file_is_refused_there_too(tmp_path: Path) -> None:
    data = bytearray((ROOT / "examples/digits_keras/digits_keras2.h5").read_bytes())
    data[8:64] = bytes(56)
    (tmp_path / "damaged.h5").write_bytes(data)
    ran = elsewhere(tmp_path, "inspect", "damaged.h5")
    assert ran.returncode == 1 and re.search(r"error DV20\d", ran.stderr), ran.stderr
    assert "Traceback" not in ran.stderr


def test_modules_of_one_system_are_imported_late() -> None:
    """Only in functions, which may be left out."""
    pattern = re.compile(r"^(import|from) (fcntl|resource|pwd|grp|termios|msvcrt|winreg)\b", re.MULTILINE)
    assert [
        path.name for path in (ROOT / "cnn_convertor").rglob("*.py") if pattern.search(path.read_text("utf-8"))
    ] == []
