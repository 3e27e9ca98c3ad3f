"""Errors and warnings of a network or its settings: the problem, its place and a remedy, such as a name near an unknown one."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
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
        text = self.file if self.line is None else f"{self.file}:{self.line}"
        if self.layer:
            text += f': layer "{self.layer}"'
        if self.type:
            text += f" ({self.type})"
        return text


@dataclass(frozen=True, slots=True)
class Problem:
    """One error or warning.

    code: stable, `DV` and three digits: 1xx usage and ini file, 2xx model files, 3xx layers, 4xx the device, 5xx
        numbers, 6xx the audit of generated sources, 7xx trials on the PC, 8xx memory layouts and exports, 9xx NVDLA.
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


def near_names(word: str, known: Iterable[str], n: int = 1, *, strict: bool = False) -> list[str]:
    """At most n known names with a similar spelling, the nearest first. Case and underscores do not matter.

    strict: only what the word misspells. A name with further words or digits, such as YoloDetectionOutput or Pooling3D,
    means something else.
    """
    spelled = {spelling_of(name): name for name in known}
    spelling = spelling_of(word)
    close = difflib.get_close_matches(spelling, spelled, n, cutoff=0.8 if strict else 0.6)
    return [spelled[name] for name in close if not strict or _is_typo(spelling, name)]


def suggestion(word: str, known: Iterable[str], *, strict: bool = False) -> str:
    """The nearest name as a hint; empty if none is near."""
    near = near_names(word, known, strict=strict)
    return f'did you mean "{near[0]}"?' if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest name as the end of a message; empty if none is near."""
    hint = suggestion(word, known)
    return hint and f"; {hint}"


def near_file(path: Path, suffixes: Collection[str] = ()) -> str:
    """What the user may have meant by a missing file, as the end of a message. suffixes: of files that may be meant; none: all."""
    if not path.parent.is_dir():
        return f', since there is no folder "{path.parent}"'
    files = (p for p in islice(path.parent.iterdir(), 1000) if p.is_file())
    files = (p for p in files if near_names(path.stem, [p.stem]))  # the same ending makes no name near
    return did_you_mean(path.name, sorted(p.name for p in files if not suffixes or p.suffix.lower() in suffixes))


def spelling_of(name: str) -> str:
    return name.replace("_", "").lower()


def _is_typo(spelling: str, name: str) -> bool:
    return abs(len(name) - len(spelling)) <= 1 and re.findall(r"\d", name) == re.findall(r"\d", spelling)


def assert_never(value: NoReturn) -> NoReturn:
    """End a match that names every case; mypy shows missing ones (typing has this since Python 3.11)."""
    raise AssertionError(f"no case for {value!r}")
