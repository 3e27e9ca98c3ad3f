"""With --no-custom-code no command runs the Python file that an ini file names."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from cnn_convertor import cli
from cnn_convertor.cli.entry import commands
from cnn_convertor.cli.examples import leaves
from cnn_convertor.config import Config
from cnn_convertor.errors import UsageError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits_keras"
WITH_INI = {
    name: command
    for name, command in leaves(commands)
    if any(isinstance(p, click.Argument) and "ini" in str(p.metavar).lower() for p in command.params)
}
REQUIRED = {"run": ["--inputs", "x.npy"], "board kit": ["-o", "kit"], "layouts export": ["--target", "dv700", "-o", "out"], "sweep": ["--vary", "softmax=cpu"]}  # fmt: skip


@pytest.fixture
def ini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "digits.keras").write_bytes((EXAMPLE / "digits.keras").read_bytes())
    (tmp_path / "layers.py").write_text("open('ran', 'w')\ncustom_layer = {}\n")
    text = (EXAMPLE / "net.ini").read_text()
    (tmp_path / "net.ini").write_text(text.replace("[INPUT]", "[INPUT]\ncustom_layer = layers.py"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "net.ini"


@pytest.mark.parametrize("name", WITH_INI)
def test_every_command_that_reads_an_ini_file_can_refuse_its_code(
    name: str, ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(WITH_INI) > 8
    assert cli.main([*name.split(), str(ini), *REQUIRED.get(name, []), "--no-custom-code"]) == 2
    error = capsys.readouterr().err
    assert "DV118: [INPUT] custom_layer names Python code" in error and "layers.py" in error
    assert not Path("ran").exists()


def test_code_runs_where_nothing_forbids_it(ini: Path) -> None:
    assert cli.main(["inspect", "-q", str(ini)]) == 0
    assert Path("ran").exists()


def test_networks_without_code_are_read(ini: Path) -> None:
    ini.write_text(ini.read_text().replace("custom_layer = layers.py", ""))
    assert cli.main(["inspect", "-q", str(ini), "--no-custom-code"]) == 0


def test_the_api_has_the_same_setting(ini: Path) -> None:
    with pytest.raises(UsageError, match="DV118"):
        Config.read(ini, no_custom_code=True)
