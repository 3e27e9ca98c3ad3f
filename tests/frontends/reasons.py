"""Lists what the readers of layers say when they refuse one, from their sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import cnn_convertor.frontends

PACKAGE = Path(cnn_convertor.frontends.__file__).parent


def reasons(files: Iterable[Path], methods: frozenset[str]) -> set[str]:
    """The first argument of each call of these methods, with ... for what depends on the network."""
    trees = [ast.parse(path.read_text("utf-8")) for path in files]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {text for function in functions for text in _reasons_of(function, methods)}


def _reasons_of(function: ast.FunctionDef, methods: frozenset[str]) -> Iterator[str]:
    named: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                named.setdefault(name, []).append(value)
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr=method), args=[ast.Name(id=name), *_]) if method in methods:
                yield from (text for value in named.get(name, ()) for text in _texts(value))
            case ast.Call(func=ast.Attribute(attr=method), args=[message, *_]) if method in methods:
                yield from _texts(message)


def _texts(message: ast.expr) -> Iterator[str]:
    match message:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in parts)
        case ast.IfExp(body=first, orelse=second):
            yield from _texts(first)
            yield from _texts(second)


def is_said(reason: str, messages: Iterable[str]) -> bool:
    """Whether one of the messages is the reason with some values."""
    pattern = re.compile(".*".join(map(re.escape, reason.split("..."))))
    return any(pattern.fullmatch(message) for message in messages)


def test_reasons_are_found(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(
        'def f(r):\n    why = f"{r} is {1}"\n    r.refuse(why)\n    r.misfit("a" if r else "b")\n    r.other("c")'
    )
    assert reasons([source], frozenset({"refuse", "misfit"})) == {"... is ...", "a", "b"}
    assert is_said("... is ...", ["x is y"]) and not is_said("... is ...", ["x was y"])
