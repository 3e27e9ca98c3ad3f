"""A working directory with ini files, and what takes the place of conversions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conversions import INI, Conversion


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a.ini, b.ini and c.ini for networks of these names."""
    (tmp_path / "net.h5").touch()
    for name in "abc":
        (tmp_path / f"{name}.ini").write_text(INI.format(name=name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def converts(monkeypatch: pytest.MonkeyPatch) -> Callable[[Conversion], None]:
    """Puts a function in the place of the conversion."""

    def put(conversion: Conversion) -> None:
        module = importlib.import_module("cnn_convertor.conversion.convert")
        monkeypatch.setattr(module, "convert", lambda config, progress, _: conversion(config, progress))

    return put
