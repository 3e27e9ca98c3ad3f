"""No regular expression of the package takes more than linear time for one match because two loops share characters."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cnn_convertor.frontends.keras import KERAS

ROOT = Path(__file__).resolve().parents[2]
SINCE_3_11 = sys.version_info >= (3, 11)
codes: Any = importlib.import_module("re._constants" if SINCE_3_11 else "sre_constants")
parser: Any = importlib.import_module("re._parser" if SINCE_3_11 else "sre_parse")
FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
ALPHABET = [chr(code) for code in range(0x180)]
LONG = 100  # repeats of more are a loop
CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip

# Expressions with names of a function: values that they can have.
LOCAL: dict[str, dict[str, Any]] = {
    "audit/recorded.py": {"owner": "CNet", "names": ["Net_gen.cpp", "Net_gen.h"]},
    "codegen/kernels/__init__.py": {"pattern": r'^#include "(.+)"$'},
    "emulation/build.py": {"path": "a.cpp"},
    "frontends/__init__.py": {"frontend": KERAS},
    "layouts/cldnn.py": {"padding": ""},
    "layouts/notation.py": {"pattern": "[a-z]+"},
    "workers/relocation.py": {"longest_first": ["a/b", "a"]},
}


class Loops(NamedTuple):
    """Positions of single characters, and which can follow each other."""

    characters: list[frozenset[str]]
    next: list[list[int]]  # a position is listed once for each way that leads to it

    def overlap(self) -> bool:
        """Whether two ways through the expression match the same run of characters."""
        if any(len(after) != len(set(after)) for after in self.next):
            return True
        return any(
            here != there and here in self.next[here] and there in self.next[there] and shared
            for here, after in enumerate(self.next)
            for there in after
            if (shared := self.characters[here] & self.characters[there])
        )


class Part(NamedTuple):
    first: list[int]
    last: list[int]
    is_optional: bool


def matching(code: Any, value: Any, flags: int) -> frozenset[str]:
    """The characters that one item matches."""
    if code is codes.ANY:
        return frozenset(ALPHABET) - (frozenset() if flags & re.DOTALL else {"\n"})
    if code is codes.LITERAL:
        return frozenset({chr(value)})
    if code is codes.NOT_LITERAL:
        return frozenset(ALPHABET) - {chr(value)}
    if code is codes.RANGE:
        return frozenset(c for c in ALPHABET if value[0] <= ord(c) <= value[1])
    if code is codes.CATEGORY:
        return frozenset(c for c in ALPHABET if re.match(CATEGORIES[value], c, flags & re.ASCII))
    assert code is codes.IN, code
    is_negated = value[0][0] is codes.NEGATE
    listed = frozenset[str]().union(*(matching(kind, each, flags) for kind, each in value[is_negated:]))
    return frozenset(ALPHABET) - listed if is_negated else listed


def loops_of(pattern: str | bytes, flags: int = 0) -> Loops:
    loops = Loops([], [])
    tree = parser.parse(pattern if isinstance(pattern, str) else pattern.decode("latin-1"), flags & ~re.UNICODE)
    add(loops, tree, flags)
    return loops


def add(loops: Loops, items: Any, flags: int) -> Part:
    """Add the positions of a sequence, as Glushkov's construction does."""
    whole = Part([], [], True)
    for code, value in items:
        part = add_item(loops, code, value, flags)
        for end in whole.last:
            loops.next[end] += part.first
        whole = Part(
            whole.first + part.first if whole.is_optional else whole.first,
            part.last + whole.last if part.is_optional else part.last,
            whole.is_optional and part.is_optional,
        )
    return whole


def add_item(loops: Loops, code: Any, value: Any, flags: int) -> Part:
    if value is codes.AT_END_STRING:
        return Part([], [], False)  # nothing follows
    if code in (codes.AT, codes.ASSERT, codes.ASSERT_NOT, codes.GROUPREF):
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            add(loops, value[1], flags)  # it is matched by itself
        return Part([], [], True)
    if code is codes.SUBPATTERN:
        return add(loops, value[-1], flags)
    if code is codes.BRANCH:
        parts = [add(loops, branch, flags) for branch in value[1]]
        firsts, lasts = ([place for part in parts for place in getattr(part, end)] for end in ("first", "last"))
        return Part(firsts, lasts, any(part.is_optional for part in parts))
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        least, most, body = value
        part = add(loops, body, flags)
        if most > LONG:
            for end in part.last:
                loops.next[end] += part.first
        return part._replace(is_optional=part.is_optional or not least)
    loops.characters.append(matching(code, value, flags))
    loops.next.append([])
    place = [len(loops.next) - 1]
    return Part(place, place, False)


def expressions() -> Iterator[tuple[str, Callable[[], tuple[str | bytes, int]]]]:
    """The place of each, and what gives its text and flags."""
    for path in sorted((ROOT / "cnn_convertor").rglob("*.py")):
        name, text = path.relative_to(ROOT / "cnn_convertor").as_posix(), path.read_text(encoding="utf-8")
        if "re." not in text:
            continue  # parsing takes long, and each process does it
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=attr)) if attr in FUNCTIONS:
                    yield f"{name}:{node.lineno}", partial(evaluated, node, name)


def evaluated(call: ast.Call, name: str) -> tuple[str | bytes, int]:
    """The expression of a call, and its flags."""
    place = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    names = vars(importlib.import_module(f"cnn_convertor.{place}")) | LOCAL.get(name, {})
    flags = [word.value for word in call.keywords if word.arg == "flags"] + [
        word for word in call.args[1:] if isinstance(word, ast.Attribute | ast.BinOp) and "re." in ast.unparse(word)
    ]
    pattern, *given = (eval(ast.unparse(node), dict(names)) for node in (call.args[0], *flags))
    return pattern, int(sum(given))


@pytest.mark.parametrize(("place", "evaluate"), [pytest.param(p, e, id=p) for p, e in expressions()])
def test_no_two_loops_match_the_same_characters(place: str, evaluate: Callable[[], tuple[str | bytes, int]]) -> None:
    assert not loops_of(*evaluate()).overlap(), f"adjacent quantifiers share characters: {place}"


@pytest.mark.parametrize(
    "pattern", [r"\s*[^=]+?\s*=", "a*a*", "(a+)+", r"\w+\d*", r"(?:ab?|\w)*", ".*x?.*", r"(\s*#?)*"]
)
def test_overlapping_loops_are_noticed(pattern: str) -> None:
    assert loops_of(pattern).overlap()


@pytest.mark.parametrize("pattern", [r"\s*\w+\s*=", "a*ba*", r"(?:\n  .*)*x", r"\w{1,9}\d*", r"\s*(?:x|\s)", "[^a]*a+"])
def test_other_loops_are_not(pattern: str) -> None:
    assert not loops_of(pattern).overlap()


@pytest.mark.slow
def test_every_use_of_regular_expressions_is_seen() -> None:
    places = {place.partition(":")[0] for place, _ in expressions()}
    users = {
        path.relative_to(ROOT / "cnn_convertor").as_posix()
        for path in (ROOT / "cnn_convertor").rglob("*.py")
        if re.search(r"^import re$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert users - places == set()
