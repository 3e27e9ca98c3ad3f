"""The language in which a layout is written down, as it parses and prints.

    layout := [axes ':'] term (' ' term)* ['|' mark*]
    term   := ['-'] axis ['/' div] ['!' | '#'] ['%' mod] ['^' extent] ['@' align] ['=' pitch]
    axis   := letter | '(' letters ')'
    mark   := element type | 'base=' bytes | 'total=' bytes

`chw: c/16@32 h@32 w c%16 | float16 base=32` is NVDLA's feature data. Without axes, the array's axes come in the order of
`b n g o i f c d v u w z h y x` as far as the layout has them, but h before w where there is no z or y.
"""

from __future__ import annotations

import re
from typing import NoReturn

import numpy as np

from cnn_convertor.errors import UsageError
from cnn_convertor.layouts.layout import DType, Layout, Term, refuse

_NUMBERS = {"/": "div", "%": "mod", "^": "extent_align", "@": "pitch_align", "=": "pitch"}


def parse(text: str) -> Layout:
    """Read a layout. Raises UsageError, which shows at which letter the text goes wrong."""
    reader = _Reader(text)
    axes = reader.axes()
    terms = []
    while reader.goes_on():
        terms.append(reader.term())
    if not terms:
        reader.wrong("here should be a term, like c/16 or h")
    element, marks = reader.marks()
    try:
        return Layout(
            axes or natural_axes(terms), tuple(terms), element, marks.get("base_align", 1), marks.get("total_align", 1)
        )
    except UsageError as error:
        raise UsageError([type(p)(p.code, f'"{text}": {p.message}', p.where, p.hint) for p in error.problems]) from None


def natural_axes(terms: list[Term]) -> str:
    """The order of an array's axes that needs not be said."""
    letters = dict.fromkeys(letter for term in terms for letter in term.axis)
    order = "bngoifcpkvuwzyx" if {"x", "y", "z"} & set(letters) else "bnpkcgoifdhwrs"
    return "".join(sorted(letters, key=lambda letter: (order.find(letter) % 100, letter)))


class _Reader:
    """A text, and how far it is read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def wrong(self, message: str, at: int | None = None) -> NoReturn:
        wrong_at(self.text, self.at if at is None else at, message)

    def take(self, pattern: str) -> str:
        found = re.compile(pattern).match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""

    def axes(self) -> str:
        self.take(" *")
        return self.take("[a-z]+(?= *:)") if not self.text.find(":") < 0 and self._ends_axes() else ""

    def _ends_axes(self) -> bool:
        start = self.at
        axes = self.take("[a-z]+")
        self.take(" *")
        if not self.take(":"):
            self.wrong("axes before a colon are small letters, like chw:")
        for index, letter in enumerate(axes):
            if letter in axes[:index]:
                self.wrong(f'the axis "{letter}" comes twice', start + index)
        self.at = start
        return True

    def goes_on(self) -> bool:
        self.take("[ :]*")
        return self.at < len(self.text) and self.text[self.at] != "|"

    def term(self) -> Term:
        flip = bool(self.take("-"))
        if self.take(r"\("):
            axis = self.take("[a-z]+")
            if len(axis) < 2:
                self.wrong("axes that are counted as one are two letters or more, like (yx)")
            if not self.take(r"\)"):
                self.wrong('here should be a ")"')
        else:
            axis = self.take("[a-z]")
            if not axis:
                self.wrong("here should be an axis, which is a small letter")
        numbers: dict[str, int] = {}
        signs = ""
        while self.at < len(self.text) and self.text[self.at] not in " |":
            sign = self.take("[/%^@=!#]")
            if not sign:
                self.wrong("here should be one of / ! # % ^ @ = or a space")
            if sign in signs:
                self.wrong(f'"{sign}" comes twice', self.at - 1)
            if sign in "!#":
                signs += sign
                continue
            if _NUMBERS[sign] in numbers:
                self.wrong(f'"{sign}" comes twice', self.at - 1)
            number = self.take("[0-9]+")
            if not number or int(number) < 1:
                self.wrong(f'after "{sign}" should be a number above 0', self.at - len(number))
            numbers[_NUMBERS[sign]] = int(number)
        return Term(
            axis,
            numbers.get("div", 1),
            numbers.get("mod"),
            "!" in signs,
            flip,
            numbers.get("extent_align", 1),
            numbers.get("pitch_align", 1),
            numbers.get("pitch"),
            "#" in signs,
        )

    def marks(self) -> tuple[DType | None, dict[str, int]]:
        element: DType | None = None
        numbers: dict[str, int] = {}
        self.take(r"\|")
        while self.take(" *") + self.text[self.at :]:
            if self.at == len(self.text):
                break
            start = self.at
            if name := self.take("(base|total)=(?=[0-9])"):
                if f"{name[:-1]}_align" in numbers:
                    self.wrong(f'"{name}" comes twice', start)
                numbers[f"{name[:-1]}_align"] = int(self.take("[0-9]+"))
                continue
            if element is not None:
                self.wrong("the elements have a type already", start)
            element = element_of(self.take(r"\S+"))
            if element is None:
                self.wrong("here should be an element type, base=BYTES or total=BYTES", start)
        return element, numbers


def element_of(name: str) -> DType | None:
    """An element type by numpy's name for it."""
    try:
        element = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        return None
    return element if element.kind in "biufc" and element.byteorder in "=|" else None  # memory is little-endian


def wrong_at(text: str, at: int, message: str) -> NoReturn:
    """Refuse a text, and show the letter."""
    where = f'letter {at + 1}, "{text[at]}"' if at < len(text) else "the end"
    refuse("DV800", f"at {where}: {message}\n  {text}\n  {' ' * at}^")
