"""Changes the code at random places, one at a time, and counts the changes that the tests of the room notice.

`python -m development.mutants --count 200` copies the checkout, measures which tests run which line, and gives each mutant to the
tests that run its line (all tests of its room, if the line runs at import). A mutant that they pass survives; it is printed as a
diff. So is one whose tests do not end in time: an endless loop, or a busy machine. The same seed makes the same mutants from the
same code. It needs `pip install pytest-cov`.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from enum import Enum
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "cnn_convertor"
TIMEOUT = 300  # seconds for the tests of one mutant
_COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ARITHMETIC: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
}
_NO_TESTS = 5  # exit code of pytest: all tests of the room are slow ones
_ORDERED = (ast.Sub, ast.FloorDiv, ast.Mod, ast.Div)  # operators whose operands cannot change places


class Outcome(Enum):
    """What the tests of a mutant's room say of it."""

    KILLED = "killed"
    SURVIVED = "survived"
    LATE = f"no end in {TIMEOUT} s"


class Mutant(NamedTuple):
    """One change of a file. path: relative to the checkout. start, end: offsets in its bytes, replaced by new. line: of the change."""

    kind: str
    path: Path
    line: int
    start: int
    end: int
    new: bytes

    @property
    def room(self) -> str:
        return room_of(self.path)

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new + source[self.end :]

    def diff(self) -> str:
        source = (ROOT / self.path).read_bytes()
        before, after = source.decode().splitlines(), self.apply(source).decode().splitlines()
        return "\n".join(line for line in unified_diff(before, after, str(self.path), self.kind, n=0, lineterm=""))


def room_of(path: Path) -> str:
    """The folder of the package in which a file is; "." for a file at its top."""
    return path.parts[1] if len(path.parts) > 2 else "."


