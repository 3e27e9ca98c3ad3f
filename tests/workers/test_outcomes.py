"""Each error becomes a problem that a user can act on."""

from __future__ import annotations

import errno

import pytest

from cnn_convertor.errors import ConvertorError, Origin, Problem
from cnn_convertor.workers.outcomes import problems_of

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
