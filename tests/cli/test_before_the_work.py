"""What is wrong with options, settings and outputs is found before the work; hints can be pasted."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.conversions import INI, ROOT, works
from cnn_convertor import cli
from cnn_convertor.errors import Problem, warn


def test_strict_makes_errors_of_warnings(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def conversion(config: Any, progress: Any) -> Any:
        if config.name == "b":
            warn(Problem("DV501", "a weight is lost"))
        return works(config, progress)

    converts(conversion)
    (folder / "a.ini").write_text(INI.format(name="a") + "colour = red\nshape = round\n")
    assert cli.main(["a.ini", "b.ini", "c.ini"]) == 0
    assert capsys.readouterr().err.count("warning DV") == 3
    assert cli.main(["--strict", "a.ini", "b.ini", "c.ini"]) == 1
    out, err = capsys.readouterr()
    errors = [line for line in err.splitlines() if line.startswith("error ")]
    assert [error[:11] for error in errors] == ["error DV112", "error DV112", "error DV501"], (
        "all unknown keys come at once"
    )
    assert "warning" not in err and "c (c.ini)" in out and "b (b.ini)" not in out


def network(folder: Path, settings: str, channels: int = 3) -> Path:
    """An ini file for a network without weights."""
    (folder / "net.prototxt").write_text(
        f'input: "x" input_shape {{ dim: 1 dim: {channels} dim: 8 dim: 8 }}\n'
        'layer { name: "r" type: "ReLU" bottom: "x" top: "y" }\n'
    )
    ini = folder / "net.ini"
    ini.write_text(f"[INPUT]\nname = net\ndefinition = net.prototxt\n{settings}\n[OUTPUT]\noutput_folder = out\n")
    return ini


@pytest.mark.parametrize("command", ["convert", "inspect", "verify"])
def test_means_fit_the_channels_of_an_input(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, str(network(tmp_path, "mean = 1, 2"))]) == 2
    err = capsys.readouterr().err
    assert 'DV106: [INPUT] mean: expected one number, or one for each channel, not 2; the input "x" has 3' in err
    assert not (tmp_path / "out").exists()


def test_a_wrong_mean_is_found_at_its_line_before_the_weights_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.caffemodel").write_bytes(b"damaged")
    ini = network(tmp_path, "data = net.caffemodel\nmean = 1, 2")
    assert cli.main([str(ini)]) == 2
    err = capsys.readouterr().err
    assert err.count("error") == 1 and "error DV106: [INPUT] mean" in err and f"--> {ini}:5\n" in err


@pytest.mark.parametrize("mean", ["1", "1, 2, 3"])
def test_one_mean_or_one_for_each_channel_is_taken(mean: str, tmp_path: Path) -> None:
    assert cli.main(["inspect", str(network(tmp_path, f"mean = {mean}"))]) == 0


def test_a_folder_that_cannot_be_written_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = importlib.import_module("cnn_convertor.pipeline")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pipeline, "read", lambda *_, **__: pytest.fail("the network is read"))
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    assert cli.main([str(network(tmp_path, ""))]) == 2
    assert "DV110: cannot write the outputs: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "program"),
    [(["convertor.py"], "python convertor.py"), (["-m", "cnn_convertor"], "python -m cnn_convertor")],
)
def test_a_hint_can_be_pasted(call: list[str], program: str) -> None:
    done = subprocess.run([sys.executable, *call, "verify"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"try: {program} verify --help" in done.stderr


def test_a_hint_names_the_program_as_it_was_called(tmp_path: Path) -> None:
    ini = network(tmp_path, "")
    ini.write_text(ini.read_text() + "outputs = nowhere\n")
    call = [sys.executable, str(ROOT / "convertor.py"), str(ini)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    hint = f"`python convertor.py inspect {tmp_path / 'net.prototxt'}` lists the layers"
    assert done.returncode == 2 and "DV117" in done.stderr and hint in done.stderr


@pytest.mark.parametrize(
    "call",
    [
        "NET --depfile FILE",
        "draw NET -o FILE",
        "report NET --memory-svg FILE",
        "init MODEL -o FILE",
        "layouts describe NHWC --shape 1,2,2,2 --output FILE",
        "layouts plan TABLE --output FILE",
        "report NET --html FILE",
        "report NET --json FILE",
        "sweep NET --vary fusion=none --csv FILE",
        "sweep NET --vary fusion=none --html FILE",
        "sweep NET --vary fusion=none --json FILE",
    ],
)
def test_a_file_of_an_option_may_be_a_link(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like /dev/stdout, which is one, and must not be replaced."""
    monkeypatch.chdir(tmp_path)
    example = ROOT / "examples" / "digits_keras"
    (tmp_path / "net.ini").write_text(
        f"[INPUT]\nname = net\ndefinition = {example / 'digits.keras'}\n[OUTPUT]\noutput_folder = out\n"
    )
    (tmp_path / "table.csv").write_text("id,lower,upper,size\na,0,1,16\n")
    link = tmp_path / "link"
    link.symlink_to("target")
    places = {"NET": "net.ini", "MODEL": str(example / "digits.keras"), "TABLE": "table.csv", "FILE": "link"}
    assert cli.main([places.get(word, word) for word in call.split()]) == 0
    assert link.is_symlink() and (tmp_path / "target").stat().st_size


@pytest.mark.parametrize(
    "arguments",
    [
        "convert net.ini --depfile net.ini/x",
        "verify net.ini --json net.ini/x",
        "report net.ini --html x --svg net.ini/x",
        "sweep net.ini --vary quantization=0,1 --csv net.ini/x",
    ],
)
def test_a_file_that_cannot_be_written_is_found_before_the_network_is_read(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    network(tmp_path, "definition = missing.prototxt")
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments.split()) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert error == "error DV110: cannot write the outputs: there is a file in place of a folder"
