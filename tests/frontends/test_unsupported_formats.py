"""Models of other frameworks are recognized by their names or contents, ours are not."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from cnn_convertor import cli
from cnn_convertor.conversion.inspection import inspect
from cnn_convertor.devices.nvdla import SUFFIXES
from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.unsupported_formats import FORMATS, explain
from development.fuzz.written_loadables import Pooling

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("suffix", FORMATS)
def test_each_format_says_what_it_is_and_what_to_do(tmp_path: Path, suffix: str) -> None:
    for path in (tmp_path / f"net{suffix}", tmp_path / f"NET{suffix.upper()}"):
        path.write_bytes(b"something")
        problem = explain(path)
        assert problem is not None and problem.code == "DV208"
        assert f"{FORMATS[suffix].what}, which {FORMATS[suffix].reason}" in problem.message
        assert problem.hint == FORMATS[suffix].way.replace("FILE", f'"{path}"')


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
    model = tmp_path / "net.pt"
    model.write_bytes(b"PK")
    assert cli.main([*command, str(model)]) == code
    error = capsys.readouterr().err
    assert error.startswith("error DV208: this is a PyTorch model, which cannot be read\n")
    _, lines = error.split("\n\n")
    assert f'torch.load("{model}", map_location="cpu", weights_only=False)' in lines
    assert lines.endswith('torch.onnx.export(model.eval(), (torch.zeros(1, 3, 224, 224),), "model.onnx")\n')


@pytest.mark.parametrize("command", ["convert", "init", "inspect", "run", "verify", "report", "check"])
@pytest.mark.parametrize("name", ["net.mlpackage", "saved", "net.ort", "net.pt2", "net.xml"])
def test_every_command_names_the_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    model = tmp_path / name
    if name in {"net.mlpackage", "saved"}:
        model.mkdir()
        (model / "saved_model.pb").touch()
    else:
        model.write_bytes(b"PK\3\4")
    options = ["--inputs", str(model)] if command == "run" else []
    assert cli.main([command, str(model), *options]) in {1, 2}
    assert capsys.readouterr().err.startswith("error DV208: this is a")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_compiled_network_is_for_other_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    network = Pooling().write(tmp_path).rename(tmp_path / f"net{suffix}")
    assert cli.main([str(network)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error DV208: this is a loadable of NVDLA, which is compiled already\n")
    for command, option in (
        ("inspect", ""),
        ("audit", " --device nvdla-full"),
        ("run", " --device nvdla-full --inputs"),
    ):
        assert f' {command} "{network}"{option}' in error
    assert cli.main(["inspect", str(network)]) == 0


@pytest.mark.parametrize("command", ["init", "verify", "report", "check", "passes", "board kit -o kit"])
def test_no_command_of_networks_takes_a_compiled_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    network = Pooling().write(tmp_path)
    assert cli.main([*command.split(), str(network)]) in {1, 2}
    assert capsys.readouterr().err.startswith("error DV208: this is a loadable of NVDLA, which is compiled already\n")


@pytest.mark.parametrize(
    ("member", "what"),
    [("net/archive_format", "torch.export"), ("serialized_exported_program.json", "torch.export")],
)
def test_an_exported_program_is_no_keras_archive(tmp_path: Path, member: str, what: str) -> None:
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as archive:
        archive.writestr(member, b"")
    problem = explain(tmp_path / "net.keras")
    assert problem is not None and what in problem.message


@pytest.mark.parametrize(("beside", "what"), [("net.xml", "OpenVINO"), ("net.param", "ncnn"), ("other.xml", "")])
def test_weights_are_known_by_the_network_beside_them(tmp_path: Path, beside: str, what: str) -> None:
    (tmp_path / beside).touch()
    (tmp_path / "net.bin").write_bytes(b"something")
    problem = explain(tmp_path / "net.bin")
    assert what in problem.message if problem else not what


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_lines_for_a_saved_model_are_a_way_to_one_that_converts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf_keras = pytest.importorskip("tf_keras")
    layers = [tf_keras.layers.Conv2D(4, 3, input_shape=(8, 8, 3)), tf_keras.layers.Flatten(), tf_keras.layers.Dense(5)]
    tf_keras.Sequential(layers).save(tmp_path / "saved", save_format="tf")
    problem = explain(tmp_path / "saved")
    assert problem is not None
    monkeypatch.chdir(tmp_path)
    exec(problem.example, {})  # the lines that a user copies
    assert inspect(tmp_path / "model.h5").steps


@pytest.mark.parametrize("suffix", [".pt", ".pt2", ".torchscript"])
def test_the_lines_that_export_a_model_are_python(suffix: str, tmp_path: Path) -> None:
    problem = explain(tmp_path / f'my "net"{suffix}')
    assert problem is not None
    compile(problem.example, "lines", "exec")


def test_an_inspection_of_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "net.pt").touch()
    with pytest.raises(ModelError, match="DV208"):
        inspect(tmp_path / "net.pt")
