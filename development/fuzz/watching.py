"""Runs a harness on one input, within limits of time and memory, and distinguishes allowed outcomes from findings."""

from __future__ import annotations

import re
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from cnn_convertor.errors import ConvertorError

PACKAGE: Final = "cnn_convertor"
MEMORY: Final = 300 << 20  # bytes, beside three times the input's size
CODE: Final = re.compile(r"DV[1-9][0-9]{2}")  # DV0xx are internal errors


class OutOfTime(BaseException):
    """The time for an input has passed. Not an Exception, so that nothing that is fuzzed catches it."""


class Finding(NamedTuple):
    """An outcome that is not allowed. signature: the same for the same fault. text: for people."""

    signature: str
    text: str


def outcome(run: Callable[[bytes], None], data: bytes, seconds: float) -> Finding | None:
    """None where the input is read, or refused with one error that has codes.

    Memory is limited by the address space that the process may add: three times the input, and 300 MB.
    """
    start = time.process_time()
    try:
        with _time(seconds), _memory(3 * len(data) + MEMORY), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(data)
    except ConvertorError as error:
        wrong = [problem.code for problem in error.problems if not CODE.fullmatch(problem.code)]
        return Finding(f"code {wrong[0]}", str(error)) if wrong else None
    except (Exception, OutOfTime) as error:  # noqa: BLE001  # every other exception is a finding
        return Finding(signature(error), traceback.format_exc(limit=-20))
    used = time.process_time() - start
    return Finding("slow", f"{used:.1f} s") if used > seconds else None


def signature(error: BaseException) -> str:
    """The kind of the error and the innermost place in the package."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if PACKAGE in Path(frame.filename).parts]
    place = f"{Path(frames[-1].filename).name}-{frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__}-{place}"


@contextmanager
def _time(seconds: float) -> Iterator[None]:
    def stop(_number: int, _frame: Any) -> None:
        raise OutOfTime(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _memory(more: int) -> Iterator[None]:
    """Limit the address space, where the system says how much of it is in use."""
    status = Path("/proc/self/statm")
    if not status.exists():
        yield
        return
    mapped = int(status.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
