"""The loops for each kind of CPU give the same bits; loops.cpp says how."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cnn_convertor.emulation.build import LOOP_FLAGS, device_library
from cnn_convertor.workers.compiler import find_compiler
from host.device import HOST, SANITIZERS, build

SOURCE = Path(__file__).resolve().parent / "loops.cpp"
OPTIONS = (f"-I{HOST / 'src'}", "-Wl,--allow-multiple-definition")  # loops.cpp includes some of the library's sources


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_every_loop_that_this_cpu_runs_gives_the_same_bits(library: Path) -> None:
    """Under the sanitizers."""
    check(build(library.with_name("loops"), *SANITIZERS, *OPTIONS, str(SOURCE), str(library), with_device=False))


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("compiler_name", ["g++", pytest.param("clang++", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("compiler")
def test_optimized_loops_give_the_same_bits(
    compiler_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(compiler_name) is None:
        pytest.skip(f"no {compiler_name}")
    monkeypatch.setenv("CXX", compiler_name)
    program, library = tmp_path / "loops", device_library(find_compiler())
    flags = [*LOOP_FLAGS, *OPTIONS, f"-I{HOST / 'include'}"]
    subprocess.run([compiler_name, *flags, str(SOURCE), str(library), "-o", str(program)], check=True)
    check(program)


def check(program: Path) -> None:
    result = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("pass\n", "")
