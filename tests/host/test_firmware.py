"""The example application builds against the device and reads its digit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from host.device import ROOT, SANITIZERS, build

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the converted network."""
    folder = tmp_path_factory.mktemp("digits")
    for name in ("net.ini", "digits.keras"):
        shutil.copy(EXAMPLES / "digits_keras" / name, folder)
    command = [sys.executable, str(ROOT / "convertor.py"), "-q", str(folder / "net.ini")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "output" / "digits"


def read_digit(program: Path, digits: Path) -> str:
    command = [program, digits / "digits_weights.bin"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_example_reads_its_digit(library: Path, digits: Path) -> None:
    sources = [str(EXAMPLES / "firmware" / "main.cpp"), str(digits / "digits_gen.cpp"), str(library)]
    program = build(library.with_name("firmware"), *SANITIZERS, f"-I{digits}", *sources, with_device=False)
    assert read_digit(program, digits).startswith("this is a 3 ")


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_all_sources_compile_without_a_build_system(digits: Path, tmp_path: Path) -> None:
    """Optimized, and with what the compiler warns of then. A kit for the PC compiles each source on its own."""
    sources = [str(EXAMPLES / "firmware" / "main.cpp"), str(digits / "digits_gen.cpp")]
    program = build(tmp_path / "firmware", f"-I{digits}", *sources)
    assert read_digit(program, digits).startswith("this is a 3 ")
