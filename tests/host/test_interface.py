"""The emulated headers declare the driver's interface, exactly, so that applications compile for board and PC alike.

interface/names.c checks each name and interface/every_call.c is an application; both were written from the specification.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from host.device import HOST, SANITIZERS

INTERFACE = Path(__file__).resolve().parent / "interface"
INCLUDE = HOST / "include"
HEADERS = ("dmp_dv.h", "dmp_dv_cmdraw_v0.h", "dmp_dv_cmdraw_v1.h")
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
C, CPP = ["-x", "c", "-std=c11", "-Wstrict-prototypes"], ["-x", "c++", "-std=c++11"]
LANGUAGES = [("gcc", C), ("g++", CPP), ("clang", C), ("clang++", CPP)]
IDS = [compiler for compiler, _ in LANGUAGES]

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


def code(path: Path) -> str:
    """The text without comments."""
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def names(text: str) -> set[str]:
    """The interface's names in a text."""
    words = set(re.findall(r"\b(?:dmp_dv|DMP_DV)_\w+", re.sub(r"#include.*", "", text)))
    return {word for word in words if not word.endswith(("_H", "_impl"))}


CHECKS = code(INTERFACE / "names.c")
DECLARED = {header: names(code(INCLUDE / header)) for header in HEADERS}


def compile_(compiler: str, *options: str) -> str:
    """What the compiler complains about."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    return subprocess.run([compiler, *STRICT, *options], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(("compiler", "language"), LANGUAGES, ids=IDS)
def test_every_name_has_its_value_type_and_place(compiler: str, language: list[str]) -> None:
    assert compile_(compiler, *language, f"-I{INCLUDE}", "-fsyntax-only", str(INTERFACE / "names.c")) == ""


def test_there_are_no_other_names() -> None:
    assert set().union(*DECLARED.values()) == names(CHECKS)


def test_constants_are_in_the_first_header_alone() -> None:
    assert not any(name.isupper() for header in HEADERS[1:] for name in DECLARED[header])


@pytest.mark.parametrize(("compiler", "language"), LANGUAGES, ids=IDS)
def test_an_application_uses_every_constant_and_function(
    compiler: str, language: list[str], library: Path, tmp_path: Path
) -> None:
    source, built = INTERFACE / "every_call.c", tmp_path / "application.o"
    checked = set(re.findall(r"^(?:CONSTANT\(|FUNCTION\([^,]*, )(\w+)", CHECKS, re.MULTILINE))
    assert len(checked) == 14 + 32 and checked <= names(code(source))
    assert compile_(compiler, *language, f"-I{INCLUDE}", "-c", str(source), "-o", str(built)) == ""
    program = tmp_path / "application"
    subprocess.run(["g++", *SANITIZERS, str(built), str(library), "-pthread", "-o", str(program)], check=True)
    result = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


# What changes in the headers. The checks of all names in the first group must fail then.
DEVIATIONS = {
    "every value": (r"#define (DMP_DV_\w+) ", r"#define \1 1"),
    "every result": (r"^[\w ]+ \*?(dmp_dv_\w+)\(", r"long double \1("),
    "every list of arguments": (r"\b(dmp_dv_\w+)\([^)]*\);", r"\1(long double);"),
    "every structure": (r"struct (dmp_dv_\w+) \{", r"struct \1 { uint64_t more;"),
}


@pytest.mark.parametrize(("compiler", "language"), LANGUAGES[:2], ids=IDS[:2])
@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_a_deviation_of_any_name_is_noticed(deviation: str, compiler: str, language: list[str], tmp_path: Path) -> None:
    pattern, replacement = DEVIATIONS[deviation]
    deviating = set()
    for header in HEADERS:
        text = code(INCLUDE / header)
        deviating |= set(re.findall(pattern, text, re.MULTILINE))
        (tmp_path / header).write_text(re.sub(pattern, replacement, text, flags=re.MULTILINE), encoding="utf-8")
    complaints = compile_(compiler, *language, f"-I{tmp_path}", "-fsyntax-only", str(INTERFACE / "names.c"))
    assert deviating and deviating <= names(complaints)


@pytest.mark.parametrize(("compiler", "language"), LANGUAGES[:2], ids=IDS[:2])
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("dmp_dv_mem_get_total_size(void)", "dmp_dv_mem_get_total_size(dmp_dv_context ctx)"),
        ("dmp_dv_cmdlist list, struct dmp_dv_cmdraw *cmd", "dmp_dv_cmdlist list, const struct dmp_dv_cmdraw *cmd"),
        ("int64_t dmp_dv_cmdlist_get_last", "int dmp_dv_cmdlist_get_last"),
        ("void dmp_dv_mem_unmap", "int dmp_dv_mem_unmap"),
        ("size_t offs, size_t size, int flags", "uint32_t offs, size_t size, int flags"),
        ("int32_t fc_freq", "uint32_t fc_freq"),
    ],
)
def test_a_near_signature_is_noticed(
    right: str, wrong: str, compiler: str, language: list[str], tmp_path: Path
) -> None:
    for header in HEADERS:
        (tmp_path / header).write_text((INCLUDE / header).read_text().replace(right, wrong, 1))
    assert right in (INCLUDE / HEADERS[0]).read_text()
    assert "names.c" in compile_(compiler, *language, f"-I{tmp_path}", "-fsyntax-only", str(INTERFACE / "names.c"))
