"""Mistakes of users, and the places and ways out that the messages name."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor import cli

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits_keras"


@pytest.fixture
def ini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in ("net.ini", "digits.keras"):
        shutil.copy(DIGITS / file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return Path("net.ini")


def with_line(ini: Path, section: str, line: str) -> int:
    """Write a line into a section; returns its number."""
    text = re.sub(r"(?m)^scale = .*\n", "", ini.read_text())
    if f"[{section}]" not in text:
        text += f"\n[{section}]\n"
    before, _, after = text.partition(f"[{section}]\n")
    ini.write_text(f"{before}[{section}]\n{line}\n{after}")
    return before.count("\n") + 2


@pytest.mark.parametrize(
    ("section", "line", "message", "remedy"),
    [
        ("OPTIONAL", "device = zia", 'DV150: there is no device "zia"; did you mean "zia-c3"?', "dv700, zia-c2"),
        ("OUTPUT", "outputs = stemm", 'DV117: [OUTPUT] outputs: the network has no layer "stemm"', '"stem"'),
        (
            "INPUT",
            "inputs = nothing",
            'DV117: [INPUT] inputs: the network has no layer "nothing"',
            "inspect digits.keras",
        ),
        ("INPUT", "mean = 127,5", "DV106: [INPUT] mean: expected one number", "write decimals with a point"),
    ],
)
def test_a_message_names_the_line_of_the_ini_file(
    section: str, line: str, message: str, remedy: str, ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = with_line(ini, section, line)
    assert cli.main([str(ini)]) != 0
    said = capsys.readouterr().err
    assert f"error {message}" in said and f"--> net.ini:{number}\n" in said
    assert remedy in said.partition("try: ")[2]


def test_an_input_of_an_unknown_size_names_the_line(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = with_line(ini, "INPUT", "inputs = stem, stem_norm")
    assert cli.main([str(ini)]) == 2
    assert f'no output needs the result of "stem"\n  --> net.ini:{number}\n' in capsys.readouterr().err


def test_shift_jis_is_read_with_a_warning(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini.write_bytes("; 手書き数字\n".encode("cp932") + ini.read_bytes())
    assert cli.main(["inspect", str(ini)]) == 0
    assert "warning DV137: this is not UTF-8, and is read as Shift-JIS" in (said := capsys.readouterr().err)
    assert "--> net.ini:1\n" in said and "save it as UTF-8" in said
    ini.write_bytes(b"; \xff\xff\n" + ini.read_bytes())
    assert cli.main(["inspect", str(ini)]) == 2
    assert "error DV101: this is not text in UTF-8" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(ini), "--cache", "digits.keras/cache"]) == 2
    said = capsys.readouterr().err
    assert "DV126: the cache cannot be written, the system says: Not a directory\n  --> digits.keras/cache" in said


def test_a_kit_that_cannot_be_written_names_its_folder(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["board", "kit", str(ini), "-o", "digits.keras/kit"]) == 2
    said = capsys.readouterr().err
    assert "--> digits.keras/kit\n  try: name a folder that can be written" in said
    assert "output_folder" not in said


@pytest.mark.parametrize("value", [np.nan, 1e300])
def test_samples_that_are_no_numbers_name_their_file(
    value: float, ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("bad.npy", np.full((1, 8, 8, 1), value))
    assert cli.main(["run", str(ini), "--inputs", "bad.npy"]) == 2
    assert 'DV707: the input "image" holds NaN or infinity\n  --> bad.npy\n' in capsys.readouterr().err


def test_check_names_files_that_no_conversion_writes(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-q", str(ini)]) == 0
    Path("output/digits/notes.txt").touch()
    assert cli.main(["check", str(ini)]) == 0
    assert "no conversion writes these files of the output folder: notes.txt" in capsys.readouterr().err


def test_check_gives_other_programs_the_place_of_each_file(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-q", str(ini)]) == 0
    source = Path("output/digits/digits_gen.cpp")
    lines = source.read_text().splitlines(keepends=True)
    source.write_text("".join([*lines[:20], "// mine\n", *lines[20:]]))
    Path("output/digits/digits.dot").unlink()
    assert cli.main(["check", str(ini), "--format", "github"]) == 1
    said = capsys.readouterr().err
    assert re.search(r"::error title=DV123,file=output/digits/digits_gen.cpp,line=2\d::this file would change", said)
    assert "file=output/digits/digits.dot::this file would change: it is missing" in said
