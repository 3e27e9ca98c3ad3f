"""Compiled templates are kept as Python keeps compiled modules."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import pytest

from cnn_convertor.files import templates


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(templates, "folder_of", lambda _: tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "a.j2").write_text("{{ name }} & co\n")
    return tmp_path


def rendered(*, autoescape: bool = False) -> str:
    return templates.environment(autoescape=autoescape).get_template("a.j2").render(name="<b>")


def kept(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("__pycache__/**/*") if path.is_file())


def test_a_template_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rendered() == "<b> & co\n"
    assert len(kept(folder)) == 1
    monkeypatch.delattr(jinja2.Environment, "compile")
    assert rendered() == "<b> & co\n"


def test_a_changed_template_is_compiled_again(folder: Path) -> None:
    rendered()
    (folder / "a.j2").write_text("{{ name }} alone\n")
    assert rendered() == "<b> alone\n"


def test_each_way_of_escaping_has_its_own(folder: Path) -> None:
    assert rendered() == "<b> & co\n"
    assert rendered(autoescape=True) == "&lt;b&gt; & co\n"
    assert len(kept(folder)) == 2


@pytest.mark.parametrize("length", [0, 1, 12, 30, 60])
def test_a_damaged_file_is_written_anew(folder: Path, length: int) -> None:
    rendered()
    (file,) = kept(folder)
    whole = file.read_bytes()
    file.write_bytes(whole[:length])
    assert rendered() == "<b> & co\n"
    assert file.read_bytes() == whole


def test_a_flipped_bit_changes_no_text(folder: Path) -> None:
    """Compiled code with a wrong bit would give other text, raise anything, or crash."""
    rendered()
    (file,) = kept(folder)
    whole = file.read_bytes()
    for position in range(0, len(whole), 3):
        file.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << position % 8]) + whole[position + 1 :])
        assert rendered() == "<b> & co\n"
        assert file.read_bytes() == whole


def test_they_are_kept_where_python_keeps_compiled_modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(folder / "elsewhere"))
    rendered()
    assert not kept(folder)
    assert [path for path in (folder / "elsewhere").rglob("*") if path.is_file()]


def test_nothing_is_kept_where_python_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered() == "<b> & co\n"
    assert not kept(folder)


def test_a_folder_that_cannot_be_made_is_done_without(folder: Path) -> None:
    (folder / "__pycache__").write_text("a file")
    assert rendered() == "<b> & co\n"


def test_a_name_without_a_value_is_an_error(folder: Path) -> None:
    (folder / "a.j2").write_text("{{ other }}")
    with pytest.raises(jinja2.UndefinedError):
        rendered()
