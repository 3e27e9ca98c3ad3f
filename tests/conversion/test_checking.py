"""`check` finds what a conversion would change in committed outputs, and names the layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cnn_convertor.cli import main
from cnn_convertor.config import Config
from cnn_convertor.conversion.checking import check, unknown_files
from cnn_convertor.conversion.convert import convert

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits_keras" / "net.ini"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    config = replace(Config.read(EXAMPLE), output_folder=tmp_path)
    convert(config)
    return config


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def state(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_nothing_differs_after_a_conversion(config: Config) -> None:
    assert check(config) == ()


def test_a_register_is_shown_with_its_layer(config: Config, tmp_path: Path) -> None:
    source = tmp_path / "digits" / "digits_gen.cpp"
    layer = source.read_bytes().index(b"// Layer_3")
    edit(source, lambda text: text[:layer] + text[layer:].replace(b"cmd.run[1].m = 16", b"cmd.run[1].m = 17", 1))
    before = state(tmp_path)
    (difference,) = check(config)
    assert difference.file == source
    assert 'in Layer_3, "narrow", "wide", "wide_prelu", "branches"' in difference.lines[0]
    assert [line for line in difference.lines if line[0] in "-+"] == [
        line for line in difference.lines if "cmd.run[1].m = 1" in line
    ]
    assert state(tmp_path) == before


def test_the_first_line_of_a_layer_is_shown_with_this_layer(config: Config, tmp_path: Path) -> None:
    edit(tmp_path / "digits" / "digits_gen.cpp", lambda text: text.replace(b"// Layer_3:", b"// layer 3:", 1))
    (difference,) = check(config)
    assert 'in Layer_3, "narrow"' in difference.lines[0]


def test_files_that_no_conversion_wrote_are_named(config: Config, tmp_path: Path) -> None:
    assert unknown_files(config) == ()
    (tmp_path / "digits" / "notes.txt").touch()
    (tmp_path / "digits" / ".hidden").touch()
    assert unknown_files(config) == ("notes.txt",)
    assert unknown_files(replace(config, output_folder=tmp_path / "other")) == ()


def test_empty_weights_are_shown(config: Config, tmp_path: Path) -> None:
    edit(tmp_path / "digits" / "digits_weights.bin", lambda _: b"")
    (difference,) = check(config)
    assert difference.lines[0] == "0 bytes committed, 21,264 bytes converted now"


def test_weights_are_counted_by_layer(config: Config, tmp_path: Path) -> None:
    weights = tmp_path / "digits" / "digits_weights.bin"
    edit(weights, lambda data: data[:9000] + b"\xff\xff" + data[9002:])
    (difference,) = check(config)
    assert difference == (weights, ("branches: 2 of 4,672 bytes differ, the first at offset 9,000",))
    edit(weights, lambda data: data[:9001])
    (difference,) = check(config)
    assert difference.lines[0] == "9,001 bytes committed, 21,264 bytes converted now"
    assert "tail: its 6,944 bytes at offset 12,848 are not all there" in difference.lines


def test_missing_and_obsolete_files_are_named(config: Config, tmp_path: Path) -> None:
    (tmp_path / "digits" / "digits_gen.h").unlink()
    found = check(replace(config, generate_dot=False))
    assert [
        (difference.file.name, difference.lines[0]) for difference in found if difference.file.suffix != ".json"
    ] == [
        ("digits_gen.h", "it is missing"),
        ("digits.dot", "the conversion no longer writes it"),
    ]


def test_the_command_updates_only_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("net.ini", "digits.keras"):
        (tmp_path / name).write_bytes(EXAMPLE.with_name(name).read_bytes())
    ini = str(tmp_path / "net.ini")
    assert main(["check", ini]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "error DV123: 6 files of the outputs would change" in said
    assert "if the files were calibrated, `verify` with the same --calibrate compares them" in said
    assert not (tmp_path / "output").exists()
    assert main(["check", "--update", ini]) == 0
    assert main(["check", ini]) == 0
    assert main(["check", ini, str(tmp_path / "other.ini")]) == 2
