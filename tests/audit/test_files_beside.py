"""The audit finds what contradicts the comments in a source, and files that are not those of the manifest beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cnn_convertor.audit import audit
from cnn_convertor.errors import ModelError, Problem

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str, folder: Path) -> Path:
    """The source of an example, with the files beside it."""
    shutil.copytree(EXAMPLES / name, folder / name)
    return folder / name / "output" / "digits" / "digits_gen.cpp"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("actfunc = 2; ", "actfunc = 3; "),
        ("actfunc = 0;", "actfunc = 2;"),
        ("p = 0x0303;", "p = 0x0305;"),
        ("conv_pad = 0x01010101;", "conv_pad = 0x01000101;"),
        ("pool_enable = 1;", "pool_enable = 2;"),
        ("actfunc_param = 0x3000;", "actfunc_param = 0x3001;"),
        ("conv_enable = 3; ", "conv_enable = 9; "),
    ],
)
def test_a_register_that_contradicts_its_comment_is_found(old: str, new: str, tmp_path: Path) -> None:
    source = example("digits_keras", tmp_path)
    source.with_name("digits.json").unlink()
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, new, 1))
    found = [finding for finding in audit(source).findings if finding.code == "DV691"]
    assert found and new.partition(" ")[0] in str(found[0])


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b""), lambda path: path.write_text("{")])
@pytest.mark.parametrize("file", ["digits_gen.h", "digits_weights.bin", "digits_cpu.h"])
def test_files_that_the_manifest_does_not_list_so_are_found(
    change: Callable[[Path], object], file: str, tmp_path: Path
) -> None:
    source = example("digits_keras", tmp_path)
    assert not audit(source).findings
    change(source.with_name(file))
    assert any(found.code == "DV690" and str(found.where) == file for found in problems(source))


def problems(source: Path) -> tuple[Problem, ...]:
    """What is found, or why the source is refused."""
    try:
        return audit(source).findings
    except ModelError as error:
        return error.problems


@pytest.mark.parametrize("text", ["", "{", '{"files": {"../x": {"bytes": 1, "sha256": ""}}}', '{"files": {"x": 3}}'])
def test_a_damaged_manifest_is_found(text: str, tmp_path: Path) -> None:
    source = example("digits_keras", tmp_path)
    source.with_name("digits.json").write_text(text)
    assert [finding.code for finding in audit(source).findings] == ["DV690"]


def test_weights_beside_the_source_are_checked(tmp_path: Path) -> None:
    source = example("digits_keras", tmp_path)
    source.with_name("digits.json").unlink()
    source.with_name("digits_weights.bin").write_bytes(b"")
    assert [finding.code for finding in audit(source).findings] == ["DV680"]
