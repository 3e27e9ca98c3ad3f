"""Models of other frameworks are recognized by their names or contents, ours are not."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from cnn_convertor import cli
from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.unsupported_formats import FORMATS, explain
from cnn_convertor.inspection import inspect

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("suffix", FORMATS)
def test_each_format_says_what_it_is_and_what_to_do(tmp_path: Path, suffix: str) -> None:
    for path in (tmp_path / f"net{suffix}", tmp_path / f"NET{suffix.upper()}"):
        path.write_bytes(b"something")
        problem = explain(path)
        assert problem is not None and problem.code == "DV208"
        assert FORMATS[suffix].what in problem.message and problem.hint == FORMATS[suffix].way


def test_some_are_known_by_their_contents(tmp_path: Path) -> None:
    (tmp_path / "lite").write_bytes(b"\x1c\0\0\0TFL3" + b"\0" * 20)
    with zipfile.ZipFile(tmp_path / "torch", "w") as archive:
        archive.writestr("net/data.pkl", b"")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").touch()
    found = {name: explain(tmp_path / name) for name in ("lite", "torch", "saved", "saved/saved_model.pb")}
    assert [problem.message for problem in found.values() if problem is not None] == [
        "this is a TensorFlow Lite model, which cannot be read",
        "this is a PyTorch model, which cannot be read",
        "this is a TensorFlow SavedModel folder, which cannot be read",
        "this is a TensorFlow SavedModel folder, which cannot be read",
    ]


@pytest.mark.parametrize(
    "path", [*ROOT.glob("examples/digits_*/digits*.*"), ROOT / "examples", ROOT / "none", ROOT / ("a" * 300)], ids=str
)
def test_what_is_read_here_is_left_alone(path: Path) -> None:
    assert explain(path) is None


def test_a_keras_file_with_the_name_of_another_format_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "net.pb").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    assert explain(tmp_path / "net.pb") is None


def test_a_damaged_archive_is_left_to_others(tmp_path: Path) -> None:
    (tmp_path / "net").write_bytes(b"PK\3\4" + b"\0" * 100)
    assert explain(tmp_path / "net") is None


@pytest.mark.parametrize(("command", "code"), [(["inspect"], 1), ([], 2)])
def test_the_command_line_says_how_to_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], code: int
) -> None:
    (tmp_path / "net.pt").write_bytes(b"PK")
    assert cli.main([*command, str(tmp_path / "net.pt")]) == code
    error = capsys.readouterr().err
    assert error.startswith("error DV208: this is a PyTorch model, which cannot be read\n")
    assert "torch.onnx.export(model, image, 'model.onnx')" in error


def test_an_inspection_of_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "net.pt").touch()
    with pytest.raises(ModelError, match="DV208"):
        inspect(tmp_path / "net.pt")
