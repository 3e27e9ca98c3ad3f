"""Runs a function in a child process, with limits on time and memory, where a crash does no harm."""

import faulthandler
import os
import pickle
import resource
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, TypeVar

from cnn_convertor.files.interruption import uninterrupted

T = TypeVar("T")

_REASONS: Final = {  # a child's end -> what it means
    signal.SIGXCPU: "reading it does not end",
    signal.SIGKILL: "reading it does not end",
    signal.SIGSEGV: "its structure makes the reader crash",
    signal.SIGBUS: "its structure makes the reader crash",
    signal.SIGABRT: "its structure makes the reader crash",
    signal.SIGFPE: "its structure makes the reader crash",
}


class IsolationError(Exception):
    """The child did not give a result: its exception as text, or how it ended."""


def isolated(function: Callable[[], T], *, seconds: int, memory: int) -> T:
    """The function's result, which must be picklable, computed in a forked child.

    seconds: of processor time, which waiting for a disk does not use up. memory: bytes that it may allocate, where the system
    can limit them. Raises IsolationError; an interruption ends the child.
    """
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
        raise IsolationError(_REASONS.get(signal.Signals(number), f"its reader ended with signal {number}"))
    if os.WEXITSTATUS(status) or not answer:
        raise IsolationError(f"its reader ended with status {os.WEXITSTATUS(status)}")
    good, value = pickle.loads(answer)  # our own child wrote it
    if not good:
        raise IsolationError(value)
    result: T = value
    return result


def _run(function: Callable[[], Any], target: BinaryIO, seconds: int, memory: int) -> NoReturn:
    """In the child: answer, and end without the parent's clean-up."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    faulthandler.disable()  # the parent reports a crash in plain words
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    _limit_memory(memory)
    try:
        answer: tuple[bool, Any] = (True, function())
    except MemoryError:
        answer = (False, "reading it needs more memory than its size explains")
    except Exception as error:  # noqa: BLE001  # libraries raise any type for a damaged file; the parent reports it
        answer = (False, str(error) or type(error).__name__)
    try:
        with target:
            pickle.dump(answer, target, pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)


def _limit_memory(memory: int) -> None:
    """Beyond what the parent has mapped. Systems without /proc do not limit it."""
    status = Path("/proc/self/statm")
    if status.exists():
        mapped = int(status.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory,) * 2)
