"""Parses the notation of layouts.

    layout := [axes ':'] term (' ' term)* ['|' mark*]
    term   := ['-'] axis ['/' div] ['!' | '#'] ['%' mod] ['^' extent] ['@' align] ['=' pitch]
    axis   := letter | '(' letters ')'
    mark   := element type | 'base=' bytes | 'total=' bytes

`chw: c/16@32 h@32 w c%16 | float16 base=32` is NVDLA's feature data. Without axes, the array's axes have the order of
`b n g o i f c d v u w z h y x`, but h before w if there is no z or y.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from cnn_convertor.errors import UsageError
from cnn_convertor.layouts.layout import DType, Layout, Term, refuse

_NUMBERS = {"/": "div", "%": "mod", "^": "extent_align", "@": "pitch_align", "=": "pitch"}


def parse(text: str) -> Layout:
    """Parse a layout. Raises UsageError that points at the offending letter."""
    reader = _TermParser(text)
    axes = reader.axes()
    terms = []
    while reader.goes_on():
        terms.append(reader.term())
    if not terms:
        reader.wrong("expected a term, like c/16 or h")
    element, marks = reader.marks()
    base, total = marks.get("base", 1), marks.get("total", 1)
    try:
        return Layout(axes or natural_axes(terms), tuple(terms), element, base, total)
    except UsageError as error:
        raise UsageError([type(p)(p.code, f'"{text}": {p.message}', p.where, p.hint) for p in error.problems]) from None


def natural_axes(terms: list[Term]) -> str:
    """The default order of an array's axes."""
    letters = dict.fromkeys(letter for term in terms for letter in term.axis)
    order = "bngoifcpkvuwzyx" if {"x", "y", "z"} & set(letters) else "bnpkcgoifdhwrs"
    return "".join(sorted(letters, key=lambda letter: (order.find(letter) % 100, letter)))


@dataclass
class _TermParser:
    """A text and the current position."""

    text: str
    at: int = 0

    def wrong(self, message: str, at: int | None = None) -> NoReturn:
        wrong_at(self.text, self.at if at is None else at, message)

    def take(self, pattern: str) -> str:
        match = re.compile(pattern).match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match[0] if match else ""

    def axes(self) -> str:
        self.take(" *")
        if ":" not in self.text:
            return ""
        start = self.at
        axes = self.take("[a-z]+")
        self.take(" *")
        if not self.take(":"):
            self.wrong("axes before a colon are lower-case letters, like chw:")
        check_unique(self.text, axes, start)
        return axes

    def goes_on(self) -> bool:
        self.take("[ :]*")
        return self.at < len(self.text) and self.text[self.at] != "|"

    def term(self) -> Term:
        flip = bool(self.take("-"))
        if self.take(r"\("):
            axis = self.take("[a-z]+")
            if len(axis) < 2:
                self.wrong("merged axes are two letters or more, like (yx)")
            if not self.take(r"\)"):
                self.wrong('expected ")"')
        else:
            axis = self.take("[a-z]")
            if not axis:
                self.wrong("expected an axis, a lower-case letter")
        numbers: dict[str, int] = {}
        signs = ""
        while self.at < len(self.text) and self.text[self.at] not in " |":
            sign = self.take("[/%^@=!#]")
            if not sign:
                self.wrong("expected one of / ! # % ^ @ = or a space")
            if sign in signs:
                self.wrong(f'duplicate "{sign}"', self.at - 1)
            signs += sign
            if sign in "!#":
                continue
            number = self.take("[0-9]+")
            if not number or int(number) < 1:
                self.wrong(f'expected a number above 0 after "{sign}"', self.at - len(number))
            numbers[_NUMBERS[sign]] = int(number)
        return Term(axis, ragged="!" in signs, flip=flip, whole="#" in signs, **numbers)

    def marks(self) -> tuple[DType | None, dict[str, int]]:
        element: DType | None = None
        numbers: dict[str, int] = {}
        self.take(r"\|")
        while True:
            self.take(" *")
            if self.at == len(self.text):
                return element, numbers
            start = self.at
            if name := self.take("(base|total)(?==[0-9])"):
                if name in numbers:
                    self.wrong(f'duplicate "{name}="', start)
                numbers[name] = int(self.take("=[0-9]+")[1:])
                continue
            if element is not None:
                self.wrong("duplicate element type", start)
            element = element_of(self.take(r"\S+"))
            if element is None:
                self.wrong("expected an element type, base=BYTES or total=BYTES", start)


def element_of(name: str) -> DType | None:
    try:
        element = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        return None
    return element if element.kind in "biufc" and element.byteorder in "=|" else None  # memory is little-endian


def check_unique(text: str, axes: str, start: int = 0) -> None:
    """Raise UsageError for a duplicate axis. start: the position of the axes in the text."""
    for at, letter in enumerate(axes):
        if letter in axes[:at]:
            wrong_at(text, start + at, f'duplicate axis "{letter}"')


def blocked(axes: Iterable[str], blocks: Sequence[tuple[str, int]]) -> list[Term]:
    """The terms of axes that are cut into blocks (axis, size), both outermost first."""
    remaining = dict.fromkeys(axes, 1)
    for axis, size in blocks:
        remaining[axis] *= size
    terms = [Term(axis, div) for axis, div in remaining.items()]
    for axis, size in blocks:
        remaining[axis] //= size
        terms.append(Term(axis, remaining[axis], size))
    return terms


def wrong_at(text: str, at: int, message: str) -> NoReturn:
    """Raise UsageError that points at a letter of the text."""
    where = f'letter {at + 1}, "{text[at]}"' if at < len(text) else "the end"
    hint = "`layouts list` shows the names, docs/layouts.md the grammar"
    refuse("DV800", f"at {where}: {message}\n  {text}\n  {' ' * at}^", hint)
