"""Runs functions in one lasting child process, where `cnn_convertor.files.isolation` starts a child for each."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import warnings
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from cnn_convertor.files.isolation import IsolationError

T = TypeVar("T")

MOST_ANSWERS: Final = 1000  # of one child; what libhdf5 does not free for damaged files ends with it


class Servant:
    """A child process. It is made when it is needed first, and again after a crash or an endless loop."""

    def __init__(self, limit: float) -> None:
        """limit: seconds of processor time for an answer, where the caller gives more."""
        self._limit = limit
        self._child = 0
        self._answers = 0
        self._line: Connection[Any, Any] | None = None

    def isolated(self, function: Callable[[], T], *, seconds: float, memory: int) -> T:
        """As `cnn_convertor.files.isolation.isolated`, for a function that pickle can send. Raises IsolationError."""
        if self._line is None or self._answers == MOST_ANSWERS:
            self._end()
            self._line = self._start()
        self._answers += 1
        try:
            self._line.send((function, min(seconds, self._limit), memory))
            good, value = self._line.recv()
        except (EOFError, OSError):
            raise IsolationError(f"its reader ended with status {self._end()}") from None
        except BaseException:  # the watch's: a later answer would be taken for the next one
            self._end()
            raise
        if not good:
            raise IsolationError(value)
        result: T = value
        return result

    def _start(self) -> Connection[Any, Any]:
        ours, theirs = Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child uses none of the parent's threads
            self._child = os.fork()
        if not self._child:
            ours.close()
            _serve(theirs)
        theirs.close()
        self._answers = 0
        return ours

    def _end(self) -> int:
        """End the child, if there is one. Gives its status."""
        if self._line is None:
            return 0
        self._line.close()
        self._line = None
        os.kill(self._child, signal.SIGKILL)  # changes nothing if the child has ended
        return os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])


def _serve(line: Connection[Any, Any]) -> NoReturn:
    """In the child: answer until the parent closes the pipe. A signal ends the child if an answer takes too much processor time."""
    faulthandler.disable()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mine = line.fileno()  # the parent's other pipes would never end while this process has them
    os.closerange(3, mine)
    os.closerange(mine + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    try:
        while True:
            function, seconds, memory = line.recv()
            _limit_memory(memory)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                answer: tuple[bool, Any] = (True, function())
            except Exception as error:  # noqa: BLE001  # libraries raise any type for a damaged file
                answer = (False, str(error) or type(error).__name__)
            signal.setitimer(signal.ITIMER_PROF, 0)
            line.send(answer)
    finally:
        os._exit(0)


def _limit_memory(memory: int) -> None:
    """Beyond what the process has mapped. Systems without /proc do not limit it."""
    status = Path("/proc/self/statm")
    if status.exists():
        mapped = int(status.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory, hard))
