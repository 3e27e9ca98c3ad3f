"""Pieces of work as values: what goes in, and its result, its problems and its warnings."""

from __future__ import annotations

import errno
import os
import traceback
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from cnn_convertor.errors import ConvertorError, ConvertorWarning, Origin, Problem, UsageError
from cnn_convertor.files.interruption import require_no_end

T = TypeVar("T")
DEBUG = "CNN_CONVERTOR_DEBUG"  # in the environment: show tracebacks


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """How a piece of work ended. It can be pickled when the result can.

    result: None after a failure. problems: why it failed; is_misuse: the command line, an ini file or an input is wrong.
    warnings: each once, in their order. notes: on the whole failure. trace, python_warnings: texts for developers.
    """

    result: T | None = None
    problems: tuple[Problem, ...] = ()
    is_misuse: bool = False
    warnings: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    trace: str = ""
    python_warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A piece of work. name: for messages.

    files: files and folders that the value names and other computers never have. inputs: gives those that they have if they
    share a folder; called only if files are sent to them.
    """

    value: T
    name: str
    files: tuple[Path, ...] = ()
    inputs: Callable[[], tuple[Path, ...]] = tuple


class Attempt(AbstractContextManager["Attempt"]):
    """Runs a block, and stores its warnings and its error in `outcome` instead of raising them.

    strict: the first warning ends the block.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.outcome: Outcome[Any] = Outcome()
        self._strict = strict
        self._catching = warnings.catch_warnings(record=True)

    def __enter__(self) -> Attempt:
        self._caught = self._catching.__enter__()
        warnings.simplefilter("error" if self._strict else "always", ConvertorWarning)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._catching.__exit__(kind, error, trace)
        require_no_end()
        failure = error if isinstance(error, Exception) else None
        issued = [w.message.problems for w in self._caught or () if isinstance(w.message, ConvertorWarning)]
        self.outcome = Outcome(
            problems=() if failure is None else problems_of(failure),
            is_misuse=isinstance(failure, UsageError),
            # Each warning once, however many places issue it.
            warnings=tuple(dict.fromkeys(problem for problems in issued for problem in problems)),
            notes=failure.notes if isinstance(failure, ConvertorError) else (),
            trace="" if failure is None else "".join(traceback.format_exception(failure)),
            python_warnings=tuple(
                warnings.formatwarning(w.message, w.category, w.filename, w.lineno)
                for w in self._caught or ()
                if not isinstance(w.message, ConvertorWarning)
            ),
        )
        return failure is not None and not isinstance(failure, BrokenPipeError)  # the reader of the output has ended


def attempted(work: Callable[[], T], *, strict: bool = False) -> Outcome[T]:
    """The outcome of a function."""
    result: T | None = None
    with Attempt(strict=strict) as attempt:
        result = work()
    return replace(attempt.outcome, result=result)


_LINK_LOOP: Final = "Symlink loop from"
_LONG_NUMBER: Final = "Exceeds the limit"  # of digits that Python turns into a number
_REMEDIES = {
    errno.ENOSPC: "make room on that disk, or write to another",
    errno.ENOENT: "check the path; the current folder may have been removed, too",
    errno.EACCES: "check the permissions of the file and of its folders",
    errno.EMFILE: "allow more open files: ulimit -n 1024",
}


def problems_of(error: Exception) -> tuple[Problem, ...]:
    """An exception as problems for the user."""
    match error:
        case ConvertorError() | ConvertorWarning():
            return error.problems
        case OSError(errno=int(), filename=name):
            where = Origin(str(name)) if name else None
            return (
                Problem("DV113", f"the system says: {error.strerror}", where, _REMEDIES.get(int(error.errno or 0), "")),
            )
        case RuntimeError() if str(error).startswith(_LINK_LOOP):  # from Path.resolve, up to Python 3.12
            return problems_of(
                OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(error).removeprefix(_LINK_LOOP).strip(" '\""))
            )
        case ValueError() if str(error).startswith(_LONG_NUMBER):
            hint = "check the numbers in the files and on the command line: a version, a size, an offset"
            return (Problem("DV142", "an input has a number of thousands of digits", hint=hint),)
        case MemoryError():
            hint = "use a smaller input of the network, fewer samples, or a computer with more memory"
            return (Problem("DV113", "there is not enough memory", hint=hint),)
        case _:
            hint = f"please report this, with the ini file and the output of the same command with {DEBUG}=1 set"
            message = f"internal error, {type(error).__name__}: {error} ({_culprit(error)})"
            return (Problem("DV000", message, hint=hint),)


def _culprit(error: Exception) -> str:
    """The last line of this package that an exception passed, as file:line."""
    package = Path(__file__).parents[1]
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(package)]
    return f"{Path(ours[-1].filename).relative_to(package.parent).as_posix()}:{ours[-1].lineno}"
