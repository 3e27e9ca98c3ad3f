"""The manifest describes a conversion, and says which files the next one may remove."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor import cli
from cnn_convertor.config import Config
from cnn_convertor.conversion.convert import convert
from cnn_convertor.conversion.manifest import board_of, earlier_files
from cnn_convertor.devices.dv700.device_file import read_profile

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits_keras" / "net.ini"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return replace(Config.read(EXAMPLE), output_folder=tmp_path)


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "digits").iterdir()}


def test_the_manifest_describes_the_conversion(config: Config, tmp_path: Path) -> None:
    written = convert(config).files
    values = json.loads(written[-1].read_text())
    assert values["inputs"] == [
        {"name": "image", "shape": [8, 8, 1], "layout": "hwc8", "dtype": "float16", "offset": 2048, "bytes": 128}
    ]
    assert [(output["name"], output["shape"], output["dtype"]) for output in values["outputs"]] == [
        ("digit", [1, 1, 10], "float32")
    ]
    assert values["layers"][values["outputs"][0]["layer"]]["name"] == "digit"
    assert values["preprocessing"]["scale"] == pytest.approx(1 / 240, rel=1e-6)
    assert {layer for line in values["layers"] for layer in line["computes"]} >= {"stem", "narrow", "wide", "digit"}
    assert (values["device"], values["fusion"]) == ("dv700", "documented")
    commands = [layer for layer in values["layers"] if layer["type"] == "LT_CONV"]
    assert {command["evidence"] for command in commands} <= {"proven", "documented"}
    assert all(command["estimate"]["bytes"] > command["output"]["bytes"] for command in commands)
    buffers = values["buffers"]
    assert max(buffer["offset"] + buffer["bytes"] for buffer in buffers) == values["io_bytes"]
    assert {"image", *(layer["name"] for layer in values["layers"])} == {buffer["name"] for buffer in buffers}
    for one, other in itertools.combinations((b for b in buffers if b["kind"] != "concatenation"), 2):
        if max(one["first"], other["first"]) <= min(one["last"], other["last"]):
            assert one["offset"] + one["bytes"] <= other["offset"] or other["offset"] + other["bytes"] <= one["offset"]
    ends = [w["offset"] + w["bytes"] for layer in values["layers"] for w in layer.get("weights", [])]
    assert max(ends) == values["weight_bytes"] == (tmp_path / "digits/digits_weights.bin").stat().st_size
    assert values["files"] == {
        path.name: {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in written[:-1]
    }


def test_the_audit_takes_the_device_from_the_manifest(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A unified buffer that is too small for the network stands for another device."""
    convert(replace(config, device=read_profile("zia-c2", Path()), ub_size=400_000))
    source = tmp_path / "digits" / "digits_gen.cpp"
    name, limits = board_of(source) or ("", None)
    assert name == "zia-c2"
    assert limits == {
        "max_kernel_size": 7,
        "ub_size": 400_000,
        "deconvolves": False,
        "pools_unevenly": False,
        "pads_beyond_map": True,
        "pools_tiles": False,
    }
    assert cli.main(["audit", str(source)]) == 0
    assert "digits on zia-c2: 6 commands, 0 findings" in capsys.readouterr().out
    assert cli.main(["audit", str(source), "--ub-size", "1024"]) == 1
    assert cli.main(["audit", str(source), "--device", "dv700"]) == 0
    assert "digits on dv700: " in capsys.readouterr().out
    manifest = tmp_path / "digits" / "digits.json"
    for old, new in [
        ('"ub_size": 400000', '"ub_size": "400000"'),
        ('"device": "zia-c2"', '"device": 1'),
        ("digits_gen.cpp", "x"),
    ]:
        text = manifest.read_text()
        assert old in text
        manifest.write_text(text.replace(old, new))
        assert board_of(source) is None
        manifest.write_text(text)
    manifest.unlink()
    assert cli.main(["audit", str(source)]) == 0
    assert "digits on dv700: " in capsys.readouterr().out


def test_a_conversion_removes_what_an_earlier_one_wrote(config: Config, tmp_path: Path) -> None:
    convert(config)
    (tmp_path / "digits" / "mine_gen.cpp").write_text("mine")
    convert(replace(config, generate_source=False, generate_dot=False))
    assert names(tmp_path) == {"digits.json", "digits_weights.bin", "mine_gen.cpp"}


def test_files_that_changed_since_stay(config: Config, tmp_path: Path) -> None:
    convert(config)
    with (tmp_path / "digits" / "digits_gen.h").open("a") as stream:
        stream.write("// mine\n")
    convert(replace(config, generate_source=False))
    assert "digits_gen.h" in names(tmp_path) and "digits_gen.cpp" not in names(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", "[" * 100_000, '{"network": "digits"}', '{"network": "digits", "schema": 1, "files": []}',
     '{"network": "digits", "schema": 1, "files": {"a": 3}}', '{"network": "other", "schema": 1, "files": {"a.h": {"bytes": 1}}}'],
    ids=range(9),
)  # fmt: skip
def test_a_manifest_of_another_kind_lists_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("a")
    (tmp_path / "digits.json").write_text(text)
    assert earlier_files(tmp_path, "digits") == ()


def test_a_pipe_is_no_manifest(tmp_path: Path) -> None:
    """Reading it would wait for a writer."""
    os.mkfifo(tmp_path / "digits.json")
    assert earlier_files(tmp_path, "digits") == ()


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000, "a\0"])
@pytest.mark.parametrize("size", [1, None])
def test_what_cannot_be_a_file_is_not_listed(name: str, size: int | None, tmp_path: Path) -> None:
    values = {"network": "digits", "schema": 1, "files": {name: {"bytes": size}}}
    (tmp_path / "digits.json").write_text(json.dumps(values))
    assert earlier_files(tmp_path, "digits") == ("digits.json",)


def test_a_manifest_never_lists_files_outside_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "digits"
    (folder / "doc").mkdir(parents=True)
    header, page = "digits_gen.h", "doc/pages.dox"
    for path in (tmp_path / header, folder / header, folder / page):
        path.write_text("a")
    (folder / "digits_cpu.h").symlink_to(tmp_path / header)
    (folder / "up").symlink_to(tmp_path)
    outside = (f"../{header}", str(tmp_path / header), f"doc/../../{header}", "digits_cpu.h", f"up/{header}", "..", "")
    listed: dict[str, Any] = {name: {"bytes": 1} for name in (*outside, header, page)}
    (folder / "digits.json").write_text(json.dumps({"network": "digits", "schema": 1, "files": listed}))
    assert earlier_files(folder, "digits") == ("digits.json", header, page)


def test_a_manifest_lists_only_what_a_conversion_writes(config: Config, tmp_path: Path) -> None:
    """Whoever writes a manifest must not be able to name files of the user's, which the next conversion would remove."""
    sizes = {"mine.txt": 4, "digits_notes.txt": 4, "mine.cpp": 4, "earlier.cpp": 25, "digits.dot": 4}
    folder = tmp_path / "digits"
    folder.mkdir()
    for name, size in sizes.items():
        text = "// made by cnn-convertor " if name == "earlier.cpp" else "mine"
        (folder / name).write_text(text)
        assert len(text) == size
    listed = {name: {"bytes": size} for name, size in sizes.items()}
    (folder / "digits.json").write_text(json.dumps({"network": "digits", "schema": 1, "files": listed}))
    convert(replace(config, output_folder=tmp_path, generate_dot=False))
    assert {name for name in sizes if (folder / name).exists()} == {"mine.txt", "digits_notes.txt", "mine.cpp"}
