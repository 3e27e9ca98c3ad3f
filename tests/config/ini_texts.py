"""Reads texts of ini files, or says what is wrong with them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from cnn_convertor.config import Config
from cnn_convertor.errors import ConvertorWarning, Problem, UsageError

SMALLEST = "[INPUT]\nname = net\ndefinition = net.h5\n[OUTPUT]\noutput_folder = out\n"


def read(folder: Path, text: str | bytes, **options: int) -> Config:
    ini = folder / "net.ini"
    ini.write_bytes(text if isinstance(text, bytes) else text.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Config.read(ini, **options)


def problems(folder: Path, text: str | bytes, **options: int) -> tuple[Problem, ...]:
    with pytest.raises(UsageError) as caught:
        read(folder, text, **options)
    return caught.value.problems


def problem(folder: Path, text: str | bytes, **options: int) -> Problem:
    (only,) = problems(folder, text, **options)
    return only


def said(problem: Problem) -> tuple[str, int | None]:
    """Code and line."""
    assert problem.where is not None
    return problem.code, problem.where.line


def complaint(folder: Path, text: str) -> str:
    """The one warning that the file gets; it is read all the same."""
    (folder / "net.ini").write_text(text)
    with pytest.warns(ConvertorWarning) as caught:
        Config.read(folder / "net.ini")
    (only,) = caught
    assert isinstance(only.message, ConvertorWarning)
    return str(only.message)
