"""The driver's C interface behaves; test_api.cpp says how."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from host.device import HOST, SANITIZERS, WARNINGS, build

HERE = Path(__file__).resolve().parent


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_c_interface(library: Path) -> None:
    source = str(HERE / "test_api.cpp")
    program = build(library.with_name("api"), *SANITIZERS, f"-I{HOST / 'src'}", source, str(library), with_device=False)
    result = subprocess.run([program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("header", ["dmp_dv.h", "dmp_dv_cmdraw_v0.h", "dmp_dv_cmdraw_v1.h", "dmp_dv_host.h"])
def test_headers_compile_alone_as_c11(header: str, tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text(f'#include "{header}"\n')
    command = ["gcc", "-std=c11", *WARNINGS, "-Wpedantic", f"-I{HOST / 'include'}", "-fsyntax-only", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("source", ["cpu_layers", "layout_check", "network"])
def test_the_runtime_compiles_where_the_compiler_has_the_type_of_halves(source: str) -> None:
    """As g++ on ARM does. A type of the same size takes its place here."""
    options = ["-std=c++17", "-D__ARM_FP16_FORMAT_IEEE=1", "-D__fp16=short", f"-I{HOST / 'include'}", "-fsyntax-only"]
    command = ["g++", *options, str(HOST / "src" / f"{source}.cpp")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
