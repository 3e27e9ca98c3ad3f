"""Every command on a network for nvdla-full."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cnn_convertor import cli

EXAMPLES = Path(__file__).parents[2] / "examples"
INI = """\
[INPUT]
name = digits
definition = {definition}
scale = 0.0041666667
[OUTPUT]
output_folder = output
generate_source = 1
generate_dot = 1
report = 1
quantization = 0
[OPTIONAL]
device = nvdla-full
"""
FILES = {
    *("digits.dot", "digits.html", "digits.json", "digits.nvdla", "digits_cpu.h", "digits_gen.cpp", "digits_gen.h"),
    *("digits_report.json", "digits_weights.bin"),
}


@pytest.fixture
def ini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    definition = EXAMPLES / "digits_keras" / "digits.keras"
    Path("net.ini").write_text(INI.format(definition=definition), encoding="utf-8")
    return "net.ini"


def said(arguments: Sequence[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    capsys.readouterr()
    assert cli.main([*arguments]) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_a_conversion_with_what_surrounds_it(ini: str, capsys: pytest.CaptureFixture[str]) -> None:
    summary = said([ini, "--depfile", "deps", "--cache", "cache"], capsys)
    assert "nothing is measured" in summary and "driver" not in summary
    assert {path.name for path in Path("output/digits").iterdir()} == FILES
    manifest = json.loads(Path("output/digits/digits.json").read_text(encoding="utf-8"))
    assert set(manifest["files"]) == FILES - {"digits.json"} and manifest["device"] == "nvdla-full"
    page = Path("output/digits/digits.html").read_text(encoding="utf-8")
    assert "<td>all input and all weights fit</td>" in page and "unified buffer" not in page
    assert "net.ini" in Path("deps").read_text(encoding="utf-8")
    shutil.rmtree("output")
    said([ini, "--cache", "cache"], capsys)
    assert {path.name for path in Path("output/digits").iterdir()} == FILES
    assert "up to date" in said(["check", ini], capsys)
    assert "0 findings" in said(["audit", "output/digits/digits.nvdla", "--device", "nvdla-full"], capsys)
    assert "NAME.nvdla" in said(
        ["audit", "output/digits/digits_gen.cpp", "output/digits/digits_weights.bin"], capsys, 1
    )


def test_a_loadable_that_changed_is_found(ini: str, capsys: pytest.CaptureFixture[str]) -> None:
    said([ini], capsys)
    loadable = Path("output/digits/digits.nvdla")
    contents = bytearray(loadable.read_bytes())
    contents[-1] ^= 1
    loadable.write_bytes(contents)
    shown = said(["check", ini], capsys, 1)
    assert "digits.nvdla" in shown and f"1 of {len(contents):,} bytes differ" in shown
    text = Path(ini).read_text(encoding="utf-8").replace("report = 1", "report = 1\nloadable = none")
    loadable.write_bytes(contents[:-1] + bytes([contents[-1] ^ 1]))
    Path(ini).write_text(text, encoding="utf-8")
    said([ini], capsys)
    assert not loadable.exists(), "the earlier conversion's own file is removed"


COMMANDS = {
    "inspect": (["inspect", "net.ini", "--cost", "-v"], "all input and all weights fit"),
    "devices": (["devices", "nvdla-full"], "bandwidth of memory"),
    "compare": (["inspect", "net.ini", "--device", "all"], "nvdla-full"),
    "passes": (["passes", "net.ini"], "dense-to-convolutions"),
    "sweep": (["sweep", "net.ini", "--vary", "fusion=none,documented"], "documented"),
    "folder": (["."], "digits_gen.cpp"),
    "export": (["layouts", "export", "net.ini", "--target", "nvdla-fp16", "-o", "exported"], "surfaces"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(name: str, ini: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, expected = COMMANDS[name]
    assert expected in said(arguments, capsys)


@pytest.mark.rotating(turns=4)
def test_a_network_runs(ini: str, compiler: None, capsys: pytest.CaptureFixture[str]) -> None:
    said([ini], capsys)
    image = str(EXAMPLES / "digits_samples" / "digit_3.png")
    assert "\n  3  " in said(["run", ini, "--inputs", image], capsys)


@pytest.mark.rotating(turns=4)
def test_cmake_builds_a_network(ini: str, tmp_path: Path, compiler: None) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    Path("main.cpp").write_text('#include "digits_gen.h"\nint main() { return Cdigits::kIoBytes == 0; }\n', "utf-8")
    lines = [
        "cmake_minimum_required(VERSION 3.20)",
        "project(app LANGUAGES CXX)",
        "find_package(CnnConvertor REQUIRED)",
        "cnn_convertor_add_network(digits net.ini)",
        "add_executable(app main.cpp)",
        "target_link_libraries(app PRIVATE digits)",
    ]
    Path("CMakeLists.txt").write_text("\n".join(lines), encoding="utf-8")
    package = Path(__file__).parents[2] / "cmake"
    configure = ["cmake", "-S", ".", "-B", "build", f"-DCnnConvertor_DIR={package}", "-DCNN_CONVERTOR_RUNTIME=NONE"]
    for call in (configure, ["cmake", "--build", "build"], ["build/app"]):
        ran = subprocess.run(call, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
