"""The files for build systems that docs/usage.md shows convert when an input changes, and compile what changes with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
DIGITS = ROOT / "examples" / "digits_keras"
HEADERS = ROOT / "cnn_convertor" / "host" / "include"
AARCH64 = 183  # e_machine of ELF

Run: TypeAlias = Callable[..., str]


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A folder with a network in net/, and the command cnn-convertor in bin/."""
    (tmp_path / "net").mkdir()
    text = (DIGITS / "net.ini").read_text(encoding="utf-8").replace("name = digits ", "name = my_network ")
    (tmp_path / "net" / "net.ini").write_text(text, encoding="utf-8")
    shutil.copy(DIGITS / "digits.keras", tmp_path / "net")
    (tmp_path / "main.cpp").write_text('#include "my_network_gen.h"\nint main() { Cmy_network network; }\n')
    program = tmp_path / "bin" / "cnn-convertor"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT / "convertor.py"}" "$@"\n')
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def run(application: Path) -> Run:
    """Runs a program there; gives what it prints, or skips without the program."""
    environment = {**os.environ, "PATH": f"{application / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def call(*words: object) -> str:
        if shutil.which(str(words[0]), path=environment["PATH"]) is None:
            pytest.skip(f"no {words[0]}")
        call = [str(word) for word in words]
        return subprocess.run(call, cwd=application, env=environment, check=True, capture_output=True, text=True).stdout

    return call


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def rewrite(path: Path, text: str, seconds: int) -> None:
    """Give a file another text, and a time in the future, which is newer than what is built meanwhile."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, (time.time() + seconds,) * 2)


@pytest.mark.slow
def test_make_converts_when_an_input_is_newer(application: Path, run: Run) -> None:
    (text,) = blocks("make")
    (application / "Makefile").write_text(text)
    assert "cnn-convertor" in run("make")
    assert "up to date" in run("make")
    os.utime(application / "net/digits.keras", (time.time() + 100,) * 2)
    assert "cnn-convertor" in run("make")


@pytest.mark.slow
def test_meson_compiles_what_depends_on_a_change(application: Path, run: Run) -> None:
    for text in blocks("meson"):
        path = application / text.partition("\n")[0].removeprefix("# ")
        path.parent.mkdir(exist_ok=True)
        # Without a runtime to link.
        text = re.sub(r"dependency\('dmpdv'\).*", f"declare_dependency(compile_args: '-I{HEADERS}')", text)
        path.write_text(text.replace("executable(", "static_library("))
    run("meson", "setup", "-Doptimization=0", "build")
    ini = application / "net" / "net.ini"

    def built() -> tuple[bool, int]:
        """Whether the network is converted, and how many sources are compiled."""
        lines = run("ninja", "-C", "build", "-v").splitlines()
        return any("--depfile-target" in line for line in lines), sum(" -c " in line for line in lines)

    assert built() == (True, 2)
    assert built() == (False, 0)
    rewrite(ini, ini.read_text(encoding="utf-8") + "; a comment\n", 100)
    assert built() == (True, 0)
    assert built() == (False, 0)
    rewrite(ini, ini.read_text(encoding="utf-8").replace("quantization = 0", "quantization = 1"), 200)
    assert built() == (True, 2), "the header says how large the weights are"


def test_cmake_compiles_every_source_of_the_emulated_device() -> None:
    host = ROOT / "cnn_convertor" / "host"
    listed = re.findall(r"src/(\w+\.cpp)", (host / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in (host / "src").glob("*.cpp") if path.name != "runner.cpp")


@pytest.mark.slow
def test_cmake_compiles_a_network_for_the_board(application: Path, run: Run) -> None:
    """With the toolchain file, and with the SDK's headers and runtime in the place of the emulated device."""
    if shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("no aarch64-linux-gnu-g++")
    (application / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\n"
        "project(app LANGUAGES CXX)\n"
        "add_library(sdk INTERFACE)\n"
        f"target_include_directories(sdk INTERFACE {HEADERS})\n"
        "find_package(CnnConvertor REQUIRED)\n"
        "cnn_convertor_add_network(my_network net/net.ini)\n"
    )
    folder = run("cnn-convertor", "--cmake-dir").strip()
    flags = [f"-DCnnConvertor_DIR={folder}", "-DCNN_CONVERTOR_RUNTIME=sdk", f"-DPython3_EXECUTABLE={sys.executable}"]
    run("cmake", f"-DCMAKE_TOOLCHAIN_FILE={folder}/aarch64-linux-gnu.cmake", "-B", "build", *flags)
    run("cmake", "--build", "build")
    (compiled,) = (application / "build").rglob("my_network_gen.cpp.o")
    assert int.from_bytes(compiled.read_bytes()[18:20], "little") == AARCH64
    assert not list((application / "build").rglob("dmpdv*"))
