"""Runs a function in a child process, with limits on time and memory, where a crash does no harm."""

import faulthandler
import os
import pickle
import signal
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, TypeVar, cast

from cnn_convertor.errors import Problem, warn
from cnn_convertor.files.interruption import ENDS, uninterrupted

T = TypeVar("T")

_REASONS: Final = {  # a child's end -> what it means
    "SIGXCPU": "reading it does not end",
    "SIGKILL": "reading it does not end",
    "SIGSEGV": "its structure makes the reader crash",
    "SIGBUS": "its structure makes the reader crash",
    "SIGABRT": "its structure makes the reader crash",
    "SIGFPE": "its structure makes the reader crash",
}


class IsolationError(Exception):
    """The child did not give a result: its exception as text, or how it ended."""


def isolated(function: Callable[[], T], *, seconds: int, memory: int) -> T:
    """The function's result, which must be picklable, computed in a forked child.

    seconds: of processor time, which waiting for a disk does not use up. memory: bytes that it may allocate, where the system
    can limit them. Raises IsolationError; an interruption ends the child. A system without fork computes it in this process,
    after a warning.
    """
    if not hasattr(os, "fork") or find_spec("resource") is None:
        problem = "this system has no processes with limits, so a damaged or hostile file may crash the convertor"
        warn(Problem("DV138", problem, hint="give it files that you trust alone, or use Linux"))
        return cast("T", _value_of(_answered(function)))
    with uninterrupted() as block:
        source, target = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child uses none of the parent's threads
            child = os.fork()
        if not child:
            os.close(source)
            _run(function, os.fdopen(target, "wb"), seconds, memory)
        os.close(target)
        try:
            with os.fdopen(source, "rb") as stream, block.interruptible():
                answer = stream.read()
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        raise IsolationError(_REASONS.get(signal.Signals(number).name, f"its reader ended with signal {number}"))
    if os.WEXITSTATUS(status) or not answer:
        raise IsolationError(f"its reader ended with status {os.WEXITSTATUS(status)}")
    return cast("T", _value_of(pickle.loads(answer)))  # our own child wrote it


def _value_of(answer: tuple[bool, Any]) -> Any:
    good, value = answer
    if not good:
        raise IsolationError(value)
    return value


def _answered(function: Callable[[], Any]) -> tuple[bool, Any]:
    """Whether a function gives a result, and it, or its exception as text."""
    try:
        return True, function()
    except MemoryError:
        return False, "reading it needs more memory than its size explains"
    except Exception as error:  # noqa: BLE001  # libraries raise any type for a damaged file; the caller reports it
        return False, str(error) or type(error).__name__


def _run(function: Callable[[], Any], target: BinaryIO, seconds: int, memory: int) -> NoReturn:
    """In the child: answer, and end without the parent's clean-up."""
    import resource  # which only systems with fork have

    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # or a signal could be lost while its handler becomes SIG_DFL
    for number in ENDS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
    faulthandler.disable()  # the parent reports a crash in plain words
    _limit(resource.RLIMIT_CORE, 0, 0)
    _limit(resource.RLIMIT_CPU, seconds, seconds + 1)
    _limit_memory(memory)
    answer = _answered(function)
    try:
        with target:
            pickle.dump(answer, target, pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)


def _limit_memory(memory: int) -> None:
    """Beyond what the parent has mapped. Systems without /proc do not limit it."""
    import resource

    status = Path("/proc/self/statm")
    if status.exists():
        mapped = int(status.read_text().split()[0]) * resource.getpagesize()
        _limit(resource.RLIMIT_AS, mapped + memory, mapped + memory)


def _limit(kind: int, soft: int, hard: int) -> None:
    """Within what limits this process already."""
    import resource

    most = resource.getrlimit(kind)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))
