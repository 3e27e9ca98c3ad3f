"""Applies a function to items in several processes, within the number of processes that a command may use.

Each process is a fresh interpreter that imports what the function needs. Unlike with multiprocessing's own pools, it shares no
threads with its parent, does not run the main module again, and may itself divide its work.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

from cnn_convertor.files.interruption import ENDS, end, say_what_is_lost, uninterrupted

T = TypeVar("T")
R = TypeVar("R")

_PROGRAM: Final = "import sys; sys.path[:] = sys.argv[3:]; from cnn_convertor.workers.pool import serve; serve(*map(int, sys.argv[1:3]))"
_PATIENCE: Final = 5.0  # seconds in which an interrupted process may clean up
_AHEAD: Final = 2  # items per process that are taken before an earlier one is done, where results come in order
_LIMITS: Final[list[int]] = []  # of the blocks of `limited`, the innermost last


def can_start_processes() -> bool:
    """Whether processes can inherit a pipe and a mask of signals: not on Windows."""
    return hasattr(signal, "pthread_sigmask")


def share() -> int:
    """The number of processes or threads that this process may use at a time: the cores, or its share of the command's number."""
    if not can_start_processes():
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([cores, *_LIMITS])


@contextmanager
def limited(processes: int) -> Iterator[None]:
    """A block in which this process uses at most so many processes at a time."""
    _LIMITS.append(processes)
    try:
        yield
    finally:
        _LIMITS.pop()


class Lost(NamedTuple):
    """In place of a result: a process did not give one. how: what became of the process, as the end of a sentence."""

    how: str


def in_order(work: Callable[[T], R], items: Iterable[T], *, processes: int) -> Iterator[R]:
    """As `map`, in several processes; takes only a few items ahead. Work of a process that ends early is done in this one."""
    if processes < 2:
        yield from map(work, items)
        return
    results: dict[int, R] = {}
    following = 0
    for number, item, result in divided(work, items, processes, ahead=_AHEAD * processes):
        results[number] = work(item) if isinstance(result, Lost) else result
        while following in results:
            yield results.pop(following)
            following += 1


def divided(
    work: Callable[[T], R],
    items: Iterable[T],
    processes: int,
    *,
    ahead: float = math.inf,
    processes_each: int = 1,
    started: Callable[[int], None] = lambda _: None,
) -> Generator[tuple[int, T, R | Lost], None, None]:
    """The number of each item, the item and its result, in the order in which they end.

    work: a function of a module; the function, the items and the results are pickled. ahead: items that may be taken from the
    first unfinished one on. processes_each: how many each process may use in turn. started: called with the number of each item that starts.
    If the caller stops early, the processes are interrupted like by Ctrl-C.
    """
    from multiprocessing import connection  # here, so that --help stays fast

    waiting = enumerate(items)
    taken = 0
    idle: list[_Worker] = []
    busy: dict[Any, tuple[_Worker, int, T]] = {}
    try:
        while True:
            while len(busy) < processes and taken - min((n for _, n, _ in busy.values()), default=taken) < ahead:
                if (entry := next(waiting, None)) is None:
                    break
                number, item = entry
                taken = number + 1
                started(number)
                try:
                    worker = idle.pop() if idle else _Worker(work, processes_each)
                except (OSError, ValueError) as error:
                    yield number, item, Lost(f"did not start: {error}")
                    continue
                busy[worker.pipe] = worker, number, item  # first: from here on, the process ends with an interruption
                worker.give(item)
            if not busy:
                return
            for pipe in connection.wait([*busy]):
                worker, number, item = busy[pipe]
                result = worker.take()
                del busy[pipe]
                if not worker.pipe.closed:
                    idle.append(worker)
                yield number, item, result
    finally:
        with uninterrupted():  # a second interruption would end this process, and with it those that clean up
            working = [worker for worker, *_ in busy.values()]
            for worker in working:
                worker.interrupt()
            deadline = monotonic() + _PATIENCE
            for worker in (*idle, *working):
                worker.end(deadline)


class _Worker:
    """A process, and our end of the pipe to it. It ends with this object at the latest."""

    def __init__(self, work: Callable[[Any], Any], processes: int) -> None:
        from multiprocessing.connection import Pipe

        self._work = work
        with uninterrupted():
            self.pipe, theirs = Pipe()
            # The process inherits the mask: an interruption waits until the process can handle it.
            ours = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(processes), *sys.path],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C reaches this process alone, which interrupts the new one once
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, ours)
                theirs.close()
            self._kill = weakref.finalize(self, _kill, self._process)

    def give(self, item: object) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the process has ended, as the next read finds
            self.pipe.send((self._work, item))

    def take(self) -> Any:
        """The result."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            return Lost(self.end(monotonic() + _PATIENCE))

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self, deadline: float) -> str:
        """Close the pipe, and wait for the end of the process, until the deadline; says how it ended."""
        self.pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0, deadline - monotonic()))
        self._kill()
        code = self._process.returncode
        how = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
        return f"ended with {how}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def serve(descriptor: int, processes: int) -> None:
    """The main function of a process: work until the pipe closes or an interruption comes. processes: how many it may use."""
    from multiprocessing.connection import Connection

    sys.unraisablehook = say_what_is_lost
    for number in ENDS:
        signal.signal(number, end)
    with (
        suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt),
        uninterrupted() as block,
        limited(processes),
    ):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        pipe = Connection(descriptor)
        while True:
            work, item = pipe.recv()
            with block.interruptible():
                result = _result(work, item)
            pipe.send(result)


def _result(work: Callable[[Any], Any], item: object) -> Any:
    try:
        return work(item)
    except Exception as error:  # noqa: BLE001  # of any type: the caller decides what it means
        return Lost(f"ended with {type(error).__name__}: {error}")
