"""Models of other frameworks are recognized by their names or contents, ours are not."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from cnn_convertor import cli
from cnn_convertor.conversion.inspection import inspect
from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.unsupported_formats import FORMATS, explain

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("suffix", FORMATS)
def test_each_format_says_what_it_is_and_what_to_do(tmp_path: Path, suffix: str) -> None:
    for path in (tmp_path / f"net{suffix}", tmp_path / f"NET{suffix.upper()}"):
        path.write_bytes(b"something")
        problem = explain(path)
        assert problem is not None and problem.code == "DV208"
        assert FORMATS[suffix].what in problem.message
        assert problem.hint == FORMATS[suffix].way.replace("FILE", f'"{path.name}"')


def test_some_are_known_by_their_contents(tmp_path: Path) -> None:
    (tmp_path / "lite").write_bytes(b"\x1c\0\0\0TFL3" + b"\0" * 20)
    with zipfile.ZipFile(tmp_path / "torch", "w") as archive:
        archive.writestr("net/data.pkl", b"")
    with zipfile.ZipFile(tmp_path / "script", "w") as archive:
        archive.writestr("net/data.pkl", b"")
        archive.writestr("net/code/__torch__.py", b"")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").touch()
    found = {name: explain(tmp_path / name) for name in ("lite", "torch", "script", "saved", "saved/saved_model.pb")}
    assert [problem.message for problem in found.values() if problem is not None] == [
        "this is a TensorFlow Lite model, which cannot be read",
        "this is a PyTorch model, which cannot be read",
        "this is a TorchScript model, which cannot be read",
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


def test_an_archive_of_a_later_version_is_left_to_others(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net", "w") as archive:
        archive.writestr("a", "")
    content = bytearray((tmp_path / "net").read_bytes())
    content[content.index(b"PK\1\2") + 6] = 84  # the version that is needed to read it
    (tmp_path / "net").write_bytes(content)
    assert explain(tmp_path / "net") is None


@pytest.mark.parametrize(("command", "code"), [(["inspect"], 1), ([], 2)])
def test_the_command_line_says_how_to_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], code: int
) -> None:
    (tmp_path / "net.pt").write_bytes(b"PK")
    assert cli.main([*command, str(tmp_path / "net.pt")]) == code
    error = capsys.readouterr().err
    assert error.startswith("error DV208: this is a PyTorch model, which cannot be read\n")
    _, lines = error.split("\n\n")
    assert lines.splitlines() == [
        "import torch",
        "model = Network()",
        'model.load_state_dict(torch.load("net.pt", map_location="cpu"))',
        'torch.onnx.export(model.eval(), (torch.zeros(1, 3, 224, 224),), "model.onnx")',
    ]


@pytest.mark.parametrize("suffix", [".pt", ".torchscript"])
def test_the_lines_that_export_a_model_are_python(suffix: str, tmp_path: Path) -> None:
    problem = explain(tmp_path / f'my "net"{suffix}')
    assert problem is not None
    compile(problem.example, "lines", "exec")


def test_an_inspection_of_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "net.pt").touch()
    with pytest.raises(ModelError, match="DV208"):
        inspect(tmp_path / "net.pt")
