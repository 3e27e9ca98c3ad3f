"""Names from models do nothing in the output but appear."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.conversions import raises
from cnn_convertor import cli
from cnn_convertor.cli.console import Console
from cnn_convertor.cli.grids import Grid
from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.workers.outcomes import DEBUG


def test_names_cannot_steer_the_terminal(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    converts(raises(ModelError(Problem("DV201", "damaged", Origin("net.h5", "\x1b[2J\x9b\r\udc80é数")))))
    assert cli.main(["a.ini"]) == 1
    assert 'layer "\\x1b[2J\\x9b\\r\\udc80é数"' in capsys.readouterr().err


def test_names_cannot_change_the_direction_of_text(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEBUG, "1")
    converts(raises(ModelError(Problem("DV201", "no \u202e\x1b", Origin("a.h5", "\u2066"), "rename \u2028\u200f"))))
    assert cli.main(["a.ini"]) == 1
    err = capsys.readouterr().err
    assert 'error DV201: no \\u202e\\x1b\n  --> a.h5: layer "\\u2066"\n  try: rename \\u2028\\u200f\n' in err
    assert all(line.isprintable() for line in err.split("\n"))


COMMANDS = (
    "::add-mask::a",
    " \u2003::stop-commands::b",
    "a ##[error]b",
    "###vso[task.prependpath]/tmp",
    "##teamcity[c]",
)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_a_ci_takes_no_name_as_a_command(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str], name: str, form: str
) -> None:
    """GitHub Actions ignores blanks before ::, and finds ##[ anywhere, like Azure Pipelines ##vso[."""
    converts(raises(ModelError(Problem("DV201", f"damaged:\n{name}", Origin("net.h5", name)))))
    assert cli.main(["a.ini", "--format", form]) == 1
    out, err = capsys.readouterr()
    assert not re.search(r"^\s*::|##\w*\[", out + err, re.MULTILINE)
    if form == "json":
        assert json.loads(out)[0]["layer"] == name


@pytest.mark.parametrize("name", COMMANDS)
def test_a_ci_takes_no_result_as_a_command(capsys: pytest.CaptureFixture[str], name: str) -> None:
    console = Console(0)
    console.result(name, [(name, name)])
    console.lines([Grid.of("layer", ("n",), [(name, "1")])])
    console.note(name)
    out, err = capsys.readouterr()
    assert out and err and not re.search(r"^\s*::|##\w*\[", out + err, re.MULTILINE)


def test_a_line_break_in_a_name_begins_no_line_of_the_output(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A CI takes lines that begin with :: as commands."""
    name = "a\n::error::b"
    converts(raises(ModelError(Problem("DV201", f'"{name}" is damaged', Origin("net.h5", name), f'rename "{name}"'))))
    assert cli.main(["a.ini"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        'error DV201: "a',
        '  | ::error::b" is damaged',
        '  --> net.h5: layer "a',
        '  | ::error::b"',
        '  try: rename "a',
        '  | ::error::b"',
    ]
