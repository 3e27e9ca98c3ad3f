"""Codes of errors and warnings: each has one meaning, one place on the page, and is used as the page says."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cnn_convertor.devices.dv700.rules import RULES
from cnn_convertor.files.codes import entries, entries_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "cnn_convertor"
CODE = re.compile(r"DV\d{3}")
PAGE = (ROOT / "docs/messages.md").read_text(encoding="utf-8")
NO_CODES = {"DV700"}  # is the device's name

# Who may speak of what: the rooms of the package that may use the codes of a group.
ROOMS = {
    "0": {"workers"},
    "1": {
        "cli",
        "config",
        "conversion",
        "devices",
        "files",
        "frontends",
        "memory",
        "pipeline",
        "quantize",
        "report",
        "trials",
        "workers",
    },
    "2": {"frontends", "ir"},
    "3": {"frontends"},
    "4": {"devices"},
    "5": {"devices", "quantize"},
    "6": {"audit"},
    "7": {"emulation", "samples", "devices", "verification", "trials", "board", "workers"},
    "8": {"layouts", "export", "cli", "config", "verification"},
    "9": {"cli", "devices", "layouts", "trials"},
}
# Codes with one meaning that several rooms meet.
SHARED = {
    "DV100": {"cli", "files"},  # options contradict each other, or what is read and written does
    "DV106": {"config", "pipeline"},
    "DV701": {"emulation", "workers"},  # no compiler, or one that fails without a message
    "DV707": {"samples", "trials", "verification"},
    "DV711": {"samples", "verification"},
}


class Use(NamedTuple):
    code: str
    file: str
    line: int
    is_warning: bool

    @property
    def room(self) -> str:
        return self.file.partition("/")[0].removesuffix(".py")


@cache
def uses() -> tuple[Use, ...]:
    """Every place of the package that gives a code."""
    files = sorted(PACKAGE.rglob("*.py"))
    return tuple(
        use for path in files for use in uses_in(path.read_text("utf-8"), path.relative_to(PACKAGE).as_posix())
    )


def uses_in(text: str, file: str) -> Iterator[Use]:
    tree = ast.parse(text)
    warned = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "warn"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(code)) if CODE.fullmatch(code) and code not in NO_CODES:
                yield Use(code, file, node.lineno, id(node) in warned)


def test_uses_are_found() -> None:
    text = 'warn(Problem("DV112", "x"))\nraise E(Problem("DV106", f"{x}"))\nname = "DV700"\nwrong("DV1065")\n'
    assert [*uses_in(text, "config.py")] == [
        Use("DV112", "config.py", 1, True),
        Use("DV106", "config.py", 2, False),
    ]
    assert len(uses()) > 200


def test_every_code_that_is_used_is_on_the_page_and_every_code_of_the_page_is_used() -> None:
    used = {use.code for use in uses()}
    documented = set(entries())
    assert used - documented == set(), "write a row in docs/messages.md"
    assert documented - used == set(), "no code raises these anymore"


def test_every_code_is_provoked_by_a_test() -> None:
    """A code stands in a text of a test, which compares it with a message."""
    texts: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path != Path(__file__).resolve():
            texts.update(codes_in_strings(path.read_text(encoding="utf-8")))
    assert set(entries()) - texts == set()


def codes_in_strings(text: str) -> Iterator[str]:
    """The codes in the texts of a file, without those of its documentation."""
    tree = ast.parse(text)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield from CODE.findall(node.value)


def test_codes_are_found_in_texts_alone() -> None:
    assert [*codes_in_strings('"""DV101"""\n# DV102\nx = "DV103 is given"\n')] == ["DV103"]


def test_each_code_has_one_row_in_the_table_of_its_group_in_order() -> None:
    codes = re.findall(r"^\| (DV\d{3})", PAGE, re.MULTILINE)
    assert codes == [*entries()] == sorted(set(codes))
    for group in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        assert {code[2] for code in entries_of(group)} == {group[0]}


def test_two_rules_have_two_codes() -> None:
    rules = [rule.code for rule in RULES]
    assert len(rules) == len(set(rules))


def test_the_code_of_a_rule_is_given_by_that_rule_alone() -> None:
    for rule in RULES:
        assert [(use.code, use.file) for use in uses() if use.code == rule.code] == [
            (rule.code, "devices/dv700/rules.py")
        ]


def test_codes_are_warnings_or_errors_as_the_page_says() -> None:
    every = entries()
    wrong = [use for use in uses() if use.code in every and use.is_warning != every[use.code].is_warning]
    assert wrong == []


def test_rooms_exist() -> None:
    rooms = set().union(*ROOMS.values(), *SHARED.values())
    assert [
        room for room in sorted(rooms) if not (PACKAGE / room).is_dir() and not (PACKAGE / f"{room}.py").is_file()
    ] == []


def test_each_room_speaks_of_what_is_its_own() -> None:
    assert [use for use in uses() if use.room not in ROOMS[use.code[2]]] == []


def test_a_code_belongs_to_one_room() -> None:
    rooms: dict[str, set[str]] = defaultdict(set)
    for use in uses():
        rooms[use.code].add(use.room)
    assert {code: found for code, found in rooms.items() if len(found) > 1} == SHARED


def test_no_two_codes_mean_the_same() -> None:
    meanings = [entry.meaning.lower() for entry in entries().values()]
    assert len(meanings) == len(set(meanings))


def test_every_entry_says_all() -> None:
    for code, (meaning, cause, remedy, _) in entries().items():
        assert meaning and not meaning.endswith("."), code
        assert cause.endswith(".") and remedy.endswith("."), code
