"""The loops for each kind of CPU give the same bits; loops.cpp says how."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cnn_convertor.emulation.build import LOOP_FLAGS, device_library, find_compiler
from host.device import HOST, SANITIZERS, build

SOURCE = Path(__file__).resolve().parent / "loops.cpp"
OPTIONS = (f"-I{HOST / 'src'}", "-Wl,--allow-multiple-definition")  # loops.cpp includes some of the library's sources


def test_every_loop_that_this_cpu_runs_gives_the_same_bits(library: Path) -> None:
    check(build(library.with_name("loops"), *SANITIZERS, *OPTIONS, str(SOURCE), str(library), with_device=False))


@pytest.mark.skipif(shutil.which("clang++") is None, reason="no clang++")
@pytest.mark.usefixtures("compiler")
def test_clang_compiles_every_loop_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "clang++")
    program, library = tmp_path / "loops", device_library(find_compiler())
    flags = [*LOOP_FLAGS, *OPTIONS, f"-I{HOST / 'include'}"]
    subprocess.run(["clang++", *flags, str(SOURCE), str(library), "-o", str(program)], check=True)
    check(program)


def check(program: Path) -> None:
    result = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("pass\n", "")