class _Source:
    """The text of a file, and the offsets of its syntax."""

    def __init__(self, path: Path) -> None:
        self.path, self.text = path, (ROOT / path).read_bytes()
        self.tree = ast.parse(self.text)
        lines = self.text.splitlines(keepends=True)
        self._starts = [sum(map(len, lines[:count])) for count in range(len(lines) + 1)]

    def start(self, node: ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def words(self, node: ast.expr) -> bytes:
        return self.text[self.start(node) : self.end(node)]

    def mutant(self, kind: str, node: ast.expr, new: bytes) -> Mutant:
        return Mutant(kind, self.path, node.lineno, self.start(node), self.end(node), new)

    def between(self, kind: str, left: ast.expr, right: ast.expr, words: tuple[str, str]) -> Iterator[Mutant]:
        """Another operator between two operands."""
        low, high = self.end(left), self.start(right)
        symbol = re.escape(words[0]).replace(r"\ ", r"\s+")
        pattern = rf"\b{symbol}\b" if words[0][0].isalpha() else symbol
        if match := re.search(pattern.encode(), self.text[low:high]):
            line = self.text[: low + match.start()].count(b"\n") + 1
            yield Mutant(kind, self.path, line, low + match.start(), low + match.end(), words[1].encode())


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every change of one file."""
    source = _Source(path)
    ignored = set(_ignored(source.tree))
    for node in ast.walk(source.tree):
        if node not in ignored:
            yield from _mutants_at(source, node)


def _ignored(tree: ast.Module) -> Iterator[ast.AST]:
    """What has no effect when the program runs: annotations, and what only type checkers see."""
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.expr() as annotation):
                yield from ast.walk(annotation)
            case ast.FunctionDef(returns=ast.expr() as returns):
                yield from ast.walk(returns)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from ast.walk(node)


def _mutants_at(source: _Source, node: ast.AST) -> Iterator[Mutant]:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield source.mutant("off by one", node, str(value + 1).encode())
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield from source.between("comparison", left, right, _COMPARISONS[type(op)])
        case ast.BoolOp(op=op, values=[left, right, *_]):
            words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
            yield from source.between(f"{words[1]} for {words[0]}", left, right, words)
        case ast.BinOp(left=left, op=op, right=right) if not _is_text(left):
            if type(op) in _ARITHMETIC:
                yield from source.between("operator", left, right, _ARITHMETIC[type(op)])
            if isinstance(op, _ORDERED):
                between = source.text[source.end(left) : source.start(right)]
                if between.count(b"(") == between.count(b")") == 0:
                    yield source.mutant("operands", node, source.words(right) + between + source.words(left))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield source.mutant("not", node, b"bool(" + source.words(operand) + b")")
        case ast.If(test=test, body=[*_, ast.Raise() | ast.Return() | ast.Continue()], orelse=[]):
            yield source.mutant("dropped check", test, b"False")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def choose(count: int, seed: int, rooms: Sequence[str]) -> list[Mutant]:
    """Mutants drawn from all files, or those of some rooms."""
    paths = sorted(path.relative_to(ROOT) for path in (ROOT / PACKAGE).rglob("*.py"))
    every = [mutant for path in paths if not rooms or room_of(path) in rooms for mutant in mutants_of(path)]
    return random.Random(seed).sample(every, min(count, len(every)))


class Tests(NamedTuple):
    """Which tests run which line. covering: path -> line -> tests."""

    covering: Mapping[str, Mapping[int, frozenset[str]]]

    def of(self, mutant: Mutant) -> list[str]:
        """The tests of the mutant's room that run its line; those of the whole room if it runs at import."""
        folder = _tests_folder(mutant.room)
        tests = self.covering.get(str(mutant.path), {}).get(mutant.line, frozenset())
        inside = sorted(test for test in tests if test.startswith(f"{folder}/"))
        return inside or [folder]


def _tests_folder(room: str) -> str:
    return "tests" if room == "." else f"tests/{room}"


def measure(copy: Path, rooms: Sequence[str]) -> Tests:
    """Run the tests of the rooms once, and note which test runs which line."""
    folders = sorted({_tests_folder(room) for room in rooms if (copy / _tests_folder(room)).is_dir()})
    (copy / "coverage.ini").write_text("[run]\nsource = cnn_convertor\n")
    arguments = ["--cov", "--cov-config=coverage.ini", "--cov-context=test", "--cov-report=", *folders]
    if _pytest(copy, arguments, timeout=None) is not Outcome.SURVIVED:
        sys.exit("the tests fail without a mutant: python -m pytest " + " ".join(folders))
    covering: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    with sqlite3.connect(copy / ".coverage") as data:
        rows = data.execute(
            "select file.path, context.context, numbits from line_bits join file on file.id = file_id "
            "join context on context.id = context_id"
        )
        for path, context, bits in rows:
            test = context.rpartition("|")[0]
            for line in _numbers(bits) if test else ():
                covering[str(Path(path).relative_to(copy.resolve()))][line].add(test)
    return Tests({path: {n: frozenset(t) for n, t in lines.items()} for path, lines in covering.items()})


def _numbers(bits: bytes) -> Iterator[int]:
    """The lines that coverage keeps as bits."""
    yield from (8 * index + bit for index, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1)


def outcome(copy: Path, mutant: Mutant, tests: Sequence[str]) -> Outcome:
    """What the tests say of the mutant."""
    path = copy / mutant.path
    source = path.read_bytes()
    path.write_bytes(mutant.apply(source))
    try:
        return _pytest(copy, ["-x", "--no-header", *tests], timeout=TIMEOUT)
    finally:
        path.write_bytes(source)


def _pytest(copy: Path, arguments: Sequence[str], *, timeout: float | None) -> Outcome:
    """What the tests say. A copy has no folder `shared` beside it: without ours, the tests that need it would be skipped."""
    environment = {"CNN_CONVERTOR_SHARED": str(ROOT.parent / "shared"), **os.environ}
    environment |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    try:
        ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return Outcome.LATE
    if b"ERROR: not found:" in ended.stderr:
        sys.exit(ended.stderr.decode())  # no test ran, which is no failure
    return Outcome.SURVIVED if ended.returncode in {0, _NO_TESTS} else Outcome.KILLED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--room", action="append", default=[], help="a folder of the package; several times for several"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    mutants = choose(arguments.count, arguments.seed, arguments.room)
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(arguments.jobs):
            copy = Path(folder) / str(number)
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "build", "__pycache__"))
            copies.put(copy)
        tests = measure(copy, sorted({mutant.room for mutant in mutants}))

        def try_out(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                return outcome(copy, mutant, tests.of(mutant))
            finally:
                copies.put(copy)

        killed = 0
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for mutant, result in zip(mutants, pool.map(try_out, mutants), strict=True):
                if result is Outcome.KILLED:
                    killed += 1
                else:
                    print(f"{result.value}:\n{mutant.diff()}", end="\n\n", flush=True)
    print(f"{killed} of {len(mutants)} mutants are killed by the tests of their rooms")


if __name__ == "__main__":
    main()
