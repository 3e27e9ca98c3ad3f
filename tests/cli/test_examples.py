"""Each command's help ends with examples, and the command line takes them."""

from __future__ import annotations

import shlex

import click
import pytest

from cnn_convertor.cli import commands, main
from cnn_convertor.cli.examples import EXAMPLES, leaves


def test_every_command_has_examples() -> None:
    assert EXAMPLES.keys() == {name for name, _ in leaves(commands)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_taken(name: str) -> None:
    for example in EXAMPLES[name]:
        assert len(example) < 100
        group: click.Group = commands
        arguments = shlex.split(example)
        if name == "convert":
            arguments = ["convert", *arguments]
        for word in name.split()[:-1]:
            assert arguments.pop(0) == word
            found = group.commands[word]
            assert isinstance(found, click.Group)
            group = found
        command = group.commands[name.rsplit(maxsplit=1)[-1]]
        assert arguments.pop(0) == command.name
        command.make_context(name, arguments)  # parses, and runs nothing


def test_help_ends_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--help"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("  cnn-convertor report net.ini --verify --html net.html")
    assert main(["--help"]) == 0
    assert "  cnn-convertor networks --jobs 4 --cache .cache\n" in capsys.readouterr().out
