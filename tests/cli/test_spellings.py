"""Earlier names of commands and options work, with a note, and are not shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor import cli
from cnn_convertor.cli import commands
from cnn_convertor.cli.examples import leaves
from cnn_convertor.cli.spellings import EARLIER_COMMANDS, current

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits_keras"

EARLIER = {
    "plan t.csv --output o.csv": "layouts plan t.csv --output o.csv",
    "layout list nvdla": "layouts list nvdla",
    "layout describe NHWC --svg=x.svg": "layouts describe NHWC --output=x.svg",
    "export a.ini --input x.npy --output out": "layouts export a.ini --inputs x.npy --output out",
    "probe --out p": "board probe --output p",
    "kit a.ini --out=k --ub_size 9": "board kit a.ini --output=k --ub-size 9",
    "draw a.ini -o n.svg --memory m.svg": "report a.ini --svg n.svg --memory-svg m.svg",
    "run a.ini --input x.npy": "run a.ini --inputs x.npy",
    "convert a.ini --output-folder o --max_kernel_size 3": "convert a.ini --output o --max-kernel-size 3",
    "convert -- --input": "convert -- --input",
}


@pytest.mark.parametrize("text", EARLIER)
def test_earlier_names_stand_for_those_of_now(text: str) -> None:
    found = current(text.split())
    assert " ".join(found.arguments) == EARLIER[text]
    assert bool(found.notes) == (text != EARLIER[text])


@pytest.mark.parametrize("text", EARLIER.values())
def test_names_of_now_stay(text: str) -> None:
    assert current(text.split()) == (text.split(), ())


def test_earlier_names_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert not EARLIER_COMMANDS.keys() & commands.commands.keys()
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out.partition("Commands:")[2]
    listed = {line.split()[0] for line in text.splitlines() if line.strip()}
    assert not EARLIER_COMMANDS.keys() & listed and {"layouts", "board"} <= listed
    options = {option for _, command in leaves(commands) for each in command.params for option in each.opts}
    assert not {"--input", "--out", "--output-folder", "--max_kernel_size", "--ub_size"} & options


def test_a_note_says_what_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((1, 4, 2, 2), np.float16))
    assert cli.main(["layout", "pack", "--to", "NHWC", "x.npy", "x.bin"]) == 0
    assert capsys.readouterr().err == "`layout` is now `layouts`\n"
    assert cli.main(["layout", "pack", "-q", "--to", "NHWC", "x.npy", "x.bin"]) == 0
    assert capsys.readouterr().err == ""


def test_options_without_a_command_are_those_of_convert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(DIGITS, tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["digits/net.ini", "--output-folder", "made"]) == 0
    assert "`--output-folder` is now `--output`" in capsys.readouterr().err
    assert Path("made/digits/digits.json").is_file()
