"""The changes that show what the tests notice are of every kind, and each is valid Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from development import mutants

SOURCE = """
from typing import Final

SIZES: Final[dict[str, int]] = {}


def area(height: int, width: int, pad: int = 2) -> int:
    if not height or (
        width < 0
    ):
        raise ValueError
    return (height - pad) * width + len("a" % ())
"""


def changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The kind of each change of SOURCE, and the text after it."""
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(SOURCE, encoding="utf-8")
    return [(mutant.kind, mutant.apply(SOURCE.encode()).decode()) for mutant in mutants.mutants_of(Path("a.py"))]


def test_each_kind_of_change_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = set(SOURCE.splitlines())
    changed = {
        (kind, line.strip())
        for kind, text in changes(tmp_path, monkeypatch)
        for line in text.splitlines()
        if line not in lines
    }
    assert changed == {
        ("off by one", "def area(height: int, width: int, pad: int = 3) -> int:"),
        ("off by one", "width < 1"),
        ("comparison", "width <= 0"),
        ("and for or", "if not height and ("),
        ("not", "if bool(height) or ("),
        ("dropped check", "if False:"),
        ("operator", 'return (height + pad) * width + len("a" % ())'),
        ("operator", 'return (height - pad) + width + len("a" % ())'),
        ("operator", 'return (height - pad) * width - len("a" % ())'),
        ("operands", 'return (pad - height) * width + len("a" % ())'),
    }


def test_every_change_is_valid_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _, text in changes(tmp_path, monkeypatch):
        ast.parse(text)


def test_a_seed_makes_the_same_mutants_of_a_room() -> None:
    chosen = mutants.choose(20, 3, ["memory"])
    assert chosen == mutants.choose(20, 3, ["memory"]) != mutants.choose(20, 4, ["memory"])
    assert {mutant.room for mutant in chosen} == {"memory"}
    for mutant in chosen:
        ast.parse(mutant.apply((mutants.ROOT / mutant.path).read_bytes()))
