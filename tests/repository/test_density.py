"""The code stays as easy to read as it is: dense expressions for each 1,000 lines. These limits only fall."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "cnn_convertor"
LIMITS = {"comprehensions": 39.4, "conditional expressions": 25.1, "stars": 20.6, "assignments of tuples": 4.7}
SMALLEST = 500  # lines of a room whose density means something
SEVERAL = 2.0  # a room may have so many times the limit


def density(text: str) -> Counter[str]:
    """How often each kind of dense expression occurs."""
    counts: Counter[str] = Counter()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                counts["comprehensions"] += 1
            case ast.IfExp():
                counts["conditional expressions"] += 1
            case ast.Starred():
                counts["stars"] += 1
            case ast.Dict(keys=keys):
                counts["stars"] += keys.count(None)
            case ast.Assign(targets=[ast.Tuple(), *_], value=ast.Tuple()):
                counts["assignments of tuples"] += 1
    return counts


def test_each_kind_is_counted() -> None:
    text = "a, b = b, a\nc = [*a, *b] if a else {**b}\nd = {x for x in (y for y in c)}\n"
    assert density(text) == {
        "comprehensions": 2,
        "conditional expressions": 1,
        "stars": 3,
        "assignments of tuples": 1,
    }


def test_the_code_is_no_denser_than_its_limits() -> None:
    lines: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        room = path.relative_to(PACKAGE).parts[0]
        lines[room] += len(text.splitlines())
        counts.setdefault(room, Counter()).update(density(text))
    whole = sum(counts.values(), Counter[str]())
    too_dense = []
    for kind, limit in LIMITS.items():
        if 1000 * whole[kind] > limit * lines.total():
            too_dense.append(
                f"the package has {1000 * whole[kind] / lines.total():.1f} {kind} in 1,000 lines, not {limit}"
            )
        for room, count in counts.items():
            if lines[room] >= SMALLEST and 1000 * count[kind] > SEVERAL * limit * lines[room]:
                too_dense.append(f"{room} has {1000 * count[kind] / lines[room]:.1f} {kind} in 1,000 lines")
    assert not too_dense
