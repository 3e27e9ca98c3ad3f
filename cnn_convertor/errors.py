"""Errors and warnings about a network or its settings: the problem, its place and a remedy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn, TypeVar

E = TypeVar("E", bound="ConvertorError")


@dataclass(frozen=True, slots=True)
class Origin:
    """A layer of the user's model, or a place in one of the user's files."""

    file: str
    layer: str = ""
    type: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        if self.layer:
            place += f': layer "{self.layer}"'
        if self.type:
            place += f" ({self.type})"
        return place


@dataclass(frozen=True, slots=True)
class Problem:
    """One error or warning.

    code: stable, `DV` and three digits: 1xx usage and ini file, 2xx model files, 3xx layers, 4xx the device, 5xx
        numbers, 6xx the audit of generated sources, 7xx trials on the PC, 8xx memory layouts and exports.
    hint: what the user can do. example: lines to copy, without control characters of a model's names.
    """

    code: str
    message: str
    where: Origin | None = None
    hint: str = ""
    example: str = ""

    @property
    def remedy(self) -> str:
        """The hint with its example."""
        return f"{self.hint}\n\n{self.example}" if self.example else self.hint

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}"]
        if self.where is not None:
            lines.append(f"  --> {self.where}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        # A model can put line breaks into a name: no line of its own looks like one of ours, or like a command to a CI.
        text = "\n".join(line.replace("\n", "\n  | ") for line in lines)
        return f"{text}\n\n{self.example}" if self.example else text


class ConvertorError(Exception):
    """A conversion stops; `problems` has every reason, in network order, and `notes` what helps with all of them."""

    def __init__(self, problems: Problem | Iterable[Problem], notes: Iterable[Problem] = ()) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.notes = tuple(notes)
        assert self.problems, "an error without a reason"
        super().__init__("\n".join(map(str, self.problems)))

    @classmethod
    def of(cls: type[E], code: str, message: str, where: Origin | None = None, hint: str = "") -> E:
        return cls(Problem(code, message, where, hint))


class UsageError(ConvertorError):
    """The command line, the ini file or the given inputs are wrong (exit code 2)."""


class ModelError(ConvertorError):
    """A model file is missing, damaged or not what it should be (exit code 1)."""


class SettingsError(ModelError):
    """A layer's settings contradict each other, independent of its inputs."""


class UnsupportedError(ConvertorError):
    """The network has layers, or settings of layers, that cannot be converted exactly (exit code 1)."""


class ConvertorWarning(UserWarning):
    """Problems that do not stop a conversion; --strict makes errors of them."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


def warn(*problems: Problem) -> None:
    """Issue a `ConvertorWarning` of all these problems, if any; the command line collects and prints them."""
    if problems:
        warnings.warn(ConvertorWarning(*problems), stacklevel=2)


class CapturedWarnings:
    """The warnings of a block so far."""

    def __init__(self, caught: Sequence[warnings.WarningMessage]) -> None:
        self._caught = caught

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Each once, in their order."""
        issued = (each.message for each in self._caught)
        return tuple(dict.fromkeys(p for w in issued if isinstance(w, ConvertorWarning) for p in w.problems))


@contextmanager
def captured_warnings() -> Iterator[CapturedWarnings]:
    """Note the warnings of a block, also those that the caller ignores; they reach the caller when the block ends.

    Where the caller makes errors of warnings, the first one still ends the block.
    """
    caught: list[warnings.WarningMessage] = []
    actions = (action for action, _, category, *_ in warnings.filters if issubclass(ConvertorWarning, category))
    try:
        with warnings.catch_warnings(record=True) as caught:
            if next(actions, "default") != "error":
                warnings.simplefilter("always", ConvertorWarning)
            yield CapturedWarnings(caught)
    finally:
        for each in caught:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def assert_never(value: NoReturn) -> NoReturn:
    """End a match that names every case; mypy shows missing ones (typing has this since Python 3.11)."""
    raise AssertionError(f"no case for {value!r}")
