"""Each error becomes a problem that a user can act on, or report."""

from __future__ import annotations

import errno
import re

import pytest

from cnn_convertor.errors import ConvertorError, Origin, Problem
from cnn_convertor.workers.outcomes import attempted, problems_of

OWN = Problem("DV101", "the file ends too early")


@pytest.mark.parametrize(
    ("error", "code", "message", "hint"),
    [
        (ConvertorError(OWN), "DV101", "the file ends too early", ""),
        (OSError(errno.ENOSPC, "No space left"), "DV113", "the system says: No space left", "make room on that disk"),
        (OSError(errno.EACCES, "Denied", "a.bin"), "DV113", "the system says: Denied", "check the permissions"),
        (OSError(errno.EIO, "Input/output error"), "DV113", "the system says: Input/output error", ""),
        (MemoryError(), "DV113", "there is not enough memory", "use a smaller input"),
    ],
)
def test_an_error_is_a_problem_with_its_remedy(error: Exception, code: str, message: str, hint: str) -> None:
    (problem,) = problems_of(error)
    assert (problem.code, problem.message) == (code, message)
    assert problem.hint.startswith(hint) and bool(problem.hint) == bool(hint)
    assert problem.where == (Origin("a.bin") if getattr(error, "filename", None) else None)


def test_an_unforeseen_error_names_the_last_line_of_this_package() -> None:
    def fails() -> None:
        raise IndexError("out of range")

    (problem,) = attempted(fails).problems
    assert problem.code == "DV000"
    message = r"internal error, IndexError: out of range \(cnn_convertor/workers/outcomes\.py:\d+\)"
    assert re.fullmatch(message, problem.message)
