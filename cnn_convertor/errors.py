"""What can be wrong with a user's network or settings, said so that the user can act on it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

E = TypeVar("E", bound="ConvertorError")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something in the network came from: a layer of the user's model, or a place in one of the user's files."""

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
    """One thing that is wrong, or worth a warning.

    code: stable, `DV` and three digits: 1xx usage and ini file, 2xx model files, 3xx layers, 4xx the device, 5xx
        numbers, 6xx the audit of generated sources, 7xx trials on the PC, 8xx memory layouts and exports.
    hint: what the user can do about it.
    """

    code: str
    message: str
    where: Origin | None = None
    hint: str = ""

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}"]
        if self.where is not None:
            lines.append(f"  --> {self.where}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)


class ConvertorError(Exception):
    """The conversion cannot go on; `problems` says why, all of it, in network order."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        assert self.problems, "an error without a reason"
        super().__init__("\n".join(map(str, self.problems)))

    @classmethod
    def of(cls: type[E], code: str, message: str, where: Origin | None = None, hint: str = "") -> E:
        """An error with one problem."""
        return cls(Problem(code, message, where, hint))


class UsageError(ConvertorError):
    """The command line or the ini file asks for something that makes no sense (exit code 2)."""


class ModelError(ConvertorError):
    """A model file is missing, damaged or not what it should be (exit code 1)."""


class SettingsError(ModelError):
    """A layer's settings contradict each other, whatever its inputs are."""


class UnsupportedError(ConvertorError):
    """The network holds layers, or forms of layers, that cannot be converted exactly (exit code 1)."""


class ConvertorWarning(UserWarning):
    """Something that the user should know, though the conversion goes on."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


def warn(problem: Problem) -> None:
    """Issue a `ConvertorWarning`; the command line collects and prints them."""
    warnings.warn(ConvertorWarning(problem), stacklevel=2)


def assert_never(value: NoReturn) -> NoReturn:
    """End a match that names every case; mypy shows the missing ones (typing has this from Python 3.11 on)."""
    raise AssertionError(f"no case for {value!r}")
