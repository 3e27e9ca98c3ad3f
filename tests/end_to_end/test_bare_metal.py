"""The application of examples/nvdla: it runs on the twin, and compiles for boards without an operating system."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "nvdla"
PROCESSORS = ("aarch64", "riscv64")


def make(target: str, build: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    call = ["make", "-C", str(EXAMPLE), target, f"BUILD={build}", f"PYTHON={sys.executable}"]
    made = subprocess.run(call, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert "warning:" not in made.stderr


@pytest.mark.rotating(turns=4)
def test_the_application_reads_ten_digits_on_the_twin(tmp_path: Path, compiler: None) -> None:
    make("pc", tmp_path)
    ran = subprocess.run([tmp_path / "pc"], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [f"this is a {digit}" for digit in range(10)]


@pytest.mark.slow
@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_application_compiles_for_a_board(processor: str, tmp_path: Path) -> None:
    """A network without CPU layers calls only memcpy and memset: it needs no heap, exceptions or operating system."""
    prefix = f"{processor}-linux-gnu-"
    if shutil.which(f"{prefix}g++") is None:
        pytest.skip(f"{prefix}g++ is not installed")
    make(processor, tmp_path)
    assert undefined(prefix, tmp_path / processor / "digits_gen.o") <= {"memcpy", "memset"}
    of_network = undefined(prefix, tmp_path / processor / "main.o") - {"memcpy", "memset"}
    assert all("board_" in name or "Cdigits" in name for name in of_network), of_network


def undefined(prefix: str, file: Path) -> set[str]:
    listed = subprocess.run([f"{prefix}nm", "-u", file], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in listed.stdout.splitlines() if line.strip()}
